"""Processes whose own clocks are ten minutes off, and one whose clock is right: nobody gains by it.

The time is the database's, so all of these really wait for leases of a second or two.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

import pytest

from callboard.project import sqlite_file
from callboard.project.project import Project
from tests.project import indexing
from tests.project.peers import Peer, all_at_once
from tests.project.world import ITEMS

OFF_MS = 600_000
PATIENCE_S = 60.0


def now_ms() -> int:
    """The machine's time, which this process has right."""
    return time_ns() // 1_000_000


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with work, whose time is the database's."""
    root = tmp_path / "demo"
    root.mkdir()
    with Project.create(root, key="demo") as made:
        indexing.replace(made, ITEMS)
        yield made


@contextmanager
def contender(root: Path, off_ms: int) -> Iterator[Peer]:
    """A process whose clock is off, as it says itself."""
    peer = Peer(root, clock_ms=None, actor=f"off by {off_ms}", off_ms=off_ms)
    try:
        before = now_ms()
        says = peer.ask("clock")["answer"]
        assert before + off_ms <= says <= now_ms() + off_ms
        yield peer
    finally:
        peer.end()


def taken_over(peer: Peer, session: str, end: int, ttl_ms: int) -> tuple[dict[str, Any], int]:
    """The claim that `peer` gets once another one's lease has ended, and how often it was refused.

    It has to be refused while the end is ahead, and may not be any more once it has come.
    """
    refusals = 0
    give_up = monotonic() + PATIENCE_S
    while True:
        before = now_ms()
        answer = peer.ask("claims.acquire", session, ttl_ms=ttl_ms)
        if "answer" in answer:
            claim: dict[str, Any] = answer["answer"]["claim"]
            assert max(before, end) <= claim["acquired_at_ms"] <= now_ms()
            assert claim["expires_at_ms"] == claim["acquired_at_ms"] + ttl_ms
            return claim, refusals
        assert answer["error"]["code"] == "claim_held", answer
        assert answer["error"]["details"]["expires_at_ms"] == end
        assert before < end, "it was refused a lease that had ended"
        assert monotonic() < give_up
        refusals += 1


@pytest.mark.parametrize("off_ms", [OFF_MS, -OFF_MS], ids=["ahead", "behind"])
def test_it_waits_for_the_end_and_no_longer(tmp_path: Path, project: Project, off_ms: int) -> None:
    root = tmp_path / "demo"
    with contender(root, off_ms) as off, contender(root, 0) as right:
        late = off.ask("sessions.start", "A", "late")["answer"]["session"]["id"]
        back = right.ask("sessions.start", "A", "back")["answer"]["session"]["id"]
        held = project.sessions.start("A", "codex", claim=True, ttl_ms=3000).claim
        assert held is not None
        assert held.expires_at_ms is not None
        shown = off.ask("claims.show", "A")["answer"]["claim"]
        assert (shown["id"], shown["state"]) == (held.id, "active")
        claim, refusals = taken_over(off, late, held.expires_at_ms, 1000)
        assert refusals > 0
        assert claim["fence"] == held.fence + 1
        # What it got itself lasts as long as it asked for, seen from a clock that is right.
        again, _refusals = taken_over(right, back, claim["expires_at_ms"], 60_000)
        assert again["fence"] == claim["fence"] + 1
        # Nobody thinks that time stands still.
        for peer in (off, right):
            findings = peer.ask("doctor.check")["answer"]["findings"]
            assert "clock_behind" not in {one["code"] for one in findings}


def test_of_three_with_three_clocks_one_holds_it_at_a_time(
    tmp_path: Path, project: Project
) -> None:
    root = tmp_path / "demo"
    ttl_ms = 150
    with (
        contender(root, OFF_MS) as ahead,
        contender(root, -OFF_MS) as behind,
        contender(root, 0) as right,
    ):
        peers = [ahead, behind, right]
        sessions = [
            peer.ask("sessions.start", "A", f"agent-{number}")["answer"]["session"]["id"]
            for number, peer in enumerate(peers)
        ]
        begun = now_ms()
        give_up = monotonic() + PATIENCE_S
        got = 0
        while got < 9:
            assert monotonic() < give_up
            for answer in all_at_once(peers, "claims.acquire", sessions, ttl_ms=ttl_ms):
                got += "answer" in answer
                assert "answer" in answer or answer["error"]["code"] == "claim_held"
        over = now_ms()
    events = project.events.list(work="A", type="claim.acquired", limit=500).events
    times = [event.at_ms for event in events]
    assert len(times) == got
    assert begun <= times[0]
    assert times[-1] <= over
    assert all(later - earlier >= ttl_ms for earlier, later in pairwise(times))
    ends = [event.body["expires_at_ms"] for event in events]
    assert ends == [at_ms + ttl_ms for at_ms in times]


def test_who_waits_for_the_database_is_asked_after_it(tmp_path: Path, project: Project) -> None:
    """What counts is the time when the change has its place, not when somebody began to ask."""
    root = tmp_path / "demo"
    with contender(root, -OFF_MS) as late:
        session = late.ask("sessions.start", "A", "late")["answer"]["session"]["id"]
        held = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
        assert held is not None
        assert held.expires_at_ms is not None
        others = sqlite3.connect(root / ".callboard" / "project.db", isolation_level=None)
        try:
            others.execute("BEGIN IMMEDIATE")
            late.send("claims.acquire", session, ttl_ms=1000)
            give_up = monotonic() + PATIENCE_S
            while now_ms() < held.expires_at_ms:
                assert monotonic() < give_up
        finally:
            others.close()
        claim = late.answer()["answer"]["claim"]
        assert held.expires_at_ms <= claim["acquired_at_ms"] <= now_ms()
        assert claim["expires_at_ms"] == claim["acquired_at_ms"] + 1000


# --- the time itself ----------------------------------------------------------------------------


def test_the_database_has_the_machine_s_time_to_the_millisecond(
    tmp_path: Path, project: Project
) -> None:
    file = tmp_path / "demo" / ".callboard" / "project.db"
    for engine in (sqlite_file.engine_on(file), sqlite_file.snapshot_of(file)):
        with engine.begin() as connection:
            for _ in range(500):
                before = now_ms()
                found = sqlite_file.now_ms(connection)
                assert before <= found <= now_ms()
        engine.dispose()


def test_every_millisecond_comes_out_as_itself() -> None:
    """The question that SQLite is asked, of known times instead of the present one."""
    question = sqlite_file._NOW.replace("'now'", "?")
    drawn = random.Random(11)
    last = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000
    times = [0, 1, 999, 1000, last, *range(1_796_000_000_000, 1_796_000_002_000)]
    times += [drawn.randrange(last) for _ in range(20_000)]
    connection = sqlite3.connect(":memory:")
    try:
        for at_ms in times:
            moment = datetime.fromtimestamp(at_ms // 1000, UTC)
            text = f"{moment:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}"
            assert connection.execute(question, (text,)).fetchone() == (at_ms,), text
    finally:
        connection.close()
