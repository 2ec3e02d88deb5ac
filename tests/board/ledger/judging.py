"""A changed commit before the engine and before the model: one verdict, or a difference.

Both see the ledger with the one commit changed: as the change left it, or with everything a forger
can make fit again, so that what remains to be judged is what the commit means.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from callboard.board.ledger import replay
from callboard.board.projection.state import Projection
from callboard.board.protocol.envelope import ReadLine, read_line
from callboard.errors import CallboardError
from tests.board.ledger import changes
from tests.board.ledger.changes import Change, Doc
from tests.board.ledger.comparison import line_of, plain
from tests.model import canon
from tests.model.canon import Refused
from tests.model.model import Board
from tests.model.writing import reseal


class Difference(NamedTuple):
    """Where the two readings part: the change, the place in the history, and what each says."""

    field: str
    what: str
    place: int
    step: int
    engine: str
    model: str
    change: Change

    def __str__(self) -> str:
        value = "nothing"
        with contextlib.suppress(KeyError, IndexError):
            value = json.dumps(changes.at(self.change.document, self.change.path))[:90]
        return (
            f"{self.field} {self.what} {value} at commit {self.place}+{self.step}: "
            f"engine {self.engine}, model {self.model}"
        )


def wire(document: Doc) -> bytes:
    """A line for any document, also for one that the codec would not write."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


class Trial:
    """One history, walked commit by commit, with every change tried before the commit is taken."""

    def __init__(self, history: list[Doc]) -> None:
        self.history = history
        self.lines = [read_line(line_of(commit)[:-1]) for commit in history]
        self.known = changes.known(history)
        self.index = 0
        self.tried = 0
        self.accepted = 0
        self.codes: set[str] = set()
        self._projection = Projection()
        self._board = Board()

    def advance(self) -> None:
        """Take the next commit of the history as it is."""
        replay.apply(self._projection, self.lines[self.index])
        self._board.apply(self.history[self.index])
        self.index += 1

    def changes(self) -> Iterator[Change]:
        """Every change of the next commit."""
        return changes.changes(self.history[self.index], self.known)

    def judge(self, change: Change, *, forged: bool, follow: int) -> Difference | None:
        """Try one change, and the `follow` commits after it; both readings must fare alike."""
        self.tried += 1
        rest: list[Doc] = self.history[self.index + 1 :][:follow]
        document = change.document
        if forged:
            document, rest = forge(self.history[self.index], document, rest)
        engine, model = self._engine_first(document), self._model_first(document)
        if (engine == "accepted") != (model == "accepted"):
            return self._difference(change, 0, engine, model)
        if engine != "accepted":
            self.codes.add(engine)
            return None
        self.accepted += 1
        return self._judge_rest(change, [document, *rest])

    def _judge_rest(self, change: Change, commits: list[Doc]) -> Difference | None:
        """Both accepted the changed commit: compare the states, and all that follows."""
        projection, board = Projection(), board_like(self._board)
        for read in self.lines[: self.index]:
            replay.apply(projection, read)
        for step, commit in enumerate(commits):
            engine, model = engine_verdict(projection, commit), model_verdict(board, commit)
            if (engine == "accepted") != (model == "accepted"):
                return self._difference(change, step, engine, model)
            if step in (0, len(commits) - 1) and plain(projection) != board.state():
                return self._difference(change, step, "another state", model)
            if engine != "accepted":
                self.codes.add(engine)
                if plain(projection) != board.state():
                    return self._difference(change, step, "another state", model)
                return None
        return None

    def _engine_first(self, document: Doc) -> str:
        verdict = engine_verdict(self._projection, document)
        if verdict == "accepted":
            replay.take_back(self._projection)
        return verdict

    def _model_first(self, document: Doc) -> str:
        return model_verdict(board_like(self._board), document)

    def _difference(self, change: Change, step: int, engine: str, model: str) -> Difference:
        return Difference(change.field, change.what, self.index, step, engine, model, change)


def board_like(board: Board) -> Board:
    """A board in the same state; the model never changes tables that it has."""
    other = Board()
    other._tables = board.tables()
    return other


def engine_verdict(projection: Projection, document: Doc) -> str:
    """`accepted`, or the code with which the engine refuses."""
    try:
        read: ReadLine = read_line(wire(document))
        replay.apply(projection, read)
    except CallboardError as error:
        return error.code
    return "accepted"


def model_verdict(board: Board, document: Doc) -> str:
    """`accepted`, or the reason of the model; what it stumbles over counts as a difference."""
    tip = board.tables()["tip"]
    try:
        board.apply(document)
    except Refused as refusal:
        return refusal.reason
    # A known line is read by the model without a word; to the engine it is no commit of its own.
    return "accepted" if board.tables()["tip"] != tip else "repeated"


# --- what a forger can make fit -----------------------------------------------------------------


def forge(old: Doc, changed: Doc, rest: list[Doc]) -> tuple[Doc, list[Doc]]:
    """The changed commit with its ids, parameters and fingerprint made anew, the rest following."""
    try:
        names = renamed(old, changed)
        made = sealed(with_names(changed, names))
        later = [sealed(with_names(one, names)) for one in rest] if names else rest
    # What is of no sound shape can only stand as it is.
    except (KeyError, TypeError, AttributeError, IndexError, Refused):
        return changed, rest
    return made, later


def renamed(old: Doc, changed: Doc) -> dict[str, str]:
    """Identities that follow from what was changed: those of Work, grants, epoch and commit."""
    names: dict[str, str] = {}
    was, now = old["request"]["id"], changed["request"]["id"]
    for before, after in zip(old["operations"], changed["operations"], strict=False):
        names |= _renamed_by(before, after)
        if was != now and after.get("kind") == "Claim":
            names |= _regranted(after, now)
    if changed["id"] == old["id"] and (was, old["previous"]) != (now, changed["previous"]):
        names[old["id"]] = canon.commit_identity(changed["previous"], now)
    elif changed["id"] != old["id"] and isinstance(changed["id"], str):
        names[old["id"]] = changed["id"]
    return names


def _renamed_by(before: Doc, after: Doc) -> dict[str, str]:
    """The new name of what one operation brings in."""
    if before["kind"] == "Work" and after["work_id"] == before["work_id"]:
        made = canon.work_identity(after["graph_id"], after["node_key"])
        return {before["work_id"]: made} if made != before["work_id"] else {}
    if before["kind"] == "Policy" and before["epoch"] != after["epoch"]:
        return {before["epoch"]: after["epoch"]}
    return {}


def _regranted(claim: Doc, request_id: str) -> dict[str, str]:
    """The names of a Claim and of its group under another request."""
    base = canon.text_digest(request_id)
    return {
        claim[name]: f"{letter}_{base}_{claim[name].rsplit('_', 1)[-1]}"
        for name, letter in (("claim_id", "c"), ("dispatch_id", "d"))
    }


def with_names(value: Any, names: dict[str, str]) -> Any:
    """A document in which identities have other names."""
    if not names:
        return value
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [with_names(member, names) for member in value]
    if isinstance(value, dict):
        return {key: with_names(member, names) for key, member in value.items()}
    return value


def sealed(commit: Doc) -> Doc:
    """The commit with parameters that repeat its operations, and its fingerprint."""
    request = dict(commit["request"])
    if "operations" in request["parameters"]:
        request["parameters"] = {"operations": commit["operations"]}
    elif "nodes" in request["parameters"]:
        nodes = [one for one in commit["operations"] if one["kind"] == "Work"]
        request["parameters"] = {"nodes": nodes}
    return reseal({**commit, "request": request})


# --- whole histories ----------------------------------------------------------------------------


def differences(
    history: list[Doc], *, forged: bool, seed: int, share: float, follow: int
) -> Iterator[Difference]:
    """The differences over a history, of a share of the changes of each commit."""
    chance = random.Random(seed)
    trial = Trial(history)
    while trial.index < len(history):
        for change in trial.changes():
            if forged and change.path[:2] == ("request", "parameters") and _repeats(history, trial):
                continue
            if share < 1 and chance.random() >= share:
                continue
            found = trial.judge(change, forged=forged, follow=follow)
            if found is not None:
                yield found
        trial.advance()


def _repeats(history: list[Doc], trial: Trial) -> bool:
    """Whether the parameters follow from the operations, so that a forger writes them anew."""
    return bool({"operations", "nodes"} & history[trial.index]["request"]["parameters"].keys())
