"""The machine: looks where the tree stands, and does the one thing that is next.

Source: layers.md §4. Every step is decided by facts on disk alone, so a coordinator that was killed
anywhere is gone on from by the next one. It holds nothing that a successor would need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event
from typing import Literal

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import (
    awaiting,
    beginning,
    choosing,
    controls,
    finishing,
    journal,
    restoring,
    stopping,
    tree,
    unwinding,
    user_stop,
)
from callboard.layers.around import Around
from callboard.layers.attempts import place_of, trace_of
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.events import ChildMade, LayerEnded, RequestRefused
from callboard.layers.records.state import State, StopReason
from callboard.layers.requests import admitting, copies, pending
from callboard.layers.tree import Layer

Did = Literal[
    "repaired", "unwound", "decided", "stopped", "began", "finished", "waiting", "over", "paused"
]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, in which layer; `detail` is for people.

    `refused`: how many pending requests became no child layer meanwhile, and were put away.
    """

    did: Did
    session_id: str
    detail: str = ""
    refused: int = 0


class Coordinator:
    """Works on one tree. `stop` ends the loop between steps; a harness that runs goes on.

    `check_place` refuses to go on where another process may be the coordinator by now.
    """

    def __init__(
        self,
        around: Around,
        root: Layer,
        stop: Event,
        check_place: Callable[[], None] = lambda: None,
    ) -> None:
        self._around = around
        self._root = root
        self._stop = stop
        self._check_place = check_place

    def run(self, told: Callable[[Step], None]) -> Step:
        """Step on until the tree is over, or `stop` is set; `told` hears of each step."""
        while True:
            step = self.step()
            told(step)
            if step.did in ("over", "paused"):
                return step

    def step(self) -> Step:
        """Do the one thing that is next."""
        self._check_place()
        chain = tree.chain(self._around.disk, self._root)
        layer, state = chain[-1]
        if state.phase == "terminal":
            return self._unwind(chain)
        if state.phase == "executing":
            return self._carry_out(layer, state)
        return self._decide(chain)

    # --- one phase each -----------------------------------------------------------------------

    def _unwind(self, chain: list[tuple[Layer, State]]) -> Step:
        layer, state = chain[-1]
        if len(chain) == 1:
            return Step("over", layer.session.session_id, state.stop_reason or "")
        parent, parent_state = chain[-2]
        restoring.folders(self._around.disk, parent)
        unwinding.unwind(self._around, parent, parent_state, layer, state)
        return Step("unwound", parent.session.session_id, layer.session.session_id)

    def _carry_out(self, layer: Layer, state: State) -> Step:
        task = state.task
        assert task is not None
        if self._stop.is_set():
            return Step("paused", layer.session.session_id, task.attempt_id)
        disk = self._around.disk
        contract = tree.read_contract(disk, layer)
        at_once = user_stop.AtOnce(self._around, self._root, place_of(layer, task.attempt_id))
        try:
            result = awaiting.carry_out(layer, contract, task, self._around, at_once, self._stop)
        except CallboardError as error:
            # Somebody else's runner began in the very moment of the wish: it is awaited next.
            if error.code != "attempt_interrupted":
                raise
            return Step("waiting", layer.session.session_id, task.attempt_id)
        if result is None:
            return Step("paused", layer.session.session_id, task.attempt_id)
        # Whoever stood still while the attempt ran may have lost its place.
        self._check_place()
        restoring.folders(disk, layer)
        finishing.finish(self._around, layer, contract, state, result)
        return Step(
            "finished", layer.session.session_id, f"{task.attempt_id}: {_ended(layer, result)}"
        )

    def _decide(self, chain: list[tuple[Layer, State]]) -> Step:
        layer, state = chain[-1]
        session_id = layer.session.session_id
        restoring.folders(self._around.disk, layer)
        mended = admitting.go_on(self._around, layer, state)
        if mended is state:
            mended = controls.set_aside(self._around, layer, state)
        if mended is not state:
            self._tell_child(layer, state, mended)
            return Step("repaired", session_id)
        decided = pending.decide(self._around, self._root, layer, state)
        for one in decided.refused:
            journal.tell(
                self._around, layer, RequestRefused,
                file_name=one.file_name, request_id=one.request_id, code=one.code,
            )  # fmt: skip
        refused = len(decided.refused)
        self._tell_child(layer, state, decided.state)
        if decided.state is not state:
            assert decided.state.child is not None, "only a child that is made changes the state"
            return Step("decided", session_id, decided.state.child.session_id, refused)
        return replace(self._next_attempt(chain), refused=refused)

    def _tell_child(self, layer: Layer, before: State, state: State) -> None:
        if state.child is not None and state.child != before.child:
            journal.tell(
                self._around, layer, ChildMade,
                request_id=state.child.request_id, child_session_id=state.child.session_id,
            )  # fmt: skip

    def _next_attempt(self, chain: list[tuple[Layer, State]]) -> Step:
        layer, state = chain[-1]
        session_id = layer.session.session_id
        if self._stop.is_set():
            return Step("paused", session_id)
        end = due_end(self._around, self._root, chain)
        if end is not None:
            return self._end(layer, state, *end)
        choice = choosing.choose(tree.read_contract(self._around.disk, layer), state)
        if choice.role is None:
            reasons = "; ".join(f"{one.role}: {one.reason}" for one in choice.verdicts)
            return self._end(layer, state, "no_role", f"none of {len(choice.verdicts)}: {reasons}")
        try:
            state = beginning.begin(self._around, layer, state, choice.role)
        except copies.InputsLostError as lost:
            return self._end(layer, state, "inputs_lost", str(lost))
        assert state.task is not None
        return Step("began", session_id, state.task.attempt_id)

    def _end(self, layer: Layer, state: State, reason: StopReason, detail: str) -> Step:
        tree.write_state(
            self._around.disk,
            layer,
            structs.replace(
                state,
                revision=state.revision + 1,
                status="stopped",
                stop_reason=reason,
                stop_detail=detail[:4000],
                changed_at_ms=self._around.clock.now_ms(),
            ),
        )
        journal.tell(self._around, layer, LayerEnded, status="stopped", stop_reason=reason)
        return Step("stopped", layer.session.session_id, reason)


def due_end(
    around: Around, root: Layer, chain: list[tuple[Layer, State]]
) -> tuple[StopReason, str] | None:
    """What ends the deepest layer of the chain now, in its own words; None: nothing does.

    What a layer may cost holds for all below it as well, so the caps above count here too.
    """
    wish = user_stop.wish(around, root)
    if wish is not None:
        return "user_stop", wish
    layer, state = chain[-1]
    end = stopping.stop_of(tree.read_contract(around.disk, layer), state)
    if end is not None:
        return end
    usage = state.usage
    for above, its_state in reversed(chain[:-1]):
        usage = usage.plus(its_state.usage)
        contract = tree.read_contract(around.disk, above)
        end = stopping.over_cost(contract.caps, usage)
        if end is not None:
            return end[0], f"in {above.session.session_id}, {end[1]}"
    return None


_NEVER_STARTED = {
    "ENOENT": "no such program is found",
    "EACCES": "the program may not be executed",
    "ENOEXEC": "this is no program that can be executed",
}


def _ended(layer: Layer, result: AttemptResult) -> str:
    """How an attempt ended, in words; of a failure also where its output is to be found."""
    if result.classification == "success":
        return "success"
    said = f"{result.classification} ({_why(result)})"
    printed = sum(one.kept_bytes for one in (result.stdout, result.stderr) if one is not None)
    if printed == 0:
        return said
    return f"{said}; what it printed is in {trace_of(layer, result.attempt_id)}"


def _why(result: AttemptResult) -> str:
    if result.exit_code is not None and result.detail is None:
        return f"exit {result.exit_code}"
    if result.signal is not None and result.detail is None:
        return f"signal {result.signal}"
    # The errno of a start that failed.
    if result.detail is not None and result.detail.isupper():
        said = _NEVER_STARTED.get(result.detail, "it cannot be started")
        return f"{result.detail}: {said}; see harness.command of its role"
    return result.detail or "nobody saw why"
