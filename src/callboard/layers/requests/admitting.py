"""Making a request a child layer, so that it can be gone on with after a crash at any step.

Source: layers.md §4. The receipt beside the accepted body decides: before it, nothing happened;
after it, the child is made, whoever comes next.
"""

from __future__ import annotations

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import names, stored, tree
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.requests import Acceptance, ChildEntry
from callboard.layers.records.session import GoalContract, Session
from callboard.layers.records.state import Child, State, Usage
from callboard.layers.requests.judging import Ready, acceptance_of, accepted_ids
from callboard.layers.requests.places import (
    ACCEPTED,
    ARTIFACTS,
    BUILDING,
    PENDING,
    RECEIPT,
    REQUEST,
)
from callboard.layers.sealing import put
from callboard.layers.tree import Layer

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""No larger file is compared with what was kept of it."""


def admit(around: Around, layer: Layer, state: State, ready: Ready) -> State:
    """Make the child of `ready`, and give the layer's state with the child in it."""
    request = ready.request
    now_ms = around.clock.now_ms()
    session_id = names.new_session_id(now_ms, request.assignment.goal, around.random(8))
    _build(around, layer, session_id, ready, now_ms)
    put(around.disk, layer.file(ACCEPTED, f"{request.request_id}.json"), ready.body)
    acceptance = Acceptance(
        schema_version=1,
        request_id=request.request_id,
        body_sha256=base.digest(ready.body),
        file_name=ready.name,
        child_session_id=session_id,
        work_item_id=request.origin.parent_work_item_id,
        attempt_id=request.origin.parent_attempt_id,
        decided_at_ms=now_ms,
    )
    around.disk.publish_new(
        layer.file(ACCEPTED, request.request_id + RECEIPT), base.encode(acceptance)
    )
    return _carry_on(around, layer, state, acceptance)


def go_on(around: Around, layer: Layer, state: State) -> State:
    """Finish what a crash cut short; what was built for nobody is taken away."""
    children = tree.read_children(around.disk, layer).children
    indexed = {one.request_id for one in children}
    # Asked in each step, so that only what is not finished is read.
    unfinished = [one for one in accepted_ids(around, layer) if one not in indexed]
    if children and state.child is None and state.children_made < len(children):
        unfinished.append(children[-1].request_id)
    for request_id in unfinished:
        state = _carry_on(around, layer, state, acceptance_of(around, layer, request_id))
    for name in around.disk.names(layer.file("children")):
        if name.startswith(".") and name.endswith(BUILDING):
            around.disk.remove_tree(layer.file("children", name))
    return state


def _carry_on(around: Around, layer: Layer, state: State, acceptance: Acceptance) -> State:
    disk = around.disk
    place = layer.file("children", acceptance.child_session_id)
    if disk.kind(place) is None:
        building = _building(layer, acceptance.child_session_id)
        if disk.kind(building) is None:
            raise stored.corrupt(place, "the child of an accepted request is not there")
        disk.move(building, place)
    index = tree.read_children(disk, layer)
    if acceptance.request_id not in {one.request_id for one in index.children}:
        entry = ChildEntry(
            request_id=acceptance.request_id,
            session_id=acceptance.child_session_id,
            work_item_id=acceptance.work_item_id,
            body_sha256=acceptance.body_sha256,
            status="running",
            stop_reason=None,
            outcome_ref=None,
            usage=Usage(),
            accepted_at_ms=acceptance.decided_at_ms,
        )
        children = (*index.children, entry)
        index = structs.replace(index, revision=index.revision + 1, children=children)
        tree.write_children(disk, layer, index)
    state = structs.replace(
        state,
        revision=state.revision + 1,
        child=Child(session_id=acceptance.child_session_id, request_id=acceptance.request_id),
        children_made=len(index.children),
        changed_at_ms=around.clock.now_ms(),
    )
    tree.write_state(disk, layer, state)
    clear(around, layer, acceptance.file_name, acceptance.body_sha256)
    return state


def clear(around: Around, layer: Layer, name: str, body_sha256: str) -> None:
    """Take a pending file away whose bytes are kept; one that has others by now stays, and is
    judged for itself."""
    place = layer.file(PENDING, name)
    try:
        data = around.disk.read(place, MAX_KEPT_BYTES)
    except CallboardError as error:
        if error.code in ("file_missing", "file_not_regular", "resource_limit"):
            return
        raise
    if base.digest(data) == body_sha256:
        around.disk.remove(place)


def _build(around: Around, layer: Layer, session_id: str, ready: Ready, now_ms: int) -> None:
    """The child's whole folder, under a name that nobody takes for a layer."""
    request = ready.request
    goal = GoalContract(
        schema_version=1,
        goal_id=f"goal_{session_id}",
        **structs.asdict(request.assignment),
    )
    goal_text = request.assignment.goal
    session = Session(
        schema_version=1,
        session_id=session_id,
        root_session_id=layer.session.root_session_id,
        parent_session_id=layer.session.session_id,
        depth=layer.session.depth + 1,
        workflow_set=request.workflow_set,
        repository_id=layer.session.repository_id,
        request_id=request.request_id,
        parent_work_item_id=request.origin.parent_work_item_id,
        limits=None,
        goal_sha256=base.digest(goal_text.encode()),
        goal_contract_sha256=base.digest(base.encode(goal)),
        workflow_contract_sha256=base.digest(base.encode(ready.frozen.contract)),
        created_at_ms=now_ms,
    )
    files = {f"{ARTIFACTS}/{name}": data for name, data in ready.files.items()}
    files |= {REQUEST: ready.body, **ready.frozen.files()}
    place = _building(layer, session_id)
    if around.disk.kind(place) is not None:
        raise stored.corrupt(place, "it is there before its child is made")
    tree.create(around.disk, place, session, goal_text, goal, ready.frozen.contract, files, now_ms)


def _building(layer: Layer, session_id: str) -> str:
    return layer.file("children", f".{session_id}{BUILDING}")
