"""Completing work: who holds it, what is shown for each criterion, on which branch."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from callboard.clock import FixedClock
from callboard.project.project import Project
from callboard.project.source.answers import SetFields
from tests.project.source.scene import NOW, project, put, refused

DATA = """\
work_items:
- id: A
  title: One
  acceptance: [it reads, it writes, "it says: where"]
- {id: B, title: Two, depends_on: [A]}
- {id: C, title: Three, depends_on: ["r:1"]}
"""
CRITERIA = ["it reads", "it writes", "it says: where"]


def hold(made: Project, work: str = "A", **named: Any) -> str:
    return made.sessions.start(work, agent="ann", claim=True, **named).session.id


def cover(made: Project, session: str, *criteria: str) -> str:
    return made.evidence.add("test", "seen", session=session, covers=criteria).evidence.id


def test_covered_work_is_completed_and_told_once(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        first = cover(made, session, *CRITERIA[:2])
        second = cover(made, session, *CRITERIA[1:])
        before = made.info().revision
        answer = made.work.complete("A", session=session)
        assert answer.project_revision == made.info().revision == before + 1
        assert (answer.branch, answer.work.completed, answer.work.status) == ("main", True, "open")
        event = answer.event
        assert (event.type, event.work, event.branch, event.session) == (
            "work.completed",
            "A",
            "main",
            session,
        )
        assert event.body["evidence"] == sorted([first, second])
        assert event.body["completion"] == answer.completion
        (told,) = made.events.list(type="work.completed").events
        assert told == event
        assert [one.key for one in made.work.ready().ready] == ["B"]
        error = refused("work_not_ready", lambda: made.work.complete("A", session=session))
        assert error.details["reasons"] == [{"kind": "completed", "item": "A", "path": ["A"]}]
    assert (tmp_path / "work.yaml").read_text() == DATA


def test_every_uncovered_criterion_is_named(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        cover(made, session, "it writes")
        before = made.info().revision
        error = refused("acceptance_uncovered", lambda: made.work.complete("A", session=session))
        assert "'it reads'; 'it says: where'" in error.message
        assert error.details["uncovered"] == [
            {"criterion": "it reads", "place": 0, "historical": []},
            {"criterion": "it says: where", "place": 2, "historical": []},
        ]
        assert made.info().revision == before
        assert made.events.list(type="work.completed").events == ()


def test_evidence_from_another_branch_is_not_current(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        made.branches.create("side")
        side = hold(made, branch="side")
        elsewhere = cover(made, side, *CRITERIA)
        made.sessions.end(side)
        session = hold(made)
        error = refused("acceptance_uncovered", lambda: made.work.complete("A", session=session))
        listed = error.details["uncovered"]
        assert isinstance(listed, list)
        assert [one["historical"] for one in listed] == [[elsewhere]] * 3
        assert "another branch" in error.hint


def test_what_is_completed_on_a_branch_is_so_on_that_branch(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        made.branches.create("side")
        side = hold(made, branch="side")
        cover(made, side, *CRITERIA)
        made.work.complete("A", session=side)
        made.claims.release(side)
        assert made.work.show("A", branch="side").work.completed
        assert not made.work.show("A").work.completed
        assert [one.key for one in made.work.ready(branch="side").ready] == ["B"]
        assert [one.key for one in made.work.ready().ready] == ["A"]


def test_other_criteria_open_the_work_again(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        cover(made, session, *CRITERIA)
        made.work.complete("A", session=session)
        more = [*CRITERIA, "it is fast"]
        made.source.patch([SetFields(work="A", values={"acceptance": more})], accept=True)
        assert not made.work.show("A").work.completed
        error = refused("acceptance_uncovered", lambda: made.work.complete("A", session=session))
        assert "1 of 4" in error.message
        assert "'it is fast'" in error.message
        cover(made, session, "it is fast")
        made.work.complete("A", session=session)
        made.source.patch([SetFields(work="A", values={"status": "done"})], accept=True)
        assert [one.key for one in made.work.ready().ready] == ["B"]


def test_only_the_live_holder_completes(tmp_path: Path) -> None:
    clock = FixedClock(NOW)
    with project(tmp_path, DATA, clock=clock) as made:
        idle = made.sessions.start("A", agent="bob").session.id
        refused("claim_not_holder", lambda: made.work.complete("A", session=idle))
        session = hold(made, ttl_ms=1000)
        cover(made, session, *CRITERIA)
        refused("claim_not_holder", lambda: made.work.complete("A", session=idle))
        refused("session_mismatch", lambda: made.work.complete("B", session=session))
        refused("not_found", lambda: made.work.complete("Z", session=session))
        refused("not_found", lambda: made.work.complete("A", session="s_none"))
        clock.advance(1000)
        refused("claim_not_holder", lambda: made.work.complete("A", session=session))
        taken = hold(made)
        refused("claim_not_holder", lambda: made.work.complete("A", session=session))
        made.work.complete("A", session=taken)
        made.sessions.end(taken)
        refused("session_not_active", lambda: made.work.complete("A", session=taken))
        assert len(made.events.list(type="work.completed").events) == 1


def test_work_that_waits_is_not_completed(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made, "B")
        cover(made, session)
        error = refused("work_not_ready", lambda: made.work.complete("B", session=session))
        assert error.details["reasons"] == [
            {"kind": "dependency_open", "item": "A", "path": ["B", "A"]}
        ]


def test_work_without_criteria_needs_some_evidence_of_its_own(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made, "C")
        cover(made, session, "r:1")
        error = refused("acceptance_uncovered", lambda: made.work.complete("C", session=session))
        assert error.details["uncovered"] == []
        cover(made, session)
        made.work.complete("C", session=session)


def test_a_closed_branch_completes_nothing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        made.branches.create("side")
        session = hold(made, branch="side")
        cover(made, session, *CRITERIA)
        made.branches.close("side")
        refused("branch_closed", lambda: made.work.complete("A", session=session))


def test_criteria_that_the_file_no_longer_has_complete_nothing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        cover(made, session, *CRITERIA)
        put(tmp_path / "work.yaml", DATA.replace("it reads", "it reads well"))
        error = refused("source_conflict", lambda: made.work.complete("A", session=session))
        assert "source index" in error.hint
        made.source.index()
        refused("acceptance_uncovered", lambda: made.work.complete("A", session=session))


def test_a_completion_is_answered_again_to_the_same_request(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        cover(made, session, *CRITERIA)
        first = made.work.complete("A", session=session, request_id="r-1")
        assert made.work.complete("A", session=session, request_id="r-1") == first
        assert len(made.events.list(type="work.completed").events) == 1


def test_nobody_else_tells_that_work_is_complete(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        for word in ("work.completed", "Work.Completed", "work.completed "):
            with pytest.raises(Exception, match=r"event_type_reserved|name_invalid"):
                made.events.append(word, {}, work="A")


def test_a_completion_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = hold(made)
        cover(made, session, *CRITERIA)
        before = made.info().revision
        with sqlite3.connect(tmp_path / ".callboard" / "project.db") as connection:
            connection.execute(
                "CREATE TRIGGER stop BEFORE INSERT ON events WHEN NEW.type = 'work.completed' "
                "BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        connection.close()
        with pytest.raises(Exception, match="no"):
            made.work.complete("A", session=session)
        assert made.info().revision == before
        assert not made.work.show("A").work.completed
