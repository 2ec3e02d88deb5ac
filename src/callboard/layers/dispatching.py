"""The dispatcher's steps for one chosen item: snapshot, digest, request, ledger, in this order.

Source: specification 3. Each step finds out what a run before it has done already, so that a crash
between any two is gone on from. It judges no outcome and starts no child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers import references, tree, work_items
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.records import base
from callboard.layers.records.items import ItemFields
from callboard.layers.records.requests import (
    ChildEntry,
    ChildRequest,
    DispatchSnapshot,
    Input,
    Origin,
)
from callboard.layers.references import read_ref
from callboard.layers.requests.judging import MAX_INPUT_BYTES, accepted, rejected
from callboard.layers.requests.places import LEDGER, PENDING, SNAPSHOTS, snapshot_ref

Standing = Literal["published", "already_published", "child_live", "ready_for_review"]
_MAX_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What an item has come to: its request, and whether this call published it."""

    standing: Standing
    item_id: str
    request_id: str
    request_path: str | None
    outcome_ref: str | None


def dispatch(around: Around, assigned: Assigned, item_id: str) -> Dispatched:
    """Publish the one request of a selected item, or tell what became of an earlier one.

    Paths come from the assignment alone. Raises `work_item_unknown`, `work_item_not_selected`,
    `work_item_unscoped`, `assignment_stale`, `role_not_allowed`.
    """
    assigned.check_role(assigned.contract.request_roles, "ask for a child layer")
    item = work_items.item(_ledger(around, assigned), item_id)
    known = _known(around, assigned, item)
    if known is not None:
        return known
    if item.fields.status != "selected":
        raise CallboardError(
            "work_item_not_selected",
            f"the item {item_id!r} is {item.fields.status}, and no request of it is under way",
            "the planner selects an item by its status before it is dispatched",
            {"item": item_id, "status": item.fields.status},
        )
    snapshot = _snapshot(around, assigned, item)
    name, body = _request(around, assigned, snapshot)
    place = assigned.layer.file(PENDING, name)
    if around.disk.kind(place) is None:
        around.disk.publish(place, body)
    _note(around, assigned, snapshot, name)
    return _waiting(around, assigned, item_id, snapshot.request_id, name, "published")


# --- what stands already --------------------------------------------------------------------------


def _known(around: Around, assigned: Assigned, item: work_items.Item) -> Dispatched | None:
    """What an earlier request of this item came to, with the ledger brought up to date."""
    waiting = _pending_of(around, assigned, item.item_id)
    if waiting is not None:
        name, request_id = waiting
        return _waiting(around, assigned, item.item_id, request_id, name, "already_published")
    mine = [one for one in accepted(around, assigned.layer) if one.work_item_id == item.item_id]
    if not mine:
        return None
    entry = _last_entry(around, assigned, item.item_id)
    if entry is None or entry.outcome_ref is None:
        last = max(mine, key=lambda one: one.decided_at_ms)
        return _waiting(around, assigned, item.item_id, last.request_id, None, "child_live")
    # A planner that selected the item anew has seen the outcome.
    if item.fields.status == "selected" and item.fields.supersedes == entry.request_id:
        return None
    if item.fields.outcome_ref != entry.outcome_ref:
        _write_ledger(
            around,
            assigned,
            item.item_id,
            {"outcome_ref": entry.outcome_ref, "status": "ready_for_review"},
        )
    return Dispatched("ready_for_review", item.item_id, entry.request_id, None, entry.outcome_ref)


def _last_entry(around: Around, assigned: Assigned, item_id: str) -> ChildEntry | None:
    children = tree.read_children(around.disk, assigned.layer).children
    return next((one for one in reversed(children) if one.work_item_id == item_id), None)


def _pending_of(around: Around, assigned: Assigned, item_id: str) -> tuple[str, str] | None:
    for name in around.disk.names(assigned.layer.file(PENDING)):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            data = around.disk.read(assigned.layer.file(PENDING, name), base.MAX_RECORD_BYTES)
            request = base.read(data, ChildRequest, "the request")
        except CallboardError:
            # It is not for the dispatcher to judge; the coordinator puts it away with a reason.
            continue
        if request.origin.parent_work_item_id == item_id:
            return name, request.request_id
    return None


# --- the steps, in their order --------------------------------------------------------------------


def _snapshot(around: Around, assigned: Assigned, item: work_items.Item) -> DispatchSnapshot:
    """The published snapshot of this item's request; one that describes another one stays."""
    scope = item.fields.scope
    if scope is None:
        raise CallboardError(
            "work_item_unscoped",
            f"the item {item.item_id!r} has no scope",
            "the planner gives it a goal and criteria of its own before it is dispatched",
            {"item": item.item_id},
        )
    inventory = tuple(_input(around, assigned, ref) for ref in item.fields.inputs)
    around.disk.make_folder(assigned.layer.file(SNAPSHOTS))
    for request_id in _request_ids(around, assigned, item.item_id):
        snapshot = DispatchSnapshot(
            schema_version=1,
            request_id=request_id,
            session_id=assigned.layer.session.session_id,
            work_item_id=item.item_id,
            title=item.title,
            workflow_set=item.fields.workflow_set,
            supersedes_request_id=item.fields.supersedes,
            child_scope=scope,
            decision_refs=item.fields.decisions,
            evidence_refs=item.fields.evidence,
            input_inventory=inventory,
        )
        data = base.encode(snapshot)
        place = assigned.layer.file(SNAPSHOTS, f"{request_id}.json")
        if around.disk.publish_new(place, data) or _is(around, place, data):
            return snapshot
    raise CallboardError(
        "request_ids_used_up",
        f"the item {item.item_id!r} has had {_MAX_TRIES} requests",
        "split the item",
        {"item": item.item_id},
    )


def _request_ids(around: Around, assigned: Assigned, item_id: str) -> list[str]:
    """The ids that a new request of an item may have, the first one first: stable, and unused."""
    stem = item_id if len(item_id) <= 80 else f"{item_id[:60]}-{sha256_hex(item_id.encode())[:12]}"
    used = {one.request_id for one in accepted(around, assigned.layer)}
    used |= {one.request_id for one in rejected(around, assigned.layer) if one.request_id}
    numbered = (f"{stem}-r{number}" for number in range(1, _MAX_TRIES + 1))
    return [request_id for request_id in numbered if request_id not in used]


def _input(around: Around, assigned: Assigned, ref: str) -> Input:
    data = read_ref(around.disk, assigned.layer, ref, MAX_INPUT_BYTES)
    return Input(ref=_for_child(assigned, ref), sha256=base.digest(data))


def _for_child(assigned: Assigned, ref: str) -> str:
    """The reference as the child will read it, who has this layer as its parent."""
    found = references.parse(ref)
    if found.scheme == "session" and found.session_id is None:
        return f"parent:/{found.path}"
    if found.scheme == "parent":
        return f"session:{assigned.layer.session.parent_session_id}:/{found.path}"
    return ref


def _is(around: Around, place: str, data: bytes) -> bool:
    try:
        return around.disk.read(place, base.MAX_RECORD_BYTES) == data
    except CallboardError:
        # Whatever lies there is no snapshot of this request, and stays as it is.
        return False


def _request(around: Around, assigned: Assigned, snapshot: DispatchSnapshot) -> tuple[str, bytes]:
    """The name and the bytes of the request; the digest is that of the published snapshot."""
    place = assigned.layer.file(SNAPSHOTS, f"{snapshot.request_id}.json")
    published = around.disk.read(place, base.MAX_RECORD_BYTES)
    own = Input(ref=snapshot_ref(snapshot.request_id), sha256=base.digest(published))
    request = ChildRequest(
        schema_version=2,
        request_id=snapshot.request_id,
        workflow_set=snapshot.workflow_set,
        origin=Origin(
            parent_attempt_id=assigned.assignment.identity.attempt_id,
            parent_work_item_id=snapshot.work_item_id,
            supersedes_request_id=snapshot.supersedes_request_id,
        ),
        assignment=snapshot.child_scope,
        inputs=(own, *snapshot.input_inventory),
    )
    return f"{snapshot.request_id}.json", base.encode(request)


def _waiting(
    around: Around,
    assigned: Assigned,
    item_id: str,
    request_id: str,
    name: str | None,
    standing: Standing,
) -> Dispatched:
    """The last step: the ledger says that the item waits, and for which request."""
    path = f"session:/{PENDING}/{name}" if name is not None else None
    values = {"status": "waiting_for_child", "request_id": request_id}
    if path is not None:
        values["request_path"] = path
    _write_ledger(around, assigned, item_id, values)
    return Dispatched(standing, item_id, request_id, path, None)


# --- the ledger -----------------------------------------------------------------------------------


def _ledger(around: Around, assigned: Assigned) -> bytes:
    return around.disk.read(
        assigned.layer.file(LEDGER), work_items.MAX_LEDGER_BYTES, what=work_items.NAME
    )


def _write_ledger(around: Around, assigned: Assigned, item_id: str, values: dict[str, str]) -> None:
    before = _ledger(around, assigned)
    fields: ItemFields = work_items.item(before, item_id).fields
    missing = {name: value for name, value in values.items() if getattr(fields, name) != value}
    if missing:
        around.disk.publish(
            assigned.layer.file(LEDGER), work_items.changed(before, item_id, missing)
        )


def _note(around: Around, assigned: Assigned, snapshot: DispatchSnapshot, name: str) -> None:
    """Scratch belongs to the attempt's trace, for people; nothing reads it back."""
    folder = f"{assigned.layer.trace_place}/attempts/{assigned.attempt_id}"
    around.disk.make_folder(folder)
    note = msgspec.json.encode({"request_file": name, "snapshot": snapshot})
    around.disk.publish(f"{folder}/dispatch_{snapshot.request_id}.json", note + b"\n")
