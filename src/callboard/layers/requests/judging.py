"""Whether one request may become a child layer now. Reads, and changes nothing.

Source: specification 3; layers.md §4 (accepting a request).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.layers import names, references, sets, tree, work_items
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.requests import (
    Acceptance,
    ChildRequest,
    DispatchSnapshot,
    Rejection,
)
from callboard.layers.records.state import State
from callboard.layers.requests.places import (
    ACCEPTED,
    LEDGER,
    MUTABLE,
    RECEIPT,
    REJECTED,
    SNAPSHOTS,
    snapshot_ref,
)
from callboard.layers.tree import Layer

MAX_INPUT_BYTES = 16 * 1024 * 1024
MAX_INPUTS_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that may become a child, with everything that was read for it."""

    name: str
    body: bytes
    request: ChildRequest
    files: Mapping[str, bytes]
    """Its inputs by the names that they get in the child."""
    frozen: sets.FrozenSet


def judge(
    around: Around,
    root: Layer,
    layer: Layer,
    state: State,
    name: str,
    body: bytes,
    request: ChildRequest,
) -> Ready:
    """The request with all that a child of it needs; else the refusal that says why not."""
    names.check_key(request.request_id, "request id")
    names.check_key(request.origin.parent_work_item_id, "work item id")
    _check_id(around, layer, request, base.digest(body))
    _check_origin(around, layer, request)
    _check_item(around, layer, request)
    _check_lineage(around, layer, state, request)
    _check_limits(around, root, layer, state)
    files = _inputs(around, layer, request)
    return Ready(name, body, request, files, sets.freeze(around.disk, request.workflow_set))


def was_decided(around: Around, layer: Layer, request_id: str) -> bool:
    """Whether the request has the receipt of an acceptance."""
    return around.disk.kind(layer.file(ACCEPTED, request_id + RECEIPT)) == "file"


def accepted(around: Around, layer: Layer) -> list[Acceptance]:
    """The receipts of all accepted requests, by name."""
    return [
        base.read(
            around.disk.read(layer.file(ACCEPTED, name), base.MAX_RECORD_BYTES), Acceptance, name
        )
        for name in around.disk.names(layer.file(ACCEPTED))
        if name.endswith(RECEIPT) and not name.startswith(".")
    ]


def rejected(around: Around, layer: Layer) -> list[Rejection]:
    """The receipts of all files that were put away, by name."""
    return [
        base.read(
            around.disk.read(layer.file(REJECTED, name), base.MAX_RECORD_BYTES), Rejection, name
        )
        for name in around.disk.names(layer.file(REJECTED))
        if name.endswith(RECEIPT) and not name.startswith(".")
    ]


# --- one question each ---------------------------------------------------------------------------


def _check_id(around: Around, layer: Layer, request: ChildRequest, sha256: str) -> None:
    """A request id stands for one body for ever, and for no other name that looks the same."""
    mine = names.twin(request.request_id)
    known: list[Acceptance | Rejection] = [*accepted(around, layer), *rejected(around, layer)]
    for one in known:
        other, other_sha256 = one.request_id, one.body_sha256
        if other is None:
            continue
        if other == request.request_id and other_sha256 != sha256:
            raise CallboardError(
                "request_conflict",
                f"the request id {other!r} stands for another body already",
                "give the request a new id, and its snapshot with it",
                {"request": other, "body_sha256": other_sha256},
            )
        if other != request.request_id and names.twin(other) == mine:
            raise CallboardError(
                "request_twin",
                f"the request id {request.request_id!r} would be confused with {other!r}",
                "give the request an id that differs by more than case or spelling",
                {"request": request.request_id, "first": other},
            )


def _check_origin(around: Around, layer: Layer, request: ChildRequest) -> None:
    attempt_id = request.origin.parent_attempt_id
    role = attempt_id.partition("_")[2]
    contract = tree.read_contract(around.disk, layer)
    place = layer.file("attempts", attempt_id, "result.json")
    if role not in contract.request_roles or around.disk.kind(place) != "file":
        raise CallboardError(
            "request_origin_unknown",
            f"{attempt_id!r} is no attempt of this layer that has ended and may ask for a child",
            f"copy the id from the assignment of one of {', '.join(contract.request_roles)}",
            {"attempt": attempt_id},
        )
    for one in accepted(around, layer):
        if one.attempt_id == attempt_id:
            raise CallboardError(
                "request_not_alone",
                f"the attempt {attempt_id} has published the request {one.request_id!r} already",
                "an attempt may publish one; the next attempt may ask again",
                {"attempt": attempt_id, "request": one.request_id},
            )


def _check_item(around: Around, layer: Layer, request: ChildRequest) -> None:
    ledger = around.disk.read(layer.file(LEDGER), work_items.MAX_LEDGER_BYTES)
    work_items.item(ledger, request.origin.parent_work_item_id)


def _check_lineage(around: Around, layer: Layer, state: State, request: ChildRequest) -> None:
    """One live child at a time, and none twice for an item without saying what it supersedes."""
    if state.child is not None:
        raise CallboardError(
            "child_live",
            f"the child {state.child.session_id} of request {state.child.request_id!r} is not over",
            "wait for its outcome",
            {"session": state.child.session_id, "request": state.child.request_id},
        )
    children = tree.read_children(around.disk, layer).children
    wanted = request.origin.supersedes_request_id
    before = [one for one in children if one.work_item_id == request.origin.parent_work_item_id]
    last = before[-1].request_id if before else None
    if wanted != last:
        raise CallboardError(
            "request_lineage",
            f"the request supersedes {wanted!r}, and the last one of its item is {last!r}",
            "name the last request of the item as superseded, or none where there was none",
            {"supersedes": wanted, "last": last},
        )


def _check_limits(around: Around, root: Layer, layer: Layer, state: State) -> None:
    limits = root.session.limits
    assert limits is not None, "a root has limits"
    below = _descendants(around, root.place)
    for code, what, found, limit in (
        ("depth_limit", "depth", layer.session.depth + 1, limits.max_depth),
        (
            "children_limit",
            "children of this layer",
            state.children_made + 1,
            limits.max_children,
        ),
        ("descendants_limit", "layers below the root", below + 1, limits.max_descendants),
    ):
        if found > limit:
            raise CallboardError(
                code,
                f"one more child would make {what} {found}, and the limit is {limit}",
                "do the work in this layer; the limits were frozen when the root was started",
                {"found": found, "limit": limit},
            )


def _descendants(around: Around, place: str) -> int:
    """How many layers lie below one, told by their names alone, as there may be many."""
    folder = f"{place}/children"
    made = [name for name in around.disk.names(folder) if not name.startswith(".")]
    return len(made) + sum(_descendants(around, f"{folder}/{name}") for name in made)


def _inputs(around: Around, layer: Layer, request: ChildRequest) -> dict[str, bytes]:
    """The bytes of all inputs, each exactly what was declared."""
    files: dict[str, bytes] = {}
    twins: dict[str, str] = {}
    total = 0
    for number, one in enumerate(request.inputs, start=1):
        place = references.place_for_child(around.disk, layer, one.ref)
        if place.removeprefix(f"{layer.place}/") in MUTABLE:
            raise CallboardError(
                "input_mutable",
                f"{one.ref!r} changes while the layer lives, so its digest cannot hold",
                "put what the child needs into the snapshot of the request",
                {"ref": one.ref},
            )
        first = twins.setdefault(names.twin(place), one.ref)
        if first != one.ref:
            raise CallboardError(
                "input_twin",
                f"{one.ref!r} would be confused with {first!r}",
                "give each input once",
                {"ref": one.ref, "first": first},
            )
        data = around.disk.read(place, MAX_INPUT_BYTES, what=f"the input {one.ref!r}")
        total += len(data)
        _check_input(one.ref, base.digest(data), one.sha256, total)
        files[f"{number:03d}_{place.rpartition('/')[2]}"] = data
        if one.ref == snapshot_ref(request.request_id):
            _check_snapshot(layer, request, data)
    if snapshot_ref(request.request_id) not in [one.ref for one in request.inputs]:
        raise CallboardError(
            "snapshot_missing",
            f"the request does not name its snapshot {SNAPSHOTS}/{request.request_id}.json",
            "publish the snapshot first, then name it among the inputs with its digest",
        )
    return files


def _check_input(ref: str, found: str, declared: str, total: int) -> None:
    if found != declared:
        raise CallboardError(
            "input_changed",
            f"{ref!r} has the digest {found}, and {declared} was declared",
            "declare the digest of the bytes as they are, and do not change them afterwards",
            {"ref": ref, "found": found, "declared": declared},
        )
    if total > MAX_INPUTS_BYTES:
        raise CallboardError(
            "resource_limit",
            f"the inputs have more than {MAX_INPUTS_BYTES} bytes together",
            "name fewer or smaller files",
            {"limit_bytes": MAX_INPUTS_BYTES},
        )


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
