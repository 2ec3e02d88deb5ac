"""What an attempt may say by its control, and what it has to show for it.

Source: specification 3 (the last resort); layers.md §4. Reads what is cited, and changes nothing.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers import receipts, references
from callboard.layers.around import Around
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.control import Control, Producer
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer
from callboard.visible import visible

_NO_EVIDENCE = frozenset(
    {"reference_invalid", "reference_out_of_scope", "layer_missing", "path_invalid"}
)


class NotFollowedError(Exception):
    """The control cannot be followed; it is kept and counted."""

    def __init__(self, refusal: CallboardError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def check(
    around: Around,
    layer: Layer,
    contract: WorkflowContract,
    task: Task,
    result: AttemptResult,
    control: Control,
) -> None:
    """Refuse with `NotFollowedError` what the attempt that ended may not say, or has not shown."""
    producer = Producer(
        session_id=layer.session.session_id, role=task.role, attempt_id=task.attempt_id
    )
    check_said(around, layer, contract, producer, control)
    if result.classification != "success":
        raise not_followed(
            "control_of_failure",
            f"the attempt {task.attempt_id} ended as {result.classification}",
            "a control counts only from an attempt that ended well",
        )
    if control.stop_reason == "goal_met":
        check_goal(around, layer, contract, control)


def check_said(
    around: Around,
    layer: Layer,
    contract: WorkflowContract,
    producer: Producer,
    control: Control,
) -> None:
    """Refuse what `producer` may not say, and what contradicts itself."""
    if control.producer != producer:
        raise not_followed(
            "control_producer",
            f"it is said by {control.producer.attempt_id} ({control.producer.role}) of "
            f"{control.producer.session_id}, and the attempt that ends is {producer.attempt_id} "
            f"({producer.role}) of {producer.session_id}",
            "copy session, role and attempt from the assignment",
        )
    if (control.state == "running") != (control.stop_reason is None):
        raise not_followed(
            "control_contradiction",
            f"its state is {control.state} and its stop_reason {control.stop_reason}",
            "give a stop_reason where the state is stopped, and only there",
        )
    if control.blocker is not None and control.stop_reason != "unresolvable_error":
        raise not_followed(
            "control_contradiction",
            f"it names a blocker ({control.blocker}), and its stop_reason is {control.stop_reason}",
            "name a blocker with unresolvable_error, and only there",
        )
    if control.stop_reason == "goal_met" and producer.role not in contract.goal_control_roles:
        raise _not_allowed(producer.role, "goal_met", contract.goal_control_roles)
    if control.stop_reason == "unresolvable_error":
        _check_blocker(around, layer, contract, producer, control)


def _check_blocker(
    around: Around,
    layer: Layer,
    contract: WorkflowContract,
    producer: Producer,
    control: Control,
) -> None:
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
        raise not_followed(
            "control_unfounded",
            f"an unresolvable error without {', '.join(missing) or 'evidence of a route'}",
            "name the kind of blocker, the routes that were tried, and evidence of them",
        )
    for route in control.attempted_routes:
        if route.evidence_ref is not None and not _is_there(around, layer, route.evidence_ref):
            raise not_followed(
                "control_unfounded",
                f"there is no evidence at {visible(route.evidence_ref)[:200]!r}",
                "name files that are there by their references, such as trace:<session>:/…",
            )


def _is_there(around: Around, layer: Layer, ref: str) -> bool:
    try:
        return around.disk.kind(references.place_of(around.disk, layer, ref)) is not None
    except CallboardError as error:
        if error.code in _NO_EVIDENCE:
            return False
        raise


def check_goal(around: Around, layer: Layer, contract: WorkflowContract, control: Control) -> None:
    """Refuse a met goal that no receipt shows to be met now."""
    if control.eval_receipt_ref is None:
        raise not_followed(
            "control_unfounded",
            "it says goal_met and cites no eval receipt",
            "cite a passing receipt of this layer by its reference",
        )
    fault = receipts.fault_of(around, layer, contract, control.eval_receipt_ref)
    if fault is not None:
        raise NotFollowedError(fault)


def _not_allowed(role: str, what: str, allowed: tuple[str, ...]) -> NotFollowedError:
    return not_followed(
        "control_role",
        f"the role {role!r} may not say {what}; allowed are {', '.join(allowed) or 'none'}",
        "leave it to a role that may",
    )


def not_followed(code: str, message: str, hint: str) -> NotFollowedError:
    """The refusal of a control, with the code that its receipt will have."""
    return NotFollowedError(CallboardError(code, f"the control is not followed: {message}", hint))
