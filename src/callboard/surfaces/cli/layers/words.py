"""What `callboard layers` says: layers, choices, requests and outcomes, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Line,
    Table,
    bad,
    columns_of,
    count,
    heading,
    local_time,
)
from callboard.visible import visible

if TYPE_CHECKING:
    from callboard.layers.checking import Finding
    from callboard.layers.choosing import Choice
    from callboard.layers.coordinating import Step
    from callboard.layers.layers import Node, Requests
    from callboard.layers.records.outcomes import ChildOutcome, ParentAcceptance
    from callboard.layers.traces import Inspection, Trace

_GOAL_COLUMNS = 76
_DEEPEST_INDENT = 10
"""Deeper layers are told by a number: their lines would leave no room for anything else."""

_NO_CHOICE = {
    "executing": "An attempt is under way; a role is chosen when it is over.",
    "suspended": "It waits for its child layer.",
    "terminal": "It is over: no role goes any more.",
}


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
        yield Hint("callboard layers init, then callboard layers start --goal TEXT")
        return
    for node in nodes:
        session, state = node.layer.session, node.state
        indent = "  " * min(session.depth, _DEEPEST_INDENT)
        line = f"{indent}{session.session_id}  {_phase(node)}"
        yield bad(line) if state.status in ("stopped", "unresolvable_error") else heading(line)
        yield f"{indent}  {clipped(node.goal.goal)}"
        facts = [session.workflow_set, count(state.iteration, "attempt")]
        if session.depth > _DEEPEST_INDENT:
            facts.insert(0, f"depth {session.depth}")
        if session.parent_work_item_id is not None:
            facts.append(f"item {session.parent_work_item_id}, request {session.request_id}")
        facts.append(f"since {local_time(state.changed_at_ms)}")
        yield f"{indent}  {' · '.join(facts)}"
        if state.stop_detail:
            yield f"{indent}  {clipped(state.stop_detail, 200)}"


def clipped(text: str, columns: int = _GOAL_COLUMNS) -> str:
    """The first line of a text that says something, cut to so many columns of a terminal."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "(blank)"
    shown, used = "", 0
    for char in lines[0]:
        seen = visible(char)
        used += columns_of(seen)
        if used > columns:
            return f"{shown}…"
        shown += seen
    return shown if len(lines) == 1 else f"{shown} …"


def _phase(node: Node) -> str:
    state = node.state
    if state.task is not None:
        return f"executing {state.task.attempt_id}"
    if state.child is not None:
        return f"suspended, waits for {state.child.session_id}"
    if state.status != "running":
        return f"over: {state.stop_reason or state.status}"
    return "ready"


def of_tree(command: str, session: str | None) -> str:
    """A command to be typed next, for the tree that the user named."""
    return command if session is None else f"{command} --session {session}"


def step_line(step: Step) -> str:
    """What one step of the machine did, after the layer it did it in."""
    return f"{step.session_id}  {_done(step)}"


def refused_line(step: Step) -> str:
    """What was pending and became no child layer in a step that refused some."""
    put_away = f"put {count(step.refused, 'child request')} away"
    return f"{step.session_id}  {put_away}; callboard layers requests says why"


def _done(step: Step) -> str:
    words = {
        "decided": f"made child layer {step.detail}",
        "repaired": "finished what a crash had cut short",
        "unwound": f"took in what child layer {step.detail} came to",
        "stopped": f"has reached its end: {step.detail}",
        "over": f"is over: {step.detail}",
        "began": f"began {step.detail}",
        "finished": step.detail,
    }
    return words.get(step.did, f"{step.did} {step.detail}".rstrip())


def step_text(step: Step, session: str | None) -> Iterable[Block]:
    """The step that a run ended with; `session` is the tree, where the user named one."""
    if step.refused:
        yield refused_line(step)
    if step.did != "paused":
        yield step_line(step)
        return
    if step.detail:
        yield f"paused at {step.detail} of layer {step.session_id}"
        yield "An agent that is at work there goes on; nothing else is begun."
        lead = "to take up what it did, and go on: "
    else:
        yield f"paused before the next attempt of layer {step.session_id}"
        lead = "to go on: "
    yield Hint(of_tree("callboard layers run", session), lead=lead)


def init_text(
    written: Sequence[str], unnamed: Sequence[str], unchanged: Sequence[str]
) -> Iterable[Block]:
    """What was written, and what to do before a tree can begin."""
    yield from written or ["Every file is there already; nothing was changed."]
    for name in unchanged:
        yield f"The roles of {name} keep the command that they have. To change it, write it over"
        yield f"`command:` in .callboard/workflow_sets/{name}/workflows/ROLE/config.yaml."
    if unnamed:
        yield "No agent is named yet. Write its command line over `command: []` in:"
        yield from (f"  {file}" for file in unnamed)
        yield "such as `command: [claude, -p]`; the prompt is on its standard input."
    yield Hint("callboard layers start --goal TEXT --criterion TEXT")


def findings_text(findings: Sequence[Finding]) -> Iterable[Block]:
    """Everything that is wrong, a line each."""
    if not findings:
        yield "Nothing is wrong."
    for one in findings:
        yield bad(f"{one.code}  {one.place}: {one.message}")


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
        yield _NO_CHOICE[node.state.phase]
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


def traces_text(found: Sequence[Trace]) -> Iterable[Block]:
    """All traces, a row each."""
    if not found:
        yield "There is no trace."
        return
    rows = [
        [
            one.session_id,
            one.attempt_id,
            one.standing,
            "-" if one.files is None else str(one.files),
            "-" if one.size_bytes is None else str(one.size_bytes),
            local_time(one.sealed_at_ms),
        ]
        for one in found
    ]
    yield Table(["layer", "attempt", "trace", "files", "bytes", "sealed"], rows)


def inspection_document(found: Inspection) -> dict[str, Any]:
    """A comparison as JSON."""
    document: dict[str, Any] = plain_document(found)
    return {**document, "sound": found.is_sound}


def inspection_text(found: Inspection) -> Iterable[Block]:
    """What differs from what was sealed."""
    one = found.trace
    yield heading(f"{one.attempt_id} of layer {one.session_id}")
    yield f"{count(one.files or 0, 'file')}, {count(one.size_bytes or 0, 'byte')}"
    if not found.manifest_is_sealed:
        yield bad("manifest.json is not the one that was sealed")
    for word in ("changed", "missing", "added"):
        yield from (bad(f"{word}: {path}") for path in getattr(found, word))
    yield from (f"never digested: {path}" for path in found.skipped)
    if not found.complete:
        yield bad("there was more than a manifest may name: nothing can be told of the rest")
    if found.is_sound:
        whole = "Everything" if found.complete else "All that it names"
        yield f"{whole} is as it was sealed."
