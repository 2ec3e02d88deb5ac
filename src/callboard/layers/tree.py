"""Finding and reading layers, the chain to the deepest one, and making a layer's folder.

A layer is what its files say, in the place where it lies; what contradicts itself is refused and
never mended here. Nothing that changes is kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from callboard.errors import CallboardError
from callboard.layers.disk import Disk
from callboard.layers.names import is_id
from callboard.layers.records.base import Record, digest, encode
from callboard.layers.records.requests import MAX_INDEX_BYTES, ChildrenIndex
from callboard.layers.records.session import GoalContract, Session
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.stored import bounded, corrupt, parse_record, read_file, read_record
from callboard.visible import visible

LAYERS = ".callboard/layers"
SESSIONS = f"{LAYERS}/sessions"
TRACES = f"{LAYERS}/traces"

FOLDERS = (
    "attempts",
    "child_outcomes",
    "child_requests/accepted",
    "child_requests/pending",
    "child_requests/rejected",
    "children",
    "control_rejected",
    "delivery_receipts",
    "eval_checks",
    "eval_readiness",
    "eval_receipts",
    "git_receipts",
    "inputs/artifacts",
    "parent_acceptance",
    "project_state/dispatch_inputs",
    "protocol_failures",
    "trace_seals",
)
"""The folders that every layer is made with."""

MAX_DEPTH = 100
"""No layer lies deeper, whatever its root allows: its paths would grow too long to be used."""

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer on disk: where it lies, and its identity, which never changes."""

    place: str
    session: Session

    def file(self, *names: str) -> str:
        """The place of something in its folder."""
        return "/".join((self.place, *names))

    @property
    def trace_place(self) -> str:
        """Where its raw traces lie."""
        return f"{TRACES}/{self.session.root_session_id}/sessions/{self.session.session_id}"


# --- reading --------------------------------------------------------------------------------------


def read_layer(disk: Disk, place: str) -> Layer:
    """The layer whose folder is `place`.

    Raises `layer_missing` where there is no folder, and `layer_corrupt` where its `session.json`
    is damaged or speaks of another layer than the one that has this place.
    """
    ids = ids_of(place)
    file = f"{place}/session.json"
    try:
        session = read_record(disk, file, Session)
    except CallboardError as error:
        if error.code == "layer_corrupt" and disk.kind(place) is None:
            raise missing(ids[-1]) from error
        raise
    wrong = _misplaced(session, ids)
    if wrong is not None:
        raise corrupt(file, wrong)
    return Layer(place, session)


def ids_of(place: str) -> list[str]:
    """The sessions from the root to the layer at `place`; `path_invalid` for no layer's place."""
    head, *rest = place.removeprefix(f"{SESSIONS}/").split("/children/")
    ids = [head, *rest]
    if not place.startswith(f"{SESSIONS}/") or not all(map(is_id, ids)):
        raise CallboardError(
            "path_invalid",
            f"'{visible(place)[:200]}' is not the place of a layer",
            f"layers lie in {SESSIONS}",
        )
    return ids


def _misplaced(session: Session, ids: list[str]) -> str | None:
    parent = ids[-2] if len(ids) > 1 else None
    for name, found, expected in (
        ("session_id", session.session_id, ids[-1]),
        ("root_session_id", session.root_session_id, ids[0]),
        ("parent_session_id", session.parent_session_id, parent),
        ("depth", session.depth, len(ids) - 1),
    ):
        if found != expected:
            return f"its {name} is {found}, where it lies it must be {expected}"
    for name, value, wanted in (
        ("request_id", session.request_id, parent is not None),
        ("parent_work_item_id", session.parent_work_item_id, parent is not None),
        ("limits", session.limits, parent is None),
    ):
        if (value is not None) != wanted:
            owner = "a root" if parent is None else "a child layer"
            return f"{owner} has {'a' if wanted else 'no'} {name}"
    return None


def read_state(disk: Disk, layer: Layer) -> State:
    """Where the layer stands; `layer_corrupt` where that is damaged or contradicts itself."""
    place = layer.file("state.json")
    state = read_record(disk, place, State)
    wrong = _contradiction(layer, state)
    if wrong is not None:
        raise corrupt(place, wrong)
    return state


def _contradiction(layer: Layer, state: State) -> str | None:
    if state.session_id != layer.session.session_id:
        return f"its session_id is {state.session_id}, the layer's is {layer.session.session_id}"
    if state.task is not None and state.child is not None:
        return "it has both a task and a child layer; only the deepest layer may have a task"
    if state.status == "running":
        return None if state.stop_reason is None else "it is running and has a stop_reason"
    if state.stop_reason is None:
        return f"it has ended ({state.status}) without a stop_reason"
    if state.task is not None or state.child is not None:
        kind = "task" if state.task is not None else "live child layer"
        return f"it has ended ({state.status}) and still has a {kind}"
    return None


def write_state(disk: Disk, layer: Layer, state: State) -> None:
    """Publish the next state; `state_conflict` unless its revision is the stored one and 1."""
    place = layer.file("state.json")
    wrong = _contradiction(layer, state)
    if wrong is not None:
        raise _conflict(place, wrong)
    _next(place, read_state(disk, layer).revision, state.revision)
    disk.publish(place, bounded(place, state))


def read_children(disk: Disk, layer: Layer) -> ChildrenIndex:
    """All children that the layer ever had, in the order of their acceptance."""
    place = layer.file("children.json")
    return read_record(disk, place, ChildrenIndex, limit_bytes=MAX_INDEX_BYTES)


def write_children(disk: Disk, layer: Layer, index: ChildrenIndex) -> None:
    """Publish the next index; `state_conflict` unless its revision is the stored one and 1."""
    place = layer.file("children.json")
    _next(place, read_children(disk, layer).revision, index.revision)
    disk.publish(place, bounded(place, index, MAX_INDEX_BYTES))


def read_goal(disk: Disk, layer: Layer) -> GoalContract:
    """The layer's goal as it was frozen."""
    return _frozen(disk, layer, "goal_contract", GoalContract, layer.session.goal_contract_sha256)


def read_contract(disk: Disk, layer: Layer) -> WorkflowContract:
    """The layer's workflow set as it was frozen."""
    frozen = layer.session.workflow_contract_sha256
    return _frozen(disk, layer, "workflow_contract", WorkflowContract, frozen)


def _frozen(disk: Disk, layer: Layer, name: str, kind: type[R], sha256: str) -> R:
    place = layer.file(f"{name}.json")
    data = read_file(disk, place)
    record = parse_record(data, kind, place)
    if digest(data) != sha256:
        raise corrupt(place, f"it was changed: session.json says {sha256}, it has {digest(data)}")
    return record


def _next(place: str, stored: int, revision: int) -> None:
    if revision != stored + 1:
        raise _conflict(place, f"revision {revision} does not follow the stored {stored}")


def _conflict(place: str, what: str) -> CallboardError:
    return CallboardError(
        "state_conflict",
        f"{place} is not written: {what}",
        "read it again and decide anew",
        {"file": place, "what": what},
    )


# --- finding --------------------------------------------------------------------------------------


def marks(place: str) -> tuple[str, ...]:
    """What tells the folder of a layer from one that only is called like one: a layer's folder is
    moved to its place with these in it, and somebody may have lost one of them since."""
    return f"{place}/session.json", f"{place}/state.json"


def is_layer(disk: Disk, place: str) -> bool:
    """Whether the folder at `place` is that of a layer, sound or not."""
    return any(disk.kind(mark) is not None for mark in marks(place))


def roots(disk: Disk) -> list[str]:
    """The session ids of all root layers, the oldest first."""
    return [
        name for name in _session_folders(disk, SESSIONS) if is_layer(disk, f"{SESSIONS}/{name}")
    ]


def root(disk: Disk, session_id: str | None = None) -> Layer:
    """The root layer of that id; else the only one, or the only one that is not over.

    Raises `layer_missing`, or `layer_ambiguous` (details: `candidates`) where there are several.
    """
    if session_id is not None:
        if not is_id(session_id):
            raise missing(session_id)
        return read_layer(disk, f"{SESSIONS}/{session_id}")
    found = roots(disk)
    if not found:
        raise CallboardError(
            "layer_missing",
            "there is no root layer in this repository",
            "begin one with `callboard layers start`",
        )
    places = [read_layer(disk, f"{SESSIONS}/{one}") for one in found]
    if len(places) > 1:
        live = [one for one in places if read_state(disk, one).status == "running"]
        places = live if len(live) == 1 else places
    if len(places) > 1:
        raise CallboardError(
            "layer_ambiguous",
            f"there are {len(found)} root layers: {', '.join(found[-5:])}",
            "name one of them with --session",
            {"candidates": found},
        )
    return places[0]


def child(disk: Disk, parent: Layer, session_id: str) -> Layer:
    """The child layer of that id; `layer_missing` where the parent's folder has none."""
    if not is_id(session_id):
        raise missing(session_id)
    return read_layer(disk, parent.file("children", session_id))


def chain(disk: Disk, root: Layer) -> list[tuple[Layer, State]]:
    """From the root along the states' children to the deepest layer, and nothing beside it.

    Each child is what its parent's state says, else `topology_broken`. The last one may have
    ended: then its parent has not taken that in yet.
    """
    limit = MAX_DEPTH if root.session.limits is None else root.session.limits.max_depth
    found = [(root, read_state(disk, root))]
    while (pointer := found[-1][1].child) is not None:
        parent = found[-1][0]
        try:
            layer = child(disk, parent, pointer.session_id)
        except CallboardError as error:
            if error.code == "layer_missing":
                raise broken(parent, pointer.session_id, "has no folder there") from error
            raise
        wrong = mismatch(parent, layer, pointer.request_id)
        if wrong is None and layer.session.depth > min(limit, MAX_DEPTH):
            wrong = f"is at depth {layer.session.depth}, the root allows {limit}"
        if wrong is not None:
            raise broken(parent, pointer.session_id, wrong)
        found.append((layer, read_state(disk, layer)))
    return found


def mismatch(parent: Layer, layer: Layer, request_id: str) -> str | None:
    """What a child layer says otherwise than its parent, in words; None: they agree."""
    if layer.session.request_id != request_id:
        return f"was made from the request {layer.session.request_id}, not from {request_id}"
    if layer.session.repository_id != parent.session.repository_id:
        return f"belongs to the repository {layer.session.repository_id}"
    return None


def broken(parent: Layer, session_id: str, what: str) -> CallboardError:
    """The refusal of an edge on which parent and child do not agree."""
    return CallboardError(
        "topology_broken",
        f"{parent.place}: its child {session_id} {what}",
        "run `callboard layers check` for all that is wrong",
        {"place": parent.place, "session_id": session_id, "what": what},
    )


def walk(disk: Disk, root: Layer) -> Iterator[Layer]:
    """Every layer of the tree, live or ended; parents first, children sorted.

    What agents put beside child layers is passed over.
    """
    yield root
    for session_id in child_ids(disk, root.place):
        if is_layer(disk, root.file("children", session_id)):
            yield from walk(disk, child(disk, root, session_id))


def child_ids(disk: Disk, place: str) -> list[str]:
    """The session ids of all child layers that have a folder in the layer at `place`, by the names
    of folders alone, as there may be many."""
    return _session_folders(disk, f"{place}/children")


def _session_folders(disk: Disk, place: str) -> list[str]:
    return [name for name, kind in disk.entries(place) if kind == "folder" and is_id(name)]


def missing(session_id: str) -> CallboardError:
    """The refusal of a layer that is not there."""
    return CallboardError(
        "layer_missing",
        f"there is no layer '{visible(session_id)[:200]}' there",
        "list the layers with `callboard layers status`",
        {"session_id": session_id[:200]},
    )


# --- making ---------------------------------------------------------------------------------------


def create(
    disk: Disk,
    place_of_building: str,
    session: Session,
    goal_text: str,
    goal: GoalContract,
    contract: WorkflowContract,
    files: Mapping[str, bytes],
    now_ms: int,
) -> None:
    """Build a whole layer folder, `session.json` last; the caller moves it to its place.

    The last step of `place_of_building` begins with a dot, so that no reader takes it for a
    layer; what lies there from a process that died is taken away. `files` are further files by
    their place in the layer. Raises `layer_corrupt` where `session` names other digests.
    """
    if not place_of_building.rpartition("/")[2].startswith("."):
        raise ValueError(f"{place_of_building!r} is no place of building")
    frozen = _frozen_files(place_of_building, session, goal_text, goal, contract)
    state = State(
        schema_version=1, session_id=session.session_id, revision=1, status="running",
        changed_at_ms=now_ms,
    )  # fmt: skip
    index = ChildrenIndex(schema_version=1, revision=1, children=())
    whole = {**files, **frozen, "state.json": encode(state), "children.json": encode(index)}
    disk.remove_tree(place_of_building)
    folders = {name.rpartition("/")[0] for name in whole} - {""}
    for folder in ("", *sorted({*FOLDERS, *folders})):
        disk.make_folder(f"{place_of_building}/{folder}".rstrip("/"))
    for name, data in sorted(whole.items()):
        disk.publish(f"{place_of_building}/{name}", data)
    disk.publish(f"{place_of_building}/session.json", encode(session))


def _frozen_files(
    place: str, session: Session, goal_text: str, goal: GoalContract, contract: WorkflowContract
) -> dict[str, bytes]:
    files = {
        "goal.md": (goal_text.encode(), session.goal_sha256),
        "goal_contract.json": (
            bounded(f"{place}/goal_contract.json", goal),
            session.goal_contract_sha256,
        ),
        "workflow_contract.json": (
            bounded(f"{place}/workflow_contract.json", contract),
            session.workflow_contract_sha256,
        ),
    }
    for name, (data, sha256) in files.items():
        if digest(data) != sha256:
            what = f"the session says {sha256}, {name} has {digest(data)}"
            raise corrupt(f"{place}/session.json", what)
    return {name: data for name, (data, _) in files.items()}
