"""The dispatcher's steps for one chosen item: snapshot, digest, request, ledger, in this order.

Source: specification 3. Each step finds out what a run before it has done already, so that a crash
between any two is gone on from. It judges no outcome and starts no child.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers import acceptance, locking, names, references, stored, work_items
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.disk import OF_MACHINE
from callboard.layers.records import base
from callboard.layers.records.items import ItemFields
from callboard.layers.records.requests import (
    ChildEntry,
    ChildRequest,
    DispatchSnapshot,
    Input,
    Origin,
)
from callboard.layers.requests import inputs, judging
from callboard.layers.requests.judging import Known
from callboard.layers.requests.places import LEDGER, PENDING, SNAPSHOTS, snapshot_ref

Standing = Literal["published", "already_published", "child_live", "ready_for_review"]
_MAX_TRIES = 1000
_MAX_STEM_BYTES = 120
_MAX_INPUTS = 199
"""One more of a request is its snapshot."""


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
    `work_item_unscoped`, `assignment_stale`, `role_not_allowed`, `request_not_alone` where the
    attempt has asked for another item, `request_lineage`, and what the coordinator would refuse
    for its inputs or its size. Then nothing was published.
    """
    assigned.check_role(assigned.contract.request_roles, "ask for a child layer")
    # Of two at a time, neither must spoil the other's request, nor its line in the ledger.
    with locking.writer(around):
        return _dispatch(around, assigned, item_id)


def _dispatch(around: Around, assigned: Assigned, item_id: str) -> Dispatched:
    item = work_items.item(_ledger(around, assigned), item_id)
    known = Known.of(around, assigned.layer)
    standing = _standing(around, assigned, known, item)
    if standing is not None:
        return standing
    # Waiting, with nothing under way: its request was refused, and another one is due.
    if item.fields.status not in ("selected", "waiting_for_child"):
        raise CallboardError(
            "work_item_not_selected",
            f"the item {item_id!r} is {item.fields.status}, and no request of it is under way",
            "the planner selects an item by its status before it is dispatched",
            {"item": item_id, "status": item.fields.status},
        )
    judging.check_lineage(known, item_id, item.fields.supersedes)
    snapshot = _snapshot(around, assigned, known, item)
    name = _publish(around, assigned, snapshot)
    _note(around, assigned, snapshot, name)
    return _waiting(around, assigned, item_id, snapshot.request_id, name, "published")


# --- what stands already --------------------------------------------------------------------------


def _standing(
    around: Around, assigned: Assigned, known: Known, item: work_items.Item
) -> Dispatched | None:
    """What an earlier request of this item came to, with the ledger brought up to date."""
    waiting = _pending_of(around, assigned, item.item_id)
    if waiting is not None:
        name, request_id = waiting
        return _waiting(around, assigned, item.item_id, request_id, name, "already_published")
    indexed = {one.request_id for one in known.index.children}
    for one in known.accepted:
        if one.work_item_id == item.item_id and one.request_id not in indexed:
            return _waiting(around, assigned, item.item_id, one.request_id, None, "child_live")
    entry = known.last_of(item.item_id)
    if entry is None:
        return None
    if entry.outcome_ref is None:
        return _waiting(around, assigned, item.item_id, entry.request_id, None, "child_live")
    # A planner that asks for it anew has seen the outcome.
    is_asked = item.fields.status in ("selected", "waiting_for_child")
    if is_asked and item.fields.supersedes == entry.request_id:
        return None
    _link(around, assigned, item, entry, entry.outcome_ref)
    return Dispatched("ready_for_review", item.item_id, entry.request_id, None, entry.outcome_ref)


def _link(
    around: Around, assigned: Assigned, item: work_items.Item, entry: ChildEntry, outcome_ref: str
) -> None:
    """Name the outcome in the item, which is to be reviewed unless the planner has done so."""
    values = {"outcome_ref": outcome_ref}
    judged = assigned.layer.file(acceptance.FOLDER, f"{entry.request_id}.json")
    is_seen = item.fields.outcome_ref == outcome_ref or around.disk.kind(judged) is not None
    if not is_seen or item.fields.status in ("selected", "waiting_for_child"):
        values["status"] = "ready_for_review"
    _write_ledger(around, assigned, item.item_id, values)


def _pending_of(around: Around, assigned: Assigned, item_id: str) -> tuple[str, str] | None:
    """The file and id of the item's pending request; an attempt has one request altogether."""
    found = None
    for name in around.disk.names(assigned.layer.file(PENDING)):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            data = around.disk.read(assigned.layer.file(PENDING, name), base.MAX_RECORD_BYTES)
            request = base.read(data, ChildRequest, "the request")
        except CallboardError as error:
            if error.code in OF_MACHINE:
                raise
            # It is not for the dispatcher to judge; the coordinator puts it away with a reason.
            continue
        origin = request.origin
        if origin.parent_work_item_id == item_id:
            found = found or (name, request.request_id)
        elif origin.parent_attempt_id == assigned.attempt_id:
            raise judging.not_alone(
                assigned.attempt_id,
                f"has published {request.request_id!r} for {origin.parent_work_item_id!r} already",
            )
    return found


# --- the steps, in their order --------------------------------------------------------------------


def _snapshot(
    around: Around, assigned: Assigned, known: Known, item: work_items.Item
) -> DispatchSnapshot:
    """The published snapshot of this item's request; one that describes another one stays."""
    scope = item.fields.scope
    if scope is None:
        raise CallboardError(
            "work_item_unscoped",
            f"the item {item.item_id!r} has no scope",
            "the planner gives it a goal and criteria of its own before it is dispatched",
            {"item": item.item_id},
        )
    for ref in (*item.fields.decisions, *item.fields.evidence):
        references.parse(ref)
    inventory = _inventory(around, assigned, item.fields.inputs)
    around.disk.make_folder(assigned.layer.file(SNAPSHOTS))
    for request_id in _request_ids(known, item.item_id):
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
        place = assigned.layer.file(SNAPSHOTS, f"{request_id}.json")
        data = stored.bounded(place, snapshot)
        # Nothing is published of which the rest would be refused.
        _request(assigned, snapshot, data)
        # What else lies there is no snapshot of this request, and stays as it is.
        if around.disk.publish_new(place, data) or stored.holds(around.disk, place, data):
            return snapshot
    raise CallboardError(
        "request_ids_used_up",
        f"the item {item.item_id!r} has had {_MAX_TRIES} requests",
        "split the item",
        {"item": item.item_id},
    )


def _request_ids(known: Known, item_id: str) -> Iterator[str]:
    """The ids that a new request of an item may have, the first one first: stable, and unused."""
    is_plain = len(item_id.encode()) <= _MAX_STEM_BYTES and len(item_id) <= 80
    if not is_plain or "%" in item_id:
        item_id = f"item-{sha256_hex(item_id.encode())[:16]}"
    before = [one.request_id for one in known.accepted]
    before += [one.request_id for one in known.rejected if one.request_id]
    used = {names.twin(request_id) for request_id in before}
    for number in range(1, _MAX_TRIES + 1):
        request_id = f"{item_id}-r{number}"
        if names.twin(request_id) not in used:
            yield request_id


def _inventory(around: Around, assigned: Assigned, refs: tuple[str, ...]) -> tuple[Input, ...]:
    """The inputs that the item names, with the digests that they have now."""
    if len(refs) > _MAX_INPUTS:
        raise CallboardError(
            "resource_limit",
            f"the item names {len(refs)} inputs, and a request may have {_MAX_INPUTS}",
            "name fewer files, or one that lists the others",
            {"limit": _MAX_INPUTS},
        )
    wanted = [_for_child(around, assigned, ref) for ref in refs]
    return tuple(
        Input(ref=one.ref, sha256=base.digest(one.data))
        for one in inputs.found(around, assigned.layer, wanted)
    )


def _for_child(around: Around, assigned: Assigned, ref: str) -> str:
    """The reference as the child will read it, who has this layer as its parent."""
    references.place_of(around.disk, assigned.layer, ref)
    found = references.parse(ref)
    if found.scheme == "session" and found.session_id is None:
        return f"parent:/{found.path}"
    if found.scheme == "parent":
        return f"session:{assigned.layer.session.parent_session_id}:/{found.path}"
    return ref


def _publish(around: Around, assigned: Assigned, snapshot: DispatchSnapshot) -> str:
    """The name of the published request; its digest is that of the snapshot as it lies there."""
    place = assigned.layer.file(SNAPSHOTS, f"{snapshot.request_id}.json")
    body = _request(assigned, snapshot, around.disk.read(place, base.MAX_RECORD_BYTES))
    around.disk.make_folder(assigned.layer.file(PENDING))
    name, number = f"{snapshot.request_id}.json", 1
    while around.disk.kind(assigned.layer.file(PENDING, name)) is not None:
        # Something else has that name, and is not for the dispatcher to judge.
        number += 1
        name = f"{snapshot.request_id}.{number}.json"
    around.disk.publish(assigned.layer.file(PENDING, name), body)
    return name


def _request(assigned: Assigned, snapshot: DispatchSnapshot, published: bytes) -> bytes:
    """The bytes of the request, which are known to be one."""
    own = Input(ref=snapshot_ref(snapshot.request_id), sha256=base.digest(published))
    request = ChildRequest(
        schema_version=2,
        request_id=snapshot.request_id,
        workflow_set=snapshot.workflow_set,
        origin=Origin(
            parent_attempt_id=assigned.attempt_id,
            parent_work_item_id=snapshot.work_item_id,
            supersedes_request_id=snapshot.supersedes_request_id,
        ),
        assignment=snapshot.child_scope,
        inputs=(own, *snapshot.input_inventory),
    )
    body = stored.bounded(f"the request {snapshot.request_id}", request)
    base.read(body, ChildRequest, "the request")
    return body


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
    place = assigned.layer.file(LEDGER)
    try:
        return around.disk.read(place, work_items.MAX_LEDGER_BYTES, what="the ledger")
    except CallboardError as error:
        if error.code != "file_missing":
            raise
        raise CallboardError(
            "file_missing",
            f"the layer has no ledger: {place} does not exist",
            "write it, with an item for each piece of work, and select one",
            {"file": place},
        ) from error


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
    note = msgspec.json.encode({"request_file": name, "snapshot": snapshot})
    try:
        around.disk.make_folder(folder)
        around.disk.publish(f"{folder}/dispatch_{snapshot.request_id}.json", note + b"\n")
    except (CallboardError, OSError):
        # The request is published: what hinders a note must not keep the ledger from saying so.
        return
