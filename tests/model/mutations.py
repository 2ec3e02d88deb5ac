"""Faults, one at a time, put into a history that is otherwise sound.

Each mutation is a place in a history and the commits to try there: all but the last are accepted,
the last must be refused. `firm` says that the written rules forbid it in so many words; the others
rest on the reading the model documents.
"""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

from . import faults_of_plans, faults_of_runs
from .canon import Doc, commit_identity
from .faults import FAULTS
from .model import Board
from .writing import person, reseal, seal

# The two catalogues fill the list while they are imported.
CATALOGUES = (faults_of_plans, faults_of_runs)


@dataclass(frozen=True)
class Mutation:
    """Try `commits` after `history[:index]`; the last one must be refused, with `code` if known."""

    index: int
    commits: list[Doc]
    note: str
    code: str | None
    firm: bool


def mutations(history: list[Doc], seed: int, per_commit: int = 3) -> Iterator[Mutation]:
    """Faulty variants of a history: a few at every commit, others between commits."""
    rng = random.Random(seed)
    board = Board()
    for index, commit in enumerate(history):
        found = list(applicable(index, commit, board, history, rng))
        rng.shuffle(found)
        # Faults of one operation first: those of the envelope fit everywhere and crowd them out.
        special = [mutation for mutation in found if ":" in mutation.note][: per_commit - 1]
        general = [mutation for mutation in found if ":" not in mutation.note]
        yield from [*special, *general][:per_commit]
        board.apply(commit)


def applicable(
    index: int, commit: Doc, board: Board, history: list[Doc], rng: random.Random
) -> Iterator[Mutation]:
    """Every fault that makes sense at this place."""
    for fault in FAULTS:
        made = fault.make(copy.deepcopy(commit), board, rng)
        if made is not None:
            yield Mutation(index, [made], fault.note, fault.code, fault.firm)
    if index == 0:
        return
    yield from of_chain(index, commit, history, rng)
    yield from after_pause(index, commit, board)
    again = repeated(commit)
    if again is not None:
        looks = any(op["kind"] == "Observation" for op in commit["operations"])
        note = "the same step a second time"
        yield Mutation(index, [commit, again], note, None, not looks)


def of_chain(index: int, commit: Doc, history: list[Doc], rng: random.Random) -> Iterator[Mutation]:
    """Faults in how a commit hangs on the ones before it."""
    earlier = rng.choice(history[:index])
    root = {**commit, "previous": None}
    yield Mutation(index, [root], "a second root", None, True)
    lost = {**commit, "previous": "q_" + "0" * 64}
    yield Mutation(index, [lost], "the predecessor is missing", None, True)
    if index > 1:
        fork = {**commit, "previous": history[index - 2]["id"]}
        yield Mutation(index, [fork], "a fork", None, True)
    same_id = {**commit, "id": earlier["id"]}
    yield Mutation(index, [same_id], "a commit id used twice", None, True)
    if commit["request"]["kind"] != "dispatch_next":
        request = {**commit["request"], "id": earlier["request"]["id"]}
        twice = {**commit, "request": request}
        yield Mutation(index, [twice], "a request id used twice", None, True)


def after_pause(index: int, commit: Doc, board: Board) -> Iterator[Mutation]:
    """The same commit, but with the operator's pause before it."""
    kind = commit["request"]["kind"]
    started = any(op.get("state") == "started" for op in commit["operations"])
    if kind == "submit":
        control = "admission_paused"
    elif kind == "dispatch_next" or started:
        control = "grants_paused"
    else:
        return
    tables = board.tables()
    op = {"kind": "Control", "control": control, "value": True, "reason": "maintenance"}
    pause = seal(
        tables["tip"],
        "control",
        person("administrator", "900"),
        {"operations": [op]},
        [op],
        commit["at"],
        "pause-before-" + commit["request"]["id"],
        tables["policy_epoch"],
    )
    yield Mutation(
        index, [pause, {**commit, "previous": pause["id"]}], "while paused", control, True
    )


def repeated(commit: Doc) -> Doc | None:
    """The same operations in a later request, where that can never be right."""
    kinds = {op["kind"] for op in commit["operations"]}
    once = {"Completion", "ClaimCancellation", "WorkCancellation", "Release", "Observation"}
    started = any(op.get("state") in ("started", "rejected") for op in commit["operations"])
    if not started and not kinds & once:
        return None
    if "Claim" in kinds:
        return None
    request_id = "again-" + commit["request"]["id"]
    request = {**commit["request"], "id": request_id}
    name = commit_identity(commit["id"], request_id)
    return reseal({**commit, "id": name, "previous": commit["id"], "request": request})
