"""Activation: a worker run makes itself the one run of its group, before anything of it executes.

Source: specification 1, §7.8 (binding recovery). The board judges the binding on its latest prefix:
the start marker, the approved profile, attempt 1, and no other run. Refused, nothing may execute.
"""

from __future__ import annotations

from msgspec import structs

from callboard.board.execution.settle import run_of
from callboard.board.execution.site import Site
from callboard.board.projection.entities import DispatchState
from callboard.board.publishing import lifecycle
from callboard.errors import CallboardError


def activate(site: Site, dispatch_id: str, run_id: str, *, run_attempt: int = 1) -> DispatchState:
    """Bind `run_id` as the worker itself and answer the bound group.

    The same binding twice is one. Raises `run_binding_conflict` where another run is bound, or this
    one is another principal's; `rerun_without_authority` for any attempt but the first; and what
    else the board refuses. Only what publishing leaves open may be tried again.
    """
    if run_attempt != 1:
        raise CallboardError(
            "rerun_without_authority",
            f"attempt {run_attempt} of run {run_id} may act for nobody: only the first one was "
            "granted anything",
            "leave the rerun; the board grants the Work anew once the first attempt is settled: "
            "callboard reconcile",
            {"dispatch_id": dispatch_id, "run_id": run_id, "run_attempt": run_attempt},
        )
    publisher = site.publisher
    state = publisher.refresh().projection.dispatches[dispatch_id]
    # By its own credential and not by the one that was ordered: the board compares the two.
    run = structs.replace(run_of(site, state, run_id), principal=site.principal)
    actor = site.run_actor(
        "worker", workflow=state.profile.workflow, run_id=run_id, dispatch_id=dispatch_id
    )
    publisher.publish(lifecycle.bind(dispatch_id, run, actor))
    return publisher.refresh().projection.dispatches[dispatch_id]
