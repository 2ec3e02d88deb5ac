"""A board that commits are put on one by one, as a reader of its ledger would take them in.

Refusals reach the test, and change nothing. Time stands until a test moves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, structs

from callboard import canonical
from callboard.board.ledger import finish as finishing
from callboard.board.ledger import replay
from callboard.board.projection.document import state_document
from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.envelope import read_line, written
from callboard.board.publishing.lifecycle import EvidenceKind
from callboard.board.scheduling.packing import BatchPlan, BatchRequest, plan_batch
from tests.board.building import (
    ADMINISTRATOR,
    DISPATCHER,
    PRODUCER,
    RECONCILER,
    REPOSITORY,
    SENDER,
    START_MS,
    ControlName,
    Outcome,
    Phase,
    commit,
    genesis,
    line_of,
    work_id,
)


class Board:
    """A chain of commits with its projection. Time stands until `pass_ms` moves it."""

    def __init__(
        self,
        works: Sequence[ops.Work] = (),
        document: records.PolicyDocument | None = None,
    ) -> None:
        self.projection = Projection()
        self.commits: list[wire.QueueCommit] = []
        self.at = START_MS
        self._names = 0
        if works:
            self.put(genesis(works, document))

    # the chain

    @property
    def tip(self) -> str | None:
        return self.projection.tip

    @property
    def data(self) -> bytes:
        """The ledger so far."""
        return b"".join(line_of(one) for one in self.commits)

    def pass_ms(self, duration_ms: int) -> None:
        self.at += duration_ms

    def name(self, what: str) -> str:
        """A fresh request id."""
        self._names += 1
        return f"{what}-{self._names}"

    def put(self, one: wire.QueueCommit) -> wire.QueueCommit:
        """Apply a commit as a reader of its line would; refusals change nothing."""
        line = line_of(one)
        read = read_line(line[:-1])
        assert read.commit == one
        assert read.plain == line[:-1]
        replay.apply(self.projection, read)
        self.commits.append(read.commit)
        return read.commit

    def make(
        self,
        kind: str,
        operations: Sequence[ops.Operation],
        actor: ops.Actor,
        *,
        parameters: records.Record | None = None,
        request_id: str | None = None,
        **changes: Any,
    ) -> wire.QueueCommit:
        """A commit on the present tip, not yet applied."""
        given: dict[str, Any] = {
            "at": self.at,
            "epoch": self.projection.policy_epoch or "e1",
        } | changes
        name = request_id or self.name(kind)
        return commit(self.tip, kind, name, operations, actor, parameters=parameters, **given)

    def say(
        self,
        kind: str,
        operations: Sequence[ops.Operation],
        actor: ops.Actor,
        **given: Any,
    ) -> wire.QueueCommit:
        """Make a commit on the present tip and apply it."""
        return self.put(self.make(kind, operations, actor, **given))

    # what is on it

    def document(self) -> dict[str, Any]:
        """The state document, as a reader of its canonical bytes has it."""
        encoded = canonical.encode(state_document(self.projection))
        found: dict[str, Any] = canonical.decode(encoded, limit_bytes=canonical.MAX_PARSE_BYTES)
        return found

    def work(self, key: str, graph: str = "g") -> WorkState:
        return self.projection.works[work_id(key, graph)]

    def group(self, key: str, graph: str = "g") -> DispatchState:
        """The dispatch of a node's present Claim."""
        claim = self.projection.claims[str(self.work(key, graph).claim_id)]
        return self.projection.dispatches[claim.claim.dispatch_id]

    def plan(
        self,
        max_claims: int = 1,
        max_dispatches: int = 256,
        max_bytes: int = 49_152,
        *,
        at: int | None = None,
        name: str = "default",
        observed: int = 0,
        request_id: str = "next",
    ) -> BatchPlan:
        """What a dispatch_next would get now."""
        asked = BatchRequest(
            pool=name,
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
            request_id=request_id,
            commit_id=identities.commit_id(self.tip, request_id),
            observed=observed,
        )
        return plan_batch(self.projection, asked, self.at if at is None else at)

    # steps of a life

    def submit(self, works: Sequence[ops.Work], actor: ops.Actor = PRODUCER) -> wire.QueueCommit:
        return self.say("submit", works, actor)

    def grant(
        self,
        max_claims: int = 1,
        max_dispatches: int = 256,
        max_bytes: int = 49_152,
        *,
        observations: Sequence[ops.Observation] = (),
        name: str = "default",
    ) -> list[str]:
        """Commit the next fair prefix; the node keys in the order of their Claims."""
        parameters = wire.DispatchNextParameters(
            pool=name, max_claims=max_claims, max_dispatches=max_dispatches, max_bytes=max_bytes
        )
        request_id = self.name("grant")
        seen = list(observations)
        if seen:
            # The plan has to see them; they are noted for it and taken back.
            beside = self.make("observe", seen, RECONCILER, request_id="beside")
            replay.apply(self.projection, written(beside))
        asked = BatchRequest(
            pool=name,
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
            request_id=request_id,
            commit_id="",
            observed=len(seen),
        )
        claims = plan_batch(self.projection, asked, self.at).claims
        if seen:
            replay.take_back(self.projection)
        self.say(
            "dispatch_next",
            [*seen, *claims],
            DISPATCHER,
            parameters=parameters,
            request_id=request_id,
        )
        works = self.projection.works
        return [works[claim.work_id].work.node_key for claim in claims]

    def run(self, group: DispatchState, run_id: str | None = None) -> ops.Run:
        """The run that fits a group."""
        digits = str(int(canonical.digest(group.assignment.dispatch_id), 16) + 1)
        return ops.Run(
            run_id=run_id or digits,
            run_attempt=1,
            repository=REPOSITORY,
            workflow=group.profile.workflow,
            ref=group.profile.ref,
            principal=group.principal,
            event=(
                "workflow_dispatch"
                if group.profile.workflow.startswith(".github/")
                else "host_dispatch"
            ),
        )

    def worker(self, group: DispatchState, handle: str | None = "h1") -> ops.Actor:
        """The bound worker of a group, for one member."""
        run = group.run or self.run(group)
        return ops.Actor(
            role="worker",
            principal=run.principal,
            repository=REPOSITORY,
            workflow=group.profile.workflow,
            run_id=run.run_id,
            run_attempt=1,
            dispatch_id=group.assignment.dispatch_id,
            claim_handle=UNSET if handle is None else handle,
        )

    def evidence(self, group: DispatchState, kind: EvidenceKind, **changes: Any) -> ops.Evidence:
        """Sound evidence of a kind about a group's run."""
        names_run = kind in ("terminal_run", "delivery", "reconciliation") and group.run
        made = ops.Evidence(
            kind=kind,
            source="trusted_publisher" if kind in ("prelaunch", "nonlaunch") else "host_api",
            repository=REPOSITORY,
            workflow=group.profile.workflow,
            ref=group.profile.ref,
            principal=group.principal,
            checked_at=self.at,
            run_id=group.run.run_id if names_run and group.run else UNSET,
            run_attempt=1 if names_run else UNSET,
            status="completed" if kind == "terminal_run" else UNSET,
        )
        return structs.replace(made, **changes)

    def dispatch(
        self, group: DispatchState, state: Phase, actor: ops.Actor = RECONCILER, **fields: Any
    ) -> wire.QueueCommit:
        """One launch step."""
        made = ops.Dispatch(
            dispatch_id=group.assignment.dispatch_id,
            state=state,
            **fields,
        )
        return self.say("dispatch", [made], actor)

    def start(self, key: str) -> DispatchState:
        """Mark the launch of the node's group."""
        self.dispatch(self.group(key), "started", SENDER, sender=SENDER, credential_principal="7")
        return self.group(key)

    def bind(self, key: str) -> DispatchState:
        """Mark the launch and bind a run."""
        group = self.start(key)
        self.dispatch(group, "bound", run=self.run(group))
        return self.group(key)

    def finish(self, key: str, outcome: Outcome = "completed") -> wire.QueueCommit:
        """The bound worker ends the node's Claim."""
        claim = self.projection.claims[str(self.work(key).claim_id)].claim
        parameters = wire.FinishParameters(
            dispatch_id=claim.dispatch_id,
            claim_handle=claim.handle,
            outcome=outcome,
        )
        operations = finishing.finish_operations(self.projection, parameters, self.at)
        actor = self.worker(self.group(key), claim.handle)
        return self.say("finish", operations, actor, parameters=parameters)

    def result(self, key: str, **changes: Any) -> ops.Result:
        """The Result that would verify a completed node."""
        state = self.work(key)
        made = ops.Result(
            work_id=state.work.work_id,
            claim_id=str(state.claim_id),
            completion_id=str(state.completion_id),
            descriptor={"version": 1, "outputs": []},
            evidence=self.evidence(self.group(key), "delivery", source="verified_receipts"),
        )
        return structs.replace(made, **changes)

    def failure(self, key: str, **changes: Any) -> ops.DeliveryFailure:
        """The DeliveryFailure that would give a completed node up, its checks exhausted."""
        state = self.work(key)
        made = ops.DeliveryFailure(
            work_id=state.work.work_id,
            claim_id=str(state.claim_id),
            completion_id=str(state.completion_id),
            reason="outputs_missing",
            disposition="unknown",
            evidence=self.evidence(self.group(key), "terminal_run", attempts=5),
        )
        return structs.replace(made, **changes)

    def verify(self, key: str, **changes: Any) -> wire.QueueCommit:
        return self.say("result", [self.result(key, **changes)], RECONCILER)

    def fail_delivery(self, key: str, **changes: Any) -> wire.QueueCommit:
        return self.say("delivery_failure", [self.failure(key, **changes)], RECONCILER)

    def complete(self, key: str) -> None:
        """From reserved to completed, delivery pending."""
        self.bind(key)
        self.finish(key)

    def settle(self, key: str) -> None:
        """From reserved to verified and released."""
        self.complete(key)
        self.verify(key)
        self.release(self.group(key), "terminal_run")

    def release(
        self,
        group: DispatchState,
        kind: EvidenceKind,
        cancellations: Sequence[ops.Operation] = (),
        **changes: Any,
    ) -> wire.QueueCommit:
        """Free a group on evidence of a kind."""
        made = ops.Release(
            dispatch_id=group.assignment.dispatch_id,
            evidence=self.evidence(group, kind, **changes),
        )
        return self.say("release", [*cancellations, made], RECONCILER)

    def cancellations(self, key: str, reason: str = "run_ended") -> list[ops.Operation]:
        """What ends the node's open Claim now."""
        return finishing.cancel_claim_operations(
            self.projection, str(self.work(key).claim_id), reason, self.at
        )

    def cancel_claim(self, key: str) -> wire.QueueCommit:
        return self.say("cancel_claim", self.cancellations(key), RECONCILER)

    def cancel_work(self, key: str, **changes: Any) -> wire.QueueCommit:
        made = ops.WorkCancellation(work_id=work_id(key), reason="no_longer_needed", **changes)
        return self.say("cancel_work", [made], PRODUCER)

    def control(self, name: ControlName, value: bool | str) -> wire.QueueCommit:
        made = ops.Control(control=name, value=value, reason="test")
        return self.say("control", [made], ADMINISTRATOR)

    def observe(self, *seen: ops.Observation) -> wire.QueueCommit:
        return self.say("observe", seen, RECONCILER)
