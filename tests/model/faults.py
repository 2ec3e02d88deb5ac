"""The catalogue of faults in a single commit.

Each takes a commit of its own to spoil, the board before it, and chance; it gives the spoiled
commit back, resealed where the fault is not about the seal, or None where it does not apply.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from .canon import Doc
from .model import Board
from .writing import person, reseal, with_operations

Make = Callable[[Doc, Board, random.Random], "Doc | None"]


@dataclass(frozen=True)
class Fault:
    """One way to spoil a commit."""

    note: str
    make: Make
    code: str | None
    firm: bool


FAULTS: list[Fault] = []


def fault(note: str, code: str | None = None, firm: bool = True) -> Callable[[Make], Make]:
    """Put a function into the catalogue."""

    def keep(make: Make) -> Make:
        FAULTS.append(Fault(note, make, code, firm))
        return make

    return keep


def on_operation(
    kind: str, note: str, code: str | None = None, firm: bool = True
) -> Callable[[Callable[[Doc, Board], bool | None]], None]:
    """A fault of the first operation of a kind; the function spoils it, False means it cannot."""

    def keep(spoil: Callable[[Doc, Board], bool | None]) -> None:
        def make(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
            for op in commit["operations"]:
                if op["kind"] == kind:
                    if spoil(op, board) is False:
                        return None
                    return with_operations(commit, commit["operations"])
            return None

        FAULTS.append(Fault(f"{kind}: {note}", make, code, firm))

    return keep


def on_actor(
    request: str,
    note: str,
    code: str | None = None,
    where: Callable[[Doc, Board], bool] = lambda commit, board: True,
) -> Callable[[Callable[[Doc], object]], None]:
    """A fault in who makes a kind of request; `where` says for which of them it is one."""

    def keep(spoil: Callable[[Doc], object]) -> None:
        def make(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
            if commit["request"]["kind"] != request or not where(commit, board):
                return None
            spoil(commit["actor"])
            return reseal(commit)

        FAULTS.append(Fault(f"{request}: {note}", make, code, True))

    return keep


# The envelope


@fault("fingerprint of something else")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["request"]["fingerprint"] = "0" * 64
    return commit


@fault("another version")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["version"] = rng.choice([2, 4, True])
    return commit


@fault("an unknown field")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["note"] = "hello"
    return commit


@fault("null where a field should be absent")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["trace"] = None
    return commit


@fault("a time that is none")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["at"] = rng.choice([-1, 2**53, True, 0.5, "1"])
    return commit


@fault("an epoch nobody installed")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["policy_epoch"] = "p_never"
    return commit


@fault("no operations")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["operations"] = []
    return commit


@fault("parameters that ask for something else")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    parameters = commit["request"]["parameters"]
    for name in ("operations", "nodes"):
        if name in parameters:
            parameters[name] = [*parameters[name], parameters[name][0]]
            return reseal(commit)
    return None


@fault("an unknown parameter")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["request"]["parameters"]["prefer"] = "w"
    return reseal(commit)


@fault("a role that may not ask this")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    role = "reconciler" if commit["actor"]["role"] == "projector" else "projector"
    commit["actor"] = person(role, "1")
    return reseal(commit)


@fault("a producer that asks for more than Work")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if commit["request"]["kind"] in ("submit", "cancel_work", "deployment"):
        return None
    commit["actor"] = person("producer", "101")
    return reseal(commit)


@fault("a run id without its attempt")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if "run_attempt" not in commit["actor"]:
        return None
    del commit["actor"]["run_attempt"]
    return reseal(commit)


@fault("a principal that is no decimal")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["actor"]["principal"] = rng.choice(["007", "", "me", 7, "1\n", "9" * 257])
    return reseal(commit)


@fault("an identity out of bounds")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["request"]["id"] = rng.choice(["", "\u00e9" * 129, "a\u0001", "a\u007f", 5])
    return commit


@fault("an unknown kind of request")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["request"]["kind"] = "claim"
    return reseal(commit)


@fault("an unknown operation")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    commit["operations"][0]["kind"] = "Lease"
    return with_operations(commit, commit["operations"])


@fault("an operation of another request kind")
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    kind = commit["request"]["kind"]
    if kind == "control" or board.tables()["policy"] is None:
        return None
    op = {"kind": "Control", "control": "grants_paused", "value": False, "reason": "x"}
    return with_operations(commit, [*commit["operations"], op])


@fault("another repository", firm=False)
def _(commit: Doc, board: Board, rng: random.Random) -> Doc | None:
    if board.tables()["policy"] is None or commit["operations"][0].get("state") == "started":
        return None
    commit["actor"]["repository"] = "else/where"
    return reseal(commit)
