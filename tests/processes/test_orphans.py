"""What a killed supervisor left behind, stopped from the record of its worker."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.processes import identity, members
from callboard.processes.identity import ProcessIdentity, current, look, of, state
from callboard.processes.members import RUN_MARK
from callboard.processes.orphans import stop_orphans
from tests.waiting import until

Ending = Callable[[int], ProcessIdentity]


def start(script: str, run_id: str, folder: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A marked session leader running `script`, and the pids it writes, one a line, then `up`."""
    shown = folder / "pids"
    with shown.open("wb") as stream:
        process = subprocess.Popen(
            ["sh", "-c", script],
            env={"PATH": os.environ["PATH"], RUN_MARK: run_id},
            stdout=stream,
            start_new_session=True,
        )
    until(lambda: shown.read_text().endswith("up\n"))
    return process, [int(word) for word in shown.read_text().split()[:-1]]


def identity_of(pid: int) -> ProcessIdentity:
    identity = of(pid)
    assert identity is not None
    return identity


def gone(pid: int) -> bool:
    facts = look(pid)
    return facts is None or facts.ended


def test_a_living_leader_and_its_group_are_stopped(tmp_path: Path, run_id: str) -> None:
    script = "sleep 600 & echo $!; (trap '' TERM; sleep 600 & wait) & echo $!; echo up; wait"
    leader, pids = start(script, run_id, tmp_path)
    assert stop_orphans(run_id, identity_of(leader.pid), 0.2) == ()
    assert all(gone(pid) for pid in (leader.pid, *pids))
    assert leader.wait() == -signal.SIGTERM


def test_what_a_gone_leader_left_in_its_group_is_stopped(tmp_path: Path, run_id: str) -> None:
    # One that wiped its environment goes with the session that a marked one proves ours.
    script = "sleep 600 & echo $!; env -i sleep 600 & echo $!; echo up"
    leader, pids = start(script, run_id, tmp_path)
    identity = identity_of(leader.pid)
    assert leader.wait() == 0
    assert not any(gone(pid) for pid in pids)
    assert stop_orphans(run_id, identity, 0.2) == ()
    assert all(gone(pid) for pid in pids)


def test_what_left_the_session_with_the_mark_is_ended(
    tmp_path: Path, run_id: str, ending: Ending
) -> None:
    leader, [escaped] = start("setsid sleep 604 & echo $!; echo up", run_id, tmp_path)
    identity = identity_of(leader.pid)
    leader.wait()
    ending(escaped)
    until(lambda: look(escaped) is not None and os.getsid(escaped) == escaped)
    assert stop_orphans(run_id, identity, 0.2) == ()
    assert gone(escaped)


def test_an_unmarked_group_without_its_leader_is_named_and_left_alone(
    tmp_path: Path, ending: Ending
) -> None:
    # Nothing proves that this group is still the recorded one's.
    leader, [left] = start("sleep 605 & echo $!; echo up", "1", tmp_path)
    identity = identity_of(leader.pid)
    leader.wait()
    ending(left)
    [survivor] = stop_orphans("2", identity, 0.2)
    assert survivor.pid == left
    assert not gone(left)


def test_a_later_process_of_the_same_number_gets_no_signal(
    tmp_path: Path, run_id: str, ending: Ending
) -> None:
    leader, [child] = start("sleep 600 & echo $!; echo up; wait", "another-run", tmp_path)
    with leader:
        recorded = dataclasses.replace(
            identity_of(leader.pid), started=identity_of(leader.pid).started - 1
        )
        ending(child)
        assert stop_orphans(run_id, recorded, 0.2) == ()
        assert (gone(leader.pid), gone(child)) == (False, False)
        leader.kill()


@pytest.mark.parametrize("field", ["host", "pid_namespace"])
def test_a_process_of_elsewhere_is_never_signalled_and_the_refusal_says_why(
    tmp_path: Path, run_id: str, field: str
) -> None:
    leader, [child] = start("sleep 600 & echo $!; echo up; wait", run_id, tmp_path)
    with leader:
        recorded = identity_of(leader.pid)
        foreign = ProcessIdentity.from_document({**recorded.document(), field: "other"})
        with pytest.raises(CallboardError) as refused:
            stop_orphans(run_id, foreign, 0.2)
        assert refused.value.code == "process_unknown"
        assert "'other'" in refused.value.message
        assert state(recorded) == "alive"
        assert not gone(child)
        stop_orphans(run_id, recorded, 0.2)


@pytest.fixture
def earlier_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a boot of this machine, which has an id of its own, that is over."""
    path = tmp_path / "machine-id"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(identity, "MACHINE_ID_FILE", path)
    return "0123abcd-0000-4000-8000-0123456789ab"


def test_an_earlier_boot_left_nothing(run_id: str, earlier_boot: str) -> None:
    # The number is this very process's; it must not be taken for the recorded one.
    recorded = dataclasses.replace(current(), boot_id=earlier_boot)
    assert stop_orphans(run_id, recorded, 0.2) == ()


def test_what_lives_refutes_that_its_machine_was_started_anew(
    tmp_path: Path, run_id: str, earlier_boot: str
) -> None:
    leader, _ = start("echo up; exec sleep 606", run_id, tmp_path)
    with leader:
        until(lambda: members.marked(run_id, members.everyone()))
        recorded = dataclasses.replace(identity_of(leader.pid), boot_id=earlier_boot)
        with pytest.raises(CallboardError) as refused:
            stop_orphans(run_id, recorded, 0.2)
        assert refused.value.code == "process_unknown"
        assert f"process {leader.pid} is of it" in refused.value.message
        assert leader.poll() is None
        leader.kill()


def test_without_a_recorded_worker_marked_processes_are_ended(tmp_path: Path, run_id: str) -> None:
    leader, _ = start("echo up; exec sleep 606", run_id, tmp_path)
    with leader:
        until(
            lambda: (
                members.named(members.living(members.marked(run_id, members.everyone()))[0]).command
                == "sleep 606"
            )
        )
        assert stop_orphans(run_id, None, 0.2) == ()
        assert leader.wait() in (-signal.SIGTERM, -signal.SIGKILL)
