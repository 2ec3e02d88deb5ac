"""Faults in deployments and overrides, and in what new Work says about its worker."""

import random
from typing import Any

from .canon import Doc
from .faults import fault, on_actor, on_operation
from .model import Board
from .priorities import effective
from .routes import current_profile
from .tables import claims_of
from .writing import with_operations

STRANGER = "f" * 40
OTHER_CONTRACT = "f" * 64

# Deployments


def route(op: Doc, board: Board) -> Doc:
    """The route a Deployment is about, as it was before the commit."""
    found: Doc = board.tables()["routes"][op["pool"]][op["worker_profile"]]
    return found


@on_operation("Deployment", "a pool that is not there", "pool_unknown")
def _(op: Doc, board: Board) -> None:
    op["pool"] = "nowhere"


@on_operation("Deployment", "a worker that is not there", "profile_unknown")
def _(op: Doc, board: Board) -> None:
    op["worker_profile"] = "nobody"


@on_operation("Deployment", "another revision expected", "deployment_conflict")
def _(op: Doc, board: Board) -> None:
    op["expected_ref"] = STRANGER


@on_operation("Deployment", "another contract expected", "deployment_conflict")
def _(op: Doc, board: Board) -> None:
    op["expected_contract"] = "" if op["expected_contract"] else OTHER_CONTRACT


@on_operation("Deployment", "an older revision expected", "deployment_conflict")
def _(op: Doc, board: Board) -> bool | None:
    known = route(op, board)
    for ref, revision in known["revisions"].items():
        if ref != known["current"]:
            op["expected_ref"] = ref
            op["expected_contract"] = revision["profile"].get("logical_contract", "")
            return None
    return False


@on_operation("Deployment", "a known revision with another contract", "deployment_conflict")
def _(op: Doc, board: Board) -> None:
    op["profile"] = {**current_profile(route(op, board)), "logical_contract": OTHER_CONTRACT}


@on_operation("Deployment", "the presence of an unknown revision", "deployment_unregistered")
def _(op: Doc, board: Board) -> None:
    op["profile"] = {**op["profile"], "ref": STRANGER}
    op["activate"] = False


def crossing(field: str, value: Any) -> None:
    """A new revision that reaches beyond the boundary in one field."""

    def spoil(op: Doc, board: Board) -> None:
        given = value(op["profile"].get(field))
        op.pop("activate", None)
        op["profile"] = {**op["profile"], "ref": STRANGER, field: given}

    on_operation("Deployment", f"another {field}", "deployment_boundary")(spoil)


crossing("workflow", lambda old: old.replace("workers/", "workers/x").replace("flows/", "flows/x"))
crossing("principal", lambda old: "31337")
crossing("trust_domain", lambda old: "wider")
crossing("credential_scope", lambda old: "organisation")
crossing("effect_scope", lambda old: "else/where")
crossing("max_claims", lambda old: old % 16 + 1)
crossing("share_keys", lambda old: not old)


@on_operation("Deployment", "a contract that is no digest")
def _(op: Doc, board: Board) -> None:
    op["expected_contract"] = "none"


@on_operation("Deployment", "a worker file outside its folder")
def _(op: Doc, board: Board) -> None:
    op["profile"] = {**op["profile"], "workflow": ".callboard/workers/../x.toml"}


@on_operation("Deployment", "null where nothing is said about the route")
def _(op: Doc, board: Board) -> None:
    op["activate"] = None


# Who may ask


def by_role(request: str, role: str) -> None:
    """A request of somebody whose role does not reach that far."""
    on_actor(request, f"by a {role}")(lambda actor: actor.update(role=role))


for _request, _roles in (
    ("deployment", ("reconciler", "projector")),
    ("priority", ("producer", "dispatcher", "reconciler")),
):
    for _role in _roles:
        by_role(_request, _role)

# Overrides


@on_operation("WorkPriority", "of a Work that is not there", "work_unknown")
def _(op: Doc, board: Board) -> None:
    op["work_id"] = "0" * 64


@on_operation("WorkPriority", "another class expected", "priority_conflict")
def _(op: Doc, board: Board) -> None:
    op["expected_priority"] = op["expected_priority"] % 5 + 1


@on_operation("WorkPriority", "the admitted class expected, not the one in force")
def _(op: Doc, board: Board) -> bool | None:
    node = board.tables()["works"][op["work_id"]]
    if op["expected_priority"] == node["priority"]:
        return False
    op["expected_priority"] = node["priority"]
    return None


def of_state(state: str) -> None:
    """An override of Work that does not wait."""

    def spoil(op: Doc, board: Board) -> bool | None:
        tables = board.tables()
        for node in tables["works"].values():
            if node["state"] == state:
                op["work_id"], op["expected_priority"] = node["work_id"], effective(tables, node)
                return None
        return False

    on_operation("WorkPriority", f"of {state} Work", "work_closed")(spoil)


for _state in ("claimed", "completed", "cancelled"):
    of_state(_state)


@on_operation("WorkPriority", "a class outside 1 to 5")
def _(op: Doc, board: Board) -> None:
    op["priority"] = 0


# New Work


def fresh(op: Doc, board: Board) -> bool:
    """Whether a Work is new to the board."""
    return op["work_id"] not in board.tables()["works"]


@on_operation("Work", "a pin to a revision nobody registered", "profile_mismatch")
def _(op: Doc, board: Board) -> bool | None:
    op["execution_ref"] = STRANGER
    op.pop("logical_contract", None)
    return None if fresh(op, board) else False


@on_operation("Work", "a contract its worker does not have", "profile_mismatch")
def _(op: Doc, board: Board) -> bool | None:
    op["logical_contract"] = OTHER_CONTRACT
    return None if fresh(op, board) else False


@on_operation("Work", "the contract of another revision than the pinned one", "profile_mismatch")
def _(op: Doc, board: Board) -> bool | None:
    routes = board.tables()["routes"]
    if op["pool"] not in routes or not fresh(op, board):
        return False
    revisions = list(routes[op["pool"]][op["worker_profile"]]["revisions"].values())
    for one in revisions:
        for other in revisions:
            contract = other["profile"].get("logical_contract")
            if contract not in (None, one["profile"].get("logical_contract")):
                op["execution_ref"] = one["profile"]["ref"]
                op["logical_contract"] = contract
                return None
    return False


def worker_child(note: str, field: str, given: Any) -> None:
    """A child that asks for more than the member it hangs on was admitted with."""

    def make(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
        actor, op = commit["actor"], commit["operations"][0]
        if commit["request"]["kind"] != "submit" or actor["role"] != "worker":
            return None
        tables = board.tables()
        for claim in claims_of(tables, actor["dispatch_id"]):
            if claim["handle"] == actor["claim_handle"]:
                value = given(tables, tables["works"][claim["work_id"]])
                if value is None:
                    return None
                op[field] = value
                return with_operations(commit, commit["operations"])
        return None

    fault(f"Work: {note}", "inheritance_violated")(make)


def better_class(tables: Doc, parent: Doc) -> int | None:
    """A class above the admitted one; the one in force where that is such a class."""
    now = effective(tables, parent)
    if now < parent["priority"]:
        return now
    return parent["priority"] - 1 if parent["priority"] > 1 else None


def other_key(tables: Doc, parent: Doc) -> str | None:
    """An accounting key that the parent does not have."""
    for key in tables["policy"]["accounting_weights"]:
        if key != parent["fairness_key"]:
            return str(key)
    return None


worker_child("a worker's child in a better class", "priority", better_class)
worker_child("a worker's child under another key", "fairness_key", other_key)

# Groups that outlive their revision


@on_operation("Dispatch", "a run of the route's revision, not of the frozen one")
def _(op: Doc, board: Board) -> bool | None:
    tables = board.tables()
    dispatch = tables["dispatches"].get(op["dispatch_id"])
    if op["state"] != "bound" or dispatch is None:
        return False
    current = tables["routes"][dispatch["pool"]][dispatch["worker_profile"]]["current"]
    op["run"] = {**op["run"], "ref": current}
    return None if current != dispatch["profile"]["ref"] else False


@on_operation("Release", "evidence of the route's revision, not of the frozen one")
def _(op: Doc, board: Board) -> bool | None:
    tables = board.tables()
    dispatch = tables["dispatches"].get(op["dispatch_id"])
    if dispatch is None:
        return False
    current = tables["routes"][dispatch["pool"]][dispatch["worker_profile"]]["current"]
    op["evidence"] = {**op["evidence"], "ref": current}
    return None if current != dispatch["profile"]["ref"] else False
