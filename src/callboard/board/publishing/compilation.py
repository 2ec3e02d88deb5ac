"""A plan's Work records, as they follow from the plan and a policy.

Source: specification 1, §§7.2, 7.15; wire-v3 §§4, 10. Pure: the policy is the installed one, or at
genesis the proposed one, and all faults against it are reported at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import UNSET

from callboard.board.protocol import identities
from callboard.board.protocol.contract import NO_WRITES
from callboard.board.protocol.operations import Dependency, Payload, Work, WorkDependency
from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing.bootstrap import default_pool
from callboard.board.publishing.plan import CONTRACT_FIELD, Node, Plan, full_contract
from callboard.validate import MAX_FAULTS, Fault, near, refuse, show

DEFAULT_PRIORITY = 3


def compile_plan(
    plan: Plan, policy: PolicyDocument, standing: Callable[[str], Work | None], enqueued: int
) -> list[Work]:
    """The plan's Work under `policy`, in plan order.

    `standing` answers the admitted Work of an id. A node that already stands keeps its stored
    `enqueued` and, where the plan does not say otherwise, the pool, profile and key it got from the
    policy of its day, so that posting it again is the same request; predecessors may stand there
    too.
    """
    compiler = _Compiler(plan, policy, standing, enqueued)
    works: list[Work | None] = []
    for index, node in enumerate(plan.nodes):
        works.append(compiler.work(index, node))
        if len(compiler.faults) >= MAX_FAULTS:
            break
    if compiler.faults:
        raise refuse(
            "plan_invalid", "plan", compiler.faults, "correct the plan; nothing was written"
        )
    return [work for work in works if work is not None]


class _Route(NamedTuple):
    """What a policy says of where a Work runs."""

    pool: str
    profile: str
    trust_domain: str


class _Compiler:
    """Makes Work of one plan's nodes and gathers in `faults` what the policy does not have."""

    def __init__(
        self,
        plan: Plan,
        policy: PolicyDocument,
        standing: Callable[[str], Work | None],
        enqueued: int,
    ) -> None:
        self.faults: list[Fault] = []
        self._plan = plan
        self._policy = policy
        self._standing = standing
        self._enqueued = enqueued
        self._keys = {node.key: None for node in plan.nodes if isinstance(node.key, str)}

    def work(self, index: int, node: Node) -> Work | None:
        """The node's Work; None where the policy has no pool or profile for it."""
        place = f"/nodes/{index}"
        payload = self._payload(node)
        graph_id, node_key = self._identity(node, payload)
        depends_on = self._predecessors(node, graph_id, place)
        work_id = identities.work_id(graph_id, node_key)
        known = self._standing(work_id)
        route = self._route(node, place, known)
        fairness_key = self._fairness_key(node, place, known)
        if route is None:
            return None
        return Work(
            work_id=work_id,
            graph_id=graph_id,
            node_key=node_key,
            pool=route.pool,
            priority=_first(node.priority, self._plan.defaults.priority, DEFAULT_PRIORITY),
            fairness_key=fairness_key,
            worker_profile=route.profile,
            batch_trust_domain=route.trust_domain,
            payload=payload,
            depends_on=depends_on,
            enqueued=self._enqueued if known is None else known.enqueued,
            execution_ref=node.execution_ref,
            logical_contract=node.logical_contract,
        )

    def _payload(self, node: Node) -> Payload:
        if CONTRACT_FIELD in node.payload:
            return node.payload
        stated = _first(node.contract, self._plan.defaults.contract, NO_WRITES)
        return {**node.payload, CONTRACT_FIELD: full_contract(stated)}

    def _identity(self, node: Node, payload: Payload) -> tuple[str, str]:
        if isinstance(self._plan.graph, str) and isinstance(node.key, str):
            return self._plan.graph, node.key
        return identities.root_graph_id(payload), identities.ROOT_NODE_KEY

    @cached_property
    def _pool_name(self) -> str | None:
        pools = self._policy.pools
        asked = self._plan.defaults.pool
        if isinstance(asked, str):
            if asked in pools:
                return asked
            self._fault("/defaults/pool", f"no pool {show(asked)}{near(asked, list(pools))}")
            return None
        name = default_pool(pools)
        if name is None:
            self._fault("/defaults/pool", "is missing; pools: " + ", ".join(sorted(pools)))
        return name

    def _route(self, node: Node, place: str, known: Work | None) -> _Route | None:
        """Where the node runs; of one that stands, where it was to run then, if that is meant."""
        asked = self._plan.defaults.profile if node.profile is UNSET else node.profile
        if (
            known is not None
            and self._plan.defaults.pool in (UNSET, known.pool)
            and asked in (UNSET, known.worker_profile)
        ):
            return _Route(known.pool, known.worker_profile, known.batch_trust_domain)
        profile_name = self._profile(node, place)
        if self._pool_name is None or profile_name is None:
            return None
        profile = self._policy.pools[self._pool_name].profiles[profile_name]
        return _Route(self._pool_name, profile_name, profile.trust_domain)

    def _profile(self, node: Node, place: str) -> str | None:
        if self._pool_name is None:
            return None
        pool = self._policy.pools[self._pool_name]
        asked: str = _first(node.profile, self._plan.defaults.profile, pool.default_profile)
        if asked in pool.profiles:
            return asked
        known = sorted(pool.profiles)
        self._fault(
            f"{place}/profile",
            f"no worker profile {show(asked)}{near(asked, known)}; there are " + ", ".join(known),
        )
        return None

    def _fairness_key(self, node: Node, place: str, known: Work | None) -> str:
        """The key asked for. Where nobody is enrolled, it must be one that the policy lists, or
        listed when the node was posted."""
        asked: str = _first(node.fairness_key, self._plan.defaults.fairness_key, "")
        if known is not None and known.fairness_key == asked:
            return asked
        if self._policy.is_aw and asked not in self._policy.accounting_weights:
            listed = sorted(self._policy.accounting_weights)
            self._fault(
                f"{place}/fairness_key",
                f"no fairness key {show(asked)}{near(asked, listed)}; there are "
                + ", ".join(show(key) for key in listed[:20]),
            )
        return asked

    def _predecessors(self, node: Node, graph_id: str, place: str) -> list[Dependency]:
        found: list[Dependency] = []
        after = node.after if isinstance(node.after, list) else []
        for position, key in enumerate(after):
            if len(self.faults) >= MAX_FAULTS:
                break
            work_id = identities.work_id(graph_id, key)
            if key not in self._keys and self._standing(work_id) is None:
                self._fault(
                    f"{place}/after/{position}",
                    f"no node {show(key)} in this plan or graph{near(key, list(self._keys))}",
                )
            found.append(WorkDependency(work_id=work_id))
        return found

    def _fault(self, pointer: str, message: str) -> None:
        self.faults.append(Fault(pointer, message))


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not UNSET)
