"""Authority as the board records it, from the grant to the verified Result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from callboard.board.outputs.authority import EffectContext, context_of
from callboard.board.outputs.delivery import verify_delivery
from callboard.board.outputs.effects import apply_claim, prepare_claim
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import Stager, prepare_folder
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.publishing import lifecycle
from callboard.board.publishing.bootstrap import propose_policy
from callboard.board.publishing.config import read_settings
from callboard.board.publishing.intents import DispatchNext, Intent, Submit
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.publisher import Accepted, Publisher
from callboard.board.publishing.recipe import parse_recipe
from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.repository import Repository
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.building import Outcome, Role
from tests.board.outputs import scene

NAME = "local/user"
RECIPE = b'command = ["true"]\nmax_claims = 2\noutputs = ["artifact"]\n'
MEMORY_RECIPE = b"""command = ["true"]
max_claims = 2
outputs = ["memory"]
[memory]
path = "memory/facts.json"
branch = "facts"
[memory.schema]
type = "object"
properties = { fact = { type = "string" } }
"""
RUN_ID = "1234567890"


class Board:
    """A board in memory with one granted, bound group of two Claims."""

    def __init__(
        self,
        repository: Repository,
        recipe_text: bytes = RECIPE,
        contract: Mapping[str, Any] = MappingProxyType({"artifact": 1}),
    ) -> None:
        self.repository = repository
        head = repository.head_commit()
        assert head is not None
        self.head = head
        self.publisher = Publisher(MemoryStore(), FixedClock(1_000_000))
        self.recipe = recipe = parse_recipe(recipe_text, name="coder")
        plan = parse_plan(
            {
                "graph": "g",
                "nodes": [
                    {"key": key, "payload": {"task": key}, "contract": dict(contract)}
                    for key in ("a", "b")
                ],
            }
        )
        self.publish(
            Submit(
                "r1",
                self.actor("producer"),
                plan,
                lambda: propose_policy(
                    read_settings(None).work_queue,
                    {"coder": recipe},
                    repository=NAME,
                    revision=head,
                ),
                lambda _policy, _works: None,
            )
        )
        parameters = wire.DispatchNextParameters(
            pool="default", max_claims=2, max_dispatches=1, max_bytes=49152
        )
        self.publish(DispatchNext("r2", self.actor("dispatcher"), parameters))
        (self.dispatch_id,) = self.projection.dispatches
        self.assignment = self.projection.dispatches[self.dispatch_id].assignment

    def actor(self, role: Role, **run: Any) -> ops.Actor:
        return ops.Actor(role=role, principal="7", repository=NAME, **run)

    def worker(self) -> ops.Actor:
        return self.actor(
            "worker",
            workflow=".callboard/workers/coder.toml",
            run_id=RUN_ID,
            run_attempt=1,
            dispatch_id=self.dispatch_id,
        )

    def publish(self, intent: Intent) -> Accepted:
        answer = self.publisher.publish(intent)
        assert isinstance(answer, Accepted), answer
        return answer

    @property
    def projection(self) -> Projection:
        return self.publisher.refresh().projection

    def bind(self) -> None:
        sender = self.actor(
            "dispatcher", workflow=".callboard/dispatch", run_id="99", run_attempt=1
        )
        self.publish(lifecycle.start(self.dispatch_id, sender, "7"))
        run = ops.Run(
            run_id=RUN_ID,
            run_attempt=1,
            repository=NAME,
            workflow=".callboard/workers/coder.toml",
            ref=self.head,
            principal="7",
            event="host_dispatch",
        )
        self.publish(lifecycle.bind(self.dispatch_id, run, self.worker()))

    def context(self, handle: str, run_id: str = RUN_ID) -> EffectContext:
        return context_of(
            self.projection,
            self.repository,
            dispatch_id=self.dispatch_id,
            handle=handle,
            run_id=run_id,
            memory=self.recipe.memory,
        )

    def finish(self, handle: str, outcome: Outcome) -> None:
        self.publish(lifecycle.finish(self.dispatch_id, handle, outcome, self.worker()))


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    folder = scene.make_repository(tmp_path / "user")
    with Repository.discover(folder) as repository:
        yield Board(repository)


def test_a_run_from_its_folder_to_its_result(board: Board, tmp_path: Path) -> None:
    board.bind()
    folder = tmp_path / "staging"
    terms = Terms.of({"artifact": (0, 128)}, object_format=board.repository.object_format)
    prepare_folder(folder, terms)
    assert {board.context(one).run_id for one in ("h1", "h2")} == {RUN_ID}
    side = Stager(folder, board.assignment)
    report = tmp_path / "report.md"
    report.write_text("found nothing")
    side.artifact(report, selector="h1")
    side.finish("completed", "h1")
    side.finish("completed", "h2")
    found = take(folder, board.assignment, terms)
    assert [claim.reason for claim in found.claims] == ["finished", "output_missing"]
    for claim in found.claims:
        settled = prepare_claim(board.context(claim.handle), claim)
        board.finish(claim.handle, settled.outcome)
    apply_claim(board.context("h1"))
    assert board.context("h2").phase == "closed"
    place = board.context("h1").place
    delivery = verify_delivery(place, board.context("h1").payload)
    assert delivery.verified
    proof = lifecycle.Proof("delivery", "verified_receipts", receipt=place.claim_id)
    board.publish(
        lifecycle.deliver(place.work_id, delivery.descriptor, proof, board.actor("reconciler"))
    )
    assert board.projection.works[place.work_id].barrier == "verified"
    assert board.projection.works[place.work_id].result == delivery.descriptor
    with pytest.raises(CallboardError, match="effects_unauthorized"):
        apply_claim(board.context("h1"))


def test_memories_of_a_run_from_their_folder_to_their_results(board: Board, tmp_path: Path) -> None:
    """Two Claims remember on the same base, each on its own branch; only one of them completes."""
    board = Board(board.repository, MEMORY_RECIPE, {"memory": 1})
    board.bind()
    folder = tmp_path / "staging"
    terms = Terms.of(
        {"memory": (0, 1)},
        object_format=board.repository.object_format,
        memory=board.recipe.memory,
    )
    prepare_folder(folder, terms)
    side = Stager(folder, board.assignment)
    side.memory(b'{"fact": "a"}', "h1")
    side.memory(b'{"fact": "b"}', "h2")
    side.finish("completed", "h1")
    side.finish("completed", "h2")
    for claim in take(folder, board.assignment, terms).claims:
        settled = prepare_claim(board.context(claim.handle), claim)
        assert settled.outcome == "completed"
        board.finish(claim.handle, "completed" if claim.handle == "h1" else "cancelled")
    apply_claim(board.context("h1"))
    with pytest.raises(CallboardError, match="effects_unauthorized"):
        apply_claim(board.context("h2"))
    place = board.context("h1").place
    delivery = verify_delivery(place, board.context("h1").payload)
    assert delivery.verified
    (entry,) = delivery.descriptor["outputs"]
    assert entry["branch"] == f"callboard/memory/facts/{place.work_id[:12]}-1"
    branches = scene.git(tmp_path / "user", "branch", "--list", "--format=%(refname:short)")
    assert branches.split() == [entry["branch"], "main"]
    # The commit bears the time of the grant.
    assert scene.git(tmp_path / "user", "show", "-s", "--format=%ct", entry["commit"]) == "1000"


def test_only_the_bound_run_has_effects(board: Board) -> None:
    with pytest.raises(CallboardError, match="run_unbound"):
        board.context("h1")
    board.bind()
    with pytest.raises(CallboardError, match="run_binding_conflict"):
        board.context("h1", run_id="1")
    with pytest.raises(CallboardError, match="claim_scope_invalid"):
        board.context("h3")


def test_a_siblings_completion_lends_nothing(board: Board) -> None:
    board.bind()
    assert board.context("h1").phase == "open"
    board.finish("h2", "completed")
    assert board.context("h2").phase == "completed"
    assert board.context("h1").phase == "open"
    board.finish("h1", "cancelled")
    assert board.context("h1").phase == "closed"


def test_facts_come_from_the_board(board: Board) -> None:
    board.bind()
    found = board.context("h2")
    member = board.assignment.claims[1]
    assert found.place.claim_id == member.claim_id
    assert found.place.work_id == member.work_id
    assert found.place.attempt == 1
    assert found.place.base == board.head
    assert found.payload == member.work
    assert (found.repository_name, found.effect_scope) == (NAME, NAME)
    assert found.result_bytes == 4096
