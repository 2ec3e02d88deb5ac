"""Faults in Work, in a Policy, and in a batch of Claims."""

import random
from collections.abc import Callable

from .canon import Doc, work_identity
from .faults import fault, on_operation
from .model import Board
from .writing import person, reseal, with_operations

# Work


@on_operation("Work", "an id that is not derived")
def _(op: Doc, board: Board) -> None:
    op["work_id"] = "0" * 64


@on_operation("Work", "a priority outside 1 to 5")
def _(op: Doc, board: Board) -> None:
    op["priority"] = 6


@on_operation("Work", "a pool that is not there")
def _(op: Doc, board: Board) -> None:
    op["pool"] = "nowhere"


@on_operation("Work", "a worker that is not there")
def _(op: Doc, board: Board) -> None:
    op["worker_profile"] = "nobody"


@on_operation("Work", "an unregistered accounting key", firm=False)
def _(op: Doc, board: Board) -> None:
    op["fairness_key"] = "run-4711"


@on_operation("Work", "another trust domain", firm=False)
def _(op: Doc, board: Board) -> None:
    op["batch_trust_domain"] = "wider"


@on_operation("Work", "a predecessor that is not there")
def _(op: Doc, board: Board) -> None:
    op["depends_on"] = [{"kind": "work", "work_id": "e" * 64}]


@on_operation("Work", "a predecessor in another graph")
def _(op: Doc, board: Board) -> bool | None:
    for other in board.tables()["works"].values():
        if other["graph_id"] != op["graph_id"]:
            op["depends_on"] = [{"kind": "work", "work_id": other["work_id"]}]
            return None
    return False


@on_operation("Work", "a node that waits for itself")
def _(op: Doc, board: Board) -> None:
    op["depends_on"] = [{"kind": "work", "work_id": op["work_id"]}]


@fault("Work: two nodes that wait for each other")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    known = board.tables()["works"]
    fresh = [
        op for op in commit["operations"] if op["kind"] == "Work" and op["work_id"] not in known
    ]
    if not fresh:
        return None
    one, other = fresh[0], dict(fresh[0])
    other["node_key"] = "partner"
    other["work_id"] = work_identity(one["graph_id"], "partner")
    other["depends_on"] = [{"kind": "work", "work_id": one["work_id"]}]
    one["depends_on"] = [{"kind": "work", "work_id": other["work_id"]}]
    return with_operations(commit, [*commit["operations"], other])


@on_operation("Work", "a payload past the limit")
def _(op: Doc, board: Board) -> None:
    op["payload"] = {"effect_contract": {"kind": "none"}, "pad": "x" * 16384}


@on_operation("Work", "a payload no worker could be handed", "assignment_limit")
def _(op: Doc, board: Board) -> bool | None:
    policy = board.tables()["policy"]
    limits = policy["limits"] if policy else {"assignment_bytes": 0, "payload_bytes": 0}
    known = op["work_id"] in board.tables()["works"]
    if known or limits["payload_bytes"] < 9000 or limits["assignment_bytes"] > 8000:
        return False
    op["payload"] = {"pad": "x" * 8500}
    return None


@on_operation("Work", "an edge with a condition of the other kind")
def _(op: Doc, board: Board) -> bool | None:
    for edge in op["depends_on"]:
        if edge["kind"] == "issue":
            edge["condition"] = "merged"
            return None
        if edge["kind"] == "pull_request":
            edge["condition"] = "closed"
            return None
    return False


@fault("Work: a known node with another definition")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    known = board.tables()["works"]
    for op in commit["operations"]:
        if op["kind"] == "Work" and op["work_id"] in known:
            op["priority"] = op["priority"] % 5 + 1
            return with_operations(commit, commit["operations"])
    return None


@fault("Work: a node twice in one submission")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    works = [op for op in commit["operations"] if op["kind"] == "Work"]
    if not works:
        return None
    return with_operations(commit, [*commit["operations"], works[0]])


@fault("Policy: not only at the start or by an administrator")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] != "submit" or board.tables()["policy"] is None:
        return None
    epoch = commit["policy_epoch"]
    op = {"kind": "Policy", "epoch": epoch, "policy": board.tables()["policy"]}
    return with_operations(commit, [op, *commit["operations"]])


def spoiled_policy(note: str, spoil: Callable[[Doc], bool | None]) -> None:
    """A fault inside a Policy."""

    def inside(op: Doc, board: Board) -> bool | None:
        return spoil(op["policy"])

    on_operation("Policy", note)(inside)


def _empty_key(policy: Doc) -> None:
    policy["accounting_weights"][""] = 2


def _no_empty_key(policy: Doc) -> None:
    del policy["accounting_weights"][""]


def _weight(policy: Doc) -> None:
    policy["accounting_weights"]["z"] = 1001


def _classes(policy: Doc) -> None:
    policy["class_weights"] = [8, 4, 2, 1]


def _mode(policy: Doc) -> None:
    policy["mode"] = "fifo"


def _ceiling(policy: Doc) -> None:
    policy["limits"]["ledger_bytes"] = 67108865


def _few_operations(policy: Doc) -> None:
    policy["limits"]["operations"] = 2


def _default(policy: Doc) -> None:
    next(iter(policy["pools"].values()))["default_profile"] = "nobody"


def _worker_file(policy: Doc) -> None:
    for profile in next(iter(policy["pools"].values()))["profiles"].values():
        profile["workflow"] = ".github/workflows/../w.lock.yml"


def _principal(policy: Doc) -> None:
    for profile in next(iter(policy["pools"].values()))["profiles"].values():
        if "principal" in profile:
            del profile["principal"]
        else:
            profile["principal"] = "5"


def _producers(policy: Doc) -> bool | None:
    if "authorization" not in policy:
        return False
    policy["producers"] = {"101": {"pools": [], "priorities": [], "fairness_keys": []}}
    return None


for _note, _spoil in (
    ("the empty key weighs two", _empty_key),
    ("no empty key", _no_empty_key),
    ("a weight past the bound", _weight),
    ("four classes", _classes),
    ("an unknown mode", _mode),
    ("a limit past its ceiling", _ceiling),
    ("too few operations for one worker", _few_operations),
    ("a default profile that is not there", _default),
    ("a worker file outside its folder", _worker_file),
    ("a principal where none belongs, or none where one does", _principal),
    ("producers under aw", _producers),
):
    spoiled_policy(_note, _spoil)


@fault("Policy: on a board that is not quiet", "policy_not_quiescent")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    tables = board.tables()
    busy = any(w["state"] in ("available", "claimed") for w in tables["works"].values())
    if not busy or rng.random() < 0.9:
        return None
    op = {"kind": "Policy", "epoch": "p_new", "policy": tables["policy"]}
    commit["actor"] = person("administrator", "900")
    commit["request"] = {**commit["request"], "kind": "policy", "parameters": {"operations": []}}
    return with_operations({**commit, "policy_epoch": "p_new"}, [op])


@fault("Policy: an epoch used before")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    op = commit["operations"][0]
    if op["kind"] != "Policy" or board.tables()["policy"] is None:
        return None
    op["epoch"] = next(iter(board.tables()["seen_epochs"]))
    return with_operations({**commit, "policy_epoch": op["epoch"]}, [op])


# Grants


def claims_in(commit: Doc) -> list[Doc]:
    """The Claims of a commit."""
    return [op for op in commit["operations"] if op["kind"] == "Claim"]


@fault("Claim: a prefix that could be longer")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if len(claims_in(commit)) < 2:
        return None
    return with_operations(commit, commit["operations"][:-1])


@fault("Claim: winners in another order")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    claims = claims_in(commit)
    if len(claims) < 2:
        return None
    one, other = claims[0], claims[-1]
    one["work_id"], other["work_id"] = other["work_id"], one["work_id"]
    return with_operations(commit, commit["operations"])


@fault("Claim: a Work that did not win")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    claims = claims_in(commit)
    won = [op["work_id"] for op in claims]
    losers = [name for name in board.tables()["works"] if name not in won]
    if not claims or not losers:
        return None
    claims[-1]["work_id"] = rng.choice(losers)
    return with_operations(commit, commit["operations"])


@fault("Claim: more than was asked for")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    count = len(claims_in(commit))
    if count < 2:
        return None
    commit["request"]["parameters"]["max_claims"] = count - 1
    return reseal(commit)


@fault("Claim: more workers than were asked for")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    groups = len({op["dispatch_id"] for op in claims_in(commit)})
    if groups < 2:
        return None
    commit["request"]["parameters"]["max_dispatches"] = groups - 1
    return reseal(commit)


@fault("Claim: only looks, no grant")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    looks = [op for op in commit["operations"] if op["kind"] == "Observation"]
    if not looks or not claims_in(commit):
        return None
    return with_operations(commit, looks)


@on_operation("Claim", "a claim id of another make")
def _(op: Doc, board: Board) -> None:
    op["claim_id"] = "c_mine"


@on_operation("Claim", "a group of another make")
def _(op: Doc, board: Board) -> None:
    op["dispatch_id"] = "d_mine"


@on_operation("Claim", "another handle")
def _(op: Doc, board: Board) -> None:
    op["handle"] = "h2" if op["handle"] != "h2" else "h1"


@on_operation("Claim", "an observation it does not rest on")
def _(op: Doc, board: Board) -> None:
    op["observations"] = [*op["observations"], "o-none"]
