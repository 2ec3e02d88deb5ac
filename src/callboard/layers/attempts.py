"""Freezing an attempt: its assignment, its prompt, the workflow it was made from.

The folder of an attempt is whole or not there. What was frozen is never changed, and whoever
carries an attempt out verifies it by its digests first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from callboard.errors import CallboardError
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.names import attempt_id
from callboard.layers.records.assignment import (
    AcceptedInput,
    Assignment,
    AttemptIdentity,
    Paths,
    Provenance,
)
from callboard.layers.records.base import digest, encode, read
from callboard.layers.records.session import GoalContract
from callboard.layers.records.state import State, Task
from callboard.layers.records.workflow import FrozenRole
from callboard.layers.stored import corrupt
from callboard.layers.tree import Layer

MAX_ASSIGNMENT_BYTES = 8 * 1024 * 1024
MAX_PROMPT_BYTES = 16 * 1024 * 1024
MAX_CONFIG_BYTES = 1024 * 1024

CONFIG = "workflow_snapshot/config.yaml"
TEMPLATE = "workflow_snapshot/prompt.md"
PROMPT = "prompt.md"
ASSIGNMENT = "assignment.json"

Render = Callable[[str, str, Assignment], str]
"""The prompt from a template, the absolute path of the assignment, and the assignment. It must
not depend on `provenance.rendered_prompt_sha256`, which is made from what it answers."""

_UNKNOWN = digest(b"")


@dataclass(frozen=True, slots=True)
class Frozen:
    """An attempt that is ready to be carried out."""

    attempt_id: str
    assignment: Assignment
    assignment_sha256: str


def place_of(layer: Layer, attempt: str) -> str:
    """The folder of an attempt."""
    return layer.file("attempts", attempt)


def trace_of(layer: Layer, attempt: str) -> str:
    """The folder of an attempt's raw trace."""
    return f"{layer.trace_place}/attempts/{attempt}"


# --- freezing -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """What an attempt is made from: bytes of the role's files, and what its assignment says.

    `config` and `prompt` are the bytes that the layer's contract has the digests of.
    """

    config: bytes
    prompt: bytes
    iteration: int
    state: State
    goal: GoalContract
    updates: Sequence[str]
    inputs: Sequence[AcceptedInput]
    git_head: str | None
    request_id: str | None
    work_item_id: str | None


def freeze(disk: Disk, layer: Layer, role: FrozenRole, given: Given, render: Render) -> Frozen:
    """Freeze an attempt of `role` from the state, or take up the one that was.

    An attempt that was frozen from the same revision of the state is taken up as it is: what it was
    given then counts, whatever else is given now.

    Raises `layer_corrupt` for other bytes, `attempt_taken` for a folder of that name that cannot be
    taken up, `record_invalid` or `resource_limit` for an assignment that nobody could read.
    """
    attempt = attempt_id(given.iteration, role.name)
    if disk.kind(place_of(layer, attempt)) is not None:
        return _take_up(disk, layer, attempt, given.state)
    _check_workflow(layer, role, given.config, given.prompt)
    assignment = Assignment(
        schema_version=1,
        identity=_identity(layer, role, attempt, given),
        goal=given.goal,
        inputs=tuple(given.inputs),
        updates=tuple(given.updates),
        responsibility=role.config.responsibility,
        expected_outputs=role.config.expected_outputs,
        provenance=_provenance(layer, role, given.state, given.git_head),
        paths=_paths(disk, layer, attempt),
    )
    files = _files(disk, layer, assignment, given.config, given.prompt, render)
    _build(disk, layer, attempt, files)
    data = files[ASSIGNMENT]
    return Frozen(attempt, _read(data, attempt), digest(data))


def _check_workflow(layer: Layer, role: FrozenRole, config: bytes, prompt: bytes) -> None:
    for data, sha256, name in (
        (config, role.config_sha256, "config.yaml"),
        (prompt, role.prompt_sha256, "prompt.md"),
    ):
        if digest(data) != sha256:
            what = f"the contract says {sha256}, it has {digest(data)}"
            raise corrupt(layer.file("workflows", role.name, name), what)


def _provenance(layer: Layer, role: FrozenRole, state: State, git_head: str | None) -> Provenance:
    return Provenance(
        state_revision=state.revision,
        config_sha256=role.config_sha256,
        prompt_sha256=role.prompt_sha256,
        rendered_prompt_sha256=_UNKNOWN,
        contract_sha256=layer.session.workflow_contract_sha256,
        goal_sha256=layer.session.goal_sha256,
        goal_contract_sha256=layer.session.goal_contract_sha256,
        git_head=git_head,
    )


def _identity(layer: Layer, role: FrozenRole, attempt: str, given: Given) -> AttemptIdentity:
    session = layer.session
    return AttemptIdentity(
        root_session_id=session.root_session_id,
        session_id=session.session_id,
        parent_session_id=session.parent_session_id,
        depth=session.depth,
        workflow_set=session.workflow_set,
        role=role.name,
        iteration=given.iteration,
        attempt_id=attempt,
        request_id=given.request_id,
        work_item_id=given.work_item_id,
    )


def _paths(disk: Disk, layer: Layer, attempt: str) -> Paths:
    def path(*names: str) -> str:
        return str(disk.path(layer.file(*names)))

    return Paths(
        repository=str(disk.path()),
        session_root=str(disk.path(layer.place)),
        project_state=path("project_state"),
        children_index=path("children.json"),
        children_root=path("children"),
        child_requests=path("child_requests", "pending"),
        child_outcomes=path("child_outcomes"),
        parent_acceptance=path("parent_acceptance"),
        control=path("control.json"),
        eval_checks=path("eval_checks"),
        eval_readiness=path("eval_readiness"),
        eval_receipts=path("eval_receipts"),
        git_receipts=path("git_receipts"),
        delivery_receipts=path("delivery_receipts"),
        inputs=path("inputs"),
        attempt_root=path("attempts", attempt),
        trace_root=str(disk.path(trace_of(layer, attempt))),
    )


def _files(
    disk: Disk,
    layer: Layer,
    assignment: Assignment,
    config: bytes,
    template: bytes,
    render: Render,
) -> dict[str, bytes]:
    attempt = assignment.identity.attempt_id
    path = str(disk.path(f"{place_of(layer, attempt)}/{ASSIGNMENT}"))
    try:
        rendered = render(template.decode("utf-8"), path, assignment).encode("utf-8")
    except UnicodeError as error:
        raise corrupt(
            layer.file("workflows", assignment.identity.role, "prompt.md"), "it is not UTF-8"
        ) from error
    if len(rendered) > MAX_PROMPT_BYTES:
        raise CallboardError(
            "resource_limit",
            f"the prompt of {attempt} has {len(rendered)} bytes, at most {MAX_PROMPT_BYTES} go",
            "shorten the goal or the role's template",
            {"bytes": len(rendered), "limit_bytes": MAX_PROMPT_BYTES},
        )
    provenance = msgspec.structs.replace(
        assignment.provenance, rendered_prompt_sha256=digest(rendered)
    )
    data = encode(msgspec.structs.replace(assignment, provenance=provenance))
    # What nobody could read is not to be published.
    _read(data, attempt)
    return {CONFIG: config, TEMPLATE: template, PROMPT: rendered, ASSIGNMENT: data}


def _build(disk: Disk, layer: Layer, attempt: str, files: dict[str, bytes]) -> None:
    building = layer.file("attempts", f".{attempt}.building")
    # It may be there from a process that died.
    disk.remove_tree(building)
    disk.make_folder(f"{building}/workflow_snapshot")
    for name, data in files.items():
        disk.publish(f"{building}/{name}", data)
    disk.move(building, place_of(layer, attempt))


def _take_up(disk: Disk, layer: Layer, attempt: str, state: State) -> Frozen:
    place = place_of(layer, attempt)
    try:
        data = _bytes(disk, layer, attempt, ASSIGNMENT, MAX_ASSIGNMENT_BYTES)
        assignment = _understood(data, attempt)
        verify(disk, layer, assignment)
    except CallboardError as error:
        if error.code not in ("attempt_changed", "path_invalid"):
            raise
        raise _taken(
            attempt,
            state,
            f"{place} is there, and holds no attempt that was frozen: {error.message}",
        ) from error
    found = assignment.provenance.state_revision
    began = [name for name in ("process.json", "result.json") if disk.kind(f"{place}/{name}")]
    if found != state.revision or began:
        why = f"it has a {began[0]}" if began else f"it was frozen from revision {found}"
        what = f"{place} is there, and {why}; the state's revision is {state.revision}"
        raise _taken(attempt, state, what)
    return Frozen(attempt, assignment, digest(data))


def _taken(attempt: str, state: State, what: str) -> CallboardError:
    return CallboardError(
        "attempt_taken",
        what,
        "restore the state that belongs to it; where none does, as an agent has put it there,"
        " move the folder away, and run again",
        {"attempt_id": attempt, "revision": state.revision},
    )


# --- verifying ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """What an attempt was frozen with, proven to be the same bytes."""

    prompt: bytes
    config: bytes
    template: bytes


def read_assignment(disk: Disk, layer: Layer, task: Task) -> Assignment:
    """The assignment of the task; `attempt_changed` unless it is exactly what was frozen."""
    data = _bytes(disk, layer, task.attempt_id, ASSIGNMENT, MAX_ASSIGNMENT_BYTES)
    _same(data, task.assignment_sha256, task.attempt_id, ASSIGNMENT)
    assignment = _understood(data, task.attempt_id)
    identity = assignment.identity
    found = (identity.attempt_id, identity.role, identity.iteration, identity.work_item_id)
    if found != (task.attempt_id, task.role, task.iteration, task.work_item_id):
        raise _changed(task.attempt_id, ASSIGNMENT, "it is the assignment of another attempt")
    return assignment


def verify(disk: Disk, layer: Layer, assignment: Assignment) -> Verified:
    """The prompt and the workflow snapshot of an assignment, as they were frozen.

    Raises `attempt_changed` (details: `attempt_id`, `file`) where a byte of them differs, where
    the assignment is of another layer, or where the repository has moved since.
    """
    attempt = assignment.identity.attempt_id
    if assignment.identity.session_id != layer.session.session_id:
        raise _changed(attempt, ASSIGNMENT, "it is the assignment of another layer")
    if assignment.paths != _paths(disk, layer, attempt):
        raise _changed(attempt, ASSIGNMENT, "the repository has moved since it was frozen")
    provenance = assignment.provenance
    for found, frozen, name in (
        (provenance.contract_sha256, layer.session.workflow_contract_sha256, "contract"),
        (provenance.goal_sha256, layer.session.goal_sha256, "goal"),
        (provenance.goal_contract_sha256, layer.session.goal_contract_sha256, "goal contract"),
    ):
        if found != frozen:
            raise _changed(attempt, ASSIGNMENT, f"the layer's {name} is another one")

    def same(name: str, sha256: str, limit_bytes: int) -> bytes:
        data = _bytes(disk, layer, attempt, name, limit_bytes)
        _same(data, sha256, attempt, name)
        return data

    return Verified(
        prompt=same(PROMPT, provenance.rendered_prompt_sha256, MAX_PROMPT_BYTES),
        config=same(CONFIG, provenance.config_sha256, MAX_CONFIG_BYTES),
        template=same(TEMPLATE, provenance.prompt_sha256, MAX_PROMPT_BYTES),
    )


def _bytes(disk: Disk, layer: Layer, attempt: str, name: str, limit_bytes: int) -> bytes:
    try:
        return disk.read(f"{place_of(layer, attempt)}/{name}", limit_bytes, what="the file")
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        raise _changed(attempt, name, error.message) from error


def _same(data: bytes, sha256: str, attempt: str, name: str) -> None:
    if digest(data) != sha256:
        raise _changed(attempt, name, f"{sha256} was frozen, it has {digest(data)}")


def _understood(data: bytes, attempt: str) -> Assignment:
    try:
        return _read(data, attempt)
    except CallboardError as error:
        raise _changed(attempt, ASSIGNMENT, error.message) from error


def _read(data: bytes, attempt: str) -> Assignment:
    what = f"the assignment of {attempt}"
    return read(data, Assignment, what, limit_bytes=MAX_ASSIGNMENT_BYTES)


def _changed(attempt: str, name: str, what: str) -> CallboardError:
    return CallboardError(
        "attempt_changed",
        f"{name} of the attempt {attempt} is not as it was frozen: {what}",
        "nothing of it was executed; run again, and another attempt is made",
        {"attempt_id": attempt, "file": name},
    )
