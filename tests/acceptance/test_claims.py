"""Whom a word of a worker is for, and what is done with a Claim as its run ends.

The rows of two tables: how a selector is resolved against the assignment as it was made, and what
the trusted side does with each state of a Claim.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.protocol import operations as ops
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.acceptance.batch import ALL_TYPES, ALONE, ARTIFACT, Batch
from tests.acceptance.looking import look
from tests.board.outputs import scene
from tests.board.outputs.test_on_the_board import Board as OutputBoard
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"


# --- the selector -----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    """A board after runs for one task each: one never names it, one names it right and wrong."""
    made = Batch(tmp_path_factory.mktemp("single"))
    plan = json.dumps({"graph": "g", "nodes": [made.node("child", ALONE[2:])]})
    unnamed = [
        ["write", "one.txt", "1"],
        ["write", "plan.json", plan],
        ["artifact", "one.txt"],
        ["patch", "one.txt"],
        ["note", "a word"],
        ["write", "facts.json", '{"facts": ["one"]}'],
        ["memory", "facts.json"],
        ["submit", "plan.json"],
        ["dispatch-next"],
        ["noop", "no more of it"],
        ["finish", "completed"],
    ]
    named = [
        ["write", "one.txt", "1"],
        ["artifact", "one.txt", "--claim", "h1"],
        *(["finish", "cancelled", "--claim", name] for name in ("h2", "", "H1", "c1")),
        ["finish", "completed", "--claim", "h1"],
    ]
    contract = {name: {"min": 0, "max": 1} for name in ALL_TYPES}
    made.world.submit(
        made.node("unnamed", unnamed, contract=contract),
        made.node("named", named, contract=contract),
    )
    try:
        made.run()
        yield made
    finally:
        made.world.end()


def test_selector_one_claim_none_given(single: Batch) -> None:
    """Every kind of wish is taken for the one task there is, and says so on both sides."""
    first = [one for one in single.told if "words" in one][:8]
    assert [(one["status"], one["code"]) for one in first] == [(0, None)] * 8, first
    claim = single.report()["claims"][0]
    assert claim["claim_handle"] == "h1"
    assert claim["outcome"] == "completed"
    assert single.report()["unattributed"] == []
    state = single.world.works()["unnamed"]
    assert state.result is not None
    outputs: Any = state.result["outputs"]
    assert sorted(one["type"] for one in outputs) == sorted(ALL_TYPES)


def test_automatic_single_claim_attribution(single: Batch) -> None:
    """Each kind of output that one task delivered without naming it is its own; a wrong name is
    refused, and never turned into the right one."""
    (claim,) = [one for one in single.world.operations() if isinstance(one, ops.Claim)][:1]
    (done,) = [one for one in single.world.operations() if isinstance(one, ops.Completion)][:1]
    assert (done.claim_id, done.claim_handle) == (claim.claim_id, "h1")
    for name in ("h2", "", "H1", "c1"):
        assert single.answers("finish", "cancelled", "--claim", name) == [
            (1, "claim_scope_invalid")
        ], name
    assert single.count(ops.ClaimCancellation, "named") == 0


def test_selector_one_claim_named(single: Batch) -> None:
    assert single.answers("artifact", "one.txt", "--claim", "h1") == [(0, None)]
    assert single.answers("finish", "completed", "--claim", "h1") == [(0, None)]
    assert single.artifacts()["named"] == ["one.txt"]


def test_selector_several_claims_named(batch: Batch) -> None:
    for name in ("h1", "h4"):
        assert batch.answers("finish", "completed", "--claim", name)[0] == (0, None)
        assert batch.claim(name)["outcome"] == "completed"
    assert batch.claim("h2")["reason"] == "worker_cancelled"
    assert [one["claim_handle"] for one in batch.report()["claims"]] == [
        f"h{n}" for n in range(1, 7)
    ]


def test_selector_several_claims_none_given(batch: Batch) -> None:
    """The second time only one of six was not spoken for, and it is not taken for that one."""
    assert batch.answers("finish", "completed") == [(1, "claim_scope_required")] * 2
    assert (batch.claim("h3")["outcome"], batch.claim("h3")["reason"]) == ("cancelled", "no_finish")


def test_selector_wrong(batch: Batch) -> None:
    before = {"h1": "completed", "h2": "cancelled", "h3": "cancelled"}
    for name in ("h7", "", "H3", "c1", "h3 "):
        answers = batch.answers("finish", "completed", "--claim", name)
        assert answers == [(1, "claim_scope_invalid")], name
    assert {name: batch.claim(name)["outcome"] for name in before} == before
    codes = [one["code"] for one in batch.report()["unattributed"]]
    # Past the commands: none given, null, a name of nobody, and what is no message at all.
    assert codes.count("claim_scope_invalid") == 2


@pytest.mark.parametrize("how", ["none", "empty", "gone", "torn", "scalar", "no claims", "null"])
def test_selector_without_assignment(tmp_path: Path, how: str) -> None:
    """A worker whose assignment is not what the host wrote may wish for nothing."""
    assignment = scene.assignment(scene.NO_WRITES)
    prepare_folder(tmp_path / "staging", Terms.of({}))
    path = tmp_path / "assignment.json"
    whole = json.loads(canonical.encode(assignment))
    documents: dict[str, Any] = {
        "scalar": {"claim_handle": "h1", "claim_id": "c1"},
        "no claims": {**whole, "claims": []},
        "null": {**whole, "dispatch_id": None},
    }
    if how == "torn":
        path.write_bytes(canonical.encode(assignment)[:-2])
    elif how in documents:
        path.write_text(json.dumps(documents[how]))
    environment = {**os.environ, "CALLBOARD_STAGING": str(tmp_path / "staging")}
    if how != "none":
        environment["CALLBOARD_ASSIGNMENT"] = "" if how == "empty" else str(path)
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "worker", "finish", "completed", "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    code = json.loads(done.stdout)["error"]["code"]
    expected = {"none": "not_in_a_run", "empty": "not_in_a_run", "gone": "file_missing",
                "torn": "invalid_json"}  # fmt: skip
    assert code == expected.get(how, "assignment_invalid")
    assert list((tmp_path / "staging").glob("message-*")) == []


# --- what becomes of a Claim --------------------------------------------------------------------


def test_claim_open_and_completed(batch: Batch) -> None:
    """Completed on the board, then delivered, once; the Result names the same Claim."""
    completions = [one for one in batch.world.operations() if isinstance(one, ops.Completion)]
    results = [one for one in batch.world.operations() if isinstance(one, ops.Result)]
    assert [one.claim_handle for one in completions] == ["h1", "h4"]
    assert sorted(one.claim_id for one in results) == sorted(one.claim_id for one in completions)
    operations = batch.world.operations()
    for done in completions:
        (result,) = [one for one in results if one.claim_id == done.claim_id]
        assert operations.index(done) < operations.index(result)
    assert len(batch.artifact_refs()) == len({*batch.artifact_refs()}) == 2


def test_claim_open_and_cancelled(batch: Batch) -> None:
    """Its place is free, its node waits for another attempt, its output is kept back and named."""
    claim = batch.claim("h2")
    assert (claim["outcome"], claim["reason"]) == ("cancelled", "worker_cancelled")
    assert [one["name"] for one in claim["suppressed"]] == ["h2"]
    assert claim["outputs"] == []
    assert batch.count(ops.ClaimCancellation, "n3") == 1
    assert batch.world.works()["n3"].state == "available"
    assert "n3" not in batch.artifacts()


def test_claim_open_and_silent(batch: Batch) -> None:
    """Without a word nothing is done; what was staged for it is told, and kept back."""
    claim = batch.claim("h3")
    assert (claim["outcome"], claim["reason"]) == ("cancelled", "no_finish")
    assert [one["name"] for one in claim["suppressed"]] == ["h3"]
    assert batch.count(ops.ClaimCancellation, "n2") == 1
    assert batch.count(ops.Completion, "n2") == 0
    # It alone is cancelled: its siblings are as their workers left them.
    assert batch.count(ops.Completion, "n1") == batch.count(ops.Completion, "n5") == 1


def test_claim_lost(batch: Batch, tmp_path: Path) -> None:
    """One that was ended by others meanwhile, one that never was, and the run of another launch."""
    assert batch.world.works()["n6"].cancellation_reason == "not_needed"
    assert batch.count(ops.Completion, "n6") == batch.count(ops.Result, "n6") == 0
    assert "n6" not in batch.artifacts()
    folder = scene.make_repository(tmp_path / "user")
    with Repository.discover(folder) as repository:
        board = OutputBoard(repository)
        board.bind()
        board.finish("h2", "completed")
        for handle, run_id, code in (
            ("h3", "1234567890", "claim_scope_invalid"),
            ("h2", "1", "run_binding_conflict"),
        ):
            with pytest.raises(CallboardError) as caught:
                board.context(handle, run_id)
            assert caught.value.code == code
        # The sibling's Completion is not its own.
        assert (board.context("h1").phase, board.context("h2").phase) == ("open", "completed")
        board.finish("h1", "cancelled")
        with pytest.raises(CallboardError, match="effects_unauthorized"):
            board.context("h1").require("completed")


def test_claim_in_doubt(tmp_path: Path) -> None:
    """The run dies after its first Completion, and nobody here can tell what became of it: what
    stands stays and is delivered, all else is left as it is until the evidence is back."""
    batch = Batch(tmp_path, max_claims=2)
    world = batch.world
    both = [*ALONE[:1], *([*ALONE[1], "--claim", name] for name in ("h1", "h2")),
            *([*ALONE[2], "--claim", name] for name in ("h1", "h2"))]  # fmt: skip
    world.submit(
        batch.node("a", both, contract=ARTIFACT),
        batch.node("b", contract=ARTIFACT),
        batch.node("next", after=["a"]),
    )
    fault = world.fault(APPEND, "after", role="supervisor", match="Request: finish_")
    try:
        batch.dispatch(2, fault=fault)
        world.wait_for(world.file("killed"))
        until(lambda: not world.supervisors())
        aside = world.folders.state.rename(world.root / "aside")
        # Git itself has what a's Completion promised; of b there is no word to go by.
        assert sorted(look(world)) == ["run_unknown_here", "verified"]
        assert look(world) == ["run_unknown_here"]
        assert _fates(batch) == {"a": ("completed", "verified"), "b": ("claimed", "none")}
        assert len(batch.artifact_refs()) == 1
        assert world.history().projection.counters.unreleased == 1
        shutil.rmtree(world.folders.state)
        aside.rename(world.folders.state)
        until(lambda: not look(world))
        assert _fates(batch) == {"a": ("completed", "verified"), "b": ("available", "none")}
        assert batch.artifacts() == {"a": ["one.txt"]}
        assert [batch.count(kind, "a") for kind in (ops.Completion, ops.Result)] == [1, 1]
        assert batch.count(ops.ClaimCancellation, "b") == 1
        assert world.works()["next"].blocked == 0
        world.check_once()
    finally:
        world.end()


def _fates(batch: Batch) -> dict[str, tuple[str, str]]:
    works = batch.world.works()
    return {key: (works[key].state, works[key].barrier) for key in "ab"}
