"""What makes a Policy acceptable, whatever the board holds."""

from typing import Any

from .canon import Doc
from .shapes import (
    Check,
    anything,
    bad,
    boolean,
    claim_bound,
    closed,
    count_bound,
    decimal,
    digest_hex,
    duration,
    fairness_key,
    identity,
    integer,
    listing,
    mapping,
    one_of,
    priority,
    repository,
    revision,
    weight,
    worker_path,
)

CEILINGS = {
    "ledger_bytes": 67108864,
    "recovery_bytes": 16777216,
    "payload_bytes": 16384,
    "graph_nodes": 4096,
    "predecessors": 64,
    "pending_nodes": 4096,
    "operations": 256,
    "assignment_bytes": 49152,
    "result_bytes": 4096,
    "evidence_bytes": 1024,
    "observation_writes": 4096,
}

profile: Check = closed(
    {
        "workflow": worker_path,
        "ref": revision,
        "trust_domain": identity,
        "credential_scope": identity,
        "effect_scope": identity,
        "max_claims": claim_bound,
        "share_keys": boolean,
    },
    {"principal": decimal, "logical_contract": digest_hex},
)

pool: Check = closed(
    {
        "default_profile": identity,
        "profiles": mapping(identity, profile, 1, 256),
        "logical_limit": count_bound,
        "native_limit": count_bound,
        "allowed_repositories": listing(repository, 0, 4096),
        "max_observation_age_ms": duration,
        "retry": closed({"max_attempts": integer(1, 16), "backoff_ms": duration}),
        "reconciliation": closed({"max_attempts": integer(1, 64), "deadline_ms": duration}),
    },
    {"per_account_limit": count_bound},
)

producer: Check = closed(
    {
        "pools": listing(identity, 0, 64),
        "priorities": listing(priority, 0, 5),
        "fairness_keys": listing(fairness_key, 0, 1024),
    }
)

projector: Check = closed(
    {
        "principal": decimal,
        "workflow": identity,
        "ref": revision,
        "pools": listing(identity, 0, 64),
        "repositories": listing(repository, 0, 4096),
    },
    {"backing_issues": anything, "completion_policy": anything},
)


def projectors(value: Any, where: str) -> None:
    """Who may mirror Work in Issues, as an array or under names of the operator's choice."""
    if isinstance(value, dict):
        mapping(identity, projector, 0, 256)(value, where)
    else:
        listing(projector, 0, 256)(value, where)


shape: Check = closed(
    {
        "mode": one_of("weighted-priority", "strict-priority"),
        "class_weights": listing(weight, 5, 5),
        "accounting_weights": mapping(fairness_key, weight, 1, 1024),
        "producers": mapping(decimal, producer, 0, 4096),
        "pools": mapping(identity, pool, 1, 64),
        "limits": closed({name: integer(1, top) for name, top in CEILINGS.items()}),
    },
    {"authorization": one_of("aw"), "projectors": projectors},
)


def check_policy(policy: Any) -> None:
    """Refuse a Policy that breaks a rule of its own; the board plays no part here."""
    shape(policy, "policy")
    if policy["accounting_weights"].get("") != 1:
        raise bad("policy.accounting_weights", "the empty key must weigh 1")
    managed = "authorization" in policy
    if managed and policy["producers"]:
        raise bad("policy.producers", "must be empty under aw")
    for name, entry in policy["producers"].items():
        for known in entry["pools"]:
            if known not in policy["pools"]:
                raise bad(f"policy.producers.{name}", f"unknown pool {known}")
    for name, entry in policy["pools"].items():
        check_pool(policy, managed, name, entry)


def check_pool(policy: Doc, managed: bool, name: str, entry: Doc) -> None:
    """The rules that tie a pool to the rest of its Policy."""
    if entry["default_profile"] not in entry["profiles"]:
        raise bad(f"policy.pools.{name}", "the default profile is not there")
    for label, worker in entry["profiles"].items():
        if managed and "principal" in worker:
            raise bad(f"policy.pools.{name}.{label}", "no principal under aw")
        if not managed and "principal" not in worker:
            raise bad(f"policy.pools.{name}.{label}", "a principal is needed")
        if policy["limits"]["operations"] < 2 * worker["max_claims"] + 1:
            raise bad("policy.limits.operations", "too few for one worker's closure")
