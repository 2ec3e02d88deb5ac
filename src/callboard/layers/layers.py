"""Layers: the façade that surfaces and users call, for the trees of one repository.

Every rule lives below it. What agents say of their attempt goes by their assignment alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Literal

from callboard.errors import CallboardError
from callboard.layers import (
    acceptance,
    assigned,
    controls,
    dispatching,
    evaluating,
    locking,
    sets,
    starting,
    traces,
    tree,
    updates,
    user_stop,
)
from callboard.layers import around as surroundings
from callboard.layers.coordinating import Coordinator, Step
from callboard.layers.dispatching import Dispatched
from callboard.layers.looking import Looking, Node, Requests
from callboard.layers.records.control import AttemptedRoute, Control
from callboard.layers.records.evaluation import EvalReceipt
from callboard.layers.records.outcomes import Decision, ParentAcceptance
from callboard.layers.records.session import Limits
from callboard.layers.records.state import State
from callboard.layers.requests import judging
from callboard.layers.traces import Trace
from callboard.layers.tree import Layer
from callboard.visible import visible

__all__ = ["Layers", "Node", "Requests"]


class Layers(Looking):
    """The layers of one repository: all that can be known of them, and all that can be done."""

    @classmethod
    def open(cls, repository: Path, environment: Mapping[str, str]) -> Layers:
        """The layers of the repository at the absolute path `repository`.

        `environment` is what harnesses and checks may get variables from.
        """
        return cls(surroundings.of_machine(repository, environment))

    @staticmethod
    def packaged() -> tuple[str, ...]:
        """The workflow sets that come with the program."""
        return sets.packaged()

    # --- trees --------------------------------------------------------------------------------

    def init(self, workflow_set: str, harness: Sequence[str] = ()) -> list[str]:
        """Put a packaged workflow set into the repository; gives the files that were written."""
        starting.prepare(self._around)
        return sets.install(self._around.disk, workflow_set, harness)

    def start(
        self,
        goal: str,
        *,
        workflow_set: str = "planner_dispatcher",
        limits: Limits | None = None,
        **criteria: Sequence[str],
    ) -> Node:
        """A new root layer. `criteria` are the lists of a goal contract, by their names."""
        given = {name: list(texts) for name, texts in criteria.items()}
        made = starting.start(self._around, workflow_set, goal, given, limits or Limits())
        return self._node(made)

    def run(
        self,
        session_id: str | None = None,
        *,
        once: bool = False,
        stop: Event | None = None,
        told: Callable[[Step], None] = lambda _step: None,
    ) -> Step:
        """Coordinate a tree until it is over, or `stop` is set; `once`: one step alone.

        Raises `coordinator_busy` where another process does, and what damage there is.
        """
        # Where there is no tree, nothing is left behind either.
        root = tree.root(self._around.disk, session_id)
        with locking.coordinator(self._around) as held:
            coordinator = Coordinator(self._around, root, stop or Event(), held.check)
            if not once:
                return coordinator.run(told)
            step = coordinator.step()
            told(step)
            return step

    def update(self, text: str, session_id: str | None = None) -> tuple[Node, int]:
        """Tell the deepest layer that is not over something; its next attempt is given it.

        Raises `layer_over` where the whole tree is.
        """
        layer, _state = self._live(session_id)[-1]
        return self._node(layer), updates.add(self._around, layer, text)

    def stop(self, reason: str, session_id: str | None = None, *, at_once: bool = False) -> bool:
        """Ask for the end of a tree; False: somebody has asked before.

        The attempt at work is let end, unless it is to be `at_once`: then its harness is stopped
        as at its time limit. Raises `layer_over` where the tree is over.
        """
        root = tree.root(self._around.disk, session_id)
        layer, state = self._live(root.session.session_id)[-1]
        first = user_stop.ask(self._around, root, reason, at_once=at_once)
        if at_once and state.task is not None:
            user_stop.end_attempt(self._around, layer, state.task.attempt_id)
        return first

    # --- what children came to ----------------------------------------------------------------

    def accept(
        self,
        request_id: str,
        decision: Decision,
        rationale: str,
        evidence: Sequence[str] = (),
        *,
        session_id: str | None = None,
        assignment: Path | None = None,
        superseding_request_id: str | None = None,
        open_points: Sequence[str] = (),
    ) -> ParentAcceptance:
        """Judge an outcome: as the attempt of `assignment`, or as the user."""
        who = None if assignment is None else assigned.read(self._around, assignment)
        layer = who.layer if who is not None else self._asked(request_id, session_id)
        return acceptance.accept(
            self._around,
            layer,
            request_id,
            decision,
            rationale,
            tuple(evidence),
            superseding_request_id=superseding_request_id,
            open_points=tuple(open_points),
            assigned=who,
        )

    # --- what agents say of their attempt -----------------------------------------------------

    def dispatch(self, assignment: Path, item_id: str) -> Dispatched:
        """Publish the request of a selected item, or tell what became of an earlier one."""
        return dispatching.dispatch(self._around, assigned.read(self._around, assignment), item_id)

    def evaluate(self, assignment: Path) -> EvalReceipt:
        """Run the checks of the layer's goal."""
        return evaluating.evaluate(self._around, assigned.read(self._around, assignment))

    def control(
        self,
        assignment: Path,
        stop_reason: Literal["goal_met", "unresolvable_error"] | None,
        *,
        eval_receipt_ref: str | None = None,
        summary: str | None = None,
        blocker: str | None = None,
        attempted_routes: Sequence[AttemptedRoute] = (),
    ) -> Control:
        """Say, as the attempt of `assignment`, that its layer is over; it is judged at its end."""
        who = assigned.read(self._around, assignment)
        identity = who.assignment.identity
        value: dict[str, Any] = {
            "schema_version": 2,
            "control_id": f"control_{self._around.random(16)}",
            "state": "running" if stop_reason is None else "stopped",
            "stop_reason": stop_reason,
            "producer": {
                "session_id": identity.session_id,
                "role": identity.role,
                "attempt_id": identity.attempt_id,
            },
            "created_at_ms": self._around.clock.now_ms(),
            "eval_receipt_ref": eval_receipt_ref,
            "summary": summary,
            "blocker": blocker,
            "attempted_routes": [
                {"route": one.route, "outcome": one.outcome, "evidence_ref": one.evidence_ref}
                for one in attempted_routes
            ],
        }
        control = controls.of(value)
        controls.publish(self._around, who, control)
        return control

    # --- traces -------------------------------------------------------------------------------

    def prune_traces(
        self,
        session_id: str | None = None,
        *,
        older_than_ms: int | None = None,
        keep: int | None = None,
    ) -> tuple[Trace, ...]:
        """Take traces away that were sealed so long ago, all but the `keep` latest; both hold."""
        before_ms = None
        if older_than_ms is not None:
            before_ms = self._around.clock.now_ms() - older_than_ms
        layers = tuple(self._below(session_id))
        disk = self._around.disk
        return tuple(traces.prune(disk, layers, sealed_before_ms=before_ms, keep=keep))

    # --- parts --------------------------------------------------------------------------------

    def _live(self, session_id: str | None) -> list[tuple[Layer, State]]:
        """The layers of the chain that are not over, with their states; at least one."""
        disk = self._around.disk
        root = tree.root(disk, session_id)
        live = [one for one in tree.chain(disk, root) if one[1].phase != "terminal"]
        if not live:
            raise CallboardError(
                "layer_over",
                f"the tree {root.session.session_id} is over, and nobody works on it any more",
                "begin a new one with `callboard layers start`",
                {"session_id": root.session.session_id},
            )
        return live

    def _asked(self, request_id: str, session_id: str | None) -> Layer:
        """The layer whose child the request made."""
        if session_id is not None:
            return self._layer(session_id)
        places = [
            node.layer
            for node in self.status()
            if judging.was_decided(self._around, node.layer, request_id)
        ]
        if len(places) == 1:
            return places[0]
        found = ", ".join(layer.session.session_id for layer in places) or "no layer"
        raise CallboardError(
            "request_ambiguous" if places else "request_missing",
            f"the request '{visible(request_id[:200])}' was accepted in {found}",
            "name the layer" if places else "list the requests with `callboard layers requests`",
            {"request": request_id[:200], "layers": [layer.session.session_id for layer in places]},
        )
