"""A fault of this machine is nobody's word: the step ends, nothing is changed, the next one judges.

The operating system refuses to open one file, as a failing disk does; everything else is real.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers import attempts
from tests.layers.machine import Machine
from tests.layers.requests.parent import Parent, item, parent
from tests.layers.trees import everything

CODES = [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE]


@contextmanager
def unreadable(refused: str, code: int = errno.EIO) -> Iterator[list[str]]:
    """No file of this name can be opened; gives the names that were refused."""
    real = os.open
    met: list[str] = []

    def opening(path: Any, *arguments: Any, **named: Any) -> int:
        if os.fspath(path) == refused:
            met.append(refused)
            raise OSError(code, os.strerror(code))
        return real(path, *arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", opening)
        yield met


@pytest.mark.parametrize("refused", ["part-r1.json", "a.txt", "work_items.md", "contract.yaml"])
@pytest.mark.parametrize("code", CODES)
def test_no_request_is_put_away(tmp_path: Path, refused: str, code: int) -> None:
    made = parent(tmp_path)
    (made.root_path / "a.txt").write_bytes(b"as declared")
    made.ledger(item(inputs=["repo:/a.txt"]))
    made.dispatch(made.begin())
    made.end()
    body = made.path("child_requests/pending/part-r1.json").read_bytes()
    with unreadable(refused, code), pytest.raises(CallboardError) as caught:
        made.decide()
    assert caught.value.code == "storage_failed"
    assert os.strerror(code) in caught.value.message
    _check_untouched(made, body)
    made.decide()
    assert made.children() == ["part-r1"]


def _check_untouched(made: Parent, body: bytes) -> None:
    assert made.names("pending") == ["part-r1.json"]
    assert made.path("child_requests/pending/part-r1.json").read_bytes() == body
    assert (made.names("rejected"), made.names("accepted"), made.children()) == ([], [], [])


@pytest.mark.parametrize("refused", ["control.json", "done.yaml", "a receipt"])
def test_no_control_is_rejected(tmp_path: Path, refused: str) -> None:
    machine = Machine(tmp_path)
    attempt = machine.begin()
    machine.meet_goal(attempt)
    machine.leave_result()
    if refused == "a receipt":
        (refused,) = [path.name for path in attempt.path("eval_receipts").iterdir()]
    with unreadable(refused), pytest.raises(CallboardError) as caught:
        machine.step()
    assert caught.value.code == "storage_failed"
    assert machine.step().did == "finished"
    assert machine.state(machine.top).status == "goal_met"
    assert machine.state(machine.top).invalid_controls == 0


def test_no_second_request_is_made(tmp_path: Path) -> None:
    made = parent(tmp_path)
    assignment = made.begin()
    made.dispatch(assignment)
    before = everything(made.root_path)
    with unreadable("part-r1.json") as met, pytest.raises(CallboardError) as caught:
        made.dispatch(assignment)
    assert caught.value.code == "storage_failed"
    assert met
    assert everything(made.root_path) == before


def test_no_attempt_counts_as_changed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.begin()
    disk, (layer, state) = machine.around.disk, machine.deepest()
    assert state.task is not None
    task = state.task
    assignment = attempts.read_assignment(disk, layer, task)
    with unreadable("prompt.md"), pytest.raises(CallboardError) as caught:
        attempts.verify(disk, layer, assignment)
    assert caught.value.code == "storage_failed"
    assert attempts.verify(disk, layer, assignment).prompt
