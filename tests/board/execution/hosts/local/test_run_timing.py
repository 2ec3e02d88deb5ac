"""What a run's report says of times, from commands that took as long as a test says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.hosts.local.ending import FAILURE, Ending
from callboard.board.execution.hosts.local.run_timing import read_timing, timing
from callboard.board.projection.entities import ClaimState
from callboard.board.protocol import operations as ops
from callboard.board.reading.timing import length_text, timing_text
from callboard.processes.held import Outcome
from callboard.processes.logs import LogSummary

GRANTED_MS = 1_000_000


def outcome(duration_ms: int, exit_code: int = 0) -> Outcome:
    log = LogSummary(Path("log"), 0, 0, None)
    return Outcome("exited", exit_code, None, None, duration_ms, log, log, ())


def claim(number: int) -> ClaimState:
    record = ops.Claim(
        claim_id=f"c_{number}",
        dispatch_id="d_1",
        handle=f"h{number}",
        work_id=f"{number}" * 64,
        observations=[],
    )
    return ClaimState(claim=record, commit_id="q_1", request_id="r_1", at=GRANTED_MS)


def test_set_up_is_counted_once_and_each_claim_waits_for_itself() -> None:
    ending = Ending(FAILURE)
    ending = ending.after("setup", "make", outcome(12_345), began_ms=GRANTED_MS + 1_000)
    ending = ending.after("worker", "sh", outcome(20_400, 3), began_ms=GRANTED_MS + 14_000)
    found = timing(ending, [claim(1), claim(3)])
    assert found == {
        "shared_by": 2,
        "setup_ms": 12_345,
        "worker_ms": 20_400,
        "waits": [
            {"claim_handle": "h1", "claim_id": "c_1", "waited_ms": 14_000},
            {"claim_handle": "h3", "claim_id": "c_3", "waited_ms": 14_000},
        ],
    }
    assert read_timing(found) == {"shared_by": 2, "setup_ms": 12_345, "worker_ms": 20_400}
    assert read_timing(found, "c_3") == read_timing(found) | {"waited_ms": 14_000}
    assert read_timing(found, "c_2") == read_timing(found)


def test_what_did_not_happen_has_no_time() -> None:
    assert timing(Ending(FAILURE), []) == {"shared_by": 0}
    failed = Ending(FAILURE).after("setup", "make", outcome(5, 1), began_ms=GRANTED_MS)
    assert timing(failed, [claim(1)]) == {"shared_by": 1, "setup_ms": 5}


def test_a_clock_that_is_slow_makes_nobody_wait_less_than_nothing() -> None:
    ending = Ending(FAILURE).after("worker", "sh", outcome(1), began_ms=GRANTED_MS - 5_000)
    assert read_timing(timing(ending, [claim(1)]), "c_1")["waited_ms"] == 0


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"setup_ms": "12", "worker_ms": -1, "shared_by": True, "waits": {}},
        {"setup_ms": 1e3, "worker_ms": 10**15, "waits": [None, [], {"claim_id": "c_1"}]},
    ],
)
def test_a_damaged_report_tells_no_times(report: dict[str, Any]) -> None:
    assert read_timing(report, "c_1") == {}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, ""),
        ({"shared_by": 3}, ""),
        ({"setup_ms": 12_345, "shared_by": 3}, "setup 12.3 s, shared by 3 claims"),
        ({"setup_ms": 950, "shared_by": 1, "worker_ms": 61_000}, "setup 0.9 s; work 1 min 1 s"),
        ({"worker_ms": 3_661_000, "shared_by": 2}, "work 1 h 1 min"),
    ],
)
def test_times_in_words(found: dict[str, int], expected: str) -> None:
    assert timing_text(found) == expected


def test_a_length_is_never_rounded_up() -> None:
    assert [length_text(ms) for ms in (0, 99, 59_999, 60_000)] == [
        "0.0 s", "0.0 s", "59.9 s", "1 min 0 s"
    ]  # fmt: skip
