"""What `callboard layers` says: layers, choices, requests and outcomes, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from callboard.surfaces.cli.render import Block, Hint, Line, Table, bad, heading, local_time

if TYPE_CHECKING:
    from callboard.layers.choosing import Choice
    from callboard.layers.layers import Node, Requests
    from callboard.layers.records.outcomes import ChildOutcome, ParentAcceptance


def plain_document(value: Any) -> Any:
    """A record or an answer as JSON."""
    assert isinstance(value, msgspec.Struct) or is_dataclass(value)
    return msgspec.to_builtins(value)


def node_document(node: Node) -> dict[str, Any]:
    """One layer as JSON."""
    session, state = node.layer.session, node.state
    return {
        "session_id": session.session_id,
        "root_session_id": session.root_session_id,
        "parent_session_id": session.parent_session_id,
        "depth": session.depth,
        "workflow_set": session.workflow_set,
        "request_id": session.request_id,
        "work_item_id": session.parent_work_item_id,
        "goal": node.goal.goal,
        "phase": state.phase,
        "state": plain_document(state),
        "usage": plain_document(state.usage),
    }


def status_text(nodes: Sequence[Node]) -> Iterable[Block]:
    """The layers, indented by their depth."""
    if not nodes:
        yield "There is no layer in this repository."
        yield Hint("callboard layers start --goal-file F")
        return
    for node in nodes:
        session, state = node.layer.session, node.state
        indent = "  " * session.depth
        first = node.goal.goal.strip().splitlines()[0][:80]
        line = f"{indent}{session.session_id}  {_phase(node)}"
        yield bad(line) if state.status in ("stopped", "unresolvable_error") else heading(line)
        yield f"{indent}  {first}"
        facts = [session.workflow_set, f"{state.iteration} attempts"]
        if session.parent_work_item_id is not None:
            facts.append(f"item {session.parent_work_item_id}, request {session.request_id}")
        facts.append(f"since {local_time(state.changed_at_ms)}")
        yield f"{indent}  {' · '.join(facts)}"
        if state.stop_detail:
            yield f"{indent}  {state.stop_detail}"


def _phase(node: Node) -> str:
    state = node.state
    if state.task is not None:
        return f"executing {state.task.attempt_id}"
    if state.child is not None:
        return f"suspended, waits for {state.child.session_id}"
    if state.status != "running":
        return state.stop_reason or state.status
    return "ready"


def choice_document(node: Node, choice: Choice | None) -> dict[str, Any]:
    """Which role goes next, as JSON."""
    return {
        "session_id": node.layer.session.session_id,
        "phase": node.state.phase,
        "role": choice.role.name if choice and choice.role else None,
        "verdicts": [] if choice is None else [plain_document(one) for one in choice.verdicts],
    }


def choice_text(node: Node, choice: Choice | None) -> Iterable[Block]:
    """Which role goes next, and why each other one does not."""
    yield heading(f"{node.layer.session.session_id}  {_phase(node)}")
    if choice is None:
        yield "No role is chosen in this phase."
        return
    yield f"next: {choice.role.name if choice.role else 'nobody'}"
    rows = [[one.role, "yes" if one.eligible else "no", one.reason] for one in choice.verdicts]
    yield Table(["role", "may go", "why"], rows)


def requests_text(found: Sequence[Requests]) -> Iterable[Block]:
    """All requests, a line each."""
    if not found:
        yield "No child was asked for."
    for one in found:
        yield heading(one.session_id)
        for name in one.pending:
            yield f"  pending   {name}"
        for made in one.accepted:
            yield f"  accepted  {made.request_id} -> {made.child_session_id}"
        for refused in one.rejected:
            who = refused.request_id or refused.file_name
            yield f"  rejected  {who}: {refused.code}, {refused.reason}"


def outcomes_text(
    found: Sequence[tuple[ChildOutcome, ParentAcceptance | None]],
) -> Iterable[Block]:
    """What children came to, and what was made of it."""
    if not found:
        yield "No child layer has ended."
    for outcome, judged in found:
        said = "not judged" if judged is None else f"{judged.decision} by {judged.decided_by}"
        yield Line(f"{outcome.request_id}  {outcome.stop_reason}  {said}")
        if judged is not None:
            yield f"  {judged.rationale}"
