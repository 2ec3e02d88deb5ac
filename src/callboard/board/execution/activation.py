"""Activation: a worker run makes itself the one run of its group, before anything of it executes.

Source: specification 1, §7.8 (binding recovery). The board judges the binding on its latest prefix:
the start marker, the approved profile, attempt 1, and no other run. Refused, nothing may execute.
"""

from __future__ import annotations

from callboard.board.execution.settle import run_of
from callboard.board.execution.site import Site
from callboard.board.projection.entities import DispatchState
from callboard.board.publishing import lifecycle


def activate(site: Site, dispatch_id: str, run_id: str) -> DispatchState:
    """Bind `run_id` as the worker itself and answer the bound group.

    The same binding twice is one. Raises `run_binding_conflict` where another run is bound, and
    what else the board refuses; only what publishing leaves open may be tried again.
    """
    publisher = site.publisher
    state = publisher.refresh().projection.dispatches[dispatch_id]
    run = run_of(site, state, run_id)
    actor = site.run_actor(
        "worker", workflow=state.profile.workflow, run_id=run_id, dispatch_id=dispatch_id
    )
    publisher.publish(lifecycle.bind(dispatch_id, run, actor))
    return publisher.refresh().projection.dispatches[dispatch_id]
