"""The last words of a command: whatever goes wrong, something is said."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen
from callboard.surfaces.cli.endings import last_words


def told(
    capsys: pytest.CaptureFixture[str],
    details: dict[str, Any],
    *,
    message: str = "it is so",
    in_json: bool = False,
) -> tuple[int, str, str]:
    """The status, and what was said of a refusal with these details."""
    error = CallboardError("some_code", message, "do this", details)
    status = last_words(error, Chosen(), in_json)
    out, err = capsys.readouterr()
    return status, out, err


def test_candidates_of_each_kind_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    candidates = [
        {"work_id": "0123456789abcdef", "graph_id": "g", "node_key": "n"},
        {"id": "s_1", "work": "W", "branch": "main", "agent": "kim"},
        {"other": 1},
        "a text",
    ]
    status, out, err = told(capsys, {"candidates": candidates})
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        "refused: it is so",
        "  0123456789ab  g:n",
        "  s_1  kim at W on main",
        '  {"other":1}',
        "  a text",
        "next: do this",
        "code: some_code",
    ]


def test_a_fault_of_the_words_themselves_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = told(capsys, {"faults": [1, 2]})
    assert (status, out) == (70, "")
    (line,) = err.splitlines()
    assert line.startswith("callboard: a fault of Callboard itself: TypeError at surfaces/cli/")
    assert line.endswith("while it was about to tell of some_code")
    status, out, err = told(capsys, {"what": object()}, in_json=True)
    assert (status, out) == (70, "")
    assert "some_code" in err


def test_faults_of_a_work_file_are_told_once_and_with_their_places(
    capsys: pytest.CaptureFixture[str],
) -> None:
    faults = [
        {"file": "work.yaml", "pointer": "/a", "line": 1, "column": 2, "message": "it is so"},
        {"file": "work.yaml", "pointer": "", "line": 3, "column": 4, "message": "it is so"},
    ]
    message = "2 faults: work.yaml:1:2 /a: it is so"
    _status, _out, err = told(capsys, {"faults": faults}, message=message)
    assert err.splitlines()[:2] == [f"refused: {message}", "  work.yaml:3:4: it is so"]
