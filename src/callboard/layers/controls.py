"""`control.json`: an attempt's word that its layer is over, judged when the attempt is.

Source: specification 3 (the last resort); layers.md §4. Only the attempt that is being finished may
speak, with exactly its own identity; what cannot be followed is kept, counted, and stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import evaluating
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.records import base
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.control import Control, ControlRejection, Producer
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer

NAME = "control.json"
REJECTED = "control_rejected"
MAX_SEEN = 1000

Said = Literal["none", "running", "goal_met", "unresolvable_error", "rejected"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of the control file; `is_goal_check`: it failed at the check of the goal."""

    said: Said
    sha256: str | None = None
    control: Control | None = None
    refusal: CallboardError | None = None
    is_goal_check: bool = False


class _GoalNotMet(CallboardError):
    """The control is sound, and the goal is not shown to be met."""


NOTHING = Verdict("none")


def judge(
    around: Around, layer: Layer, contract: WorkflowContract, state: State, result: AttemptResult
) -> Verdict:
    """What the attempt said. A control that cannot be followed is kept beside a receipt."""
    place = layer.file(NAME)
    if around.disk.kind(place) is None:
        return NOTHING
    body = None
    try:
        body = around.disk.read(place, base.MAX_RECORD_BYTES, what=NAME)
        if base.digest(body) in state.controls_seen:
            return Verdict("none", base.digest(body))
        control = base.read(body, Control, NAME)
        _check(around, layer, contract, state, result, control)
    except CallboardError as refusal:
        return _rejected(around, layer, state, body, refusal)
    said: Said = "running" if control.stop_reason is None else control.stop_reason
    return Verdict(said, base.digest(body), control)


def applied(state: State, verdict: Verdict) -> State:
    """The state with the verdict in it; its revision is the caller's to advance."""
    if verdict.said == "none":
        return state
    sha256 = verdict.sha256
    seen = state.controls_seen if sha256 is None else (*state.controls_seen, sha256)[-MAX_SEEN:]
    state = structs.replace(state, controls_seen=seen)
    if verdict.said == "rejected":
        if verdict.is_goal_check:
            return structs.replace(state, failed_goal_checks=state.failed_goal_checks + 1)
        return structs.replace(state, invalid_controls=state.invalid_controls + 1)
    if verdict.said == "running":
        return state
    control = verdict.control
    assert control is not None
    return structs.replace(
        state, status=verdict.said, stop_reason=verdict.said, stop_detail=control.summary
    )


def clear(around: Around, layer: Layer, verdict: Verdict) -> None:
    """Take the judged file away, once the state knows of it."""
    if verdict is NOTHING:
        return
    if around.disk.kind(layer.file(NAME)) == "folder":
        around.disk.remove_tree(layer.file(NAME))
    else:
        around.disk.remove(layer.file(NAME))


def of(value: object) -> Control:
    """The control that a caller's fields make. Raises `record_invalid`."""
    return base.convert(value, Control, "the control")


def publish(around: Around, assigned: Assigned, control: Control) -> None:
    """Write the control of the attempt under way, after the checks that can be made already.

    Raises what `judge` would keep as the reason of a rejection, and `control_exists`.
    """
    _check_said(assigned.layer, assigned.contract, _producer(assigned), control)
    if control.stop_reason == "goal_met":
        _check_goal(around, assigned.layer, control)
    if not around.disk.publish_new(assigned.layer.file(NAME), base.encode(control)):
        raise CallboardError(
            "control_exists",
            "this attempt has left a control already",
            "an attempt speaks once; the first word is judged when it ends",
        )


def _producer(assigned: Assigned) -> Producer:
    identity = assigned.assignment.identity
    return Producer(
        session_id=identity.session_id, role=identity.role, attempt_id=identity.attempt_id
    )


# --- judging --------------------------------------------------------------------------------------


def _check(
    around: Around,
    layer: Layer,
    contract: WorkflowContract,
    state: State,
    result: AttemptResult,
    control: Control,
) -> None:
    task = state.task
    assert task is not None
    producer = Producer(
        session_id=layer.session.session_id, role=task.role, attempt_id=task.attempt_id
    )
    _check_said(layer, contract, producer, control)
    if result.classification != "success":
        raise _not_followed(
            "control_of_failure",
            f"the attempt {task.attempt_id} ended as {result.classification}",
            "a control counts only from an attempt that ended well",
        )
    if control.stop_reason == "goal_met":
        _check_goal(around, layer, control)


def _check_said(
    layer: Layer, contract: WorkflowContract, producer: Producer, control: Control
) -> None:
    if control.producer != producer:
        raise _not_followed(
            "control_producer",
            f"it is said by {control.producer.attempt_id} ({control.producer.role}) of "
            f"{control.producer.session_id}, and the attempt that ends is {producer.attempt_id} "
            f"({producer.role}) of {producer.session_id}",
            "copy session, role and attempt from the assignment",
        )
    if (control.state == "running") != (control.stop_reason is None):
        raise _not_followed(
            "control_contradiction",
            f"its state is {control.state} and its stop_reason {control.stop_reason}",
            "give a stop_reason where the state is stopped, and only there",
        )
    if control.stop_reason == "goal_met" and producer.role not in contract.goal_control_roles:
        raise _not_allowed(producer.role, "goal_met", contract.goal_control_roles)
    if control.stop_reason == "unresolvable_error":
        _check_blocker(contract, producer, control)


def _check_blocker(contract: WorkflowContract, producer: Producer, control: Control) -> None:
    if producer.role not in contract.blocker_roles:
        raise _not_allowed(producer.role, "unresolvable_error", contract.blocker_roles)
    missing = [
        name
        for name, value in (
            ("blocker", control.blocker),
            ("summary", control.summary),
            ("attempted_routes", control.attempted_routes),
        )
        if not value
    ]
    if missing or not any(route.evidence_ref for route in control.attempted_routes):
        raise _not_followed(
            "control_unfounded",
            f"an unresolvable error without {', '.join(missing) or 'evidence of a route'}",
            "name the kind of blocker, the routes that were tried, and evidence of them",
        )


def _check_goal(around: Around, layer: Layer, control: Control) -> None:
    if control.eval_receipt_ref is None:
        raise _not_followed(
            "control_unfounded",
            "it says goal_met and cites no eval receipt",
            "cite a passing receipt of this layer by its reference",
        )
    fault = evaluating.fault_of(around, layer, control.eval_receipt_ref)
    if fault is not None:
        raise _GoalNotMet(fault.code, fault.message, fault.hint, fault.details)


def _not_allowed(role: str, what: str, allowed: tuple[str, ...]) -> CallboardError:
    return _not_followed(
        "control_role",
        f"the role {role!r} may not say {what}; allowed are {', '.join(allowed) or 'none'}",
        "leave it to a role that may",
    )


def _not_followed(code: str, message: str, hint: str) -> CallboardError:
    return CallboardError(code, f"the control is not followed: {message}", hint)


def _rejected(
    around: Around, layer: Layer, state: State, body: bytes | None, refusal: CallboardError
) -> Verdict:
    """Keep what was said, unchanged as far as it can be read, and why it is not followed."""
    sha256 = base.digest(body if body is not None else b"")
    name = sha256.removeprefix("sha256:")
    if body is not None:
        around.disk.publish_new(layer.file(REJECTED, f"{name}.json"), body)
    receipt = ControlRejection(
        schema_version=1,
        body_sha256=sha256,
        code=refusal.code,
        reason=refusal.message,
        attempt_id=state.task.attempt_id if state.task else None,
        decided_at_ms=around.clock.now_ms(),
    )
    task = state.task
    assert task is not None
    around.disk.publish_new(
        layer.file(REJECTED, f"{task.attempt_id}.receipt.json"), base.encode(receipt)
    )
    return Verdict(
        "rejected",
        sha256 if body is not None else None,
        refusal=refusal,
        is_goal_check=isinstance(refusal, _GoalNotMet),
    )
