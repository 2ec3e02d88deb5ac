"""A host's refusal in a report: whole, and small."""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.fault_document import (
    MAX_DETAILS_BYTES,
    bounded_details,
    fault_document,
)
from callboard.errors import CallboardError


def error(**details: object) -> CallboardError:
    return CallboardError("git_failed", "git x ended with status 1", "look", details)


def test_small_details_are_kept_as_they_are() -> None:
    facts = {"command": "update-index", "status": 128, "stderr": "fatal: no\n", "paths": ["a"]}
    assert fault_document(error(**facts)) == {
        "code": "git_failed",
        "message": "git x ended with status 1",
        "hint": "look",
        "details": facts,
    }


def test_long_texts_keep_their_end_and_what_has_no_room_is_named() -> None:
    found = bounded_details(error(stderr="x" * 9_000 + "end", many=["y" * 100] * 100, status=1))
    assert str(found["stderr"]) == "x" * 1_997 + "end"
    assert (found["status"], found["left_out"]) == (1, ["many"])
    assert len(canonical.encode(found)) < MAX_DETAILS_BYTES


def test_what_json_cannot_hold_is_written_out() -> None:
    found = bounded_details(error(timeout_s=0.5, path="a\udcffb", odd=["\udcff"]))
    assert found == {"timeout_s": "0.5", "path": "a\\udcffb", "odd": "['\\udcff']"}
    canonical.encode(found)
