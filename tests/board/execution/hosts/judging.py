"""What holds after every step of a field, whoever did what: the board against what really ran."""

from __future__ import annotations

from collections import Counter

from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.projection.entities import DispatchState
from callboard.board.projection.reserve import lifecycle_limit
from callboard.board.protocol import operations as ops
from tests.board.execution.hosts.faulty import BUSY
from tests.board.execution.hosts.field import PRINCIPAL, Field
from tests.board.execution.hosts.simulated import Run


class Judge:
    """Compares what the board says with what happened in the yard, commit by commit."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._seen = 0
        self._bound: dict[str, str] = {}
        self._uncertain: set[str] = set()
        self.releases: Counter[str] = Counter()

    def step(self) -> None:
        """Judge the commits that are new, and the launches."""
        field = self._field
        sent = Counter(order.dispatch_id for _call, order in field.weather.calls)
        assert not {one: times for one, times in sent.items() if times > 1}
        for _call, order in field.weather.calls:
            sender = field.group(order.dispatch_id).sender
            assert sender is not None
            assert sender.run_id == order.sender_run_id
        for number, operation in field.operations(self._seen):
            self._seen = number + 1
            if isinstance(operation, ops.Dispatch):
                self._dispatch(operation)
            elif isinstance(operation, ops.Release):
                self._release(operation)
        for state in field.projection.dispatches.values():
            room = lifecycle_limit(field.projection.pool("default")) - state.lifecycle_writes
            assert room >= (0 if state.run else 1), (state.state, room)

    def authority(self, run: Run, state: DispatchState) -> None:
        """Judge a run that was let through: it may execute now."""
        assert run.order is not None
        assert run.facts.run_attempt == 1
        assert state.run is not None
        assert state.run.run_id == run.facts.run_id

    def _dispatch(self, operation: ops.Dispatch) -> None:
        name = operation.dispatch_id
        # That a host had no time to look is no evidence of anything.
        assert operation.reason != BUSY
        if operation.state == "uncertain":
            self._uncertain.add(name)
        elif operation.state == "unresolved":
            assert name in self._uncertain
            assert isinstance(operation.evidence, ops.Evidence)
            assert isinstance(operation.evidence.attempts, int)
        elif operation.state == "bound":
            assert isinstance(operation.run, ops.Run)
            assert self._bound.setdefault(name, operation.run.run_id) == operation.run.run_id
            run = self._field.yard.run(operation.run.run_id)
            sender = self._field.group(name).sender
            assert run.order is not None
            assert sender is not None
            assert (run.dispatch_id, run.order.sender_run_id) == (name, sender.run_id)
            assert (run.facts.run_attempt, run.facts.principal) == (1, PRINCIPAL)

    def _release(self, operation: ops.Release) -> None:
        name, yard = operation.dispatch_id, self._field.yard
        self.releases[name] += 1
        assert self.releases[name] == 1
        left = [run for run in yard.of(name) if not run.is_over]
        assert [run.facts for run in left if run.order is not None] == []
        # Of reruns and intruders nobody can know whose host was last heard with an old answer.
        assert not left or name in self._field.weather.misled, left
        kind = operation.evidence.kind
        if kind == "terminal_run":
            assert yard.run(self._bound[name]).is_over
        elif kind == "nonlaunch":
            # Nothing may still begin: what is late meets the fence.
            assert name in yard.ruled_out | yard.refused
            assert not [run for run in yard.of(name) if run.order is not None]
        else:
            assert self._field.group(name).sender is None

    def replay(self) -> None:
        """A reader who begins anew comes to the same state."""
        store = self._field.store
        cold = History.read(store.read().data, store.ledger_at)
        assert state_document(cold.projection) == state_document(self._field.projection)
