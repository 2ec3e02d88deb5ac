"""One grant and its launch, for whoever asks once.

Source: specification 1, §§7.7, 7.8. What is granted stands, whatever becomes of the launch; the
next `run` goes on with it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from callboard import telemetry
from callboard.board.execution.dispatcher import Dispatcher, Launch
from callboard.board.execution.pulse import POLL_S
from callboard.board.execution.reach import Reach
from callboard.board.execution.site import Site
from callboard.board.projection.state import Projection
from callboard.board.publishing.intents import DispatchNext, Nothing
from callboard.board.publishing.publisher import Accepted


@dataclass(frozen=True, slots=True)
class DispatchAnswer:
    """A grant, or why there was none, and the launches that followed."""

    outcome: Accepted | Nothing
    launches: list[Launch]


def dispatch(
    site: Site,
    environment: Mapping[str, str],
    intent: DispatchNext,
    *,
    bind_wait_s: float = 10.0,
) -> DispatchAnswer:
    """Grant the next fair batch and launch its groups; waits a little until their runs are bound.

    A repeated request id grants nothing new: groups of it that were never started are.
    """
    dispatcher = Dispatcher(site, environment)
    pool, request_id = intent.parameters.pool, intent.request_id
    with telemetry.span("work-queue.schedule.run", quiet=True, pool=pool, request_id=request_id):
        outcome = site.publisher.publish(_within_reach(site, intent))
        if isinstance(outcome, Nothing):
            return DispatchAnswer(outcome, [])
        groups = granted(site.publisher.refresh().projection, outcome)
        launches = [dispatcher.launch(dispatch_id) for dispatch_id in groups]
    _await_binding(site, launches, bind_wait_s)
    return DispatchAnswer(outcome, launches)


def _within_reach(site: Site, intent: DispatchNext) -> DispatchNext:
    """The same without the workers that cannot run here; a request that stands is left as it is.

    Raises `worker_unavailable` or `host_unsupported` where none would be left.
    """
    asked = intent.parameters
    projection = site.publisher.refresh().projection
    if projection.tip is None or intent.request_id in projection.requests:
        return intent
    reach = Reach(site)
    lacking = reach.lacking(asked.pool)
    names = set(projection.pool_state(asked.pool).routes)
    if isinstance(asked.worker_profiles, list):
        names = names & set(asked.worker_profiles)
    beyond = sorted(names & lacking.keys())
    if not beyond:
        return intent
    within = sorted(names - lacking.keys())
    if not within:
        raise reach.refusal(asked.pool, beyond[0])
    return replace(intent, parameters=structs.replace(asked, worker_profiles=within))


def _await_binding(site: Site, launches: list[Launch], wait_s: float) -> None:
    waiting = {one.dispatch_id for one in launches if one.status == "launched"}
    pause = threading.Event()
    seen = None
    for _look in range(int(wait_s / POLL_S)):
        # Supervisors work in this very clone, so that a remote need not be asked for their news.
        glimpse = site.store.glimpse()
        if glimpse != seen or glimpse is None:
            seen = glimpse
            dispatches = site.publisher.refresh().projection.dispatches
            waiting = {one for one in waiting if dispatches[one].run is None}
        if not waiting:
            return
        pause.wait(POLL_S)


def granted(projection: Projection, outcome: Accepted) -> list[str]:
    """The groups that a grant made, in its order."""
    claims = projection.claims
    return list(dict.fromkeys(claims[one].claim.dispatch_id for one in outcome.request.claims))
