"""Taking new Work, a whole graph extension at a time."""

from .canon import Doc, Refused, same, size, work_identity
from .lifecycle import check_evidence, dispatch_of_work
from .routes import check_route
from .tables import claims_of, gates_of, graph_size, predecessors_of

# For an assignment that is not made yet: the longest id a request may have, and a commit's own.
LONGEST = "x" * 256
COMMIT = "q_" + "0" * 64


def admit_all(tables: Doc, actor: Doc, ordinal: int, operations: list[Doc], first: int) -> None:
    """Take the Work operations of one commit together; `first` is the index of the first one."""
    names = [op["work_id"] for op in operations]
    if len(set(names)) != len(names):
        raise Refused("work_conflict", "a node twice in one submission")
    fresh = []
    for offset, op in enumerate(operations):
        known = tables["works"].get(op["work_id"])
        if known is None:
            fresh.append((first + offset, op))
        elif not same(op, definition(known)):
            raise Refused("work_conflict", "the node exists with another definition")
    if fresh and tables["admission_paused"]:
        raise Refused("admission_paused")
    for index, op in fresh:
        check_alone(tables, actor, op)
        tables["works"][op["work_id"]] = {
            **op,
            "state": "available",
            "position": {"commit": ordinal, "operation": index},
            "attempts": 0,
            "retry_not_before": 0,
            "barrier": "none",
        }
    for _, op in fresh:
        check_edges(tables, op)
        check_replacement(tables, op)
    for _, op in fresh:
        check_cycle(tables, op)
    for _, op in fresh:
        check_counts(tables, op)
        check_assignment(tables, op)


def definition(work: Doc) -> Doc:
    """The operation a stored Work was made from."""
    derived = (
        "state",
        "position",
        "attempts",
        "retry_not_before",
        "barrier",
        "claim_id",
        "completion_id",
        "result",
        "result_commit_id",
        "disposition",
        "cancellation_reason",
        "cancellation_commit_id",
    )
    return {name: value for name, value in work.items() if name not in derived}


def check_alone(tables: Doc, actor: Doc, op: Doc) -> None:
    """What a Work must be in itself and under the Policy."""
    policy = tables["policy"]
    if op["work_id"] != work_identity(op["graph_id"], op["node_key"]):
        raise Refused("work_identity", "the id is not derived from graph and node")
    pool = policy["pools"].get(op["pool"])
    if pool is None:
        raise Refused("pool_unknown", op["pool"])
    if op["fairness_key"] not in policy["accounting_weights"]:
        raise Refused("fairness_key_unknown", op["fairness_key"])
    if actor["role"] == "worker":
        check_inheritance(tables, actor, op)
    if "authorization" not in policy:
        check_producer(policy, actor, op)
    check_route(tables, op)
    check_size(policy, op)
    for edge in gates_of(op):
        if edge["resource"]["repository"] not in pool["allowed_repositories"]:
            raise Refused("resource_not_allowed", edge["resource"]["repository"])


def check_inheritance(tables: Doc, actor: Doc, op: Doc) -> None:
    """What a worker submits has its member's pool and key, and no better class than was admitted.

    An administrator's later override of the member is no heritage.
    """
    for claim in claims_of(tables, actor["dispatch_id"]):
        if claim["handle"] == actor["claim_handle"]:
            parent = tables["works"][claim["work_id"]]
            scope = (op["pool"], op["fairness_key"]) == (parent["pool"], parent["fairness_key"])
            if not scope or op["priority"] < parent["priority"]:
                raise Refused("inheritance_violated", op["work_id"])


def check_size(policy: Doc, op: Doc) -> None:
    """How large a payload may be, and how many edges may come in."""
    limits = policy["limits"]
    if size(op["payload"]) > limits["payload_bytes"]:
        raise Refused("payload_limit")
    if len(op["depends_on"]) > limits["predecessors"]:
        raise Refused("predecessor_limit")


def check_producer(policy: Doc, actor: Doc, op: Doc) -> None:
    """Under a Policy that lists its producers, what this one may submit."""
    entry = policy["producers"].get(actor["principal"])
    if entry is None:
        raise Refused("producer_unknown", actor["principal"])
    if op["pool"] not in entry["pools"] or op["priority"] not in entry["priorities"]:
        raise Refused("producer_not_entitled", op["pool"])
    if op["fairness_key"] not in entry["fairness_keys"]:
        raise Refused("producer_not_entitled", op["fairness_key"])


def check_edges(tables: Doc, op: Doc) -> None:
    """Work edges stay in the graph, and a graph stays in one pool."""
    for name in predecessors_of(op):
        if name == op["work_id"]:
            raise Refused("dependency_cycle", "a node waits for itself")
        other = tables["works"].get(name)
        if other is None:
            raise Refused("dependency_missing", name)
        if other["graph_id"] != op["graph_id"]:
            raise Refused("dependency_missing", "the predecessor is in another graph")
    for other in tables["works"].values():
        if other["graph_id"] == op["graph_id"] and other["pool"] != op["pool"]:
            raise Refused("graph_pool_mismatch", op["graph_id"])


def check_cycle(tables: Doc, op: Doc) -> None:
    """Walk up from a new node; coming back to it is a cycle."""
    seen: set[str] = set()
    queue = predecessors_of(op)
    while queue:
        name = queue.pop()
        if name == op["work_id"]:
            raise Refused("dependency_cycle", name)
        if name not in seen:
            seen.add(name)
            queue.extend(predecessors_of(tables["works"][name]))


def check_replacement(tables: Doc, op: Doc) -> None:
    """A remedy stands for a Work of the same pool whose delivery failed."""
    if "replacement_of" not in op:
        return
    old = tables["works"].get(op["replacement_of"]["work_id"])
    if old is None or old["barrier"] != "failed":
        raise Refused("replacement_invalid", "nothing failed there")
    if old["pool"] != op["pool"] or old["fairness_key"] != op["fairness_key"]:
        raise Refused("replacement_invalid", "another pool or account")
    proof = op["replacement_of"]["evidence"]
    check_evidence(tables, proof, dispatch_of_work(tables, old), ("delivery", "reconciliation"))


def check_counts(tables: Doc, op: Doc) -> None:
    """How much a graph and a pool may hold."""
    limits = tables["policy"]["limits"]
    works = list(tables["works"].values())
    if graph_size(works, op["graph_id"]) > limits["graph_nodes"]:
        raise Refused("graph_limit", op["graph_id"])
    pending = 0
    for work in works:
        unsettled = work["state"] in ("available", "claimed") or work["barrier"] == "pending"
        if work["pool"] == op["pool"] and unsettled:
            pending += 1
    if pending > limits["pending_nodes"]:
        raise Refused("pending_limit", op["pool"])


def check_assignment(tables: Doc, op: Doc) -> None:
    """A worker that gets this Work alone must be able to receive it."""
    limits = tables["policy"]["limits"]
    refs = []
    owed = 0
    for name in predecessors_of(op):
        before = tables["works"][name]
        resolved = before["barrier"] == "verified"
        descriptor = before["result"] if resolved else {}
        commit_id = before["result_commit_id"] if resolved else COMMIT
        owed += 0 if resolved else limits["result_bytes"]
        refs.append({"work_id": name, "result_commit_id": commit_id, "descriptor": descriptor})
    member = {
        "handle": "h1",
        "claim_id": "c_" + "0" * 64 + "_256",
        "work_id": op["work_id"],
        "work": op["payload"],
        "result_refs": refs,
    }
    assignment = {
        "version": 3,
        "dispatch_id": "d_" + "0" * 64 + "_256",
        "request_id": LONGEST,
        "commit_id": COMMIT,
        "policy_epoch": tables["policy_epoch"],
        "pool": op["pool"],
        "worker_profile": op["worker_profile"],
        "claims": [member],
    }
    if size(assignment) + owed > limits["assignment_bytes"]:
        raise Refused("assignment_limit")
