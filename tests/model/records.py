"""The closed shapes of operations and of the commit around them.

Only single records are judged here, never the board.
"""

from typing import Any

from .canon import Refused, gate_identity
from .policies import profile
from .shapes import (
    Check,
    actor,
    any_object,
    bad,
    boolean,
    closed,
    count_bound,
    decimal,
    dependency,
    digest_hex,
    evidence,
    fairness_key,
    identity,
    listing,
    one_of,
    priority,
    reason_code,
    replacement,
    resource,
    revision,
    run,
    timestamp,
)


def edges(value: Any, where: str) -> None:
    """Up to 64 predecessors, none of them twice; of a gate, only what identifies it counts."""
    listing(dependency, 0, 64)(value, where)
    seen = [
        edge["work_id"]
        if edge["kind"] == "work"
        else gate_identity(edge["resource"], edge["condition"])
        for edge in value
    ]
    if len(set(seen)) < len(seen):
        raise bad(where, "an edge twice")


def digest_or_none(value: Any, where: str) -> None:
    """A digest, or the empty text where there is none to name."""
    if value != "":
        digest_hex(value, where)


OPERATIONS: dict[str, Check] = {
    "Policy": closed({"kind": one_of("Policy"), "epoch": identity, "policy": any_object}),
    "Work": closed(
        {
            "kind": one_of("Work"),
            "work_id": digest_hex,
            "graph_id": identity,
            "node_key": identity,
            "pool": identity,
            "priority": priority,
            "fairness_key": fairness_key,
            "worker_profile": identity,
            "batch_trust_domain": identity,
            "payload": any_object,
            "depends_on": edges,
            "enqueued": timestamp,
        },
        {
            "subject": resource,
            "replacement_of": replacement,
            "logical_contract": digest_hex,
            "execution_ref": revision,
            "backing_issue": resource,
        },
    ),
    "Claim": closed(
        {
            "kind": one_of("Claim"),
            "work_id": digest_hex,
            "claim_id": identity,
            "dispatch_id": identity,
            "handle": identity,
            "observations": listing(identity, 0, 64, unique=True),
        }
    ),
    "Completion": closed(
        {
            "kind": one_of("Completion"),
            "work_id": digest_hex,
            "claim_id": identity,
            "dispatch_id": identity,
            "claim_handle": identity,
            "run_id": decimal,
            "run_attempt": one_of(1),
        }
    ),
    "Dispatch": closed(
        {
            "kind": one_of("Dispatch"),
            "dispatch_id": identity,
            "state": one_of("started", "bound", "rejected", "uncertain", "unresolved"),
        },
        {
            "sender": actor,
            "credential_principal": decimal,
            "run": run,
            "evidence": evidence,
            "reason": reason_code,
        },
    ),
    "Result": closed(
        {
            "kind": one_of("Result"),
            "work_id": digest_hex,
            "claim_id": identity,
            "completion_id": identity,
            "descriptor": any_object,
            "evidence": evidence,
        }
    ),
    "DeliveryFailure": closed(
        {
            "kind": one_of("DeliveryFailure"),
            "work_id": digest_hex,
            "claim_id": identity,
            "completion_id": identity,
            "reason": reason_code,
            "disposition": one_of("none", "partial", "unknown"),
            "evidence": evidence,
        }
    ),
    "Observation": closed(
        {
            "kind": one_of("Observation"),
            "observation_id": identity,
            "resource": resource,
            "condition": one_of("completed", "closed", "merged"),
            "state": one_of("ready", "waiting", "failed", "unknown"),
            "observed_at": timestamp,
            "credential_generation": identity,
            "read_status": reason_code,
        },
        {
            "source_updated_at": timestamp,
            "state_reason": one_of("completed", "not_planned", "reopened"),
            "resource_state": one_of("open", "closed"),
            "merged": boolean,
            "merge_commit": revision,
        },
    ),
    "ClaimCancellation": closed(
        {
            "kind": one_of("ClaimCancellation"),
            "work_id": digest_hex,
            "claim_id": identity,
            "reason": reason_code,
            "retry_not_before": timestamp,
        }
    ),
    "WorkCancellation": closed(
        {"kind": one_of("WorkCancellation"), "work_id": digest_hex, "reason": reason_code},
        {"claim_id": identity},
    ),
    "Release": closed({"kind": one_of("Release"), "dispatch_id": identity, "evidence": evidence}),
    "Control": closed(
        {
            "kind": one_of("Control"),
            "control": one_of("admission_paused", "grants_paused", "credential_generation"),
            "value": lambda value, where: None,
            "reason": reason_code,
        }
    ),
    "Deployment": closed(
        {
            "kind": one_of("Deployment"),
            "pool": identity,
            "worker_profile": identity,
            "expected_ref": revision,
            "expected_contract": digest_or_none,
            "profile": profile,
            "available": boolean,
            "reason": reason_code,
        },
        {"activate": boolean},
    ),
    "WorkPriority": closed(
        {
            "kind": one_of("WorkPriority"),
            "work_id": digest_hex,
            "priority": priority,
            "expected_priority": priority,
            "reason": reason_code,
        }
    ),
    "IssueLink": closed(
        {
            "kind": one_of("IssueLink"),
            "work_id": digest_hex,
            "resource": resource,
            "projector_ref": revision,
        },
        {"claim_id": identity},
    ),
    "IssueComment": closed(
        {
            "kind": one_of("IssueComment"),
            "work_id": digest_hex,
            "comment_id": decimal,
            "projector_ref": revision,
        },
        {"claim_id": identity, "authority_claim_id": identity},
    ),
}

UNSUPPORTED = ("Checkpoint",)


def operation(value: Any, where: str) -> None:
    """One operation, told apart by its kind."""
    any_object(value, where)
    kind = value.get("kind")
    if kind in UNSUPPORTED:
        raise Refused("unsupported_operation", str(kind))
    if kind not in OPERATIONS:
        raise bad(where, f"unknown operation {kind}")
    OPERATIONS[kind](value, where)


request = closed(
    {"id": identity, "kind": identity, "parameters": any_object, "fingerprint": digest_hex}
)


def previous_id(value: Any, where: str) -> None:
    """A commit id, or null at the root."""
    if value is not None:
        identity(value, where)


commit = closed(
    {
        "version": one_of(3),
        "id": identity,
        "previous": previous_id,
        "request": request,
        "actor": actor,
        "policy_epoch": identity,
        "at": timestamp,
        "operations": listing(operation, 1, 256),
    },
    {
        "trace": closed(
            {}, {"trace_id": identity, "span_id": identity, "publisher_attempt": count_bound}
        )
    },
)
