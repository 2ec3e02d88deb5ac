"""The one publication path: read, replay, recognise, build, check, append, or begin again.

Source: specification 1, §7.7. A lost race discards the whole decision; an unknown outcome is
settled by looking for the request. It decides nothing about what a request may do.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from callboard.board.ledger import replay
from callboard.board.ledger.history import History
from callboard.board.projection.entities import RequestState
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.envelope import read_line
from callboard.board.publishing.intents import Candidate, Intent, Nothing
from callboard.board.storage.store import Appended, LedgerStore, LedgerTip
from callboard.clock import Clock
from callboard.errors import CallboardError

DEFAULT_PATIENCE_S = 30.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Accepted:
    """A committed request. `source` is the commit it was decided on; `replayed` tells that it
    stood already and nothing was written."""

    request: RequestState
    source: str | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class Compacted:
    """A line, newline included, that stands for a whole ledger, and what to say of it in Git."""

    line: bytes
    message: str


T = TypeVar("T")

Turn = Callable[[float], AbstractContextManager[None]]
"""Waits at most so many seconds for this process's turn to write, and holds it for the block."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _no_turn(_wait_s: float) -> AbstractContextManager[None]:
    return nullcontext()


class Publisher:
    """Publishes intents to one ledger store; keeps the validated history between calls.

    `patience_s` bounds how long lost races are retried, `turn` keeps writers of one host from
    racing each other where it can; the store's compare and append decides. One instance serves
    one thread at a time; it locks itself.
    """

    def __init__(
        self,
        store: LedgerStore,
        clock: Clock,
        *,
        patience_s: float = DEFAULT_PATIENCE_S,
        chance: random.Random | None = None,
        pause: Callable[[float], None] = _pause,
        turn: Turn = _no_turn,
    ) -> None:
        self._store = store
        self._clock = clock
        self._patience_s = patience_s
        self._chance = chance or random.Random()
        self._pause = pause
        self._turn = turn
        self._lock = threading.RLock()
        self._history = self._unread()
        self._tip = LedgerTip(None, b"")

    def _unread(self) -> History:
        return History(self._store.ledger_at)

    def refresh(self) -> History:
        """The validated history at the present tip; raises `ledger_invalid`."""
        with self._lock:
            revision = self._store.revision()
            if revision == self._tip.revision and revision is not None:
                return self._history
            tip = self._store.read()
            known = self._history
            self._history, self._tip = self._unread(), LedgerTip(None, b"")
            self._history, self._tip = known.continued(tip.data), tip
            return self._history

    @property
    def revision(self) -> str | None:
        """The Git commit whose ledger the last `refresh` answered."""
        return self._tip.revision

    def decision_time(self, projection: Projection) -> int:
        """One time for a whole decision: never before the last commit's."""
        return max(self._clock.now_ms(), projection.last_at)

    def publish(self, intent: Intent) -> Accepted | Nothing:
        """Carry an intent to one committed result, or to the reason why nothing is written.

        Raises the refusal of the request itself, or `contention` when every try until the
        deadline lost its race.
        """
        details: dict[str, object] = {"request_id": intent.request_id}
        outcome = self._until_decided(lambda: self._attempt(intent), details)
        assert outcome is not None
        return outcome

    def compact(self, make: Callable[[History, str, int], Compacted]) -> Compacted:
        """Put one line in the place of the whole ledger, as `make` says of each tip it meets.

        `make` is given the history, the revision that holds it and the decision time. Raises what
        it refuses, `queue_missing`, and `contention` when every try lost its race.
        """
        compacted = self._until_decided(lambda: self._replace(make), {})
        assert compacted is not None
        return compacted

    def _until_decided(self, attempt: Callable[[], T], details: dict[str, object]) -> T:
        """What `attempt` answers other than None, which is a lost race."""
        with self._lock:
            deadline = time.monotonic() + self._patience_s
            pause_s = _FIRST_PAUSE_S
            while True:
                with self._turn(max(0.0, deadline - time.monotonic())):
                    outcome = attempt()
                if outcome is not None:
                    return outcome
                if time.monotonic() >= deadline:
                    raise CallboardError(
                        "contention",
                        f"other writers won every race for {self._patience_s:g} s",
                        "nothing was written; try again",
                        details,
                    )
                self._pause(self._chance.uniform(0, pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _replace(self, make: Callable[[History, str, int], Compacted]) -> Compacted | None:
        history = self.refresh()
        base = self._tip
        if base.revision is None:
            raise no_board("checkpoint")
        made = make(history, base.revision, self.decision_time(history.projection))
        # What is written is what a reader makes of it.
        after = History.read(made.line, self._store.ledger_at)
        try:
            outcome = self._store.replace(base, made.line, message=made.message)
        except CallboardError as error:
            if error.code != "outcome_unknown":
                raise
            # The next tip tells whether it stands.
            return made if self.refresh().projection.tip == after.projection.tip else None
        if not isinstance(outcome, Appended):
            return None
        self._history, self._tip = after, outcome.tip
        return made

    def _attempt(self, intent: Intent) -> Accepted | Nothing | None:
        history = self.refresh()
        projection = history.projection
        known = projection.requests.get(intent.request_id)
        if known is not None:
            return self._recognise(intent, known, history)
        if projection.tip is None and intent.kind != "submit":
            raise no_board(intent.kind)
        at = self.decision_time(projection)
        source = projection.tip
        candidate = intent.build(projection, at, identities.commit_id(source, intent.request_id))
        if isinstance(candidate, Nothing):
            return candidate
        line = replay.commit_bytes(assemble(projection, intent, candidate, at))
        # What is written is what a reader makes of it: bounds and types are judged on the bytes.
        read = read_line(line[:-1])
        replay.apply(projection, read)
        try:
            if candidate.judge is not None:
                candidate.judge(projection)
            outcome = self._store.append(self._tip, line, message=_message(intent, candidate))
        except CallboardError as error:
            replay.take_back(projection)
            if error.code != "outcome_unknown":
                raise
            # The next try looks for the request id before it writes anything.
            return None
        except BaseException:
            replay.take_back(projection)
            raise
        if isinstance(outcome, Appended):
            history.adopt(outcome.tip.data)
            self._tip = outcome.tip
            return Accepted(projection.requests[intent.request_id], source, replayed=False)
        replay.take_back(projection)
        return None

    @staticmethod
    def _recognise(intent: Intent, known: RequestState, history: History) -> Accepted:
        projection = history.projection
        ordinal = projection.commit_ids[known.id]
        if not intent.is_same(known, projection, lambda: history.commit(ordinal)):
            raise CallboardError(
                "request_conflict",
                f"request id {intent.request_id!r} already stands for another "
                f"{known.kind} request, in commit {known.id}",
                "use a new request id for a new request",
                {"commit_id": known.id, "kind": known.kind},
            )
        return Accepted(known, history.previous(known.id), replayed=True)


def no_board(kind: str) -> CallboardError:
    """The refusal of what needs a board that nobody has posted to yet."""
    return CallboardError(
        "queue_missing",
        f"a {kind} request cannot begin a board",
        "post a first plan: callboard submit FILE",
    )


def assemble(
    projection: Projection, intent: Intent, candidate: Candidate, at: int
) -> wire.QueueCommit:
    """The commit that carries a candidate on top of the projection's tip."""
    epoch = projection.policy_epoch
    if isinstance(candidate.operations[0], ops.Policy):
        # A commit that begins an epoch stands in it.
        epoch = candidate.operations[0].epoch
    assert epoch is not None
    request = wire.REQUEST_TYPES[intent.kind](
        id=intent.request_id,
        # An intent's kind and parameters belong together, which no type says; whether they do is
        # judged when the line is read back before it is written.
        parameters=candidate.parameters,  # type: ignore[arg-type]
        fingerprint=identities.fingerprint(intent.actor, intent.kind, candidate.parameters),
    )
    return wire.QueueCommit(
        version=3,
        id=identities.commit_id(projection.tip, intent.request_id),
        previous=projection.tip,
        request=request,
        actor=intent.actor,
        policy_epoch=epoch,
        at=at,
        operations=candidate.operations,
    )


def _message(intent: Intent, candidate: Candidate) -> str:
    return (
        f"{intent.kind}: {len(candidate.operations)} operation(s)\n\nRequest: {intent.request_id}\n"
    )
