"""Who may ask for what: roles, parameters, and the operations each request may publish."""

from .canon import Doc, Refused, same
from .shapes import Check, any_object, closed, identity, integer, listing, one_of
from .tables import claims_of

ROLES = {
    "administrator": (
        "policy",
        "control",
        "submit",
        "dispatch_next",
        "observe",
        "cancel_work",
        "deployment",
        "priority",
        "checkpoint",
    ),
    "producer": ("submit", "cancel_work", "deployment"),
    "dispatcher": ("submit", "dispatch_next", "observe", "dispatch", "deployment"),
    "worker": ("submit", "dispatch_next", "observe", "finish", "dispatch"),
    "reconciler": (
        "observe",
        "dispatch",
        "release",
        "result",
        "delivery_failure",
        "cancel_claim",
        "cancel_work",
    ),
    "projector": ("issue_link", "issue_comment"),
}

UNSUPPORTED = ("checkpoint",)

operations_shape: Check = closed({"operations": listing(any_object, 1, 256)})

PARAMETERS: dict[str, Check] = {
    "submit": closed({"nodes": listing(any_object, 1, 256)}),
    "dispatch_next": closed(
        {
            "pool": identity,
            "max_claims": integer(1, 256),
            "max_dispatches": integer(1, 256),
            "max_bytes": integer(1, 49152),
        },
        {"worker_profiles": listing(identity, 0, 256, unique=True)},
    ),
    "finish": closed(
        {
            "dispatch_id": identity,
            "claim_handle": identity,
            "outcome": one_of("completed", "cancelled"),
        }
    ),
}

# Request kind: the one kind of operation it repeats.
PLAIN = {
    "observe": "Observation",
    "dispatch": "Dispatch",
    "result": "Result",
    "delivery_failure": "DeliveryFailure",
    "control": "Control",
    "cancel_work": "WorkCancellation",
    "deployment": "Deployment",
    "priority": "WorkPriority",
    "issue_link": "IssueLink",
    "issue_comment": "IssueComment",
}


def check_request(tables: Doc, commit: Doc) -> None:
    """Refuse a request its actor may not make, or whose operations are not what it asks for."""
    request, actor = commit["request"], commit["actor"]
    kind = request["kind"]
    if kind in UNSUPPORTED:
        raise Refused("unsupported_operation", kind)
    if kind not in ROLES[actor["role"]]:
        raise Refused("role_not_allowed", f"{actor['role']}: {kind}")
    if tables["repository"] not in (None, actor["repository"]):
        raise Refused("repository_mismatch", actor["repository"])
    PARAMETERS.get(kind, operations_shape)(request["parameters"], "parameters")
    check_published(tables, commit)
    if actor["role"] == "worker":
        check_worker(tables, commit)


def check_published(tables: Doc, commit: Doc) -> None:
    """The operations must be those of the request kind, in their order."""
    kind, parameters = commit["request"]["kind"], commit["request"]["parameters"]
    operations = commit["operations"]
    kinds = [op["kind"] for op in operations]
    genesis = tables["policy"] is None
    if "operations" in parameters and not same(parameters["operations"], operations):
        raise Refused("parameters_mismatch", "operations")
    if genesis and kind not in ("submit", "policy"):
        raise Refused("queue_missing", kind)
    if kind == "policy":
        wanted = kinds == ["Policy"]
    elif kind == "submit":
        wanted = submit_fits(genesis, commit, kinds)
    elif kind == "dispatch_next":
        claims = kinds.count("Claim")
        wanted = claims > 0 and kinds == ["Observation"] * (len(kinds) - claims) + (
            ["Claim"] * claims
        )
        if parameters["pool"] not in tables["policy"]["pools"]:
            raise Refused("pool_unknown", parameters["pool"])
    elif kind == "finish":
        wanted = True
        check_finish(tables, commit)
    elif kind == "release":
        wanted = in_order(kinds, ["ClaimCancellation", "WorkCancellation", "Release"])
        wanted = wanted and kinds.count("Release") == 1 and within_group(tables, operations)
    elif kind == "cancel_claim":
        wanted = in_order(kinds, ["ClaimCancellation", "WorkCancellation"])
        wanted = wanted and kinds[0] == "ClaimCancellation"
    else:
        wanted = all(found == PLAIN[kind] for found in kinds)
    if not wanted:
        raise Refused("operations_not_allowed", f"{kind}: {kinds}")


def submit_fits(genesis: bool, commit: Doc, kinds: list[str]) -> bool:
    """A submission is Work only; the first of all has the Policy before it."""
    operations = commit["operations"]
    works = operations
    if genesis:
        if commit["actor"]["role"] not in ("producer", "dispatcher"):
            raise Refused("role_not_allowed", "a board is begun by a producer or dispatcher")
        if kinds[0] != "Policy":
            raise Refused("queue_missing", "no Policy first")
        works = operations[1:]
    if not works or any(op["kind"] != "Work" for op in works):
        return False
    if not same(commit["request"]["parameters"]["nodes"], works):
        raise Refused("parameters_mismatch", "nodes")
    return True


def in_order(kinds: list[str], order: list[str]) -> bool:
    """Whether only these kinds occur, each run before the next."""
    if any(kind not in order for kind in kinds):
        return False
    places = [order.index(kind) for kind in kinds]
    return places == sorted(places)


def within_group(tables: Doc, operations: list[Doc]) -> bool:
    """A Release cancels members of its own group only."""
    members = {claim["work_id"] for claim in claims_of(tables, operations[-1]["dispatch_id"])}
    return all(op["work_id"] in members for op in operations[:-1])


def check_finish(tables: Doc, commit: Doc) -> None:
    """A finish follows from its parameters alone; anything else is refused."""
    parameters, actor = commit["request"]["parameters"], commit["actor"]
    dispatch = tables["dispatches"].get(parameters["dispatch_id"])
    if dispatch is None:
        raise Refused("unknown_dispatches", parameters["dispatch_id"])
    claims = [
        claim
        for claim in claims_of(tables, parameters["dispatch_id"])
        if claim["handle"] == parameters["claim_handle"]
    ]
    if not claims:
        raise Refused("claim_scope_invalid", parameters["claim_handle"])
    claim = claims[0]
    names = {"work_id": claim["work_id"], "claim_id": claim["claim_id"]}
    expected: list[Doc]
    if parameters["outcome"] == "completed":
        completion = {
            "kind": "Completion",
            **names,
            "dispatch_id": parameters["dispatch_id"],
            "claim_handle": parameters["claim_handle"],
            "run_id": actor.get("run_id"),
            "run_attempt": 1,
        }
        expected = [completion]
    else:
        work = tables["works"][claim["work_id"]]
        if work["pool"] not in tables["policy"]["pools"]:
            raise Refused("pool_unknown", "a Claim of an earlier Policy")
        retry = tables["policy"]["pools"][work["pool"]]["retry"]
        cancellation = {
            "kind": "ClaimCancellation",
            **names,
            "reason": "worker_cancelled",
            "retry_not_before": commit["at"] + retry["backoff_ms"],
        }
        expected = [cancellation]
        if work["attempts"] >= retry["max_attempts"]:
            last = {
                "kind": "WorkCancellation",
                "work_id": claim["work_id"],
                "reason": "attempts_exhausted",
            }
            expected.append(last)
    if commit["operations"] == expected[:1] and len(expected) == 2:
        raise Refused("retry_exhausted", claim["work_id"])
    if commit["operations"] != expected:
        raise Refused("finish_mismatch")


def check_worker(tables: Doc, commit: Doc) -> None:
    """A worker acts for its own group and run, and only as far as that reaches."""
    request, actor = commit["request"], commit["actor"]
    if tables["policy"] is None:
        raise Refused("role_not_allowed", "no worker before there is a board")
    dispatch = tables["dispatches"].get(actor["dispatch_id"])
    if dispatch is None:
        raise Refused("unknown_dispatches", actor["dispatch_id"])
    if actor["workflow"] != dispatch["profile"]["workflow"]:
        raise Refused("run_binding_conflict", "workflow")
    if request["kind"] == "dispatch":
        check_own_binding(commit)
        return
    if dispatch["state"] != "bound" or dispatch["released"]:
        raise Refused("dispatch_unbound")
    if dispatch["run"]["run_id"] != actor["run_id"]:
        raise Refused("run_binding_conflict", "another run")
    if request["kind"] == "finish":
        if request["parameters"]["dispatch_id"] != actor["dispatch_id"]:
            raise Refused("claim_scope_invalid", "another group")
        named = actor.get("claim_handle", request["parameters"]["claim_handle"])
        if named != request["parameters"]["claim_handle"]:
            raise Refused("claim_scope_invalid", "another member")
    if request["kind"] in ("submit", "dispatch_next"):
        check_member(tables, actor)


def check_own_binding(commit: Doc) -> None:
    """The only launch step of a worker: binding its own run to its own group."""
    actor = commit["actor"]
    for op in commit["operations"]:
        if op["state"] != "bound" or op["dispatch_id"] != actor["dispatch_id"]:
            raise Refused("role_not_allowed", "a worker binds its own group")
        if "run" not in op or op["run"]["run_id"] != actor["run_id"]:
            raise Refused("run_binding_conflict", "not its own run")


def check_member(tables: Doc, actor: Doc) -> None:
    """New intents of a worker hang on a completed member whose delivery is open."""
    for claim in claims_of(tables, actor["dispatch_id"]):
        if claim["handle"] == actor.get("claim_handle"):
            work = tables["works"][claim["work_id"]]
            if claim["state"] == "completed" and work["barrier"] == "pending":
                return
    raise Refused("claim_scope_invalid", "no completed member with open delivery")
