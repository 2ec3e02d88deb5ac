"""The edges of a tree: whether a layer and each of its children say the same of each other.

Four things speak of an edge: the parent's state, its index, the receipt of the accepted request,
and the child's own files. What was found damaged already is not told again.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.layers.checking.desk import Desk
from callboard.layers.checking.one_layer import Facts
from callboard.layers.names import twin
from callboard.layers.records.requests import ChildEntry


def check_edges(desk: Desk, facts: Facts, layers: Mapping[str, Facts]) -> None:
    """All edges from the layer `facts` to its children; `layers` by their places."""
    prefix = facts.file("children")
    children = {
        place.rpartition("/")[2]: one
        for place, one in layers.items()
        if place.rpartition("/")[0] == prefix
    }
    _check_pointer(desk, facts, children)
    _check_ended(desk, facts, children)
    if facts.index is None:
        return
    entries = {entry.session_id: entry for entry in facts.index.children}
    _check_twins(desk, facts)
    for entry in facts.index.children:
        _check_entry(desk, facts, entry, children.get(entry.session_id))
    for session_id, one in children.items():
        if session_id not in entries:
            _broken(desk, one.place, f"the index of {facts.session_id} does not know this layer")
    _check_receipts(desk, facts, entries)
    _check_outcomes(desk, facts)
    state = facts.state
    for session_id in state.rolled_sessions if state is not None else ():
        if session_id not in entries:
            message = f"it counts the usage of {session_id}, which is not in children.json"
            _broken(desk, facts.file("state.json"), message)


def _check_pointer(desk: Desk, facts: Facts, children: Mapping[str, Facts]) -> None:
    state = facts.state
    if state is None or state.child is None:
        return
    pointer, place = state.child, facts.file("state.json")
    one = children.get(pointer.session_id)
    if one is None:
        _broken(desk, place, f"its child {pointer.session_id} has no folder")
    elif one.session is not None and one.session.request_id != pointer.request_id:
        message = f"its child {pointer.session_id} was made from {one.session.request_id}"
        _broken(desk, place, f"{message}, not from {pointer.request_id}")
    if facts.index is None:
        return
    entry = next((e for e in facts.index.children if e.session_id == pointer.session_id), None)
    if entry is None:
        _broken(desk, place, f"its child {pointer.session_id} is not in children.json")
    elif entry.status != "running":
        _broken(desk, place, f"its child {pointer.session_id} has ended ({entry.status})")


def _check_ended(desk: Desk, facts: Facts, children: Mapping[str, Facts]) -> None:
    """That no layer is live beside the chain: there is one deepest live layer in a tree."""
    state = facts.state
    if state is None:
        return
    live = state.child.session_id if state.child is not None else None
    for session_id, one in children.items():
        if one.state is not None and one.state.status == "running" and session_id != live:
            message = f"the layer is live, and {facts.session_id} has "
            message += "no live child" if live is None else f"the live child {live}"
            _broken(desk, one.file("state.json"), message)


def _check_twins(desk: Desk, facts: Facts) -> None:
    assert facts.index is not None
    place = facts.file("children.json")
    seen: dict[str, str] = {}
    sessions: set[str] = set()
    for entry in facts.index.children:
        folded = twin(entry.request_id)
        if folded in seen:
            message = f"the requests {seen[folded]} and {entry.request_id} are one or are confused"
            _broken(desk, place, message)
        seen.setdefault(folded, entry.request_id)
        if entry.session_id in sessions:
            _broken(desk, place, f"the session {entry.session_id} stands in it twice")
        sessions.add(entry.session_id)


def _check_entry(desk: Desk, facts: Facts, entry: ChildEntry, one: Facts | None) -> None:
    place = facts.file("children.json")
    receipt = facts.accepted.get(entry.request_id)
    file = facts.file("child_requests", "accepted", f"{entry.request_id}.receipt.json")
    if receipt is None:
        if not desk.has(file):
            _broken(desk, file, f"the accepted request {entry.request_id} has no receipt")
    else:
        _agree(desk, file, "receipt", (
            ("child_session_id", receipt.child_session_id, entry.session_id),
            ("body_sha256", receipt.body_sha256, entry.body_sha256),
            ("work_item_id", receipt.work_item_id, entry.work_item_id),
        ))  # fmt: skip
    if one is None:
        _broken(desk, place, f"the child {entry.session_id} has no folder")
        return
    if one.session is not None:
        _agree(desk, one.file("session.json"), "session", (
            ("request_id", one.session.request_id, entry.request_id),
            ("parent_work_item_id", one.session.parent_work_item_id, entry.work_item_id),
        ))  # fmt: skip
    if one.request_sha256 is not None:
        desk.same(one.file("accepted_request.json"), one.request_sha256, entry.body_sha256)
    _check_status(desk, facts, entry, one)


def _check_status(desk: Desk, facts: Facts, entry: ChildEntry, one: Facts) -> None:
    place = facts.file("children.json")
    if entry.status == "running":
        pointer = facts.state.child if facts.state is not None else None
        if facts.state is not None and (pointer is None or pointer.session_id != entry.session_id):
            _broken(desk, place, f"the child {entry.session_id} is live, state.json has another")
        return
    if one.state is not None:
        _agree(desk, place, f"entry of {entry.session_id}", (
            ("status", entry.status, one.state.status),
            ("stop_reason", entry.stop_reason, one.state.stop_reason),
        ))  # fmt: skip
    outcome = facts.outcomes.get(entry.request_id)
    file = facts.file("child_outcomes", f"{entry.request_id}.json")
    if outcome is None:
        if not desk.has(file):
            _broken(desk, file, f"the child {entry.session_id} has ended and has no outcome")
        return
    facts_of_goal = one.session.goal_contract_sha256 if one.session is not None else None
    _agree(desk, file, "outcome", (
        ("session_id", outcome.session_id, entry.session_id),
        ("work_item_id", outcome.work_item_id, entry.work_item_id),
        ("status", outcome.status, entry.status),
        ("stop_reason", outcome.stop_reason, entry.stop_reason),
        ("goal_contract_sha256", outcome.goal_contract_sha256,
         facts_of_goal or outcome.goal_contract_sha256),
    ))  # fmt: skip
    if entry.outcome_ref is None:
        _broken(desk, place, f"the child {entry.session_id} has ended without an outcome_ref")


def _check_receipts(desk: Desk, facts: Facts, entries: Mapping[str, ChildEntry]) -> None:
    for request_id, receipt in facts.accepted.items():
        if receipt.child_session_id not in entries:
            place = facts.file("child_requests", "accepted", f"{request_id}.receipt.json")
            _broken(desk, place, f"its child {receipt.child_session_id} is not in children.json")


def _check_outcomes(desk: Desk, facts: Facts) -> None:
    assert facts.index is not None
    known = {entry.request_id for entry in facts.index.children}
    for request_id in sorted(facts.outcomes.keys() - known):
        place = facts.file("child_outcomes", f"{request_id}.json")
        _broken(desk, place, f"the request {request_id} is not in children.json")
    for request_id, acceptance in facts.acceptances.items():
        place = facts.file("parent_acceptance", f"{request_id}.json")
        found = facts.outcome_sha256.get(request_id)
        if found is not None and found != acceptance.outcome_sha256:
            message = f"it judges an outcome with the digest {acceptance.outcome_sha256}"
            desk.findings.add("hash_mismatch", place, f"{message}, the outcome has {found}")
        elif found is None and not desk.has(facts.file("child_outcomes", f"{request_id}.json")):
            _broken(desk, place, f"it judges the request {request_id}, which has no outcome")


def _agree(
    desk: Desk, place: str, what: str, pairs: tuple[tuple[str, object, object], ...]
) -> None:
    for name, found, expected in pairs:
        if found != expected:
            _broken(desk, place, f"{name} of the {what} is {found}, it must be {expected}")


def _broken(desk: Desk, place: str, message: str) -> None:
    desk.findings.add("topology_broken", place, message)
