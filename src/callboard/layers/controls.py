"""`control.json`: an attempt's word that its layer is over, judged when the attempt is.

Source: specification 3 (the last resort); layers.md §4. Only the attempt that is being finished may
speak, with exactly its own identity; what cannot be followed is kept, counted, and stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import receipts, tree
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.control_rules import (
    NotFollowedError,
    check,
    check_goal,
    check_said,
    not_followed,
)
from callboard.layers.records import base
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.control import Control, ControlRejection, Producer
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.sealing import put, put_record
from callboard.layers.stored import read_record
from callboard.layers.tree import Layer

NAME = "control.json"
REJECTED = "control_rejected"
MAX_SEEN = 1000
MAX_REASON = 4000

Said = Literal["none", "running", "goal_met", "unresolvable_error", "rejected"]

# What can be wrong with the file itself; all else is a fault of this machine, and not the role's.
_UNFIT = frozenset(
    {"file_not_regular", "file_unreadable", "path_invalid", "record_invalid", "resource_limit"}
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of the control file. `body` is what a control that is followed says."""

    said: Said
    sha256: str | None = None
    control: Control | None = None
    code: str | None = None
    """Why it is rejected."""
    body: bytes | None = None


NOTHING = Verdict("none")


def judge(
    around: Around, layer: Layer, contract: WorkflowContract, state: State, result: AttemptResult
) -> Verdict:
    """What the attempt said. A control that cannot be followed is put away beside a receipt.

    The receipt decides: once it is there, a judgement that is made again comes to the same.
    """
    task = state.task
    assert task is not None
    earlier = _receipt(around, layer, task.attempt_id)
    if earlier is not None:
        return _put_away(around, layer, task.attempt_id, earlier)
    place = layer.file(NAME)
    if around.disk.kind(place) is None:
        return NOTHING
    body = None
    try:
        body = _body(around, layer)
        if base.digest(body) in state.controls_seen:
            return Verdict("none", base.digest(body))
        control = _read(body)
        check(around, layer, contract, task, result, control)
    except NotFollowedError as error:
        return _reject(around, layer, task.attempt_id, task.attempt_id, body, error.refusal)
    said: Said = "running" if control.stop_reason is None else control.stop_reason
    return Verdict(said, base.digest(body), control, body=body)


def set_aside(around: Around, layer: Layer, state: State) -> State:
    """The state of a layer without a task once no control is left in its place.

    One that was judged is removed, which a crash may have kept from being done. Any other one was
    left by nobody who may speak now: it is put away and counted, and never followed.
    """
    assert state.task is None
    # The next state has another revision, so each of them has its own.
    name = f"between_{state.revision:06d}"
    place = layer.file(NAME)
    verdict = NOTHING
    earlier = _receipt(around, layer, name)
    if earlier is not None:
        verdict = _put_away(around, layer, name, earlier)
    elif around.disk.kind(place) is not None:
        body = None
        try:
            body = _body(around, layer)
            if base.digest(body) in state.controls_seen:
                around.disk.remove(place)
                return state
            raise not_followed(
                "control_producer",
                "it was left while no attempt was under way",
                "say it while the attempt runs; only the attempt that ends is listened to",
            )
        except NotFollowedError as error:
            verdict = _reject(around, layer, name, None, body, error.refusal)
    if verdict is NOTHING:
        return state
    state = structs.replace(
        applied(state, verdict),
        revision=state.revision + 1,
        changed_at_ms=around.clock.now_ms(),
    )
    tree.write_state(around.disk, layer, state)
    return state


def applied(state: State, verdict: Verdict) -> State:
    """The state with the verdict in it; its revision is the caller's to advance."""
    if verdict.said == "none":
        return state
    if verdict.said == "rejected":
        if verdict.code in receipts.NOT_SHOWN:
            return structs.replace(state, failed_goal_checks=state.failed_goal_checks + 1)
        return structs.replace(state, invalid_controls=state.invalid_controls + 1)
    assert verdict.sha256 is not None
    seen = (*state.controls_seen, verdict.sha256)[-MAX_SEEN:]
    state = structs.replace(state, controls_seen=seen)
    if verdict.said == "running":
        return state
    control = verdict.control
    assert control is not None
    # All of it is kept beside the attempt; the state has to stay small enough to be read again.
    detail = None if control.summary is None else control.summary[:MAX_REASON]
    return structs.replace(state, status=verdict.said, stop_reason=verdict.said, stop_detail=detail)


def keep(around: Around, folder: str, verdict: Verdict) -> None:
    """Keep what a control says that is followed, unchanged, in the folder of its attempt."""
    if verdict.body is not None:
        put(around.disk, f"{folder}/{NAME}", verdict.body)


def clear(around: Around, layer: Layer, verdict: Verdict) -> None:
    """Take the judged file away, once the state knows of it."""
    if verdict.sha256 is None or verdict.said == "rejected":
        return
    around.disk.remove(layer.file(NAME))


def of(value: object) -> Control:
    """The control that a caller's fields make. Raises `record_invalid`."""
    return base.convert(value, Control, "the control")


def publish(around: Around, assigned: Assigned, control: Control) -> None:
    """Write the control of the attempt under way, after the checks that can be made already.

    Raises what `judge` would keep as the reason of a rejection, and `control_exists`.
    """
    try:
        check_said(around, assigned.layer, assigned.contract, _producer(assigned), control)
        if control.stop_reason == "goal_met":
            check_goal(around, assigned.layer, assigned.contract, control)
    except NotFollowedError as error:
        raise error.refusal from None
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


def _body(around: Around, layer: Layer) -> bytes:
    try:
        return around.disk.read(layer.file(NAME), base.MAX_RECORD_BYTES, what="the control")
    except CallboardError as error:
        if error.code in _UNFIT:
            raise NotFollowedError(error) from error
        raise


def _read(body: bytes) -> Control:
    try:
        return base.read(body, Control, NAME)
    except CallboardError as error:
        raise NotFollowedError(error) from error


# --- what is not followed -------------------------------------------------------------------------


def _reject(
    around: Around,
    layer: Layer,
    name: str,
    attempt_id: str | None,
    body: bytes | None,
    refusal: CallboardError,
) -> Verdict:
    """Say why it is not followed, and put it away as it is, whatever it is."""
    receipt = ControlRejection(
        schema_version=1,
        body_sha256=base.digest(body or b""),
        code=refusal.code,
        reason=refusal.message[:MAX_REASON],
        attempt_id=attempt_id,
        decided_at_ms=around.clock.now_ms(),
    )
    put_record(around.disk, layer.file(REJECTED, f"{name}.receipt.json"), receipt)
    return _put_away(around, layer, name, receipt)


def _put_away(around: Around, layer: Layer, name: str, receipt: ControlRejection) -> Verdict:
    kept = layer.file(REJECTED, f"{name}.json")
    # Another one may have come since; it is not the one that was judged.
    if around.disk.kind(layer.file(NAME)) is not None and around.disk.kind(kept) is None:
        around.disk.move(layer.file(NAME), kept)
    return Verdict("rejected", receipt.body_sha256, code=receipt.code)


def _receipt(around: Around, layer: Layer, name: str) -> ControlRejection | None:
    """What was decided before a crash; nothing where a role has put something there itself."""
    place = layer.file(REJECTED, f"{name}.receipt.json")
    if around.disk.kind(place) is None:
        return None
    try:
        return read_record(around.disk, place, ControlRejection)
    except CallboardError as error:
        if error.code == "layer_corrupt":
            return None
        raise
