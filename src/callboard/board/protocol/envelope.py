"""Reading and checking one commit on its own, before the state before it is known.

Source: wire-v3 §3 (envelope, request kinds, roles). A line becomes a typed QueueCommit or is
refused with a code; `check` judges who may ask for what and that parameters, operations and
fingerprint agree.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, Meta

from callboard import canonical
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities, operations
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Digest, Identity, Timestamp
from callboard.errors import CallboardError
from callboard.validate import parse, show

PROTOCOL_VERSION = 3


class _Slow(Exception):
    """The quick reading met something that only the strict one can judge."""


def _no_float(_text: str) -> float:
    raise _Slow


class _QuickRequest(Record, frozen=True, kw_only=True):
    id: Identity
    kind: str
    fingerprint: Digest
    parameters: msgspec.Raw


class _QuickCommit(Record, frozen=True, kw_only=True):
    """A commit whose parameters are still bytes: mostly they only repeat the operations."""

    version: Literal[3]
    id: Identity
    previous: Identity | None
    request: _QuickRequest
    actor: operations.Actor
    policy_epoch: Identity
    at: Timestamp
    operations: Annotated[
        list[operations.Operation], Meta(min_length=1, max_length=wire.MAX_OPERATIONS)
    ]
    trace: wire.Trace | msgspec.UnsetType = UNSET


_decoder = msgspec.json.Decoder(_QuickCommit, float_hook=_no_float)
_OWN_PARAMETERS: dict[type[wire.Request], msgspec.json.Decoder[Record]] = {
    request: msgspec.json.Decoder(parameters, float_hook=_no_float)
    for request, parameters in (
        (wire.DispatchNextRequest, wire.DispatchNextParameters),
        (wire.FinishRequest, wire.FinishParameters),
        (wire.CheckpointRequest, wire.CheckpointParameters),
    )
}
"""Kinds whose parameters do not repeat the operations."""


class ReadLine(NamedTuple):
    """A ledger line as a commit, with its canonical bytes and those of its parameters."""

    commit: QueueCommit
    plain: bytes
    parameters: bytes


def read_line(line: bytes) -> ReadLine:
    """One ledger line, without its newline.

    Raises `CallboardError`: a codec code, `unsupported_protocol` for another version, or
    `record_invalid` with every fault.
    """
    if len(line) <= canonical.MAX_LINE_BYTES and line.isascii():
        try:
            found = _read_quickly(line)
        except (_Slow, msgspec.MsgspecError, ValueError, RecursionError):
            found = None
        if found is not None:
            return found
    value = canonical.decode(line)
    commit = parse_commit(value)
    parameters = canonical.encode_trusted(commit.request.parameters)
    return ReadLine(commit, canonical.encode_trusted(value), parameters)


def _read_quickly(line: bytes) -> ReadLine | None:
    """A canonical line, each operation decoded once; None where the strict reading must judge."""
    quick = _decoder.decode(line)
    if canonical.encode_trusted(quick) != line:
        return None
    if not _is_bounded(quick.operations, line):
        return None
    raw = bytes(quick.request.parameters)
    request_type = wire.REQUEST_TYPES.get(quick.request.kind)
    if request_type is None:
        return None
    own = _OWN_PARAMETERS.get(request_type)
    parameters: Any
    if own is not None:
        parameters = own.decode(raw)
        if canonical.encode_trusted(parameters) != raw:
            return None
    else:
        parameters = _repeated(quick, request_type)
        key = b"nodes" if request_type is wire.SubmitRequest else b"operations"
        if parameters is None or raw != b'{"%b":%b}' % (key, _operations_bytes(line)):
            return None
    request = request_type(
        id=quick.request.id, fingerprint=quick.request.fingerprint, parameters=parameters
    )
    commit = QueueCommit(
        version=quick.version,
        id=quick.id,
        previous=quick.previous,
        request=request,
        actor=quick.actor,
        policy_epoch=quick.policy_epoch,
        at=quick.at,
        operations=quick.operations,
        trace=quick.trace,
    )
    return ReadLine(commit, line, raw)


def _repeated(
    quick: _QuickCommit, request_type: type[wire.Request]
) -> wire.SubmitParameters | wire.OperationsParameters | None:
    """The parameters as the operations say them; None where these cannot be a submission's."""
    found = quick.operations
    if request_type is wire.SubmitRequest:
        nodes = found[1:] if isinstance(found[0], operations.Policy) else found
        if not nodes or not all(isinstance(node, operations.Work) for node in nodes):
            return None
        return wire.SubmitParameters(nodes=cast("list[operations.Work]", nodes))
    return wire.OperationsParameters(operations=found)


def _operations_bytes(line: bytes) -> bytes:
    """The bytes of a canonical line's operations, or fewer where a payload resembles their end.

    The first `,"operations":` is the commit's: quotes within the strings before it are escaped.
    """
    start = line.find(_OPERATIONS) + len(_OPERATIONS)
    return line[start : line.find(_AFTER_OPERATIONS, start) + 1]


_OPERATIONS = b',"operations":'
_AFTER_OPERATIONS = b'],"policy_epoch":'


def written(commit: QueueCommit) -> ReadLine:
    """A commit made here as it would be read, its bounds not judged."""
    parameters = canonical.encode_trusted(commit.request.parameters)
    return ReadLine(commit, canonical.encode_trusted(commit), parameters)


_FREE_FORM: dict[type[operations.Operation], str] = {
    operations.Work: "payload",
    operations.Result: "descriptor",
}
_FREE_FORM_DEPTH = 5
"""How deep a free-form value stands in the request's parameters, the deepest of its places."""
_REPETITIONS = 2
"""A free-form value stands in an operation and again in the parameters."""
_CONTROL = canonical.CONTROL


def _is_bounded(found: list[operations.Operation], line: bytes) -> bool:
    """Whether the parts that types leave open keep the codec's bounds, and no other text of the
    line holds a control character."""
    if any(type(operation) is operations.Checkpoint for operation in found):
        return _is_plain_around_state(found, line)
    free = [
        getattr(operation, name)
        for operation in found
        if (name := _FREE_FORM.get(type(operation))) is not None
    ]
    for value in free:
        if not canonical.within_profile(value, _FREE_FORM_DEPTH):
            return False
    if b"\\" not in line and b"\x7f" not in line:
        return True
    inside = sum(len(_CONTROL.findall(canonical.encode_trusted(value))) for value in free)
    return len(_CONTROL.findall(line)) == _REPETITIONS * inside


def _is_plain_around_state(found: list[operations.Operation], line: bytes) -> bool:
    """Whether a lone checkpoint's line holds no control character outside its state, which stands
    there once. The state's own bounds are judged by whoever takes it over."""
    operation = found[0]
    if len(found) != 1 or not isinstance(operation, operations.Checkpoint):
        return False
    inside = canonical.encode_trusted(operation.state)
    return len(_CONTROL.findall(line)) == len(_CONTROL.findall(inside))


def parse_commit(value: canonical.Json) -> QueueCommit:
    """A decoded JSON value as a commit."""
    if isinstance(value, dict) and value.get("version") != PROTOCOL_VERSION:
        found = value.get("version")
        raise CallboardError(
            "unsupported_protocol",
            f"the record has version {show(found)}, only 3 is read here",
            "use the program that wrote it; nothing is upgraded or changed",
            {"found": found if found is None or isinstance(found, int) else show(found)},
        )
    return parse(QueueCommit, value, what="queue commit")


_OPERATIONS_OF: dict[type[wire.Request], frozenset[type[operations.Operation]]] = {
    wire.PolicyRequest: frozenset({operations.Policy}),
    wire.SubmitRequest: frozenset({operations.Policy, operations.Work}),
    wire.DispatchNextRequest: frozenset({operations.Observation, operations.Claim}),
    wire.FinishRequest: frozenset(
        {operations.Completion, operations.ClaimCancellation, operations.WorkCancellation}
    ),
    wire.ObserveRequest: frozenset({operations.Observation}),
    wire.DispatchRequest: frozenset({operations.Dispatch}),
    wire.ResultRequest: frozenset({operations.Result}),
    wire.DeliveryFailureRequest: frozenset({operations.DeliveryFailure}),
    wire.ControlRequest: frozenset({operations.Control}),
    wire.DeploymentRequest: frozenset({operations.Deployment}),
    wire.PriorityRequest: frozenset({operations.WorkPriority}),
    wire.ReleaseRequest: frozenset(
        {operations.ClaimCancellation, operations.WorkCancellation, operations.Release}
    ),
    wire.CancelWorkRequest: frozenset({operations.WorkCancellation}),
    wire.CancelClaimRequest: frozenset({operations.ClaimCancellation, operations.WorkCancellation}),
    wire.IssueLinkRequest: frozenset({operations.IssueLink}),
    wire.IssueCommentRequest: frozenset({operations.IssueComment}),
    wire.CheckpointRequest: frozenset({operations.Checkpoint}),
}

_KINDS_OF: dict[str, frozenset[str]] = {
    "administrator": frozenset(
        {
            "policy",
            "control",
            "submit",
            "dispatch_next",
            "observe",
            "cancel_work",
            "deployment",
            "priority",
            "checkpoint",
        }
    ),
    "producer": frozenset({"submit", "cancel_work", "deployment"}),
    "dispatcher": frozenset({"submit", "dispatch_next", "observe", "dispatch", "deployment"}),
    "worker": frozenset({"submit", "dispatch_next", "observe", "finish", "dispatch"}),
    "reconciler": frozenset(
        {
            "observe",
            "dispatch",
            "release",
            "result",
            "delivery_failure",
            "cancel_claim",
            "cancel_work",
        }
    ),
    "projector": frozenset({"issue_link", "issue_comment"}),
}


_KIND_NAMES = {request: kind for kind, request in wire.REQUEST_TYPES.items()}


def kind_of(request: wire.Request) -> str:
    """The request's kind, which is its tag."""
    return _KIND_NAMES[type(request)]


def check(commit: QueueCommit, parameters: bytes) -> None:
    """Judge the envelope alone: actor, role, kind, operations, parameters and fingerprint.

    `parameters` are the canonical bytes of the request's parameters.

    Raises `CallboardError` `actor_invalid`, `role_forbidden`, `operation_forbidden`,
    `parameters_mismatch` or `fingerprint_mismatch`.
    """
    kind = kind_of(commit.request)
    check_actor(commit.actor)
    _check_role(commit.actor, kind)
    _check_operations(commit, kind)
    _check_parameters(commit, parameters)
    expected = identities.fingerprint_of_bytes(commit.actor, kind, parameters)
    if commit.request.fingerprint != expected:
        raise CallboardError(
            "fingerprint_mismatch",
            f"request {show(commit.request.id)} carries fingerprint "
            f"{commit.request.fingerprint}, its content has {expected}",
            "the record was altered or written by a faulty program",
        )


def check_actor(actor: operations.Actor) -> None:
    """Judge that an actor's run fields come together and that a worker names its run."""
    if (actor.run_id is UNSET) != (actor.run_attempt is UNSET):
        raise CallboardError(
            "actor_invalid",
            "an actor has run_id and run_attempt only together",
            "give both or neither",
        )
    if actor.role != "worker":
        return
    if UNSET in (actor.workflow, actor.run_id, actor.dispatch_id) or actor.run_attempt != 1:
        raise CallboardError(
            "actor_invalid",
            "a worker names workflow, run_id, run_attempt 1 and dispatch_id",
            "a rerun has no authority; only attempt 1 of the bound run acts",
        )


def check_asking(actor: operations.Actor, kind: str) -> None:
    """Judge whether such an actor may have asked for such a thing; `operation_forbidden` for a
    kind there is not."""
    if kind not in wire.REQUEST_TYPES:
        raise CallboardError(
            "operation_forbidden", f"there is no {show(kind)} request", "name a request kind"
        )
    check_actor(actor)
    _check_role(actor, kind)


def _check_role(actor: operations.Actor, kind: str) -> None:
    if kind not in _KINDS_OF[actor.role]:
        raise CallboardError(
            "role_forbidden",
            f"a {actor.role} may not ask for {kind}",
            "roles that may: "
            + ", ".join(sorted(role for role, kinds in _KINDS_OF.items() if kind in kinds)),
            {"role": actor.role, "kind": kind},
        )


def _check_operations(commit: QueueCommit, kind: str) -> None:
    allowed = _OPERATIONS_OF[type(commit.request)]
    if not allowed.issuperset(map(type, commit.operations)):
        raise _foreign_operation(commit, kind, allowed)
    if kind == "release" and not isinstance(commit.operations[-1], operations.Release):
        raise CallboardError(
            "operation_forbidden", "a release ends with its Release", "put the Release last"
        )
    if kind in _ORDERED and len(commit.operations) > 1:
        _check_order(commit.operations, kind)
    if kind in ("policy", "checkpoint") and len(commit.operations) != 1:
        raise CallboardError(
            "operation_forbidden",
            f"a {kind} request holds one {kind.capitalize()}",
            "send one at a time",
        )


def _foreign_operation(
    commit: QueueCommit, kind: str, allowed: frozenset[type[operations.Operation]]
) -> CallboardError:
    """The refusal of the first operation that is not among those allowed."""
    index, operation = next(
        (index, one) for index, one in enumerate(commit.operations) if type(one) not in allowed
    )
    return CallboardError(
        "operation_forbidden",
        f"operation {index} is a {type(operation).__name__}, which {kind} cannot publish",
        "allowed: " + ", ".join(sorted(one.__name__ for one in allowed)),
        {"operation": index},
    )


_RANK: dict[type[operations.Operation], int] = {
    operations.Observation: 0,
    operations.ClaimCancellation: 0,
    operations.Claim: 1,
    operations.WorkCancellation: 1,
    operations.Release: 2,
}


_ORDERED = frozenset({"release", "dispatch_next", "cancel_claim"})


def _check_order(found: list[operations.Operation], kind: str) -> None:
    ranks = [_RANK[type(operation)] for operation in found]
    releases = sum(isinstance(operation, operations.Release) for operation in found)
    if ranks != sorted(ranks) or releases > 1:
        raise CallboardError(
            "operation_forbidden",
            f"the operations of a {kind} stand in another order than the protocol's",
            "observations before claims; claim cancellations, work cancellations, one release",
        )


def _check_parameters(commit: QueueCommit, parameters: bytes) -> None:
    """Parameters that repeat the operations do so to the byte: 1 and true are not the same."""
    request = commit.request
    repeated: wire.SubmitParameters | wire.OperationsParameters | None
    if isinstance(request, wire.SubmitRequest):
        nodes = commit.operations
        if isinstance(nodes[0], operations.Policy) and commit.previous is None:
            nodes = nodes[1:]
        same = [id(node) for node in nodes] == [id(node) for node in request.parameters.nodes]
        repeated = wire.SubmitParameters(nodes=cast("list[operations.Work]", nodes))
    elif isinstance(request.parameters, wire.OperationsParameters):
        same = request.parameters.operations is commit.operations
        repeated = wire.OperationsParameters(operations=commit.operations)
    else:
        return
    if not same and canonical.encode_trusted(repeated) != parameters:
        raise CallboardError(
            "parameters_mismatch",
            f"the operations of request {show(request.id)} are not those of its parameters",
            "the record was altered or written by a faulty program",
        )
