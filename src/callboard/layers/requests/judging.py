"""Whether one request may become a child layer now. Reads, and changes nothing.

Source: specification 3; layers.md §4 (accepting a request).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.layers import names, reach, sets, stored, tree, work_items
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.attempt import AttemptFinished
from callboard.layers.records.requests import (
    Acceptance,
    ChildEntry,
    ChildrenIndex,
    ChildRequest,
    DispatchSnapshot,
    Rejection,
)
from callboard.layers.records.session import MAX_CHILDREN, MAX_DESCENDANTS
from callboard.layers.records.state import State
from callboard.layers.requests import inputs
from callboard.layers.requests.places import (
    ACCEPTED,
    LEDGER,
    RECEIPT,
    REJECTED,
    SNAPSHOTS,
    snapshot_ref,
)
from callboard.layers.tree import Layer


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that may become a child, with everything that was read for it."""

    name: str
    body: bytes
    request: ChildRequest
    files: Mapping[str, bytes]
    """Its inputs by the names that they get in the child."""
    frozen: sets.FrozenSet


@dataclass(frozen=True, slots=True)
class Known:
    """What a layer decided before. Damage in it is told as such, and is no request's fault."""

    accepted: tuple[Acceptance, ...]
    rejected: tuple[Rejection, ...]
    index: ChildrenIndex

    @classmethod
    def of(cls, around: Around, layer: Layer) -> Known:
        """As it stands now; `layer_corrupt` where it does not."""
        return cls(
            tuple(accepted(around, layer)),
            tuple(rejected(around, layer)),
            tree.read_children(around.disk, layer),
        )

    def last_of(self, item_id: str) -> ChildEntry | None:
        """The last child of a work item."""
        mine = (one for one in reversed(self.index.children) if one.work_item_id == item_id)
        return next(mine, None)


def judge(
    around: Around,
    root: Layer,
    layer: Layer,
    state: State,
    known: Known,
    name: str,
    body: bytes,
    request: ChildRequest,
) -> Ready:
    """The request with all that a child of it needs; else the refusal that says why not."""
    _check_id(known, request, base.digest(body))
    _check_origin(around, layer, state, known, request)
    _check_item(around, layer, request)
    _check_no_child(state)
    check_lineage(known, request.origin.parent_work_item_id, request.origin.supersedes_request_id)
    _check_limits(around, root, layer, state, known)
    files = _inputs(around, layer, request)
    frozen = sets.freeze(around.disk, request.workflow_set)
    stored.bounded("the child's workflow_contract.json", frozen.contract)
    return Ready(name, body, request, files, frozen)


def was_decided(around: Around, layer: Layer, request_id: str) -> bool:
    """Whether the request has the receipt of an acceptance."""
    try:
        names.check_key(request_id, "request id")
    except CallboardError:
        return False
    return around.disk.kind(layer.file(ACCEPTED, request_id + RECEIPT)) == "file"


def accepted(around: Around, layer: Layer) -> list[Acceptance]:
    """The receipts of all accepted requests, by name."""
    return [acceptance_of(around, layer, one) for one in accepted_ids(around, layer)]


def accepted_ids(around: Around, layer: Layer) -> list[str]:
    """The ids of all accepted requests, by the names of their receipts alone."""
    names_there = around.disk.names(layer.file(ACCEPTED))
    ends = [name for name in names_there if name.endswith(RECEIPT) and not name.startswith(".")]
    return [name.removesuffix(RECEIPT) for name in ends]


def acceptance_of(around: Around, layer: Layer, request_id: str) -> Acceptance:
    """The receipt of one accepted request."""
    return stored.read_record(around.disk, layer.file(ACCEPTED, request_id + RECEIPT), Acceptance)


def rejected(around: Around, layer: Layer) -> list[Rejection]:
    """The receipts of all files that were put away, by name."""
    return [
        stored.read_record(around.disk, layer.file(REJECTED, name), Rejection)
        for name in around.disk.names(layer.file(REJECTED))
        if name.endswith(RECEIPT) and not name.startswith(".")
    ]


def check_lineage(known: Known, item_id: str, supersedes: str | None) -> None:
    """Refuse a further request of an item that does not say which one it supersedes."""
    entry = known.last_of(item_id)
    last = None if entry is None else entry.request_id
    if supersedes != last:
        raise CallboardError(
            "request_lineage",
            f"the request supersedes {supersedes!r}, and the last one of its item is {last!r}",
            "name the last request of the item as superseded, or none where there was none",
            {"supersedes": supersedes, "last": last},
        )


# --- one question each ---------------------------------------------------------------------------


def _check_id(known: Known, request: ChildRequest, sha256: str) -> None:
    """A request id stands for one body for ever, and for no other name that looks the same."""
    names.check_key(request.request_id, "request id")
    names.check_key(request.origin.parent_work_item_id, "work item id")
    mine = names.twin(request.request_id)
    before: list[Acceptance | Rejection] = [*known.accepted, *known.rejected]
    for one in before:
        other = one.request_id
        if other is None or names.twin(other) != mine:
            continue
        if other != request.request_id:
            raise CallboardError(
                "request_twin",
                f"the request id {request.request_id!r} would be confused with {other!r}",
                "give the request an id that differs by more than case or spelling",
                {"request": request.request_id, "first": other},
            )
        body = "this body, which was refused" if one.body_sha256 == sha256 else "another body"
        raise CallboardError(
            "request_conflict",
            f"the request id {other!r} stands for {body} already",
            "give the request a new id, and its snapshot with it",
            {"request": other, "body_sha256": one.body_sha256},
        )


def _check_origin(
    around: Around, layer: Layer, state: State, known: Known, request: ChildRequest
) -> None:
    """The attempt was one of this layer, has ended, may ask, and asks for nothing else."""
    attempt_id = request.origin.parent_attempt_id
    contract = tree.read_contract(around.disk, layer)
    if not _has_ended(around, layer, state, attempt_id, contract.request_roles):
        raise CallboardError(
            "request_origin_unknown",
            f"{attempt_id!r} is no attempt of this layer that has ended and may ask for a child",
            f"copy the id from the assignment of one of {', '.join(contract.request_roles)}",
            {"attempt": attempt_id},
        )
    for one in known.accepted:
        if one.attempt_id == attempt_id:
            raise not_alone(attempt_id, f"has published the request {one.request_id!r} already")


def _has_ended(
    around: Around, layer: Layer, state: State, attempt_id: str, roles: Sequence[str]
) -> bool:
    """Whether the attempt is one of these roles, and on record as one that was taken in."""
    number, _, role = attempt_id.partition("_")
    if role not in roles or not number.isdecimal() or int(number) > state.iteration:
        return False
    if attempt_id != names.attempt_id(int(number), role):
        return False
    place = layer.file("attempts", attempt_id, "finished.json")
    try:
        found = stored.read_record(around.disk, place, AttemptFinished)
    except CallboardError as error:
        if error.code == "layer_corrupt":
            return False
        raise
    return (found.attempt_id, found.role) == (attempt_id, role)


def not_alone(attempt_id: str, what: str) -> CallboardError:
    """The refusal of a request beside which its attempt has another one."""
    return CallboardError(
        "request_not_alone",
        f"the attempt {attempt_id} {what}",
        "an attempt may publish one; a later attempt may ask again, under a new id",
        {"attempt": attempt_id},
    )


def _check_item(around: Around, layer: Layer, request: ChildRequest) -> None:
    ledger = around.disk.read(layer.file(LEDGER), work_items.MAX_LEDGER_BYTES, what=work_items.NAME)
    work_items.item(ledger, request.origin.parent_work_item_id)


def _check_no_child(state: State) -> None:
    if state.child is not None:
        raise CallboardError(
            "child_live",
            f"the child {state.child.session_id} of request {state.child.request_id!r} is not over",
            "wait for its outcome",
            {"session": state.child.session_id, "request": state.child.request_id},
        )


def _check_limits(around: Around, root: Layer, layer: Layer, state: State, known: Known) -> None:
    limits = root.session.limits
    assert limits is not None, "a root has limits"
    made = max(state.children_made, len(known.index.children))
    below = _descendants(around, root.place)
    depth = layer.session.depth + 1
    for code, what, found, limit in (
        ("depth_limit", "depth", depth, min(limits.max_depth, tree.MAX_DEPTH)),
        (
            "children_limit",
            "children of this layer",
            made + 1,
            min(limits.max_children, MAX_CHILDREN),
        ),
        (
            "descendants_limit",
            "layers below the root",
            below + 1,
            min(limits.max_descendants, MAX_DESCENDANTS),
        ),
    ):
        if found > limit:
            raise CallboardError(
                code,
                f"one more child would make {what} {found}, and the limit is {limit}",
                "do the work in this layer; the limits were frozen when the root was started",
                {"found": found, "limit": limit},
            )
    reach.check_child(around.disk, layer)


def _descendants(around: Around, place: str) -> int:
    """How many layers lie below one, told by their names alone, as there may be many."""
    made = tree.child_ids(around.disk, place)
    return len(made) + sum(_descendants(around, f"{place}/children/{name}") for name in made)


def _inputs(around: Around, layer: Layer, request: ChildRequest) -> dict[str, bytes]:
    """The bytes of all inputs, each exactly what was declared, by their names in the child."""
    files: dict[str, bytes] = {}
    own = snapshot_ref(request.request_id)
    declared = {one.ref: one.sha256 for one in request.inputs}
    if own not in declared:
        raise CallboardError(
            "snapshot_missing",
            f"the request does not name its snapshot {SNAPSHOTS}/{request.request_id}.json",
            "publish the snapshot first, then name it among the inputs with its digest",
        )
    for one in inputs.found(around, layer, [one.ref for one in request.inputs]):
        digest = base.digest(one.data)
        if digest != declared[one.ref]:
            raise CallboardError(
                "input_changed",
                f"{one.ref!r} has the digest {digest}, and {declared[one.ref]} was declared",
                "declare the digest of the bytes as they are, and do not change them afterwards",
                {"ref": one.ref, "found": digest, "declared": declared[one.ref]},
            )
        files[one.name] = one.data
        if one.ref == own:
            _check_snapshot(layer, request, one.data)
    return files


def _check_snapshot(layer: Layer, request: ChildRequest, data: bytes) -> None:
    found = base.read(data, DispatchSnapshot, "the snapshot")
    wanted = (
        request.request_id,
        layer.session.session_id,
        request.origin.parent_work_item_id,
        request.workflow_set,
        request.origin.supersedes_request_id,
        request.assignment,
    )
    described = (
        found.request_id,
        found.session_id,
        found.work_item_id,
        found.workflow_set,
        found.supersedes_request_id,
        found.child_scope,
    )
    for name, one, other in zip(
        ("request_id", "session_id", "work_item_id", "workflow_set", "supersedes", "child_scope"),
        wanted,
        described,
        strict=True,
    ):
        if one != other:
            raise CallboardError(
                "snapshot_mismatch",
                f"the snapshot describes another request: {name} differs",
                "leave the snapshot as it is, and use a new request id with a new snapshot",
                {"field": name},
            )
