"""Recovery on request: look after what is open on a board without granting anything new.

Source: specification 1, §§7.8, 7.15, 7.18. It does what every `run` does between its grants, and
tells of each open launch and delivery what was found and what a person can do about it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.host import RUN_UNKNOWN, CancelAnswer, Order
from callboard.board.execution.hosts.choice import hosts_of
from callboard.board.execution.pulse import wait_for_change
from callboard.board.execution.reconcile import Reconciler
from callboard.board.execution.site import Site
from callboard.board.outputs.fault_document import fault_document
from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.storage.remote_refusals import OUTAGES
from callboard.errors import CallboardError

# What ends a pass and not the watch: the next one meets another board, or another network.
_PASSING = OUTAGES | {"contention", "outcome_unknown", "queue_missing", "launch_failed"}
_SETTLED = frozenset({"decided", "failed", "refused", "released", "verified"})
_MOVING = frozenset(
    {
        "contention", "launch_pending", "launch_uncertain", "launched", "not_reserved",
        "not_sender", "nothing_open", "outcome_unknown", "pending", "registry_busy", "run_exists",
        "running",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What one look found about an open launch or a pending delivery.

    `word` is a finding of the reconciler or a refusal's code, `state` how the board has it, and
    `reason` the last evidence recorded there. `since_ms` is when it began to be open.
    `trouble` is what stood against a delivery, `{code, message, hint, details}`.
    `needs` tells whose turn it is: nobody's (`settled`), the run's or another look's (`time`), or
    a `person`'s.
    """

    kind: str
    dispatch_id: str
    work_ids: tuple[str, ...]
    word: str
    state: str
    reason: str | None
    since_ms: int | None
    run_id: str | None
    needs: str
    trouble: Mapping[str, object] | None = None

    def document(self) -> dict[str, object]:
        """The JSON form; absent facts are left out."""
        found: dict[str, object] = {
            "kind": self.kind,
            "dispatch_id": self.dispatch_id,
            "work_ids": list(self.work_ids),
            "found": self.word,
            "state": self.state,
            "needs": self.needs,
        }
        for name in ("reason", "since_ms", "run_id", "trouble"):
            if (value := getattr(self, name)) is not None:
                found[name] = value
        return found


def reconcile(
    site: Site,
    environment: Mapping[str, str],
    *,
    start: bool,
    watch: bool,
    stop: threading.Event,
    on_found: Callable[[Found], None],
) -> list[Found]:
    """Look once at every open launch and delivery, or with `watch` until `stop` is set.

    `start`: groups that were granted and never started are, where grants are not paused. `on_found`
    hears of each thing when what was found of it changes. Answers the last look; a watch, whose
    listener has heard of what was settled, what was open then.
    """
    reconciler = Reconciler(Dispatcher(site, environment))
    heard: dict[tuple[str, ...], tuple[str, ...]] = {}
    last: list[Found] = []
    while True:
        try:
            last = _look(site, reconciler, start)
        except CallboardError as error:
            if not watch or error.code not in _PASSING:
                raise
        for one in last:
            key = (one.kind, one.dispatch_id, *one.work_ids)
            found = (one.word, one.state, str((one.trouble or {}).get("code", "")))
            if heard.get(key) != found:
                heard[key] = found
                on_found(one)
        if not watch:
            return last
        if stop.is_set():
            return [one for one in last if one.needs != "settled"]
        wait_for_change(site, stop)


def _look(site: Site, reconciler: Reconciler, start: bool) -> list[Found]:
    with site.publisher.steady():
        findings = reconciler.run_pass(lambda: start)
        projection = site.publisher.refresh().projection
        launches = [
            _launch(site, projection.dispatches[one], word)
            for one, word in findings.dispatches.items()
        ]
        deliveries = [
            _delivery(projection, projection.works[one], word, findings.troubles.get(one))
            for one, word in findings.deliveries.items()
        ]
    return launches + deliveries


def _launch(site: Site, state: DispatchState, word: str) -> Found:
    # A run that another machine of a shared board may watch over is that machine's affair.
    is_elsewhere = word == RUN_UNKNOWN and state.run is not None and site.remote is not None
    return Found(
        "launch",
        state.assignment.dispatch_id,
        tuple(member.work_id for member in state.assignment.claims),
        word,
        "released" if state.released else state.state,
        state.reason,
        state.granted_at if state.started_at is None else state.started_at,
        None if state.run is None else state.run.run_id,
        "time" if is_elsewhere else _needs(word),
    )


def _delivery(
    projection: Projection, work: WorkState, word: str, trouble: CallboardError | None
) -> Found:
    claim = projection.claims[str(work.claim_id)].claim
    run = projection.dispatches[claim.dispatch_id].run
    return Found(
        "delivery",
        claim.dispatch_id,
        (work.work.work_id,),
        word,
        work.barrier,
        work.failure_reason,
        work.completed_at,
        None if run is None else run.run_id,
        _needs(word),
        None if trouble is None else fault_document(trouble),
    )


def _needs(word: str) -> str:
    if word in _SETTLED:
        return "settled"
    if word in _MOVING:
        return "time"
    return "person"


@dataclass(frozen=True, slots=True)
class Stopped:
    """What came of asking for the end of a run. `work_ids` are all that the run was for."""

    dispatch_id: str
    run_id: str
    work_ids: tuple[str, ...]
    answer: CancelAnswer


def stop_run(site: Site, dispatch_id: str) -> Stopped:
    """Ask a group's host to end its bound run. That is a request and ends no Claim by itself.

    Raises `dispatch_released`, `run_unbound` where the board knows of no run yet, and
    `run_unknown_here` where this host cannot speak of it.
    """
    state = site.publisher.refresh().projection.dispatches[dispatch_id]
    if state.released:
        raise CallboardError(
            "dispatch_released",
            f"dispatch {dispatch_id} is over",
            "nothing of it runs any more",
            {"dispatch_id": dispatch_id},
        )
    if state.run is None:
        raise CallboardError(
            "run_unbound",
            f"dispatch {dispatch_id} is {state.state}, and the board knows of no run for it",
            "callboard reconcile finds out what became of it",
            {"dispatch_id": dispatch_id, "state": state.state},
        )
    run_id = state.run.run_id
    answer = hosts_of(site)(state.profile).cancel(Order.of(state), run_id)
    if answer == "unknown":
        raise CallboardError(
            "run_unknown_here",
            f"run {run_id} cannot be stopped from here: this machine has no record of it, or its "
            "supervisor cannot be reached",
            "on the machine that runs it: callboard stop --dispatch " + dispatch_id,
            {"dispatch_id": dispatch_id, "run_id": run_id},
        )
    members = tuple(member.work_id for member in state.assignment.claims)
    return Stopped(dispatch_id, run_id, members, answer)
