"""Who is next, why not, and how the winners are packed.

Everything is found by walking all Work again. A plan works on a copy of the tables and hands that
copy back, so the board either takes the whole of it or nothing.
"""

from typing import Any

from .canon import Doc, gate_identity, size, text_digest
from .clocks import by_bytes, by_number, fresh_clock, pick
from .priorities import effective
from .routes import blocked_worker, execution
from .tables import copied, gates_of, predecessors_of


def open_in_pool(tables: Doc, pool: str) -> list[Doc]:
    """The Work of a pool that holds an open Claim."""
    held = []
    for claim in tables["claims"].values():
        work = tables["works"][claim["work_id"]]
        if claim["state"] == "open" and work["pool"] == pool:
            held.append(work)
    return held


def full_limit(tables: Doc, work: Doc, held: list[Doc]) -> str | None:
    """The limit that keeps this Work from getting a slot, if any."""
    pool = tables["policy"]["pools"][work["pool"]]
    if len(held) >= pool["logical_limit"]:
        return "logical"
    if "per_account_limit" in pool:
        mine = [other for other in held if other["fairness_key"] == work["fairness_key"]]
        if len(mine) >= pool["per_account_limit"]:
            return "account"
    return None


def ancestors(tables: Doc, work: Doc) -> list[Doc]:
    """Every Work this one waits for, near or far, each once."""
    found: dict[str, Doc] = {}
    queue = predecessors_of(work)
    while queue:
        name = queue.pop(0)
        if name not in found:
            found[name] = tables["works"][name]
            queue.extend(predecessors_of(found[name]))
    return list(found.values())


def blocked_edge(tables: Doc, work: Doc) -> str | None:
    """Why the Work edges hold this Work back."""
    before = [tables["works"][name] for name in predecessors_of(work)]
    if all(other["barrier"] == "verified" for other in before):
        return None
    above = ancestors(tables, work)
    if any(other["state"] == "cancelled" for other in above):
        return "dependency_failed"
    if any(other["barrier"] == "failed" for other in above):
        return "dependency_delivery_failed"
    for other in before:
        if other["state"] != "completed":
            return "dependency_wait"
        if other["barrier"] == "pending":
            return "dependency_result_unavailable"
    raise AssertionError("an edge is neither verified nor explained")


def blocked_gate(tables: Doc, work: Doc, at: int) -> str | None:
    """Why an Issue or pull request holds this Work back."""
    limit = tables["policy"]["pools"][work["pool"]]["max_observation_age_ms"]
    for edge in gates_of(work):
        seen = tables["observations"].get(gate_identity(edge["resource"], edge["condition"]))
        if seen is None or seen["state"] == "unknown":
            return "external_unavailable"
        if seen["state"] != "ready":
            return "external_wait"
        if seen["credential_generation"] != tables["credential_generation"]:
            return "observation_stale"
        if at - seen["observed_at"] > limit:
            return "observation_stale"
    return None


def why(tables: Doc, work: Doc, at: int, held: list[Doc], profiles: list[str] | None) -> str:
    """The first thing that keeps a Work from being served, or `eligible`."""
    if work["state"] != "available":
        return "ownership_" + str(work["state"])
    reason = blocked_edge(tables, work) or blocked_gate(tables, work, at)
    if reason is not None:
        return reason
    if at < work["retry_not_before"]:
        return "retry_delayed"
    reason = blocked_worker(tables, work, profiles)
    if reason is not None:
        return reason
    if full_limit(tables, work, held) is not None:
        return "capacity_blocked"
    return "eligible"


def plan_next(tables: Doc, pool: str, at: int, profiles: list[str] | None) -> Doc:
    """The fair winner of a pool and the clocks after serving it; the tables stay as they are."""
    if tables["grants_paused"]:
        return {"reason": "grants_paused"}
    held = open_in_pool(tables, pool)
    backlog, eligible, reasons = 0, [], []
    for work in tables["works"].values():
        if work["pool"] != pool or work["state"] != "available":
            continue
        backlog += 1
        reason = why(tables, work, at, held, profiles)
        reasons.append(reason)
        if reason == "eligible":
            eligible.append(work)
    if backlog == 0:
        return {"reason": "no_work"}
    if not eligible:
        full = "capacity_blocked" in reasons
        return {"reason": "capacity_blocked" if full else "no_eligible_work"}
    return choose(tables, pool, eligible)


def choose(tables: Doc, pool: str, eligible: list[Doc]) -> Doc:
    """Class, then key, then the Work that was accepted first."""
    policy = tables["policy"]
    entry = tables["clocks"].get(pool) or {"classes": fresh_clock(), "keys": {}}
    classes = sorted({effective(tables, work) for work in eligible})
    if policy["mode"] == "strict-priority":
        level, class_clock = classes[0], entry["classes"]
    else:
        table = {number + 1: value for number, value in enumerate(policy["class_weights"])}
        level, class_clock = pick(entry["classes"], table, classes, by_number)
    inside = [work for work in eligible if effective(tables, work) == level]
    names = sorted({work["fairness_key"] for work in inside}, key=by_bytes)
    key_clock = entry["keys"].get(level) or fresh_clock()
    key, key_clock = pick(key_clock, policy["accounting_weights"], names, by_bytes)
    bucket = [work for work in inside if work["fairness_key"] == key]
    winner = min(bucket, key=position)
    clocks = {"classes": class_clock, "keys": {**entry["keys"], level: key_clock}}
    return {"reason": "selected", "work": winner, "clocks": clocks}


def position(work: Doc) -> Any:
    """The place in line."""
    return work["position"]["commit"], work["position"]["operation"]


def member_of(tables: Doc, work: Doc, claim_id: str, handle: str) -> Doc:
    """One entry of an assignment, with the results it may read."""
    refs = []
    for name in predecessors_of(work):
        before = tables["works"][name]
        refs.append(
            {
                "work_id": name,
                "result_commit_id": before["result_commit_id"],
                "descriptor": before["result"],
            }
        )
    return {
        "handle": handle,
        "claim_id": claim_id,
        "work_id": work["work_id"],
        "work": work["payload"],
        "result_refs": refs,
    }


def used_observations(tables: Doc, work: Doc) -> list[str]:
    """The observations a Claim rests on, in edge order."""
    used: list[str] = []
    for edge in gates_of(work):
        seen = tables["observations"][gate_identity(edge["resource"], edge["condition"])]
        if seen["observation_id"] not in used:
            used.append(seen["observation_id"])
    return used


class Packing:
    """The groups of one batch while it is being put together."""

    def __init__(self, tables: Doc, pool: str, request_id: str, commit_id: str, fit: int) -> None:
        self.tables = copied(tables)
        self.pool = pool
        self.request_id = request_id
        self.commit_id = commit_id
        self.fit = fit
        self.groups: list[Doc] = []
        self.keys: list[list[str]] = []
        self.trust: list[str] = []
        self.refs: list[str] = []
        self.claims: list[Doc] = []

    def fresh_group(self, work: Doc) -> Doc:
        """An assignment with nobody in it yet."""
        number = len(self.groups) + 1
        return {
            "version": 3,
            "dispatch_id": f"d_{text_digest(self.request_id)}_{number}",
            "request_id": self.request_id,
            "commit_id": self.commit_id,
            "policy_epoch": self.tables["policy_epoch"],
            "pool": self.pool,
            "worker_profile": work["worker_profile"],
            "claims": [],
        }

    def joined(self, group: Doc, work: Doc) -> Doc:
        """The group with this Work as its last member."""
        claim_id = f"c_{text_digest(self.request_id)}_{len(self.claims) + 1}"
        handle = f"h{len(group['claims']) + 1}"
        member = member_of(self.tables, work, claim_id, handle)
        return {**group, "claims": [*group["claims"], member]}

    def compatible(self, index: int, work: Doc) -> bool:
        """Whether a Work may ride in a group, its size aside."""
        group = self.groups[index]
        profile = execution(self.tables, work)["profile"]
        if group["worker_profile"] != work["worker_profile"]:
            return False
        if self.refs[index] != profile["ref"]:
            return False
        if self.trust[index] != work["batch_trust_domain"]:
            return False
        if len(group["claims"]) >= profile["max_claims"]:
            return False
        same_key = all(key == work["fairness_key"] for key in self.keys[index])
        return bool(profile["share_keys"]) or same_key

    def place(self, work: Doc, max_dispatches: int) -> str | None:
        """Put a Work into the first group that takes it; the reason when none does."""
        for index in range(len(self.groups)):
            if self.compatible(index, work):
                larger = self.joined(self.groups[index], work)
                if size(larger) <= self.fit:
                    self.groups[index] = larger
                    self.keys[index].append(work["fairness_key"])
                    self.admit(work, larger)
                    return None
        if len(self.groups) >= max_dispatches:
            return "dispatch_budget_blocked"
        live = [
            d
            for d in self.tables["dispatches"].values()
            if d["pool"] == self.pool and not d["released"]
        ]
        if len(live) >= self.tables["policy"]["pools"][self.pool]["native_limit"]:
            return "capacity_blocked"
        single = self.joined(self.fresh_group(work), work)
        if size(single) > self.fit:
            return "assignment_size_blocked"
        self.groups.append(single)
        self.keys.append([work["fairness_key"]])
        self.trust.append(work["batch_trust_domain"])
        self.refs.append(execution(self.tables, work)["profile"]["ref"])
        self.admit(work, single)
        return None

    def admit(self, work: Doc, group: Doc) -> None:
        """Write the Claim into the working tables."""
        member = group["claims"][-1]
        claim = {
            "kind": "Claim",
            "work_id": work["work_id"],
            "claim_id": member["claim_id"],
            "dispatch_id": group["dispatch_id"],
            "handle": member["handle"],
            "observations": used_observations(self.tables, work),
        }
        self.claims.append(claim)
        self.tables["claims"][claim["claim_id"]] = {
            **claim,
            "state": "open",
            "commit_id": self.commit_id,
            "request_id": self.request_id,
        }
        entry = self.tables["works"][work["work_id"]]
        entry["state"] = "claimed"
        entry["claim_id"] = claim["claim_id"]
        entry["attempts"] += 1
        self.tables["dispatches"][group["dispatch_id"]] = {
            **group,
            "profile": execution(self.tables, work)["profile"],
            "state": "reserved",
            "released": False,
            "lifecycle_writes": 0,
        }


def plan_batch(
    tables: Doc, parameters: Doc, at: int, request_id: str, commit_id: str, already: int
) -> Doc:
    """The largest fair prefix: why it ends, its Claims, its assignments and the tables after it.

    `already` counts the operations that stand before the Claims in the same commit.
    """
    limits = tables["policy"]["limits"]
    pool = parameters["pool"]
    profiles = parameters.get("worker_profiles")
    fit = min(parameters["max_bytes"], limits["assignment_bytes"])
    packing = Packing(tables, pool, request_id, commit_id, fit)
    while True:
        if len(packing.claims) >= parameters["max_claims"]:
            reason = "claim_budget_reached"
            break
        if already + len(packing.claims) >= limits["operations"]:
            reason = "operation_budget_reached"
            break
        step = plan_next(packing.tables, pool, at, profiles)
        if step["reason"] != "selected":
            reason = step["reason"]
            break
        stopped = packing.place(step["work"], parameters["max_dispatches"])
        if stopped is not None:
            reason = stopped
            break
        packing.tables["clocks"][pool] = step["clocks"]
    return {
        "reason": reason,
        "operations": packing.claims,
        "assignments": packing.groups,
        "tables": packing.tables,
    }
