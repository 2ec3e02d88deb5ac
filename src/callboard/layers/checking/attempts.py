"""The attempts of one layer: what each was frozen from, what came of it, and its sealed trace."""

from __future__ import annotations

from callboard.layers import tree
from callboard.layers.checking.desk import Desk
from callboard.layers.names import attempt_id, is_id
from callboard.layers.records.assignment import Assignment
from callboard.layers.records.attempt import (
    AttemptFinished,
    AttemptProcess,
    AttemptResult,
    TraceSeal,
)
from callboard.layers.records.base import digest
from callboard.layers.records.session import Session
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract

_OfAttempt = AttemptResult | AttemptProcess | AttemptFinished | TraceSeal


def check_attempts(
    desk: Desk,
    layer: str,
    session: Session | None,
    state: State | None,
    contract: WorkflowContract | None,
) -> None:
    """All attempts of the layer at the place `layer`, and the one that is under way."""
    folder = f"{layer}/attempts"
    found = [name for name, kind in desk.entries(folder) if kind == "folder" and is_id(name)]
    for name in found:
        assignment = _check_frozen(desk, f"{folder}/{name}", name, state)
        if assignment is not None:
            _check_identity(desk, f"{folder}/{name}/assignment.json", assignment, session)
            _check_role(desk, f"{folder}/{name}/assignment.json", assignment, contract)
            _check_followed(desk, f"{folder}/{name}/finished.json", assignment, state)
        _check_result(desk, f"{folder}/{name}", name)
    if state is not None and state.task is not None:
        _check_task(desk, layer, state, found)
    _check_seals(desk, layer, session)


def _check_frozen(desk: Desk, place: str, name: str, state: State | None) -> Assignment | None:
    file = f"{place}/assignment.json"
    task = state.task if state is not None else None
    sha256 = task.assignment_sha256 if task is not None and task.attempt_id == name else None
    assignment = desk.frozen(file, Assignment, sha256)
    if assignment is None:
        return None
    if assignment.identity.attempt_id != name:
        message = f"it is of the attempt {assignment.identity.attempt_id}, its folder is {name}"
        desk.findings.add("layer_corrupt", file, message)
    made = assignment.provenance
    desk.unchanged(f"{place}/prompt.md", made.rendered_prompt_sha256)
    desk.unchanged(f"{place}/workflow_snapshot/config.yaml", made.config_sha256)
    desk.unchanged(f"{place}/workflow_snapshot/prompt.md", made.prompt_sha256)
    layer = place.rpartition("/attempts/")[0]
    for entry in assignment.inputs:
        head, _, path = entry.ref.partition(":/inputs/")
        if head == "session" and path and ".." not in path.split("/"):
            desk.unchanged(f"{layer}/inputs/{path}", entry.sha256)
    return assignment


def _check_identity(desk: Desk, file: str, assignment: Assignment, session: Session | None) -> None:
    if session is None:
        return
    identity, made = assignment.identity, assignment.provenance
    for name, found, expected in (
        ("root_session_id", identity.root_session_id, session.root_session_id),
        ("session_id", identity.session_id, session.session_id),
        ("parent_session_id", identity.parent_session_id, session.parent_session_id),
        ("depth", identity.depth, session.depth),
        ("workflow_set", identity.workflow_set, session.workflow_set),
        ("request_id", identity.request_id, session.request_id),
        ("goal_sha256", made.goal_sha256, session.goal_sha256),
        ("goal_contract_sha256", made.goal_contract_sha256, session.goal_contract_sha256),
        ("contract_sha256", made.contract_sha256, session.workflow_contract_sha256),
    ):
        if found != expected:
            message = f"its {name} is {found}, the layer's is {expected}"
            desk.findings.add("layer_corrupt", file, message)


def _check_role(
    desk: Desk, file: str, assignment: Assignment, contract: WorkflowContract | None
) -> None:
    if contract is None:
        return
    name, made = assignment.identity.role, assignment.provenance
    role = next((one for one in contract.roles if one.name == name), None)
    if role is None:
        message = f"its role {name} is not in the layer's workflow contract"
        desk.findings.add("layer_corrupt", file, message)
    elif (role.config_sha256, role.prompt_sha256) != (made.config_sha256, made.prompt_sha256):
        message = f"the role {name} was frozen from other files than the workflow contract says"
        desk.findings.add("hash_mismatch", file, message)


def _check_followed(desk: Desk, file: str, assignment: Assignment, state: State | None) -> None:
    """That an attempt which another one followed was finished first."""
    iteration = assignment.identity.iteration
    if state is not None and iteration < state.iteration and not desk.has(file):
        message = f"it is missing, and the layer is at iteration {state.iteration}"
        desk.findings.add("layer_corrupt", file, message)


def _check_result(desk: Desk, place: str, name: str) -> None:
    result = None
    if desk.has(f"{place}/result.json"):
        data = desk.data(f"{place}/result.json")
        if data is not None:
            result = digest(data)
            found = desk.parsed(f"{place}/result.json", data, AttemptResult)
            _belongs(desk, f"{place}/result.json", found, name)
    if desk.has(f"{place}/process.json"):
        process = desk.record(f"{place}/process.json", AttemptProcess)
        _belongs(desk, f"{place}/process.json", process, name)
    if desk.has(f"{place}/finished.json"):
        finished = desk.record(f"{place}/finished.json", AttemptFinished)
        _belongs(desk, f"{place}/finished.json", finished, name)
        if finished is not None and result is not None:
            desk.same(f"{place}/result.json", result, finished.result_sha256)
        elif not desk.has(f"{place}/result.json"):
            message = "it is missing, and the attempt is finished"
            desk.findings.add("layer_corrupt", f"{place}/result.json", message)


def _belongs(desk: Desk, file: str, record: _OfAttempt | None, name: str) -> None:
    if record is not None and record.attempt_id != name:
        message = f"it is of the attempt {record.attempt_id}, where it lies belongs to {name}"
        desk.findings.add("layer_corrupt", file, message)


def _check_task(desk: Desk, layer: str, state: State, found: list[str]) -> None:
    task = state.task
    assert task is not None
    if task.attempt_id not in found:
        message = f"the task {task.attempt_id} is under way and has no folder"
        desk.findings.add("layer_corrupt", f"{layer}/attempts/{task.attempt_id}", message)
    if task.attempt_id != attempt_id(task.iteration, task.role):
        message = (
            f"the task {task.attempt_id} says that it is iteration {task.iteration} of {task.role}"
        )
        desk.findings.add("layer_corrupt", f"{layer}/state.json", message)


def _check_seals(desk: Desk, layer: str, session: Session | None) -> None:
    for name in desk.files(f"{layer}/trace_seals", ".json"):
        place = f"{layer}/trace_seals/{name}.json"
        seal = desk.record(place, TraceSeal)
        if seal is None or session is None:
            continue
        _belongs(desk, place, seal, name)
        home = f"{tree.TRACES}/{session.root_session_id}/sessions/{session.session_id}"
        manifest = f"{home}/attempts/{name}/manifest.json"
        # A trace may be pruned; the seal stays.
        if is_id(name) and desk.disk.kind(manifest) is not None:
            desk.unchanged(manifest, seal.manifest_sha256)
