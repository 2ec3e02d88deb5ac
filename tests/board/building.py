"""Valid policies, Work, actors and commits for tests, each with sound defaults.

A test names only what it is about. Nothing here judges; `boards.py` puts commits on a board.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec

import pytest
from msgspec import structs

from callboard.board.ledger import replay
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.errors import CallboardError

P = ParamSpec("P")

Role = Literal["administrator", "producer", "dispatcher", "worker", "reconciler", "projector"]
ResourceKind = Literal["issue", "pull_request"]
Phase = Literal["started", "bound", "rejected", "uncertain", "unresolved"]
Outcome = Literal["completed", "cancelled"]
ControlName = Literal["admission_paused", "grants_paused", "credential_generation"]

REPOSITORY = "example/app"
LIBRARY = "example/library"
REF = "a" * 40
START_MS = 1_700_000_000_000
NO_WRITES: dict[str, Any] = {"effect_contract": {"kind": "none"}}

PRODUCER = ops.Actor(role="producer", principal="7", repository=REPOSITORY)
DISPATCHER = ops.Actor(role="dispatcher", principal="7", repository=REPOSITORY)
RECONCILER = ops.Actor(role="reconciler", principal="7", repository=REPOSITORY)
ADMINISTRATOR = ops.Actor(role="administrator", principal="7", repository=REPOSITORY)
SENDER = ops.Actor(
    role="dispatcher",
    principal="7",
    repository=REPOSITORY,
    workflow=".callboard/dispatch",
    run_id="77",
    run_attempt=1,
)

# --- policies -----------------------------------------------------------------------------------


def profile(name: str = "default", **changes: Any) -> records.Profile:
    """A worker profile of this host, one Claim a group."""
    made = records.Profile(
        workflow=f".callboard/workers/{name}.toml",
        ref=REF,
        trust_domain="default",
        credential_scope="repository",
        effect_scope=REPOSITORY,
        max_claims=1,
        share_keys=False,
    )
    return structs.replace(made, **changes)


def pool(*names: str, **changes: Any) -> records.Pool:
    """A roomy pool with a profile of each name, or one that is named default."""
    made = records.Pool(
        default_profile=names[0] if names else "default",
        profiles={name: profile(name) for name in names or ("default",)},
        logical_limit=4096,
        native_limit=4096,
        allowed_repositories=[REPOSITORY, LIBRARY],
        max_observation_age_ms=60_000,
        retry=records.Retry(max_attempts=3, backoff_ms=30_000),
        reconciliation=records.Reconciliation(max_attempts=5, deadline_ms=300_000),
    )
    return structs.replace(made, **changes)


def limits(**changes: Any) -> records.Limits:
    """The ceilings, with changes."""
    return structs.replace(records.CEILINGS, **changes)


def policy(**changes: Any) -> records.PolicyDocument:
    """The default economics: one pool, one key, weighted classes, no enrolment."""
    made = records.PolicyDocument(
        mode="weighted-priority",
        class_weights=[8, 4, 2, 1, 1],
        accounting_weights={"": 1},
        authorization="aw",
        producers={},
        pools={"default": pool()},
        limits=records.CEILINGS,
    )
    return structs.replace(made, **changes)


def with_pool(**changes: Any) -> records.PolicyDocument:
    """The default policy with another default pool."""
    return policy(pools={"default": pool(**changes)})


def batching(**changes: Any) -> records.PolicyDocument:
    """A policy whose profile takes 16 Claims of any key in one group."""
    wide = pool(profiles={"default": profile(max_claims=16, share_keys=True)})
    return policy(**({"pools": {"default": wide}} | changes))


# --- Work ---------------------------------------------------------------------------------------


def work_id(key: str, graph: str = "g") -> str:
    """The identity of a node."""
    return identities.work_id(graph, key)


def work(
    key: str,
    *,
    graph: str = "g",
    after: Sequence[str] = (),
    gates: Sequence[ops.Gate] = (),
    account: str = "",
    **changes: Any,
) -> ops.Work:
    """One node; `after` names its predecessors' keys, `account` is its fairness key."""
    made = ops.Work(
        work_id=identities.work_id(graph, key),
        graph_id=graph,
        node_key=key,
        pool="default",
        priority=3,
        fairness_key=account,
        worker_profile="default",
        batch_trust_domain="default",
        payload=NO_WRITES,
        depends_on=[
            *(ops.WorkDependency(work_id=identities.work_id(graph, name)) for name in after),
            *gates,
        ],
        enqueued=START_MS,
    )
    return structs.replace(made, **changes)


def resource(number: int = 7, kind: ResourceKind = "issue", **changes: Any) -> ops.Resource:
    """An issue of the library, or another kind of resource."""
    made = ops.Resource(
        kind=kind,
        host="github.com",
        repository=LIBRARY,
        repository_id="R_1",
        resource_id=f"I_{number}",
        number=str(number),
    )
    return structs.replace(made, **changes)


def issue_gate(
    number: int = 7, condition: Literal["completed", "closed"] = "completed"
) -> ops.IssueDependency:
    """A gate on an issue."""
    return ops.IssueDependency(resource=resource(number), condition=condition)


def merge_gate(number: int = 81) -> ops.PullRequestDependency:
    """A gate on a merge."""
    return ops.PullRequestDependency(resource=resource(number, "pull_request"), condition="merged")


def observation(identity: str, gate: ops.Gate, at: int, **changes: Any) -> ops.Observation:
    """What shows the gate open, seen at `at`; changes make it something else."""
    made = ops.Observation(
        observation_id=identity,
        resource=gate.resource,
        condition=gate.condition,
        state="ready",
        observed_at=at,
        credential_generation="initial",
        read_status="ok",
        **(
            {"merged": True, "merge_commit": REF}
            if gate.condition == "merged"
            else {"resource_state": "closed", "state_reason": "completed"}
        ),
    )
    return structs.replace(made, **changes)


# --- commits ------------------------------------------------------------------------------------


def request(
    kind: str, request_id: str, parameters: records.Record, actor: ops.Actor
) -> wire.Request:
    """A request with the fingerprint of what it says."""
    return wire.REQUEST_TYPES[kind](
        id=request_id,
        # A request of the kind takes these; types cannot follow the look-up by name.
        parameters=parameters,  # type: ignore[arg-type]
        fingerprint=identities.fingerprint(actor, kind, parameters),
    )


def commit(
    previous: str | None,
    kind: str,
    request_id: str,
    operations: Sequence[ops.Operation],
    actor: ops.Actor,
    *,
    parameters: records.Record | None = None,
    at: int = START_MS,
    epoch: str = "e1",
    commit_id: str | None = None,
) -> wire.QueueCommit:
    """A sealed commit; without `parameters` they follow from the operations."""
    listed = list(operations)
    if parameters is None and kind == "submit":
        nodes = [one for one in listed if isinstance(one, ops.Work)]
        parameters = wire.SubmitParameters(nodes=nodes)
    elif parameters is None:
        parameters = wire.OperationsParameters(operations=listed)
    return wire.QueueCommit(
        version=3,
        id=commit_id or identities.commit_id(previous, request_id),
        previous=previous,
        request=request(kind, request_id, parameters, actor),
        actor=actor,
        policy_epoch=epoch,
        at=at,
        operations=listed,
    )


def genesis(
    works: Sequence[ops.Work], document: records.PolicyDocument | None = None, **changes: Any
) -> wire.QueueCommit:
    """The first commit: a Policy and its first Work."""
    installed = ops.Policy(epoch="e1", policy=document or policy())
    return commit(None, "submit", "genesis", [installed, *works], PRODUCER, **changes)


def line_of(one: wire.QueueCommit) -> bytes:
    """The commit's line with its newline."""
    return replay.commit_bytes(one)


def resealed(one: wire.QueueCommit, **changes: Any) -> wire.QueueCommit:
    """The commit with changes to its envelope, its fingerprint made to fit again."""
    made = structs.replace(one, **changes)
    kind = str(made.request.__struct_config__.tag)
    found = request(kind, made.request.id, made.request.parameters, made.actor)
    return structs.replace(made, request=found)


def refused(action: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> CallboardError:
    """The refusal that the action must end in; it tells a code, what it found, and a way on."""
    with pytest.raises(CallboardError) as caught:
        action(*args, **kwargs)
    error = caught.value
    assert error.code
    assert error.message
    assert error.hint, error.code
    return error
