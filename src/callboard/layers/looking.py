"""Looking at the layers of one repository: where they stand, what happened, what was decided.

The half of the façade that changes nothing, and of which any number of processes make use at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callboard.errors import CallboardError
from callboard.layers import (
    acceptance,
    checking,
    choosing,
    coordinating,
    exporting,
    journal,
    stored,
    traces,
    tree,
)
from callboard.layers.around import Around
from callboard.layers.checking import Finding
from callboard.layers.choosing import Choice, Verdict
from callboard.layers.records.outcomes import ChildOutcome, ParentAcceptance
from callboard.layers.records.requests import Acceptance, Rejection
from callboard.layers.records.session import GoalContract
from callboard.layers.records.state import State
from callboard.layers.requests import judging
from callboard.layers.requests.places import PENDING
from callboard.layers.traces import Inspection, Trace
from callboard.layers.tree import Layer
from callboard.visible import visible

__all__ = ["Looking", "Node", "Requests"]


@dataclass(frozen=True, slots=True)
class Node:
    """One layer as `status` tells it."""

    layer: Layer
    state: State
    goal: GoalContract


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests of one layer: what is pending, by file, and what was decided."""

    session_id: str
    pending: tuple[str, ...]
    accepted: tuple[Acceptance, ...]
    rejected: tuple[Rejection, ...]


class Looking:
    """What can be known of the layers of one repository. It holds nothing but its surroundings."""

    def __init__(self, around: Around) -> None:
        self._around = around

    # --- where a tree stands ------------------------------------------------------------------

    def status(self, session_id: str | None = None) -> tuple[Node, ...]:
        """All layers of a tree, parents first; of all trees where none is named."""
        disk = self._around.disk
        roots = tree.roots(disk) if session_id is None else [session_id]
        return tuple(
            self._node(layer) for root in roots for layer in tree.walk(disk, tree.root(disk, root))
        )

    def next(self, session_id: str | None = None) -> tuple[Node, Choice | None]:
        """The deepest layer, and which role would go next there; None: it does not choose now.

        Where the layer is about to end instead, no role goes, and each verdict says why.
        """
        disk = self._around.disk
        root = tree.root(disk, session_id)
        chain = tree.chain(disk, root)
        layer, state = chain[-1]
        node = Node(layer, state, tree.read_goal(disk, layer))
        if state.phase != "ready":
            return node, None
        contract = tree.read_contract(disk, layer)
        end = coordinating.due_end(self._around, root, chain)
        if end is not None:
            why = f"the layer ends ({end[0]}): {end[1]}"
            return node, Choice(
                None, tuple(Verdict(one.name, False, why) for one in contract.roles)
            )
        return node, choosing.choose(contract, state)

    def check(self, session_id: str | None = None) -> tuple[Finding, ...]:
        """Everything that is wrong with a tree, or with all trees; nothing is changed."""
        return checking.check(self._around, session_id)

    # --- requests and outcomes ----------------------------------------------------------------

    def requests(self, session_id: str | None = None) -> tuple[Requests, ...]:
        """The requests of every layer that has some."""
        around = self._around
        found = []
        for node in self.status(session_id):
            layer = node.layer
            one = Requests(
                layer.session.session_id,
                tuple(one for one in around.disk.names(layer.file(PENDING)) if one[0] != "."),
                tuple(judging.accepted(around, layer)),
                tuple(judging.rejected(around, layer)),
            )
            if one.pending or one.accepted or one.rejected:
                found.append(one)
        return tuple(found)

    def outcomes(
        self, session_id: str | None = None
    ) -> tuple[tuple[ChildOutcome, ParentAcceptance | None], ...]:
        """What the child layers came to, each with its parent's judgement, if there is one."""
        disk = self._around.disk
        found = []
        for node in self.status(session_id):
            for name in disk.names(node.layer.file("child_outcomes")):
                if name.startswith("."):
                    continue
                outcome = stored.read_record(
                    disk, node.layer.file("child_outcomes", name), ChildOutcome
                )
                own = node.layer.file(acceptance.FOLDER, name)
                judged = None
                if disk.kind(own) is not None:
                    judged = stored.read_record(disk, own, ParentAcceptance)
                found.append((outcome, judged))
        return tuple(found)

    # --- what happened, and what was printed --------------------------------------------------

    def events(
        self, session_id: str | None = None, start_byte: int = 0
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """What happened in the deepest layer of a tree, or in the layer that is named."""
        layer = self._layer(session_id) if session_id is not None else self._deepest(None)[0]
        return journal.events(self._around, layer, start_byte)

    def traces(self, session_id: str | None = None) -> tuple[Trace, ...]:
        """The traces of all attempts, or of those of one layer with all layers below it."""
        disk = self._around.disk
        return tuple(
            one for layer in self._below(session_id) for one in traces.traces_of(disk, layer)
        )

    def inspect_trace(self, attempt_id: str, session_id: str | None = None) -> Inspection:
        """Compare a trace with what was sealed; the layer need only be named among several."""
        return traces.inspect(self._around.disk, self._traced(attempt_id, session_id), attempt_id)

    def export_trace(self, attempt_id: str, target: Path, session_id: str | None = None) -> int:
        """Write a sealed trace as one archive at an absolute path; its size in bytes."""
        layer = self._traced(attempt_id, session_id)
        return exporting.export(self._around.disk, layer, attempt_id, target)

    # --- parts --------------------------------------------------------------------------------

    def _below(self, session_id: str | None) -> Iterator[Layer]:
        disk = self._around.disk
        if session_id is not None:
            yield from tree.walk(disk, self._layer(session_id))
            return
        for root in tree.roots(disk):
            yield from tree.walk(disk, tree.root(disk, root))

    def _traced(self, attempt_id: str, session_id: str | None) -> Layer:
        """The layer that is named, or the only one with a trace of that attempt."""
        if session_id is not None:
            return self._layer(session_id)
        found = {one.session_id for one in self.traces() if one.attempt_id == attempt_id}
        if len(found) == 1:
            return self._layer(found.pop())
        shown = visible(attempt_id)[:200]
        raise CallboardError(
            "trace_ambiguous" if found else "trace_missing",
            f"{len(found)} layers have a trace of {shown!r}"
            if found
            else f"no layer has a trace of {shown!r}",
            "name the layer with --session"
            if found
            else "list them with `callboard layers traces list`",
            {"attempt_id": shown, "candidates": sorted(found)},
        )

    def _node(self, layer: Layer) -> Node:
        disk = self._around.disk
        return Node(layer, tree.read_state(disk, layer), tree.read_goal(disk, layer))

    def _deepest(self, session_id: str | None) -> tuple[Layer, State]:
        disk = self._around.disk
        return tree.chain(disk, tree.root(disk, session_id))[-1]

    def _layer(self, session_id: str) -> Layer:
        disk = self._around.disk
        for root in tree.roots(disk):
            for layer in tree.walk(disk, tree.root(disk, root)):
                if layer.session.session_id == session_id:
                    return layer
        raise tree.missing(session_id)
