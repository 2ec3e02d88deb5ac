"""Keeping a claim alive: it is renewed on a timer of its own, well before its end.

Whether it is lost is told by the project; whether it has lapsed because nobody could be asked is
told by a timer that waits for no database. It starts no process and ends none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Condition, Thread
from time import monotonic
from typing import Any, Literal

from callboard.errors import CallboardError
from callboard.project.answers import ClaimChanged
from callboard.project.asking import Caller
from callboard.project.project import Project
from callboard.project.records import Claim

MIN_TTL_MS = 250
"""A shorter lease could be over before an ordinary renewal has been written."""

_LOOK_S = 0.5
"""How often the project is asked whether somebody else changed the claim."""
_JOIN_S = 2.0
_LOST = frozenset({"claim_not_holder", "not_found", "project_replaced", "session_not_active"})


@dataclass(frozen=True, slots=True)
class Loss:
    """Why the claim is no longer held. `lapsed`: its time is over, as far as can be told here."""

    kind: Literal["lost", "lapsed"]
    message: str


class Keeper:
    """Holds the claim of one session while the context lasts.

    A third of the time to live lies between two renewals, none of which lets the claim end earlier
    than it would have. Each waits for the database a sixth of it at most before it is tried again,
    so that the gaps stay under a half while the database answers. `lost` is
    called once, in a thread of its own; `troubled` where a renewal failed and is tried again.
    `expected_revision` and `request_id` are those of the first renewal.
    """

    def __init__(
        self,
        caller: Caller,
        session: str,
        ttl_ms: int | float,
        *,
        lost: Callable[[Loss], None],
        troubled: Callable[[CallboardError], None],
        expected_revision: int | float | None = None,
        request_id: str | None = None,
    ) -> None:
        self._session = session
        self._ttl_ms = _checked(ttl_ms)
        self._caller = caller
        self._first = {"expected_revision": expected_revision, "request_id": request_id}
        self._on_lost = lost
        self._on_trouble = troubled
        self._changed = Condition()
        self._is_over = False
        self._loss: Loss | None = None
        self._renewals = 0
        self._troubles: set[str] = set()

    # --- for whoever keeps -----------------------------------------------------------------------

    def __enter__(self) -> Keeper:
        """Renew for the first time. Raises `claim_not_holder`, `revision_conflict`,
        `request_conflict`, and as opening does."""
        patience_ms = min(max(self._ttl_ms // 6, 50), 10_000)
        caller = self._caller
        self._project = Project.open(caller.folder, actor=caller.actor, busy_ms=patience_ms)
        try:
            self._renew(**self._first)
            if self._first["request_id"] is not None:
                # The answer may be that of an earlier time, which renewed nothing now.
                self._renew()
        except BaseException:
            self._project.close()
            raise
        self._threads = [
            Thread(target=act, name=name, daemon=True)
            for name, act in (("renewals", self._keep), ("lease", self._watch))
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Renew no more; the claim stays until its end. Waits for what a loss set going."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        renewing, watching = self._threads
        watching.join()
        renewing.join(_JOIN_S)
        if not renewing.is_alive():
            self._project.close()

    @property
    def claim(self) -> Claim:
        """The claim as it was renewed last."""
        return self._claim

    @property
    def revision(self) -> int:
        """The project's revision that the last renewal made."""
        return self._revision

    @property
    def renewals(self) -> int:
        """How often it was renewed."""
        return self._renewals

    @property
    def loss(self) -> Loss | None:
        """Why the claim is no longer held; None while it is."""
        return self._loss

    # --- the timer of the lease ------------------------------------------------------------------

    def _watch(self) -> None:
        """Tell of a loss, or of the end of the lease, whatever the database does meanwhile."""
        with self._changed:
            while not self._is_over and self._loss is None:
                left = self._until - monotonic()
                if left <= 0:
                    self._loss = Loss("lapsed", "lapsed: it could not be renewed before its end")
                else:
                    self._changed.wait(min(left, 60))
            loss = self._loss
        if loss is not None:
            self._on_lost(loss)

    # --- the renewals ----------------------------------------------------------------------------

    def _keep(self) -> None:
        while self._wait():
            try:
                if monotonic() >= self._due:
                    self._renew()
                else:
                    self._look()
            except CallboardError as error:
                if error.code in _LOST:
                    self._lose(error.message)
                else:
                    self._trouble(error)

    def _wait(self) -> bool:
        """Until there is something to do again; False: nothing any more."""
        with self._changed:
            pause = min(max(self._due - monotonic(), 0.0), _LOOK_S)
            if self._troubles:
                pause = max(pause, 0.02)
            self._changed.wait_for(self._has_ended, pause)
            return not self._has_ended()

    def _has_ended(self) -> bool:
        return self._is_over or self._loss is not None

    def _renew(self, **first: Any) -> None:
        ttl_s = self._ttl_ms / 1000
        begun = monotonic()
        answer = self._project.claims.renew(self._session, self._ttl_ms, at_least=True, **first)
        left_s = _left_ms(answer) / 1000
        with self._changed:
            self._claim = answer.claim
            self._revision = answer.project_revision
            self._renewals += 1
            # The lease began after this process had begun to ask for it, so it is not over sooner.
            self._until = begun + left_s
            self._due = begun + ttl_s / 3
            self._seen = answer.project_revision
            self._troubles.clear()
            self._changed.notify_all()

    def _look(self) -> None:
        """See whether somebody ended the claim."""
        if self._project.info().revision == self._seen:
            return
        shown = self._project.claims.show(self._claim.work)
        self._seen = shown.project_revision
        found = shown.claim
        if found is None:
            self._lose(f"the claim {self._claim.id} was let go")
        elif found.id != self._claim.id:
            self._lose(f"{found.agent!r} holds the work now, by session {found.session}")
        elif found.state != "active":
            self._lose(f"the claim {self._claim.id} is {found.state}")

    def _lose(self, message: str) -> None:
        with self._changed:
            if self._loss is None:
                self._loss = Loss("lost", message)
            self._changed.notify_all()

    def _trouble(self, error: CallboardError) -> None:
        if error.code not in self._troubles:
            self._troubles.add(error.code)
            self._on_trouble(error)


def _left_ms(answer: ClaimChanged) -> float:
    """For how long a claim lasts from the moment in which it was renewed."""
    end = answer.claim.expires_at_ms
    return inf if end is None else end - answer.events[-1].at_ms


def _checked(ttl_ms: int | float) -> int:
    if not isinstance(ttl_ms, int) or ttl_ms < MIN_TTL_MS:
        raise CallboardError(
            "ttl_invalid",
            f"a time to live of {ttl_ms} ms is no whole number from {MIN_TTL_MS} on",
            f"give at least {MIN_TTL_MS} ms, so that it can be renewed in time",
        )
    return ttl_ms
