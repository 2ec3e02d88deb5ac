"""A board in memory that tests drive step by step through the real publisher.

Each step is one published intent; a step that writes nothing is an error unless it is expected.
"""

from __future__ import annotations

from typing import Any, Literal

from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing import administration, lifecycle
from callboard.board.publishing.bootstrap import propose_policy
from callboard.board.publishing.config import read_settings
from callboard.board.publishing.intents import DispatchNext, Intent, Nothing, Submit
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.publisher import Accepted, Publisher
from callboard.board.publishing.recipe import parse_recipe
from callboard.board.reading.view import View
from callboard.board.storage.memory import MemoryStore
from callboard.clock import FixedClock

START_MS = 1_700_000_000_000
REVISION = "a" * 40
PRINCIPAL = "7"
REPOSITORY = "local/test"
WORKFLOW = ".callboard/workers/default.toml"


def policy(config: str = "", recipe: str = "") -> PolicyDocument:
    """The policy of a config file's text with one worker, `default`."""
    worker = parse_recipe(f'command = ["true"]\n{recipe}'.encode(), name="default")
    return propose_policy(
        read_settings(config.encode()).work_queue,
        {"default": worker},
        repository=REPOSITORY,
        revision=REVISION,
    )


class StagedBoard:
    """A board whose clock moves only when told to."""

    def __init__(self, config: str = "", recipe: str = "") -> None:
        self.store = MemoryStore()
        self.clock = FixedClock(START_MS)
        self.publisher = Publisher(self.store, self.clock, patience_s=0)
        self._policy = policy(config, recipe)
        self._requests = 0

    @property
    def data(self) -> bytes:
        return self.store.read().data

    def view(self) -> View:
        history = self.publisher.refresh()
        return View(history, self.publisher.decision_time(history.projection))

    def work_id(self, key: str, graph: str = "g") -> str:
        return identities.work_id(graph, key)

    def actor(self, role: Any, **run: Any) -> ops.Actor:
        return ops.Actor(role=role, principal=PRINCIPAL, repository=REPOSITORY, **run)

    def publish(self, intent: Intent) -> Accepted:
        outcome = self.publisher.publish(intent)
        assert not isinstance(outcome, Nothing), outcome
        return outcome

    def _request(self) -> str:
        self._requests += 1
        return f"r{self._requests}"

    def submit(
        self,
        *nodes: dict[str, Any],
        graph: str = "g",
        principal: str = PRINCIPAL,
        **defaults: Any,
    ) -> Accepted:
        """Post nodes; a payload is made up where none is given."""
        full = [{"payload": {"task": node["key"]}, **node} for node in nodes]
        plan = parse_plan({"graph": graph, "nodes": full, "defaults": defaults})
        return self.publish(
            Submit(
                self._request(),
                ops.Actor(role="producer", principal=principal, repository=REPOSITORY),
                plan,
                lambda: self._policy,
                lambda _policy, _works: None,
            )
        )

    def ask(
        self,
        claims: int = 1,
        dispatches: int = 1,
        request_id: str | None = None,
        max_bytes: int = 49_152,
        pool: str = "default",
    ) -> Accepted | Nothing:
        """Ask for a batch."""
        parameters = wire.DispatchNextParameters(
            pool=pool, max_claims=claims, max_dispatches=dispatches, max_bytes=max_bytes
        )
        request_id = request_id or self._request()
        return self.publisher.publish(
            DispatchNext(request_id, self.actor("dispatcher"), parameters)
        )

    def grant(self, claims: int = 1, dispatches: int = 1, **more: Any) -> list[str]:
        """The Claims of a batch that is granted."""
        outcome = self.ask(claims, dispatches, **more)
        assert isinstance(outcome, Accepted), outcome
        return list(outcome.request.claims)

    def dispatch_of(self, claim_id: str) -> str:
        return self.view().projection.claims[claim_id].claim.dispatch_id

    def start(self, dispatch_id: str) -> None:
        sender = self.actor(
            "dispatcher", workflow=".callboard/dispatch", run_id="99", run_attempt=1
        )
        self.publish(lifecycle.start(dispatch_id, sender, PRINCIPAL))

    def _worker(self, dispatch_id: str) -> ops.Actor:
        return self.actor(
            "worker",
            workflow=WORKFLOW,
            run_id=self._run_id(dispatch_id),
            run_attempt=1,
            dispatch_id=dispatch_id,
        )

    @staticmethod
    def _run_id(dispatch_id: str) -> str:
        return f"{int(dispatch_id[2:18], 16) + 1}{dispatch_id.rsplit('_', 1)[1]}"

    def bind(self, dispatch_id: str) -> None:
        run = ops.Run(
            run_id=self._run_id(dispatch_id),
            run_attempt=1,
            repository=REPOSITORY,
            workflow=WORKFLOW,
            ref=REVISION,
            principal=PRINCIPAL,
            event="host_dispatch",
        )
        self.publish(lifecycle.bind(dispatch_id, run, self._worker(dispatch_id)))

    def doubt(
        self,
        dispatch_id: str,
        state: Literal["uncertain", "unresolved"],
        reason: str = "launch_timeout",
        looks: int | None = None,
    ) -> None:
        actor = self.actor("reconciler")
        proof = lifecycle.Proof("reconciliation", "host_api", attempts=looks) if looks else None
        self.publish(lifecycle.doubt(dispatch_id, state, reason, actor, proof))

    def launch(self, claim_id: str) -> str:
        """Start and bind the Claim's dispatch."""
        dispatch_id = self.dispatch_of(claim_id)
        self.start(dispatch_id)
        self.bind(dispatch_id)
        return dispatch_id

    def finish(self, claim_id: str, outcome: Literal["completed", "cancelled"]) -> None:
        claim = self.view().projection.claims[claim_id].claim
        worker = self._worker(claim.dispatch_id)
        self.publish(lifecycle.finish(claim.dispatch_id, claim.handle, outcome, worker))

    def deliver(self, key: str, graph: str = "g") -> None:
        proof = lifecycle.Proof("delivery", "host_api", attempts=1)
        descriptor = {"version": 1, "outputs": []}
        work_id = self.work_id(key, graph)
        self.publish(lifecycle.deliver(work_id, descriptor, proof, self.actor("reconciler")))

    def release(self, dispatch_id: str, conclusion: str = "success") -> None:
        proof = lifecycle.Proof("terminal_run", "host_api", conclusion=conclusion)
        self.publish(lifecycle.release(dispatch_id, proof, "run_ended", self.actor("reconciler")))

    def fail_delivery(self, key: str) -> None:
        proof = lifecycle.Proof("terminal_run", "host_api", conclusion="failure", attempts=5)
        work_id = self.work_id(key)
        self.publish(
            lifecycle.fail_delivery(work_id, "output_missing", proof, self.actor("reconciler"))
        )

    def cancel(self, key: str, reason: str = "not_needed", graph: str = "g") -> None:
        works = [self.work_id(key, graph)]
        self.publish(
            administration.cancel_work(self._request(), works, reason, self.actor("producer"))
        )

    def pause(self, name: Literal["admission_paused", "grants_paused"], value: bool = True) -> None:
        actor = self.actor("administrator")
        self.publish(administration.control(self._request(), name, value, "test", actor))

    def do(self, key: str, outcome: Literal["completed", "cancelled"] = "completed") -> str:
        """Grant the next Work, which must be `key`, and carry it through; answers its Claim."""
        (claim_id,) = self.grant()
        claim = self.view().projection.claims[claim_id].claim
        assert claim.work_id == self.work_id(key)
        dispatch_id = self.launch(claim_id)
        self.finish(claim_id, outcome)
        if outcome == "completed":
            self.deliver(key)
        self.release(dispatch_id)
        return claim_id


def node(key: str, *after: str, **fields: Any) -> dict[str, Any]:
    """A plan node."""
    return {"key": key, **({"after": list(after)} if after else {}), **fields}
