"""Plans: what a person or agent posts, checked as a whole before any policy is known.

Source: specification 1, §§7.2, 7.15; wire-v3 §§9, 10. A plan is a closed document; all of its
faults are reported at once.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.contract import NO_WRITES, contract_faults
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import (
    Digest,
    FairnessKey,
    Identity,
    Priority,
    Revision,
)
from callboard.board.publishing.names import name_faults
from callboard.errors import CallboardError
from callboard.validate import (
    Fault,
    faults_of,
    parse,
    refuse,
    show,
)

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
