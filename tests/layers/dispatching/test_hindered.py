"""Dispatching where something is in its way: files taken away, edited, or two at the same time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from callboard.errors import CallboardError
from callboard.layers import locking
from tests.layers.requests.parent import Parent, item, parent


@pytest.fixture
def made(tmp_path: Path) -> Parent:
    return parent(tmp_path)


def refused(made: Parent, assignment: Path, item_id: str = "part") -> CallboardError:
    with pytest.raises(CallboardError) as found:
        made.dispatch(assignment, item_id)
    return found.value


def test_one_at_a_time_publishes_and_writes_the_ledger(made: Parent) -> None:
    lock = FileLock(made.root_path / locking.WRITER, timeout=0)
    seen: list[str] = []

    def effect(step: str, place: str) -> None:
        if place.startswith(made.layer.place):
            with pytest.raises(Timeout):
                lock.acquire()
            seen.append(f"{step} {place.rpartition('/')[2]}")

    made.dispatch(made.begin(), effect=effect)
    assert seen == [
        "write part-r1.json", "link part-r1.json", "write part-r1.json", "rename part-r1.json",
        "write work_items.md", "rename work_items.md",
    ]  # fmt: skip


def test_a_folder_that_is_gone_is_made_anew(made: Parent) -> None:
    assignment = made.begin()
    for folder in ("child_requests", "project_state/dispatch_inputs"):
        shutil.rmtree(made.path(folder))
    assert made.dispatch(assignment).standing == "published"
    assert made.names("pending") == ["part-r1.json"]


@pytest.mark.parametrize("what", ["a link", "a file", "no room"])
def test_a_note_that_cannot_be_left_keeps_the_ledger_from_nothing(
    made: Parent, what: str, tmp_path: Path
) -> None:
    assignment = made.begin()
    trace = made.disk.path(made.layer.trace_place)
    shutil.rmtree(trace, ignore_errors=True)
    trace.parent.mkdir(parents=True, exist_ok=True)
    if what == "a link":
        trace.symlink_to(tmp_path)
    elif what == "a file":
        trace.write_text("")

    def effect(_step: str, place: str) -> None:
        if what == "no room" and "/traces/" in place:
            raise OSError(28, "No space left on device")

    assert made.dispatch(assignment, effect=effect).standing == "published"
    assert 'status: "waiting_for_child"' in made.ledger_text()


def test_a_ledger_that_is_not_there_is_named(made: Parent) -> None:
    assignment = made.begin()
    made.path("project_state", "work_items.md").unlink()
    error = refused(made, assignment)
    assert error.code == "file_missing"
    assert "project_state/work_items.md" in error.message
    assert "write it" in error.hint


def test_a_long_name_of_no_item_is_cut_short(made: Parent) -> None:
    error = refused(made, made.begin(), "x" * 100_000 + "\x1b")
    assert error.code == "work_item_unknown"
    assert len(error.message) < 400
    assert len(str(error.details)) < 400


def test_it_is_told_why_an_assignment_speaks_for_nobody(made: Parent) -> None:
    assignment = made.begin()
    whole = assignment.read_bytes()
    assignment.write_text(json.dumps(json.loads(whole), indent=1))
    error = refused(made, assignment)
    assert (error.code, "edited" in error.message) == ("assignment_stale", True)
    assignment.write_bytes(whole)
    made.end()
    error = refused(made, assignment)
    assert (error.code, "there, no attempt is" in error.message) == ("assignment_stale", True)
    made.begin()
    error = refused(made, assignment)
    assert (error.code, "0002_dispatcher is" in error.message) == ("assignment_stale", True)


@pytest.mark.parametrize(
    "forged", ["1_dispatcher", "0_dispatcher", "00001_dispatcher", "0001_dispatcher"]
)
@pytest.mark.parametrize("body", ["", "{}", "null"])
def test_a_file_that_only_is_called_an_end_makes_no_attempt(
    made: Parent, forged: str, body: str
) -> None:
    made.attempt("planner")
    folder = made.path("attempts", forged)
    folder.mkdir()
    (folder / "finished.json").write_text(body)
    made.put("a.json", made.request("a", forged))
    made.decide()
    assert made.codes() == {"a.json": "request_origin_unknown"}
    made.ledger(item())
    made.put("b.json", made.request("b", made.attempt()))
    assert made.decide().child is not None
