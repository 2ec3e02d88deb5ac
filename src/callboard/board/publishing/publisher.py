"""The one publication path: read, replay, recognise, build, check, append, or begin again.

Source: specification 1, §7.7. A lost race discards the whole decision; an unknown outcome is
settled by looking for the request. It decides nothing about what a request may do. Where a look
asks another machine, a decision is first tried upon the tip that is known: the append tells
whether it still holds, and whatever is answered without one is decided upon a tip just read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from callboard import telemetry
from callboard.board.ledger import replay
from callboard.board.ledger.history import History
from callboard.board.projection.entities import RequestState
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol.envelope import read_line
from callboard.board.publishing import measures
from callboard.board.publishing.assembly import assemble, message_of
from callboard.board.publishing.intents import Intent, Nothing
from callboard.board.storage.store import Appended, LedgerStore, LedgerTip
from callboard.clock import Clock
from callboard.errors import CallboardError

DEFAULT_PATIENCE_S = 30.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5
_MAX_DOUBTS = 3


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


@dataclass(frozen=True, slots=True)
class _Made:
    """A line that was decided upon the commit `source`, and applied to the projection."""

    line: bytes
    commit: wire.QueueCommit
    source: str | None
    message: str


_View = Literal["hoped", "asked", "reread"]
"""Upon which tip is decided: the one that is known, the present one, or one known to be new."""

_Outcome = Accepted | Nothing | CallboardError | None

Turn = Callable[[float], AbstractContextManager[None]]
"""Waits at most so many seconds for this process's turn to write, and holds it for the block."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _no_turn(_wait_s: float) -> AbstractContextManager[None]:
    return nullcontext()


class _Races:
    """One request's races: how long it may go on, and growing pauses after those it lost."""

    def __init__(
        self, patience_s: float, chance: random.Random, pause: Callable[[float], None]
    ) -> None:
        self._deadline = time.monotonic() + patience_s
        self._chance = chance
        self._pause = pause
        self._pause_s = _FIRST_PAUSE_S

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, none after it."""
        return max(0.0, self._deadline - time.monotonic())

    def lost(self) -> None:
        """Wait a little before the next try."""
        self._pause(self._chance.uniform(0, self._pause_s))
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


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
        self._is_steady = False
        self._has_looked = False
        self._attempts = 0

    def _unread(self) -> History:
        return History(self._store.ledger_at)

    def refresh(self) -> History:
        """The validated history at the present tip; raises `ledger_invalid`.

        Within `steady` it is looked for once only where a look asks another machine.
        """
        with self._lock:
            known = self._tip.revision is not None
            if known and self._has_looked and self._store.is_far:
                return self._history
            return self._asked()

    def known(self) -> History:
        """The history as this process knows it, read if it knows none: for what never changes."""
        with self._lock:
            return self._history if self._tip.revision is not None else self.refresh()

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Look at a far board once in the block: at first use, or after a race was lost.

        For a pass that looks often and decides nothing by itself: what it writes is judged upon the
        tip that it is appended to.
        """
        was, self._is_steady = self._is_steady, True
        try:
            yield
        finally:
            self._is_steady = was
            self._has_looked = self._has_looked and was

    def _asked(self) -> History:
        self._has_looked = self._is_steady
        if self._tip.revision is not None and self._store.revision() == self._tip.revision:
            return self._history
        return self._reread()

    def _reread(self) -> History:
        tip = self._store.read()
        if tip.revision is not None and tip.revision == self._tip.revision:
            return self._history
        known, self._history, self._tip = self._history, self._unread(), LedgerTip(None, b"")
        self._history, self._tip = known.continued(tip.data), tip
        return self._history

    @property
    def revision(self) -> str | None:
        """The Git commit whose ledger the last look answered."""
        return self._tip.revision

    def decision_time(self, projection: Projection) -> int:
        """One time for a whole decision: never before the last commit's."""
        return max(self._clock.now_ms(), projection.last_at)

    def publish(self, intent: Intent) -> Accepted | Nothing:
        """Carry an intent to one committed result, or to the reason why nothing is written.

        Raises the refusal of the request itself, `contention` when every try until the deadline
        lost its race, or `outcome_unknown` where the request may stand and was not found.
        """
        facts = telemetry.Facts(request_id=intent.request_id, request_kind=intent.kind)
        with self._lock, telemetry.span("work-queue.publish.run", quiet=True, **facts) as span:
            publication = measures.Publication(intent.kind)
            self._attempts = 0
            try:
                answer = self._carried(intent)
            except CallboardError as error:
                publication.answered(error.code, self._attempts)
                raise
            finally:
                span.set(attempt=self._attempts)
            if isinstance(answer, Accepted):
                self._tell(span, answer)
                publication.answered("replayed" if answer.replayed else "accepted", self._attempts)
            return answer

    def _tell(self, span: telemetry.Span, answer: Accepted) -> None:
        """Say what stands now, and upon which snapshot of the ledger."""
        result = "replayed" if answer.replayed else "accepted"
        span.set(commit_id=answer.request.id, replayed=answer.replayed, result=result)
        if self.revision is not None:
            span.set(observed_git_sha=self.revision)
        span.keep()

    def _carried(self, intent: Intent) -> Accepted | Nothing:
        """The answer of `publish`, after as many tries as it takes."""
        races = _Races(self._patience_s, self._chance, self._pause)
        first: _View = "hoped" if self._store.is_far else "asked"
        view = first
        doubts = 0
        while True:
            self._attempts += 1
            with self._turn(races.left_s):
                outcome = self._attempt(intent, view)
            is_late = races.left_s <= 0
            in_doubt = isinstance(outcome, CallboardError)
            if isinstance(outcome, CallboardError):
                doubts += 1
                outcome = self._after_doubt(
                    intent, outcome, is_last=is_late or doubts == _MAX_DOUBTS
                )
            if outcome is not None:
                return outcome
            if is_late:
                raise _outrun(self._patience_s, {"request_id": intent.request_id})
            if view != "hoped":
                races.lost()
            view = first if in_doubt else "reread"

    def rehearse(self, intent: Intent) -> None:
        """Raise what publishing would refuse upon the present tip; nothing is written.

        For what is better refused before something slow is begun. It promises nothing: publishing
        judges anew.
        """
        with self._lock:
            history = self._asked()
            if isinstance(self._made(intent, history), _Made):
                replay.take_back(history.projection)

    def compact(self, make: Callable[[History, str, int], Compacted]) -> Compacted:
        """Put one line in the place of the whole ledger, as `make` says of each tip it meets.

        `make` is given the history, the revision that holds it and the decision time. Raises what
        it refuses, `queue_missing`, `contention` when every try lost its race, and
        `outcome_unknown` where the line may stand and was not found.
        """
        with self._lock:
            races = _Races(self._patience_s, self._chance, self._pause)
            doubts = 0
            while True:
                with self._turn(races.left_s):
                    made = self._replaced(make)
                if isinstance(made, CallboardError):
                    doubts += 1
                    if doubts == _MAX_DOUBTS or races.left_s <= 0:
                        raise made
                elif made is not None:
                    return made
                if races.left_s <= 0:
                    raise _outrun(self._patience_s, {})
                races.lost()

    def _replaced(
        self, make: Callable[[History, str, int], Compacted]
    ) -> Compacted | CallboardError | None:
        """One try; None for a lost race, the error for a doubt that a look did not settle."""
        history = self._asked()
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
            # The next tip tells whether it stands; where that cannot be asked, the doubt stays.
            try:
                projection = self._reread().projection
            except CallboardError as trouble:
                raise error from trouble
            return made if after.projection.tip in projection.commit_ids else error
        if not isinstance(outcome, Appended):
            return None
        self._history, self._tip = after, outcome.tip
        return made

    def _attempt(self, intent: Intent, view: _View) -> _Outcome:
        """One decision and its append; None for a lost race, the error for an unknown outcome.

        Upon a hoped-for tip only an append counts: any other answer is asked for again upon the
        tip that the store has now.
        """
        made: _Made | Accepted | Nothing | None = None
        if view == "hoped":
            made = self._hoped(intent)
        if made is None:
            history = self._reread() if view == "reread" else self._asked()
            made = self._made(intent, history)
        return self._appended(intent, made) if isinstance(made, _Made) else made

    def _hoped(self, intent: Intent) -> _Made | None:
        if self._tip.revision is None:
            return None
        try:
            made = self._made(intent, self._history)
        except CallboardError:
            return None
        return made if isinstance(made, _Made) else None

    def _made(self, intent: Intent, history: History) -> _Made | Accepted | Nothing:
        """What the intent comes to upon `history`: a line, applied already, or an answer."""
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
        trace = measures.trace_of(self._attempts)
        line = replay.commit_bytes(assemble(projection, intent, candidate, at, trace))
        # What is written is what a reader makes of it: bounds and types are judged on the bytes.
        read = read_line(line[:-1])
        replay.apply(projection, read)
        if candidate.judge is not None:
            try:
                candidate.judge(projection)
            except BaseException:
                replay.take_back(projection)
                raise
        return _Made(line, read.commit, source, message_of(intent, candidate))

    def _appended(self, intent: Intent, made: _Made) -> _Outcome:
        history = self._history
        try:
            outcome = self._store.append(self._tip, made.line, message=made.message)
        except BaseException as error:
            replay.take_back(history.projection)
            if isinstance(error, CallboardError) and error.code == "outcome_unknown":
                return error
            raise
        if not isinstance(outcome, Appended):
            replay.take_back(history.projection)
            return None
        history.adopt(outcome.tip.data)
        self._tip = outcome.tip
        measures.tell(history.projection, made.commit)
        request = history.projection.requests[intent.request_id]
        return Accepted(request, made.source, replayed=False)

    def _after_doubt(
        self, intent: Intent, doubt: CallboardError, *, is_last: bool
    ) -> Accepted | None:
        """Look for a request that may stand. Where that is not to be found out, the doubt stays."""
        doubt.details["request_id"] = intent.request_id
        try:
            history = self._reread()
        except CallboardError as error:
            raise doubt from error
        known = history.projection.requests.get(intent.request_id)
        if known is not None:
            return self._recognise(intent, known, history)
        if is_last:
            raise doubt
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


def _outrun(patience_s: float, details: dict[str, object]) -> CallboardError:
    return CallboardError(
        "contention",
        f"other writers won every race for {patience_s:g} s",
        "nothing was written; try again",
        details,
    )
