"""Delivery barriers: verified from Git without running anything again, or given up in bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.board.board import Board, Folders
from callboard.board.execution.principal import make_principal
from callboard.board.execution.settle import Settler, reason_of
from callboard.board.outputs.descriptor import ArtifactEntry, artifact_ref, describe
from callboard.board.outputs.prepared import write_prepared
from callboard.board.projection.entities import WorkState
from callboard.board.protocol import operations as ops
from callboard.board.publishing.plan import parse_plan
from callboard.canonical import sha256_hex
from callboard.clock import FixedClock
from tests.board.execution.failing import RECIPE, complete
from tests.repositories import git, worker_repository

START_MS = 1_700_000_000_000
DEADLINE_MS = 300_000


class Scene:
    """A board whose one node is completed, its run ended and its delivery pending."""

    def __init__(self, folder: Path) -> None:
        self.path = worker_repository(folder / "repository", RECIPE)
        folders = Folders(folder / "config", folder / "state")
        make_principal(folders.config)
        self.clock = FixedClock(START_MS)
        self.board = Board.open(self.path, folders, clock=self.clock)
        node = {"key": "a", "payload": {}, "contract": {"artifact": 2}}
        self.board.submit(parse_plan({"graph": "g", "nodes": [node]}))
        self.work_id = complete(self.board)
        self.settler = Settler(self.board.site)

    @property
    def state(self) -> WorkState:
        return self.board.history().projection.works[self.work_id]

    @property
    def failure(self) -> ops.DeliveryFailure:
        """The recorded failure."""
        history = self.board.history()
        ordinal = history.projection.commit_ids[str(self.state.failure_commit_id)]
        (found,) = history.commit(ordinal).operations
        assert isinstance(found, ops.DeliveryFailure)
        return found

    def prepare(self, *names: str) -> list[ArtifactEntry]:
        """What the run noted before its Completion; the blobs are there, no output is."""
        repository = self.board.site.repository
        claim_id = str(self.state.claim_id)
        entries = [
            ArtifactEntry(
                name=name,
                ref=artifact_ref(claim_id, name),
                blob=repository.write_blob(name.encode()),
                sha256=sha256_hex(name.encode()),
                size_bytes=len(name),
            )
            for name in names
        ]
        write_prepared(repository, claim_id, describe([*entries]))
        return entries

    def settle(self) -> str:
        return self.settler.settle(self.work_id)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with scene.board:
        yield scene


def test_what_was_prepared_is_published_and_read_back(scene: Scene) -> None:
    entries = scene.prepare("one", "two")
    assert scene.settle() == "verified"
    assert scene.settle() == "decided"
    for entry in entries:
        assert git("cat-file", "blob", entry.ref, cwd=scene.path) == entry.name


def test_nothing_is_decided_before_attempts_or_deadline_are_used_up(scene: Scene) -> None:
    for _attempt in range(4):
        assert scene.settle() == "pending"
        # A look before its time is none.
        assert scene.settle() == "pending"
        scene.clock.advance(30_000)
    assert scene.state.barrier == "pending"
    assert scene.settle() == "failed"
    assert scene.state.disposition == "unknown"
    evidence = scene.failure.evidence
    assert (evidence.attempts, evidence.effects) == (5, "unknown")
    assert (evidence.run_id, evidence.status) == ("123456789", "completed")
    assert scene.failure.reason == "delivery_unprepared"
    assert scene.settle() == "decided"


def test_a_new_process_is_bound_by_the_deadline_though_it_counts_anew(scene: Scene) -> None:
    assert scene.settle() == "pending"
    scene.clock.advance(DEADLINE_MS)
    scene.settler = Settler(scene.board.site)
    assert scene.settle() == "failed"
    assert scene.failure.evidence.attempts == 1


def test_some_of_the_outputs_are_partial_effects(scene: Scene) -> None:
    one, two = scene.prepare("one", "two")
    other = scene.board.site.repository.write_blob(b"something else")
    git("update-ref", two.ref, other, cwd=scene.path)
    assert scene.settle() == "pending"
    scene.clock.advance(DEADLINE_MS)
    assert scene.settle() == "failed"
    assert scene.state.disposition == "partial"
    assert scene.failure.reason == "artifact_conflict"
    trouble = scene.settler.trouble(scene.work_id)
    assert trouble is not None
    assert trouble.code == "artifact_conflict"
    assert two.ref in trouble.message
    assert git("rev-parse", one.ref, cwd=scene.path) == one.blob
    assert git("rev-parse", two.ref, cwd=scene.path) == other


def test_outputs_that_were_there_and_are_gone_again_are_never_no_effects(scene: Scene) -> None:
    """An absent ref does not show that it never was: `none` is not for Git to say."""
    (entry,) = scene.prepare("one")
    assert scene.settle() == "pending"
    git("update-ref", "-d", entry.ref, cwd=scene.path)
    prepared = f"refs/callboard/prepared/{scene.state.claim_id}"
    git("update-ref", "-d", prepared, cwd=scene.path)
    scene.clock.advance(DEADLINE_MS)
    assert scene.settle() == "failed"
    assert scene.state.disposition == "unknown"


def test_a_result_that_comes_too_late_changes_nothing(scene: Scene) -> None:
    scene.settle()
    scene.clock.advance(DEADLINE_MS)
    assert scene.settle() == "failed"
    scene.prepare("one", "two")
    assert scene.settle() == "decided"
    assert not git("for-each-ref", "refs/callboard/artifacts", cwd=scene.path)
    assert scene.state.barrier == "failed"


def test_a_cause_that_is_no_reason_for_the_board_is_told_as_what_came_of_it() -> None:
    assert reason_of("work_conflict") == "work_conflict"
    for code in ("", "two words", "_x", "x" * 129):
        assert reason_of(code) == "output_unverified"
