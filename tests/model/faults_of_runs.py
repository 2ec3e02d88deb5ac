"""Faults in what happens to granted Work, and in what operators and observers say."""

import random

from .canon import Doc
from .faults import fault, on_operation
from .model import Board
from .shapes import on_github
from .writing import evidence, reseal, with_operations

# Workers and their runs


@on_operation("Completion", "another run")
def _(op: Doc, board: Board) -> None:
    op["run_id"] = "1"


@on_operation("Completion", "another handle")
def _(op: Doc, board: Board) -> None:
    op["claim_handle"] = "h99"


@on_operation("Completion", "a second attempt of the run")
def _(op: Doc, board: Board) -> None:
    op["run_attempt"] = 2


@fault("finish: an outcome its operations do not show")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] != "finish":
        return None
    parameters = commit["request"]["parameters"]
    swapped = {"completed": "cancelled", "cancelled": "completed"}
    parameters["outcome"] = swapped[parameters["outcome"]]
    return reseal(commit)


@fault("finish: by another run")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] != "finish":
        return None
    commit["actor"]["run_id"] = "1"
    for op in commit["operations"]:
        if "run_id" in op:
            op["run_id"] = "1"
    return reseal(commit)


@on_operation("ClaimCancellation", "a retry too early")
def _(op: Doc, board: Board) -> None:
    op["retry_not_before"] -= 2000


@fault("finish: a retry later than due")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    op = commit["operations"][0]
    if commit["request"]["kind"] != "finish" or "retry_not_before" not in op:
        return None
    op["retry_not_before"] += 1
    return commit


@fault("ClaimCancellation: attempts exhausted, yet back in line", "retry_exhausted")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    works = board.tables()["works"]
    claims = [op["work_id"] for op in commit["operations"] if op["kind"] == "ClaimCancellation"]
    for op in commit["operations"]:
        if op["kind"] == "WorkCancellation" and op["work_id"] in claims:
            assert works[op["work_id"]]["state"] == "claimed"
            return with_operations(commit, [o for o in commit["operations"] if o is not op])
    return None


@fault("finish: a Work ended with attempts left")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    operations = commit["operations"]
    if commit["request"]["kind"] != "finish" or len(operations) != 1:
        return None
    op = {
        "kind": "WorkCancellation",
        "work_id": operations[0]["work_id"],
        "reason": "attempts_exhausted",
    }
    return with_operations(commit, [*operations, op])


def in_state(op: Doc, state: str) -> bool:
    """Whether a Dispatch operation records this state."""
    return bool(op["state"] == state)


@on_operation("Dispatch", "an unknown group")
def _(op: Doc, board: Board) -> None:
    op["dispatch_id"] = "d_none"


@on_operation("Dispatch", "bound without a start marker")
def _(op: Doc, board: Board) -> bool | None:
    if not in_state(op, "bound"):
        return False
    for dispatch in board.tables()["dispatches"].values():
        if dispatch["state"] == "reserved" and not dispatch["released"]:
            op["dispatch_id"] = dispatch["dispatch_id"]
            return None
    return False


@on_operation("Dispatch", "a sender that is not the actor")
def _(op: Doc, board: Board) -> bool | None:
    if not in_state(op, "started"):
        return False
    op["sender"] = {**op["sender"], "run_id": "999"}
    return None


@on_operation("Dispatch", "no sender")
def _(op: Doc, board: Board) -> bool | None:
    return op.pop("sender", None) is not None


@on_operation("Dispatch", "no launching principal")
def _(op: Doc, board: Board) -> bool | None:
    return op.pop("credential_principal", None) is not None


def wrong_run(field: str, value: object) -> None:
    """A bound run that differs from the approved worker in one field."""

    def spoil(op: Doc, board: Board) -> bool | None:
        if not in_state(op, "bound"):
            return False
        op["run"] = {**op["run"], field: value}
        return None

    on_operation("Dispatch", f"a run with another {field}")(spoil)


wrong_run("workflow", ".github/workflows/other.lock.yml")
wrong_run("ref", "0" * 40)
wrong_run("principal", "1")
wrong_run("run_attempt", 2)
wrong_run("repository", "else/where")


@on_operation("Dispatch", "the event of another host")
def _(op: Doc, board: Board) -> bool | None:
    if not in_state(op, "bound"):
        return False
    events = {"workflow_dispatch": "host_dispatch", "host_dispatch": "workflow_dispatch"}
    op["run"] = {**op["run"], "event": events[op["run"]["event"]]}
    return None


@on_operation("Dispatch", "a second run for the group", "run_binding_conflict")
def _(op: Doc, board: Board) -> bool | None:
    dispatch = board.tables()["dispatches"].get(op["dispatch_id"])
    if not in_state(op, "bound") or dispatch is None or dispatch["state"] != "bound":
        return False
    op["run"] = {**op["run"], "run_id": "31337"}
    return None


@on_operation("Dispatch", "rejected without proof", firm=False)
def _(op: Doc, board: Board) -> bool | None:
    return in_state(op, "rejected") and op.pop("evidence", None) is not None


# Evidence


def with_evidence(kind: str) -> None:
    """Faults in the evidence of one kind of operation."""

    def principal(op: Doc, board: Board) -> None:
        op["evidence"]["principal"] = "1"

    def revision(op: Doc, board: Board) -> None:
        op["evidence"]["ref"] = "0" * 40

    def host(op: Doc, board: Board) -> bool | None:
        if not on_github(op["evidence"]):
            return False
        op["evidence"]["source"] = "host_api"
        return None

    def large(op: Doc, board: Board) -> None:
        op["evidence"]["receipt"] = "r" * 257

    on_operation(kind, "evidence about another principal")(principal)
    on_operation(kind, "evidence about another revision", firm=False)(revision)
    on_operation(kind, "evidence from a host that does not run this")(host)
    on_operation(kind, "a receipt past the bound")(large)


for _kind in ("Release", "Result", "DeliveryFailure"):
    with_evidence(_kind)


@on_operation("Release", "proof of another stage")
def _(op: Doc, board: Board) -> None:
    other = {"prelaunch": "delivery", "nonlaunch": "prelaunch", "terminal_run": "nonlaunch"}
    op["evidence"]["kind"] = other[op["evidence"]["kind"]]


@fault("Release: a member left open")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    operations = commit["operations"]
    if operations[-1]["kind"] != "Release" or len(operations) == 1:
        return None
    name = operations[0]["work_id"]
    return with_operations(commit, [op for op in operations if op.get("work_id") != name])


@on_operation("Release", "a run that is not the bound one")
def _(op: Doc, board: Board) -> bool | None:
    if "run_id" not in op["evidence"]:
        return False
    op["evidence"]["run_id"] = "1"
    return None


@on_operation("Release", "a run that has not ended")
def _(op: Doc, board: Board) -> bool | None:
    return op["evidence"].pop("status", None) is not None


# Delivery


@on_operation("Result", "of another Claim")
def _(op: Doc, board: Board) -> None:
    op["claim_id"] = "c_none"


@on_operation("Result", "of another Completion")
def _(op: Doc, board: Board) -> None:
    op["completion_id"] = "q_none"


@on_operation("Result", "a descriptor past the limit")
def _(op: Doc, board: Board) -> None:
    op["descriptor"] = {"pad": "x" * 4096}


@fault("Result: of a Work without a contract", "delivery_contract_required")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    op, tables = commit["operations"][0], board.tables()
    if op["kind"] != "DeliveryFailure":
        return None
    node = tables["works"][op["work_id"]]
    if "effect_contract" in node["payload"]:
        return None
    dispatch = tables["dispatches"][tables["claims"][op["claim_id"]]["dispatch_id"]]
    ran = {"run_id": dispatch["run"]["run_id"], "run_attempt": 1, "receipt": "seen"}
    proof = evidence(dispatch, "delivery", op["evidence"]["principal"], commit["at"], **ran)
    result = {"kind": "Result", "descriptor": {}, "evidence": proof}
    for name in ("work_id", "claim_id", "completion_id"):
        result[name] = op[name]
    commit["request"]["kind"] = "result"
    return with_operations(commit, [result])


@on_operation("DeliveryFailure", "another disposition than the effects")
def _(op: Doc, board: Board) -> None:
    effects = op["evidence"].get("effects", "unknown")
    op["disposition"] = "partial" if effects != "partial" else "unknown"


@on_operation("DeliveryFailure", "no effects, without a receipt", "evidence_invalid")
def _(op: Doc, board: Board) -> bool | None:
    return op["disposition"] == "none" and op["evidence"].pop("receipt", None) is not None


@fault("DeliveryFailure: before the budget is spent", "reconciliation_pending")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    op = commit["operations"][0]
    if op["kind"] != "DeliveryFailure":
        return None
    op["evidence"].pop("attempts", None)
    commit["at"] = board.tables()["completion_times"][op["work_id"]]
    return with_operations(commit, [op])


@on_operation("DeliveryFailure", "without the end of the run")
def _(op: Doc, board: Board) -> None:
    del op["evidence"]["run_id"]
    del op["evidence"]["run_attempt"]


@on_operation("DeliveryFailure", "of a delivery that is settled")
def _(op: Doc, board: Board) -> bool | None:
    for work in board.tables()["works"].values():
        if work["barrier"] == "verified":
            for name in ("work_id", "claim_id", "completion_id"):
                op[name] = work[name]
            return None
    return False


# Operator and observers


@on_operation("WorkCancellation", "of a Work that is not there")
def _(op: Doc, board: Board) -> None:
    op["work_id"] = "0" * 64


@fault("WorkCancellation: another owner than it fences", "claim_mismatch")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] != "cancel_work":
        return None
    commit["operations"][0]["claim_id"] = "c_none"
    return with_operations(commit, commit["operations"])


@fault("WorkCancellation: of completed Work")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] != "cancel_work":
        return None
    for work in board.tables()["works"].values():
        if work["state"] == "completed":
            op = {"kind": "WorkCancellation", "work_id": work["work_id"], "reason": "late"}
            return with_operations(commit, [op])
    return None


@on_operation("WorkCancellation", "a reason that is no code")
def _(op: Doc, board: Board) -> None:
    op["reason"] = "because\n"


@on_operation("Control", "a value of another type")
def _(op: Doc, board: Board) -> None:
    op["value"] = 1


@on_operation("Control", "an unknown switch")
def _(op: Doc, board: Board) -> None:
    op["control"] = "force_release"


@on_operation("Control", "a credential generation used before")
def _(op: Doc, board: Board) -> None:
    op["control"], op["value"] = "credential_generation", "initial"


@on_operation("Observation", "ready without proof")
def _(op: Doc, board: Board) -> None:
    op["state"] = "ready"
    op["read_status"] = "http_500"


@on_operation("Observation", "ready while not merged or not closed")
def _(op: Doc, board: Board) -> None:
    op["state"], op["read_status"] = "ready", "ok"
    op.pop("merged", None)
    op["resource_state"] = "open"


@on_operation("Observation", "under another credential generation")
def _(op: Doc, board: Board) -> None:
    op["credential_generation"] = "stolen"


@on_operation("Observation", "a condition that does not fit")
def _(op: Doc, board: Board) -> None:
    op["condition"] = "merged" if op["resource"]["kind"] == "issue" else "closed"


@on_operation("Observation", "a name used before")
def _(op: Doc, board: Board) -> bool | None:
    known = board.tables()["observation_ids"]
    if not known:
        return False
    op["observation_id"] = next(iter(known))
    return None
