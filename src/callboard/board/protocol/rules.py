"""Rules that relate the fields of one record to each other.

Source: wire-v3 §5. Types say what a field may be; these say what it may be beside the others.
Pure, and without the state before the record.
"""

from __future__ import annotations

from msgspec import UNSET

from callboard.board.protocol import identities
from callboard.board.protocol.operations import Observation, Work, WorkDependency
from callboard.board.protocol.policy import PolicyDocument
from callboard.validate import Fault, pointer_step, show


def policy_faults(policy: PolicyDocument) -> list[Fault]:
    """Every relation that a policy document breaks."""
    faults: list[Fault] = []
    if policy.accounting_weights.get("") != 1:
        faults.append(Fault("/accounting_weights/", "the default key must have weight 1"))
    if policy.is_aw and policy.producers:
        faults.append(Fault("/producers", 'authorization "aw" needs an empty object'))
    widest = 1
    for name, pool in policy.pools.items():
        place = "/pools" + pointer_step(name)
        if pool.default_profile not in pool.profiles:
            faults.append(
                Fault(f"{place}/default_profile", f"{show(pool.default_profile)} is no profile")
            )
        for profile_name, profile in pool.profiles.items():
            widest = max(widest, profile.max_claims)
            if (profile.principal is UNSET) != policy.is_aw:
                need = "has no principal" if policy.is_aw else "needs a principal"
                faults.append(
                    Fault(
                        f"{place}/profiles{pointer_step(profile_name)}/principal",
                        f"a profile {need} under this authorization",
                    )
                )
    if policy.limits.operations < 2 * widest + 1:
        faults.append(
            Fault(
                "/limits/operations",
                f"{policy.limits.operations} is less than 2·{widest}+1, what closing the widest "
                "group needs",
            )
        )
    for principal, producer in policy.producers.items():
        for index, pool_name in enumerate(producer.pools):
            if pool_name not in policy.pools:
                faults.append(
                    Fault(f"/producers/{principal}/pools/{index}", f"no pool {show(pool_name)}")
                )
    return faults


def work_faults(work: Work) -> list[Fault]:
    """Every relation that one Work breaks by itself; graph rules stand with admission."""
    faults: list[Fault] = []
    expected = identities.work_id(work.graph_id, work.node_key)
    if work.work_id != expected:
        faults.append(Fault("/work_id", f"{work.work_id} is not {expected}, that of its place"))
    seen: set[str] = set()
    for index, dependency in enumerate(work.depends_on):
        if isinstance(dependency, WorkDependency):
            identity = dependency.work_id
        else:
            identity = identities.gate_identity(dependency)
            wanted = "issue" if dependency.condition != "merged" else "pull_request"
            if dependency.resource.kind != wanted:
                faults.append(Fault(f"/depends_on/{index}/resource/kind", f"is not {wanted}"))
        if identity in seen:
            faults.append(Fault(f"/depends_on/{index}", "the same predecessor stands twice"))
        seen.add(identity)
    if work.replacement_of is not UNSET and work.replacement_of.work_id == work.work_id:
        faults.append(Fault("/replacement_of/work_id", "a node cannot replace itself"))
    return faults


def observation_faults(observation: Observation) -> list[Fault]:
    """Every way in which an observation's claim goes beyond its proof."""
    faults: list[Fault] = []
    merged = observation.condition == "merged"
    if (observation.resource.kind == "pull_request") != merged:
        faults.append(
            Fault("/condition", f"{observation.condition} does not fit {observation.resource.kind}")
        )
    if observation.state != "ready":
        return faults
    if observation.read_status != "ok":
        faults.append(Fault("/read_status", "ready needs a read that was ok"))
    if merged and (observation.merged is not True or observation.merge_commit is UNSET):
        faults.append(Fault("/merged", "ready needs merged true and its merge commit"))
    if not merged and observation.resource_state != "closed":
        faults.append(Fault("/resource_state", "ready needs a closed issue"))
    if observation.condition == "completed" and observation.state_reason != "completed":
        faults.append(Fault("/state_reason", "ready needs the reason completed"))
    return faults
