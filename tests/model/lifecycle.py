"""What happens to Claims, worker groups, results and controls after admission.

Each function takes the tables of the commit being read and either changes them or refuses.
"""

from typing import Any

from .canon import Doc, Refused, gate_identity, same, size
from .shapes import CONDITIONS, identity, on_github
from .tables import open_claims_of


def find(tables: Doc, table: str, name: str) -> Doc:
    """An entry that must be there."""
    entry = tables[table].get(name)
    if entry is None:
        raise Refused("unknown_" + table, name)
    found: Doc = entry
    return found


def dispatch_of_work(tables: Doc, work: Doc) -> Doc:
    """The group whose worker held the Work last."""
    return find(tables, "dispatches", find(tables, "claims", work["claim_id"])["dispatch_id"])


def launch_principal(tables: Doc, dispatch: Doc) -> str:
    """The principal a group's run and evidence must show."""
    if "principal" in dispatch["profile"]:
        return str(dispatch["profile"]["principal"])
    if "credential_principal" in dispatch:
        return str(dispatch["credential_principal"])
    for entry in tables["requests"]:
        if entry["id"] == dispatch["commit_id"]:
            return str(entry["actor"]["principal"])
    raise AssertionError("a group without its grant")


def check_evidence(tables: Doc, proof: Doc, dispatch: Doc, kinds: tuple[str, ...]) -> None:
    """Evidence must be of a fitting kind, small enough, and about this group's worker."""
    profile = dispatch["profile"]
    if proof["kind"] not in kinds:
        raise Refused("evidence_invalid", proof["kind"])
    if proof["source"] == "host_api" and on_github(profile):
        raise Refused("evidence_invalid", "no such host here")
    if size(proof) > tables["policy"]["limits"]["evidence_bytes"]:
        raise Refused("evidence_limit", "too large")
    expected = {
        "repository": tables["repository"],
        "workflow": profile["workflow"],
        "ref": profile["ref"],
        "principal": launch_principal(tables, dispatch),
    }
    for name, value in expected.items():
        if proof[name] != value:
            raise Refused("evidence_invalid", name)
    if "run_id" in proof and proof["run_id"] != dispatch.get("run", {}).get("run_id"):
        raise Refused("evidence_invalid", "another run")
    sources = {
        "prelaunch": ("trusted_publisher",),
        "nonlaunch": ("trusted_publisher", "github_api", "host_api"),
        "terminal_run": ("github_api", "host_api"),
        "delivery": ("verified_receipts",),
    }
    if proof["source"] not in sources.get(proof["kind"], (proof["source"],)):
        raise Refused("evidence_invalid", "the source cannot know that")
    ended = "run_id" in proof and proof.get("status") == "completed"
    if proof["kind"] == "terminal_run" and not ended:
        raise Refused("evidence_invalid", "no terminal run")


def check_run(tables: Doc, run: Doc, dispatch: Doc) -> None:
    """A run must be the approved worker of this group, started by its launcher."""
    profile = dispatch["profile"]
    event = "workflow_dispatch" if on_github(profile) else "host_dispatch"
    expected = {
        "repository": tables["repository"],
        "workflow": profile["workflow"],
        "ref": profile["ref"],
        "principal": launch_principal(tables, dispatch),
        "event": event,
    }
    for name, value in expected.items():
        if run[name] != value:
            raise Refused("run_binding_conflict", name)
    for other in tables["dispatches"].values():
        if other is not dispatch and other.get("run", {}).get("run_id") == run["run_id"]:
            raise Refused("run_binding_conflict", "the run serves another group")


STEPS = {
    "started": ("reserved",),
    "bound": ("started", "uncertain", "unresolved", "bound"),
    "uncertain": ("started", "uncertain"),
    "unresolved": ("started", "uncertain", "unresolved"),
    "rejected": ("started", "uncertain", "unresolved"),
}

NEEDED = {
    "started": ("sender",),
    "bound": ("run",),
    "uncertain": (),
    "unresolved": (),
    "rejected": ("evidence",),
}

ONLY = {"sender": "started", "credential_principal": "started", "run": "bound"}


def check_fields(state: str, op: Doc) -> None:
    """Each step carries what it needs and nothing that belongs to another."""
    for name in NEEDED[state]:
        if name not in op:
            raise Refused("schema_invalid", f"{state} needs {name}")
    for name, owner in ONLY.items():
        if name in op and state != owner:
            raise Refused("schema_invalid", f"{name} has no place in {state}")


def apply_dispatch(tables: Doc, actor: Doc, op: Doc) -> None:
    """One step in the life of a worker group."""
    dispatch = find(tables, "dispatches", op["dispatch_id"])
    state = op["state"]
    if dispatch["released"]:
        raise Refused("dispatch_released")
    if state == "bound" and dispatch["state"] == "bound" and op.get("run") != dispatch["run"]:
        raise Refused("run_binding_conflict")
    if dispatch["state"] not in STEPS[state]:
        raise Refused("dispatch_transition", f"{dispatch['state']} to {state}")
    check_fields(state, op)
    if state == "started":
        apply_started(tables, actor, op, dispatch)
    if state == "bound":
        check_run(tables, op["run"], dispatch)
        dispatch["run"] = op["run"]
    if "evidence" in op:
        kinds = {"rejected": ("nonlaunch",)}.get(state, ("reconciliation",))
        check_evidence(tables, op["evidence"], dispatch, kinds)
    if "reason" in op:
        dispatch["reason"] = op["reason"]
    dispatch["state"] = state
    dispatch["lifecycle_writes"] += 1
    pool = tables["policy"]["pools"][dispatch["pool"]]
    if dispatch["lifecycle_writes"] > pool["reconciliation"]["max_attempts"] + 4:
        raise Refused("lifecycle_limit")


def apply_started(tables: Doc, actor: Doc, op: Doc, dispatch: Doc) -> None:
    """The marker that picks the one sender of a launch."""
    if tables["grants_paused"]:
        raise Refused("grants_paused")
    if actor["role"] != "dispatcher" or op["sender"] != actor:
        raise Refused("sender_invalid")
    for name in ("workflow", "run_id", "run_attempt"):
        if name not in actor:
            raise Refused("sender_invalid", name)
    if "principal" in dispatch["profile"]:
        if op.get("credential_principal", "") not in ("", dispatch["profile"]["principal"]):
            raise Refused("principal_mismatch")
    elif "credential_principal" not in op:
        raise Refused("schema_invalid", "credential_principal is missing")
    dispatch["sender"] = op["sender"]
    if "credential_principal" in op:
        dispatch["credential_principal"] = op["credential_principal"]


def apply_release(tables: Doc, op: Doc) -> None:
    """Give the worker slot back, once, on proof that nothing runs."""
    dispatch = find(tables, "dispatches", op["dispatch_id"])
    if dispatch["released"]:
        raise Refused("dispatch_released")
    if open_claims_of(tables, op["dispatch_id"]):
        raise Refused("claims_open", "members are still open")
    kind = {"reserved": "prelaunch", "bound": "terminal_run"}.get(dispatch["state"], "nonlaunch")
    check_evidence(tables, op["evidence"], dispatch, (kind,))
    dispatch["released"] = True


def open_claim(tables: Doc, op: Doc) -> tuple[Doc, Doc]:
    """The Claim an operation names and its Work; it must be the Work's effective one."""
    claim = find(tables, "claims", op["claim_id"])
    work = find(tables, "works", op["work_id"])
    if claim["work_id"] != op["work_id"]:
        raise Refused("claim_mismatch", "the Claim is of another Work")
    if claim["state"] != "open" or work.get("claim_id") != op["claim_id"]:
        raise Refused("claim_closed", op["claim_id"])
    return claim, work


def apply_completion(tables: Doc, commit_id: str, at: int, op: Doc) -> None:
    """A Claim's worker is done; what it delivered is still to be verified."""
    claim, work = open_claim(tables, op)
    dispatch = find(tables, "dispatches", op["dispatch_id"])
    if claim["dispatch_id"] != op["dispatch_id"] or claim["handle"] != op["claim_handle"]:
        raise Refused("claim_mismatch")
    if dispatch["released"] or dispatch["state"] != "bound":
        raise Refused("dispatch_unbound")
    if dispatch["run"]["run_id"] != op["run_id"]:
        raise Refused("run_binding_conflict")
    claim["state"] = "completed"
    claim["terminal_commit_id"] = commit_id
    work["state"] = "completed"
    work["barrier"] = "pending"
    work["completion_id"] = commit_id
    tables["completion_times"][op["work_id"]] = at


def apply_claim_cancellation(
    tables: Doc, commit_id: str, at: int, op: Doc, beside: list[Doc]
) -> None:
    """Take a Claim's authority away and put its Work back in line, after a pause."""
    claim, work = open_claim(tables, op)
    origin = at
    for other in beside:
        if other["kind"] == "Release" and other["dispatch_id"] == claim["dispatch_id"]:
            origin = other["evidence"]["checked_at"]
    backoff = tables["policy"]["pools"][work["pool"]]["retry"]["backoff_ms"]
    if op["retry_not_before"] < origin + backoff:
        raise Refused("retry_too_early")
    claim["state"] = "cancelled"
    claim["terminal_commit_id"] = commit_id
    claim["cancellation_reason"] = op["reason"]
    claim["retry_not_before"] = op["retry_not_before"]
    work["state"] = "available"
    work["retry_not_before"] = op["retry_not_before"]
    del work["claim_id"]


def apply_work_cancellation(tables: Doc, commit_id: str, op: Doc) -> None:
    """End a Work that is not completed, and the Claim it may hold."""
    work = find(tables, "works", op["work_id"])
    if work["state"] not in ("available", "claimed"):
        raise Refused("work_terminal", work["state"])
    if "claim_id" in op and work.get("claim_id") != op["claim_id"]:
        raise Refused("claim_mismatch", "another owner")
    if work["state"] == "claimed":
        claim = tables["claims"][work["claim_id"]]
        claim["state"] = "cancelled"
        claim["terminal_commit_id"] = commit_id
        claim["cancellation_reason"] = op["reason"]
        del work["claim_id"]
    work["state"] = "cancelled"
    work["cancellation_reason"] = op["reason"]
    work["cancellation_commit_id"] = commit_id
    tables["cancellations"][op["work_id"]] = commit_id


def delivered(tables: Doc, op: Doc) -> Doc:
    """The completed Work a delivery decision is about."""
    work = find(tables, "works", op["work_id"])
    if work["state"] != "completed" or work["claim_id"] != op["claim_id"]:
        raise Refused("claim_mismatch", "not that Claim's completion")
    if work["completion_id"] != op["completion_id"]:
        raise Refused("completion_mismatch")
    return work


def apply_result(tables: Doc, commit_id: str, op: Doc) -> None:
    """Open the way for successors: delivery is verified."""
    work = delivered(tables, op)
    if size(op["descriptor"]) > tables["policy"]["limits"]["result_bytes"]:
        raise Refused("result_limit")
    if "effect_contract" not in work["payload"]:
        raise Refused("delivery_contract_required")
    check_evidence(tables, op["evidence"], dispatch_of_work(tables, work), ("delivery",))
    if work["barrier"] != "pending":
        if work["barrier"] == "verified" and same(work["result"], op["descriptor"]):
            return
        raise Refused("barrier_settled", work["barrier"])
    work["barrier"] = "verified"
    work["result"] = op["descriptor"]
    work["result_commit_id"] = commit_id
    tables["terminal_barriers"][op["work_id"]] = "verified"


def apply_delivery_failure(tables: Doc, at: int, op: Doc) -> None:
    """Give delivery up: the run is over and the search for it is exhausted."""
    work = delivered(tables, op)
    proof = op["evidence"]
    check_evidence(tables, proof, dispatch_of_work(tables, work), ("terminal_run",))
    if work["barrier"] != "pending":
        if work["barrier"] == "failed" and work["disposition"] == op["disposition"]:
            return
        raise Refused("barrier_settled", work["barrier"])
    rule = tables["policy"]["pools"][work["pool"]]["reconciliation"]
    waited = at - tables["completion_times"][op["work_id"]]
    if proof.get("attempts", 0) < rule["max_attempts"] and waited < rule["deadline_ms"]:
        raise Refused("reconciliation_pending")
    if proof.get("effects", "unknown") != op["disposition"]:
        raise Refused("evidence_invalid", "effects and disposition differ")
    if op["disposition"] == "none" and "receipt" not in proof:
        raise Refused("evidence_invalid", "none needs a receipt")
    work["barrier"] = "failed"
    work["disposition"] = op["disposition"]
    tables["terminal_barriers"][op["work_id"]] = "failed"


def apply_observation(tables: Doc, op: Doc) -> None:
    """What a trusted reader saw of an Issue or a pull request."""
    if op["condition"] not in CONDITIONS[op["resource"]["kind"]]:
        raise Refused("schema_invalid", "the condition does not fit the kind")
    if op["observation_id"] in tables["observation_ids"]:
        raise Refused("observation_conflict", op["observation_id"])
    if op["credential_generation"] != tables["credential_generation"]:
        raise Refused("credential_generation", op["credential_generation"])
    if size(op) > tables["policy"]["limits"]["evidence_bytes"]:
        raise Refused("evidence_limit", "too large")
    if op["state"] == "ready" and not proven(op):
        raise Refused("evidence_invalid", "ready without proof")
    tables["observation_writes"] += 1
    if tables["observation_writes"] > tables["policy"]["limits"]["observation_writes"]:
        raise Refused("ledger_limit", "observation_writes")
    tables["observation_ids"][op["observation_id"]] = op
    tables["observations"][gate_identity(op["resource"], op["condition"])] = op


def proven(op: Doc) -> bool:
    """Whether an Observation carries the positive proof its condition asks for."""
    if op["read_status"] != "ok":
        return False
    if op["condition"] == "merged":
        return op.get("merged") is True and "merge_commit" in op
    closed = op.get("resource_state") == "closed"
    if op["condition"] == "completed":
        return closed and op.get("state_reason") == "completed"
    return closed


def apply_control(tables: Doc, op: Doc) -> None:
    """A switch of the operator; no ownership and no debt changes."""
    value: Any = op["value"]
    if op["control"] == "credential_generation":
        identity(value, "value")
        if value in tables["seen_generations"]:
            raise Refused("generation_reused", value)
        tables["seen_generations"][value] = True
    elif not isinstance(value, bool):
        raise Refused("schema_invalid", "value is no boolean")
    tables[op["control"]] = value
