"""The attempt that a command speaks for: told by an assignment's file alone, and checked.

Source: specification 3 (paths come from the assignment, never from the working folder). Commands
of agents go through here, so that an attempt that is over can write nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.files import read_bounded
from callboard.layers import tree
from callboard.layers.around import Around
from callboard.layers.attempts import ASSIGNMENT, MAX_ASSIGNMENT_BYTES
from callboard.layers.records import base
from callboard.layers.records.assignment import Assignment
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer
from callboard.regular import shown_name


@dataclass(frozen=True, slots=True)
class Assigned:
    """The attempt under way of one layer."""

    layer: Layer
    state: State
    contract: WorkflowContract
    assignment: Assignment

    @property
    def attempt_id(self) -> str:
        """The attempt that speaks."""
        return self.assignment.identity.attempt_id

    def check_role(self, allowed: Sequence[str], what: str) -> None:
        """Refuse with `role_not_allowed` what the layer's contract does not give to this role."""
        role = self.assignment.identity.role
        if role not in allowed:
            raise CallboardError(
                "role_not_allowed",
                f"the role {role!r} may not {what}; allowed are {', '.join(allowed) or 'none'}",
                "leave it to a role that may, or change the workflow set of the next layer",
                {"role": role, "allowed": list(allowed)},
            )


def repository_of(path: Path) -> Path:
    """The repository that the assignment at `path` names; everything else is asked of it."""
    return Path(_read(path).paths.repository)


def read(around: Around, path: Path) -> Assigned:
    """The attempt whose assignment lies at the absolute `path`.

    Raises `assignment_stale` where it is not, to the byte, that of the attempt that its layer has
    under way, and `assignment_invalid` where the file is not that of an attempt of this repository.
    """
    claimed = _read(path)
    layer = tree.read_layer(around.disk, _layer_place(around, path, claimed))
    state = tree.read_state(around.disk, layer)
    attempt_id = claimed.identity.attempt_id
    folder = layer.file("attempts", attempt_id)
    # Read once more through open folders: these bytes are judged, and these are believed.
    data = around.disk.read(f"{folder}/{ASSIGNMENT}", MAX_ASSIGNMENT_BYTES)
    if state.task is None or state.task.attempt_id != attempt_id:
        now = "no attempt" if state.task is None else state.task.attempt_id
        raise _stale(layer, attempt_id, f"there, {now} is", now)
    if around.disk.kind(f"{folder}/result.json") is not None:
        raise _stale(layer, attempt_id, "the attempt has ended", attempt_id)
    if state.task.assignment_sha256 != base.digest(data):
        raise _stale(layer, attempt_id, "it was edited since it was frozen", attempt_id)
    return Assigned(layer, state, tree.read_contract(around.disk, layer), _parsed(data))


def _stale(layer: Layer, attempt_id: str, what: str, now: str) -> CallboardError:
    return CallboardError(
        "assignment_stale",
        f"the assignment of {attempt_id} speaks for no attempt under way in layer"
        f" {layer.session.session_id}: {what}",
        "only the attempt that its layer has under way may use this command",
        {"attempt": attempt_id, "session": layer.session.session_id, "under_way": now},
    )


def _read(path: Path) -> Assignment:
    if not path.is_absolute():
        raise _invalid(path, "is no absolute path")
    return _parsed(read_bounded(path, MAX_ASSIGNMENT_BYTES, what="the assignment"))


def _parsed(data: bytes) -> Assignment:
    return base.read(data, Assignment, "the assignment", limit_bytes=MAX_ASSIGNMENT_BYTES)


def _layer_place(around: Around, path: Path, assignment: Assignment) -> str:
    root = around.disk.root
    session_root = Path(assignment.paths.session_root)
    attempt = session_root / "attempts" / assignment.identity.attempt_id
    if not session_root.is_relative_to(root) or path != attempt / ASSIGNMENT:
        raise _invalid(
            path, f"is not where the attempt {assignment.identity.attempt_id} has its own"
        )
    return session_root.relative_to(root).as_posix()


def _invalid(path: Path, what: str) -> CallboardError:
    shown = shown_name(str(path))
    return CallboardError(
        "assignment_invalid",
        f"'{shown}' {what}",
        "give the absolute path of the assignment, as the prompt names it",
        {"path": shown},
    )
