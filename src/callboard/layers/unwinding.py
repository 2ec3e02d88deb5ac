"""A child layer is over: its parent takes that in, as a fact, and goes on.

Source: layers.md §4; specification 3 (an outcome is no acceptance). Each step gives the same bytes
when it is taken again, so a crash between any two changes nothing.
"""

from __future__ import annotations

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import journal, references, stored, tree, updates
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.events import ChildEnded
from callboard.layers.records.outcomes import ChildOutcome, Completeness, EvidenceRef
from callboard.layers.records.state import State
from callboard.layers.tree import Layer

OUTCOMES = "child_outcomes"
_EVIDENCE = ("eval_receipts", "git_receipts", "delivery_receipts")
_MAX_EVIDENCE = 500
_MAX_EVIDENCE_BYTES = 64 * 1024 * 1024
_NO_EVIDENCE = frozenset(
    {
        "reference_invalid",
        "file_missing",
        "file_not_regular",
        "file_unreadable",
        "path_invalid",
        "resource_limit",
    }
)


def unwind(around: Around, parent: Layer, state: State, child: Layer, ended: State) -> State:
    """The parent's state without its child, whose outcome is on record then."""
    outcome = _on_record(around, parent, outcome_of(around, child, ended))
    updates.hand_up(around, child, ended, parent)
    _index(around, parent, outcome)
    rolled = state.rolled_sessions
    usage = state.rolled_usage
    if child.session.session_id not in rolled:
        rolled = (*rolled, child.session.session_id)
        usage = usage.plus(ended.usage)
    state = structs.replace(
        state,
        revision=state.revision + 1,
        child=None,
        rolled_usage=usage,
        rolled_sessions=rolled,
        changed_at_ms=around.clock.now_ms(),
    )
    tree.write_state(around.disk, parent, state)
    journal.tell(
        around, parent, ChildEnded,
        child_session_id=child.session.session_id, request_id=outcome.request_id,
        status=ended.status,
    )  # fmt: skip
    return state


def outcome_of(around: Around, child: Layer, ended: State) -> ChildOutcome:
    """The facts of a child layer that has ended."""
    session = child.session
    assert session.request_id is not None
    assert session.parent_work_item_id is not None
    evidence = _evidence(around, child)
    goal = tree.read_goal(around.disk, child)
    return ChildOutcome(
        schema_version=1,
        request_id=session.request_id,
        session_id=session.session_id,
        work_item_id=session.parent_work_item_id,
        goal_id=goal.goal_id,
        goal_contract_sha256=session.goal_contract_sha256,
        status=ended.status,
        stop_reason=ended.stop_reason,
        stop_detail=ended.stop_detail,
        usage=ended.usage,
        evidence=tuple(evidence),
        completeness=_completeness(around, child, ended, evidence),
        ended_at_ms=ended.changed_at_ms,
    )


def _on_record(around: Around, parent: Layer, outcome: ChildOutcome) -> ChildOutcome:
    """The published outcome. One from before a crash stays, where it tells the same end.

    Its evidence may be older: files may have come since, and digests tell for themselves.
    """
    place = parent.file(OUTCOMES, f"{outcome.request_id}.json")
    if around.disk.publish_new(place, base.encode(outcome)):
        return outcome
    found = stored.read_record(around.disk, place, ChildOutcome)
    same = structs.replace(found, evidence=outcome.evidence, completeness=outcome.completeness)
    if same != outcome:
        raise stored.corrupt(place, "it is not what the child layer came to")
    return found


def _evidence(around: Around, child: Layer) -> list[EvidenceRef]:
    """What can be cited of the child's receipts; what cannot be read is no evidence."""
    found: list[EvidenceRef] = []
    for folder in _EVIDENCE:
        for name, kind in around.disk.entries(child.file(folder)):
            if kind != "file" or not name.endswith(".json") or name.startswith("."):
                continue
            if len(found) == _MAX_EVIDENCE:
                return found
            ref = f"session:{child.session.session_id}:/{folder}/{name}"
            try:
                references.parse(ref)
                data = around.disk.read(child.file(folder, name), _MAX_EVIDENCE_BYTES)
            except CallboardError as error:
                if error.code in _NO_EVIDENCE:
                    continue
                raise
            found.append(EvidenceRef(ref=ref, sha256=base.digest(data)))
    return found


def _completeness(
    around: Around, child: Layer, ended: State, evidence: list[EvidenceRef]
) -> Completeness:
    kinds = {one.ref.split("/")[1] for one in evidence}
    attempts = set(around.disk.names(child.file("attempts")))
    seals = {name.removesuffix(".json") for name in around.disk.names(child.file("trace_seals"))}
    return Completeness(
        eval_receipt="eval_receipts" in kinds,
        git_receipt="git_receipts" in kinds,
        delivery_receipt="delivery_receipts" in kinds,
        usage=ended.own_usage.attempts == ended.iteration,
        traces_sealed={name for name in attempts if not name.startswith(".")} <= seals,
    )


def _index(around: Around, parent: Layer, outcome: ChildOutcome) -> None:
    index = tree.read_children(around.disk, parent)
    place = parent.file(OUTCOMES, f"{outcome.request_id}.json")
    children = tuple(
        structs.replace(
            one,
            status=outcome.status,
            stop_reason=outcome.stop_reason,
            outcome_ref=references.ref_to(parent, place),
            usage=outcome.usage,
        )
        if one.session_id == outcome.session_id
        else one
        for one in index.children
    )
    if children != index.children:
        tree.write_children(
            around.disk,
            parent,
            structs.replace(index, revision=index.revision + 1, children=children),
        )
