"""The host port: whatever runs workers, as the execution of the board sees it.

Source: specification 1, §7.8. A host is asked for runs and answers with evidence about them; it
decides nothing about Work, and the board believes it nothing that it does not say outright.
Silence, delay and a lost answer are doubt. Only `ruled_out` proves that a launch never ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from callboard.board.projection.entities import DispatchState
from callboard.board.protocol.policy import Profile
from callboard.board.protocol.scalars import is_github
from callboard.errors import CallboardError

RunStanding = Literal["queued", "running", "abandoned", "ended", "unknown"]
"""`abandoned`: nobody watches over the run any more, so that it has to be ended; see `cancel`."""

Outlook = Literal["complete", "pending", "ruled_out", "unknown"]
"""What may still come of a launch beside the runs that were found: nothing, a run that is on its
way, nothing for ever (which is proof), or nobody can tell from here."""

RUN_UNKNOWN = "run_unknown_here"
"""Why nobody can tell: this machine has no record of the run."""

RuledOut = Literal["ruled_out", "pending", "unknown"]
CancelAnswer = Literal["asked", "ended", "unknown"]


@dataclass(frozen=True, slots=True)
class Order:
    """The launch of one group, as the board's start marker fixes it.

    `sender_run_id` is the one run that may send it, "" where the marker names none.
    """

    dispatch_id: str
    profile: Profile
    principal: str
    sender_run_id: str

    @classmethod
    def of(cls, state: DispatchState) -> Order:
        """The order of a group that is started."""
        sender = state.sender
        run_id = None if sender is None else sender.run_id
        return cls(
            state.assignment.dispatch_id,
            state.profile,
            state.principal,
            run_id if isinstance(run_id, str) else "",
        )

    @property
    def event(self) -> str:
        """What its run must have been begun by."""
        return event_of(self.profile)


def event_of(profile: Profile) -> Literal["workflow_dispatch", "host_dispatch"]:
    """What begins the runs of a profile: its host, and nobody's push or schedule."""
    return "workflow_dispatch" if is_github(profile.workflow) else "host_dispatch"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One attempt of one run, as its host knows it now.

    The first six say which run it is; they are compared with the order before it is believed.
    `conclusion` is how it ended. `why` is a reason code beside `unknown`.
    """

    run_id: str
    run_attempt: int
    workflow: str
    ref: str
    principal: str
    event: str
    standing: RunStanding
    conclusion: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """Every run that bears an order's dispatch id, and what may still come of the launch.

    Reruns are among the runs. `complete` is said of this very moment: a host whose answers may be
    out of date says `unknown` or `pending`. `why` is a reason code beside an outlook of `unknown`.
    """

    runs: tuple[RunFacts, ...]
    outlook: Outlook
    why: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchAnswer:
    """What came of sending an order.

    `launched`: the run of that id will begin unless it is ruled out first, or has begun. `refused`:
    it is proven that none was begun and none will be; `error` says why. `uncertain`: nobody can
    tell from here. `taken`: the host has a run for that dispatch already, or ruled it out, so that
    this sender sent nothing.
    """

    status: Literal["launched", "refused", "uncertain", "taken"]
    run_id: str | None = None
    error: CallboardError | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """The end of one log of a run. `is_cut`: there is more before it."""

    name: str
    data: bytes
    is_cut: bool = False


class Host(Protocol):
    """What every host does. All may raise `CallboardError`, which is doubt and never proof."""

    def resolve(self, profile: Profile) -> str:
        """The immutable revision that a run of the profile would be made of.

        Raises `worker_unavailable` where this host cannot run it.
        """
        ...

    def launch(self, order: Order) -> LaunchAnswer:
        """Send the order. Only the sender of its start marker may, and only once."""
        ...

    def find(self, order: Order) -> Sighting:
        """Look for the runs of a launch."""
        ...

    def inspect(self, order: Order, run_id: str) -> RunFacts:
        """How one run stands, attempt 1 of it. An unknown run is `unknown`, never `ended`."""
        ...

    def rule_out(self, order: Order) -> RuledOut:
        """Make sure that a launch of which no run was found never runs, where that is possible.

        `ruled_out` proves it for good; `pending` and `unknown` prove nothing.
        """
        ...

    def cancel(self, order: Order, run_id: str) -> CancelAnswer:
        """Ask for the end of a run. `asked` is no end; `ended`: it had ended, or has now."""
        ...

    def logs(self, run_id: str, *, limit_bytes: int) -> tuple[Log, ...]:
        """The last `limit_bytes` of each log that the host has of a run, by name."""
        ...
