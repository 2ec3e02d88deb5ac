"""Plans: what a person or agent posts, checked as a whole and compiled to Work.

Source: specification 1, §§7.2, 7.15; wire-v3 §§4, 9, 10. A plan is a closed document; all of its
faults are reported at once. Compilation is pure and happens under the installed policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, structs

from callboard import canonical
from callboard.board.protocol import identities
from callboard.board.protocol.contract import NO_WRITES, contract_faults
from callboard.board.protocol.operations import Dependency, Payload, Work, WorkDependency
from callboard.board.protocol.policy import PolicyDocument, Record
from callboard.board.protocol.scalars import (
    Digest,
    FairnessKey,
    Identity,
    Priority,
    Revision,
)
from callboard.board.protocol.validate import (
    MAX_FAULTS,
    Fault,
    faults_of,
    near,
    parse,
    refuse,
    show,
)
from callboard.board.publishing.bootstrap import DEFAULT_POOL
from callboard.board.publishing.names import name_faults
from callboard.errors import CallboardError

DEFAULT_PRIORITY = 3
MAX_PLAN_NODES = 4096
CONTRACT_FIELD = "effect_contract"


class Defaults(Record, frozen=True, kw_only=True):
    """What nodes take when they say nothing themselves."""

    pool: Identity | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    fairness_key: FairnessKey | UnsetType = UNSET
    profile: Identity | UnsetType = UNSET
    contract: Payload | UnsetType = UNSET


class Node(Record, frozen=True, kw_only=True):
    """One task. `key` names it within the graph, `after` names its predecessors there."""

    key: Identity | UnsetType = UNSET
    payload: Payload
    priority: Priority | UnsetType = UNSET
    fairness_key: FairnessKey | UnsetType = UNSET
    profile: Identity | UnsetType = UNSET
    after: Annotated[list[Identity], Meta(max_length=64)] | UnsetType = UNSET
    gates: Annotated[list[Payload], Meta(max_length=64)] | UnsetType = UNSET
    subject: Payload | UnsetType = UNSET
    contract: Payload | UnsetType = UNSET
    execution_ref: Revision | UnsetType = UNSET
    logical_contract: Digest | UnsetType = UNSET


class Plan(Record, frozen=True, kw_only=True):
    """A graph of tasks, or independent ones where no graph is named."""

    graph: Identity | UnsetType = UNSET
    defaults: Defaults = Defaults()
    nodes: Annotated[list[Node], Meta(min_length=1, max_length=MAX_PLAN_NODES)]


def parse_plan(value: Any) -> Plan:
    """A plain value as a plan, or `plan_invalid` with every fault.

    Raises `resource_unverified` for gates and subjects, which need a trusted resolver, and
    `dependency_cycle` with its path.
    """
    if isinstance(value, dict) and isinstance(value.get("nodes"), list):
        count = len(value["nodes"])
        if count > MAX_PLAN_NODES:
            raise CallboardError(
                "graph_limit",
                f"the plan has {count} nodes, a graph has at most {MAX_PLAN_NODES}",
                "make several plans with graphs of their own",
                {"count": count, "limit": MAX_PLAN_NODES},
            )
    faults = faults_of(Plan, value)
    if not faults:
        plan = parse(Plan, value, what="plan", code="plan_invalid")
        faults = _plan_faults(plan)
        named = _named_faults(plan)
        if not faults and not named:
            return plan
        codes = {code for code, _fault in named}
        if not faults and len(codes) == 1:
            raise _refuse_named(plan, codes.pop(), [fault for _code, fault in named])
        faults.extend(fault for _code, fault in named)
    raise refuse("plan_invalid", "plan", faults, "correct the plan; nothing was written")


_HINTS = {
    "dependency_cycle": "remove one of the edges",
    "dependency_self": "remove the edge",
    "resource_unverified": "leave it out; wait for the condition before you post the node",
}


def _named_faults(plan: Plan) -> list[tuple[str, Fault]]:
    """Faults that have codes of their own where nothing else is wrong with a plan."""
    found: list[tuple[str, Fault]] = []
    for index, node in enumerate(plan.nodes):
        after = node.after if isinstance(node.after, list) else []
        if node.key in after:
            place = f"/nodes/{index}/after/{after.index(str(node.key))}"
            found.append(("dependency_self", Fault(place, f"{show(node.key)} depends on itself")))
        for name in ("gates", "subject"):
            if getattr(node, name) not in (UNSET, []):
                message = (
                    "names an issue or pull request, and no trusted resolver is here to verify it"
                )
                found.append(("resource_unverified", Fault(f"/nodes/{index}/{name}", message)))
    path = cycle_of(plan)
    if path:
        index = next(at for at, node in enumerate(plan.nodes) if node.key == path[0])
        steps = " -> ".join(show(key) for key in path[:20])
        fault = Fault(f"/nodes/{index}/after", f"these nodes wait for each other: {steps}")
        found.append(("dependency_cycle", fault))
    return found


def _refuse_named(plan: Plan, code: str, faults: list[Fault]) -> CallboardError:
    error = refuse(code, "plan", faults, _HINTS[code])
    if code == "dependency_cycle":
        error.details["path"] = cycle_of(plan)[:100]
    if code == "resource_unverified":
        error.details["pointer"] = faults[0].pointer
    return error


def _plan_faults(plan: Plan) -> list[Fault]:
    faults: list[Fault] = []
    if isinstance(plan.graph, str):
        faults.extend(name_faults(plan.graph, "/graph"))
    faults.extend(_contract_faults(plan.defaults.contract, "/defaults/contract"))
    keys: dict[str, int] = {}
    for index, node in enumerate(plan.nodes):
        place = f"/nodes/{index}"
        faults.extend(_node_faults(plan, node, place))
        if not isinstance(node.key, str):
            continue
        if node.key in keys:
            faults.append(
                Fault(f"{place}/key", f"{show(node.key)} stands twice, first at {keys[node.key]}")
            )
        keys.setdefault(node.key, index)
    return faults


def _node_faults(plan: Plan, node: Node, place: str) -> list[Fault]:
    faults: list[Fault] = []
    if isinstance(node.key, str):
        faults.extend(name_faults(node.key, f"{place}/key"))
    in_graph = isinstance(plan.graph, str)
    if in_graph and node.key is UNSET:
        faults.append(Fault(f"{place}/key", "is missing; nodes of a graph have keys"))
    if not in_graph and (node.key is not UNSET or node.after is not UNSET):
        faults.append(Fault("/graph", "is missing; nodes with keys belong to a named graph"))
    after = node.after if isinstance(node.after, list) else []
    seen: set[str] = set()
    for position, key in enumerate(after):
        if key in seen:
            faults.append(Fault(f"{place}/after/{position}", f"{show(key)} stands twice"))
        seen.add(key)
    if node.contract is not UNSET and CONTRACT_FIELD in node.payload:
        faults.append(Fault(f"{place}/contract", f"stands beside payload.{CONTRACT_FIELD}"))
    faults.extend(_contract_faults(node.contract, f"{place}/contract"))
    if CONTRACT_FIELD in node.payload:
        stated = node.payload[CONTRACT_FIELD]
        faults.extend(contract_faults(stated, f"{place}/payload/{CONTRACT_FIELD}"))
    return faults


def _contract_faults(contract: Payload | UnsetType, pointer: str) -> list[Fault]:
    if isinstance(contract, UnsetType):
        return []
    return contract_faults(full_contract(contract), pointer)


def full_contract(contract: Payload) -> Payload:
    """The wire form of a contract; short ones are `{artifact: 1}`, `{patch: {min: 0, max: 1}}`."""
    if not contract or "kind" in contract or "version" in contract:
        return contract or NO_WRITES
    outputs: list[Payload] = []
    for output_type, bounds in contract.items():
        if isinstance(bounds, dict):
            outputs.append({"type": output_type, **bounds})
        else:
            outputs.append({"type": output_type, "min": bounds, "max": bounds})
    return {"version": 1, "outputs": outputs}


def compile_plan(
    plan: Plan, policy: PolicyDocument, standing: Callable[[str], Work | None], enqueued: int
) -> list[Work]:
    """The plan's Work under `policy`, in plan order.

    `standing` answers the admitted Work of an id. A node that already stands keeps its stored
    `enqueued`, so that posting it again is the same request; predecessors may stand there too.
    """
    compiler = _Compiler(plan, policy, standing, enqueued)
    faults: list[Fault] = []
    works: list[Work | None] = []
    for index, node in enumerate(plan.nodes):
        works.append(compiler.work(index, node, faults))
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise refuse("plan_invalid", "plan", faults, "correct the plan; nothing was written")
    return [work for work in works if work is not None]


class _Compiler:
    def __init__(
        self,
        plan: Plan,
        policy: PolicyDocument,
        standing: Callable[[str], Work | None],
        enqueued: int,
    ) -> None:
        self._plan = plan
        self._policy = policy
        self._standing = standing
        self._enqueued = enqueued
        self._keys = {node.key: None for node in plan.nodes if isinstance(node.key, str)}

    def work(self, index: int, node: Node, faults: list[Fault]) -> Work | None:
        place = f"/nodes/{index}"
        payload = self._payload(node)
        graph_id, node_key = self._identity(node, payload)
        pool_name = self._pool(faults)
        depends_on = self._predecessors(node, graph_id, place, faults)
        profile_name = self._profile(node, pool_name, place, faults)
        fairness_key = self._fairness_key(node, place, faults)
        if pool_name is None or profile_name is None:
            return None
        profile = self._policy.pools[pool_name].profiles[profile_name]
        work_id = identities.work_id(graph_id, node_key)
        known = self._standing(work_id)
        return Work(
            work_id=work_id,
            graph_id=graph_id,
            node_key=node_key,
            pool=pool_name,
            priority=_first(node.priority, self._plan.defaults.priority, DEFAULT_PRIORITY),
            fairness_key=fairness_key,
            worker_profile=profile_name,
            batch_trust_domain=profile.trust_domain,
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

    def _pool(self, faults: list[Fault]) -> str | None:
        pools = self._policy.pools
        asked = self._plan.defaults.pool
        if isinstance(asked, str):
            if asked in pools:
                return asked
            fault = Fault("/defaults/pool", f"no pool {show(asked)}{near(asked, list(pools))}")
            if fault not in faults:
                faults.append(fault)
            return None
        if DEFAULT_POOL in pools or len(pools) == 1:
            return DEFAULT_POOL if DEFAULT_POOL in pools else next(iter(pools))
        fault = Fault("/defaults/pool", "is missing; pools: " + ", ".join(sorted(pools)))
        if fault not in faults:
            faults.append(fault)
        return None

    def _profile(
        self, node: Node, pool_name: str | None, place: str, faults: list[Fault]
    ) -> str | None:
        if pool_name is None:
            return None
        pool = self._policy.pools[pool_name]
        asked: str = _first(node.profile, self._plan.defaults.profile, pool.default_profile)
        if asked in pool.profiles:
            return asked
        known = sorted(pool.profiles)
        faults.append(
            Fault(
                f"{place}/profile",
                f"no worker profile {show(asked)}{near(asked, known)}; there are "
                + ", ".join(known),
            )
        )
        return None

    def _fairness_key(self, node: Node, place: str, faults: list[Fault]) -> str:
        """The key asked for. Where nobody is enrolled, it must be one that the policy lists."""
        asked: str = _first(node.fairness_key, self._plan.defaults.fairness_key, "")
        known = sorted(self._policy.accounting_weights)
        if self._policy.is_aw and asked not in known:
            faults.append(
                Fault(
                    f"{place}/fairness_key",
                    f"no fairness key {show(asked)}{near(asked, known)}; there are "
                    + ", ".join(show(key) for key in known[:20]),
                )
            )
        return asked

    def _predecessors(
        self, node: Node, graph_id: str, place: str, faults: list[Fault]
    ) -> list[Dependency]:
        found: list[Dependency] = []
        after = node.after if isinstance(node.after, list) else []
        for position, key in enumerate(after):
            if len(faults) >= MAX_FAULTS:
                break
            work_id = identities.work_id(graph_id, key)
            if key not in self._keys and self._standing(work_id) is None:
                faults.append(
                    Fault(
                        f"{place}/after/{position}",
                        f"no node {show(key)} in this plan or graph{near(key, list(self._keys))}",
                    )
                )
            found.append(WorkDependency(work_id=work_id))
        return found


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not UNSET)


def in_order(plan: Plan) -> list[int]:
    """Node indexes so that predecessors come first; cyclic rests stay in plan order at the end."""
    order = _placed(plan)
    placed = set(order)
    return order + [index for index in range(len(plan.nodes)) if index not in placed]


def _placed(plan: Plan) -> list[int]:
    """Indexes of the nodes that no cycle holds back, predecessors first."""
    position = {node.key: index for index, node in enumerate(plan.nodes)}
    waiting = [
        {position[key] for key in node.after if key in position}
        if isinstance(node.after, list)
        else set()
        for node in plan.nodes
    ]
    successors: list[list[int]] = [[] for _node in plan.nodes]
    for index, predecessors in enumerate(waiting):
        for predecessor in predecessors:
            successors[predecessor].append(index)
    ready = [index for index, predecessors in enumerate(waiting) if not predecessors]
    order: list[int] = []
    for index in ready:
        order.append(index)
        for successor in successors[index]:
            waiting[successor].discard(index)
            if not waiting[successor]:
                ready.append(successor)
    return order


def cycle_of(plan: Plan) -> list[str]:
    """Node keys that lead from one back to it, each waiting for the next; empty without a cycle.

    A node that waits for itself is another fault, which admission names.
    """
    keys = {node.key for node in plan.nodes}
    after = {
        node.key: [key for key in node.after if key != node.key and key in keys]
        for node in plan.nodes
        if isinstance(node.key, str) and isinstance(node.after, list)
    }
    placed = {plan.nodes[index].key for index in _placed(plan)}
    for start in after:
        if start in placed:
            continue
        path: list[str] = []
        key: str | None = start
        while key is not None and key not in path:
            path.append(key)
            key = next((one for one in after.get(key, []) if one not in placed), None)
        if key is not None and key in after:
            return [*path[path.index(key) :], key]
    return []


MAX_PART_BYTES = 6 * 1024 * 1024
"""What the nodes of one request may take; a line holds each of them twice, and 8 MiB at most."""
_NODE_FRAME_BYTES = 1024


def parts_of(plan: Plan, max_nodes: int) -> list[Plan]:
    """The plan in requests that a ledger line can hold, predecessors first."""
    parts: list[list[Node]] = [[]]
    size = 0
    for index in in_order(plan):
        node = plan.nodes[index]
        after = node.after if isinstance(node.after, list) else []
        payload = len(canonical.encode_trusted(node.payload))
        grown = 2 * (payload + _NODE_FRAME_BYTES + 100 * len(after))
        if parts[-1] and (len(parts[-1]) >= max_nodes or size + grown > MAX_PART_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(node)
        size += grown
    return [structs.replace(plan, nodes=nodes) for nodes in parts]


def check_values(value: Any) -> Any:
    """A decoded plan as canonical plain values: integral floats become integers, the rest of the
    codec's number and text rules hold."""
    return canonical.decode(canonical.encode(value), limit_bytes=canonical.MAX_PARSE_BYTES)
