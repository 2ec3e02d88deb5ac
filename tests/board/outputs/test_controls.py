"""Requests to the board as outputs: asked once, what became of them noted truly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.outputs.authority import EffectContext
from callboard.board.outputs.claims import BatchOutput, BodyOutput
from callboard.board.outputs.control_receipt import ControlReceipt, read_receipt
from callboard.board.outputs.descriptor import BatchEntry, SubmitEntry, control_request_id
from callboard.board.outputs.handlers import gate
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.outputs import scene
from tests.board.outputs.scene import member, outputs, sha

BOTH = outputs(submit=(0, 2), dispatch_next=(0, 2))
PLAN = b'{"nodes":[{"payload":{}}]}'


class Board:
    """A desk whose board answers as it is told, and keeps what it accepted."""

    queue_ref = "refs/heads/work-queue"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []
        self.stands: dict[str, str] = {}

    def rehearse_plan(self, plan: bytes) -> None:
        self.asked.append(("rehearse", plan))

    def submit(self, request_id: str, plan: bytes) -> ControlReceipt:
        self.asked.append(("submit", request_id, plan))
        return self._answer("submit", request_id)

    def dispatch_next(
        self, request_id: str, pool: str, max_claims: int, max_dispatches: int
    ) -> ControlReceipt:
        self.asked.append(("dispatch_next", request_id, pool, max_claims, max_dispatches))
        return self._answer("dispatch_next", request_id)

    def commit_of(self, request_id: str) -> str | None:
        return self.stands.get(request_id)

    def _answer(self, kind: Any, request_id: str) -> ControlReceipt:
        word = self.answers.pop(0)
        if word == "accepted":
            self.stands[request_id] = f"q_{request_id}"
            return ControlReceipt(
                version=1, kind=kind, request_id=request_id, outcome="accepted",
                commit_id=f"q_{request_id}",
            )  # fmt: skip
        return ControlReceipt(
            version=1, kind=kind, request_id=request_id, outcome="nothing", reason=word
        )


@pytest.fixture
def repository(tmp_path: Path) -> Any:
    folder = scene.make_repository(tmp_path / "user")
    with Repository.discover(folder) as opened:
        yield opened


def at(context: EffectContext, desk: Board | None, phase: Any = "completed") -> EffectContext:
    return replace(context, place=replace(context.place, desk=desk), phase=phase)


def batch(number: int = 1) -> BatchOutput:
    return BatchOutput(f"i_{number}", number, 3, 2)


def plan() -> BodyOutput:
    return BodyOutput("i_plan", "submit", 1, sha(PLAN), len(PLAN), PLAN)


def noted(repository: Repository, ref: str) -> ControlReceipt:
    blob = repository.read_ref(ref)
    assert blob is not None
    return read_receipt(repository.read_blob(blob, 4096))


def test_a_plan_is_rehearsed_before_and_posted_after_the_completion(
    repository: Repository,
) -> None:
    context, desk = scene.context(repository, member(1, BOTH)), Board("accepted")
    entry = gate.prepare(at(context, desk, "open"), plan())
    assert isinstance(entry, SubmitEntry)
    assert entry.request_id == control_request_id(context.place.claim_id, "i_plan")
    assert desk.asked == [("rehearse", PLAN)]
    assert repository.read_ref(entry.ref) is None
    for _time in range(3):
        gate.apply(at(context, desk), entry)
    assert desk.asked == [("rehearse", PLAN), ("submit", entry.request_id, PLAN)]
    receipt = noted(repository, entry.ref)
    assert (receipt.outcome, receipt.commit_id) == ("accepted", f"q_{entry.request_id}")


def test_a_request_is_named_by_its_claim_and_its_message() -> None:
    names = {control_request_id(claim, intent) for claim in ("c1", "c2") for intent in ("a", "b")}
    assert len(names) == 4
    digest = sha(canonical.encode({"claim_id": "c1", "intent_id": "a"}))
    assert control_request_id("c1", "a") == f"w_{digest}"


def test_of_two_that_ask_at_once_the_grant_is_what_is_noted(repository: Repository) -> None:
    """One was told that there is nothing and noted it; then the other one was granted the batch."""
    context = scene.context(repository, member(1, BOTH))
    first, second = Board("no_work"), Board("accepted")
    entry = gate.prepare(at(context, first, "open"), batch())
    assert isinstance(entry, BatchEntry)
    gate.apply(at(context, first), entry)
    assert noted(repository, entry.ref).outcome == "nothing"
    second.stands[entry.request_id] = f"q_{entry.request_id}"
    gate.apply(at(context, second), entry)
    receipt = noted(repository, entry.ref)
    assert (receipt.outcome, receipt.commit_id) == ("accepted", f"q_{entry.request_id}")
    # The other way round nothing is taken back.
    gate.apply(at(context, second), entry)
    assert noted(repository, entry.ref) == receipt
    assert len(second.asked) == 1


def test_nothing_is_an_answer_that_is_given_once(repository: Repository) -> None:
    context, desk = scene.context(repository, member(1, BOTH)), Board("no_work")
    entry = gate.prepare(at(context, desk, "open"), batch())
    assert isinstance(entry, BatchEntry)
    for _time in range(2):
        gate.apply(at(context, desk), entry)
    assert desk.asked == [("dispatch_next", entry.request_id, "default", 3, 2)]
    assert noted(repository, entry.ref).reason == "no_work"


def test_a_note_that_the_board_does_not_bear_out_is_no_delivery(repository: Repository) -> None:
    context, desk = scene.context(repository, member(1, BOTH)), Board("accepted")
    entry = gate.prepare(at(context, desk, "open"), batch())
    gate.apply(at(context, desk), entry)
    desk.stands.clear()
    with pytest.raises(CallboardError, match="stands in no commit") as refused:
        gate.apply(at(context, desk), entry)
    assert refused.value.code == "output_unverified"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "submit"},
        {"request_id": "another"},
        {"outcome": "nothing"},
        {"version": 2},
        {"extra": 1},
    ],
)
def test_a_forged_note_is_refused(repository: Repository, change: dict[str, Any]) -> None:
    context, desk = scene.context(repository, member(1, BOTH)), Board("accepted")
    entry = gate.prepare(at(context, desk, "open"), batch())
    assert isinstance(entry, BatchEntry)
    forged = {
        "version": 1, "kind": "dispatch_next", "request_id": entry.request_id,
        "outcome": "accepted", "commit_id": "q_1", **change,
    }  # fmt: skip
    repository.set_ref(entry.ref, None, repository.write_blob(json.dumps(forged).encode()))
    with pytest.raises(CallboardError) as refused:
        gate.apply(at(context, desk), entry)
    assert refused.value.code in ("output_unverified", "descriptor_invalid")
    assert desk.asked == []


@pytest.mark.parametrize("output", [batch(), plan()], ids=["dispatch_next", "submit"])
def test_what_is_in_the_way_of_a_note_is_met_before_the_completion(
    repository: Repository, output: Any
) -> None:
    scene.git(repository.common_dir, "update-ref", "refs/callboard/controls", "HEAD")
    context, desk = scene.context(repository, member(1, BOTH)), Board("accepted")
    with pytest.raises(CallboardError) as refused:
        gate.prepare(at(context, desk, "open"), output)
    assert refused.value.code == "ref_conflict"
    assert [kind for kind, *_rest in desk.asked if kind != "rehearse"] == []


@pytest.mark.parametrize("output", [batch(), plan()], ids=["dispatch_next", "submit"])
def test_without_a_board_nothing_can_be_asked(repository: Repository, output: Any) -> None:
    context = scene.context(repository, member(1, BOTH))
    with pytest.raises(CallboardError) as refused:
        gate.prepare(at(context, None, "open"), output)
    assert refused.value.code == "control_unavailable"


@pytest.mark.parametrize("phase", ["open", "closed"])
def test_only_a_completed_claim_asks(repository: Repository, phase: Any) -> None:
    context, desk = scene.context(repository, member(1, BOTH)), Board("accepted")
    entry = gate.prepare(at(context, desk, "open"), batch())
    with pytest.raises(CallboardError) as refused:
        gate.apply(at(context, desk, phase), entry)
    assert refused.value.code == "effects_unauthorized"
    assert desk.asked == []


def test_a_scope_that_leaves_the_board_out_denies_requests(repository: Repository) -> None:
    claim = member(1, BOTH)
    claim.work["resource_scope"] = {
        "version": 1,
        "resources": [{"repository": scene.REPOSITORY, "ref": "refs/heads/other"}],
    }
    context, desk = scene.context(repository, claim), Board("accepted")
    for output in (batch(), plan()):
        with pytest.raises(CallboardError) as refused:
            gate.prepare(at(context, desk, "open"), output)
        assert refused.value.code == "effect_scope_denied"
    assert desk.asked == []
