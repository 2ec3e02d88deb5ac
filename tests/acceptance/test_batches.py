"""Several tasks in one run: each is spoken for, ended and delivered by itself."""

from __future__ import annotations

from pathlib import Path

from callboard.board.protocol import operations as ops
from callboard.clock import SystemClock
from tests.acceptance.batch import ALONE, ARTIFACT, ORDER, Batch
from tests.waiting import until


def test_shared_worker_assignment(batch: Batch) -> None:
    world = batch.world
    claims = [one for one in world.operations() if isinstance(one, ops.Claim)][:6]
    works = world.history().projection.works
    assert tuple(works[one.work_id].work.node_key for one in claims) == ORDER
    assert [one.handle for one in claims] == [f"h{n}" for n in range(1, 7)]
    assert len({one.claim_id for one in claims}) == len({one.work_id for one in claims}) == 6
    assert len({one.dispatch_id for one in claims}) == 1
    # One launch, one run, one binding; six turns.
    assert len(world.rows()) == 1
    launches = [one for one in world.operations() if isinstance(one, ops.Dispatch)]
    assert [one.state for one in launches[:2]] == ["started", "bound"]
    assert world.rows()[0].dispatch_id == claims[0].dispatch_id
    (run,) = [one for one in batch.told if "handles" in one]
    assert run["handles"] == [one.handle for one in claims]
    assert {one["claim_id"] for one in run["assignment"]["claims"]} == {
        one.claim_id for one in claims
    }


def test_independent_finish(batch: Batch) -> None:
    works = batch.world.works()
    done, given_up, forgotten = ORDER[:3]
    assert [batch.count(ops.Completion, key) for key in (done, given_up, forgotten)] == [1, 0, 0]
    assert [batch.count(ops.Result, key) for key in (done, given_up, forgotten)] == [1, 0, 0]
    for key in (given_up, forgotten):
        assert batch.count(ops.ClaimCancellation, key) == 1
        assert (works[key].state, works[key].attempts) == ("available", 1)
    assert works[done].barrier == "verified"
    # Saying the same twice is one wish, and saying the contrary is refused.
    words = ("finish", "completed", "--claim", "h1")
    assert batch.answers(*words) == [(0, None), (0, None)]
    intents = [one["answer"]["intent_id"] for one in batch.told if one.get("words") == [*words]]
    assert intents[0] == intents[1]
    assert batch.answers("finish", "cancelled", "--claim", "h1") == [(1, "finish_conflict")]


def test_multi_claim_attribution(batch: Batch) -> None:
    """What names nobody, or nobody of this run, is refused: at once, and again when it is forged
    past the commands. Nothing of it is taken for the one that is left."""
    for words in (("finish", "completed"), ("artifact", "one.txt"), ("note", "about whom")):
        assert {code for _status, code in batch.answers(*words)} == {"claim_scope_required"}
    assert len(batch.answers("finish", "completed")) == 2
    for name in ("h7", "", "H3", "c1", "h3 "):
        answers = batch.answers("finish", "completed", "--claim", name)
        assert answers == [(1, "claim_scope_invalid")], name
    unattributed = [one["code"] for one in batch.report()["unattributed"]]
    assert unattributed == [
        "claim_scope_required", "claim_scope_invalid", "claim_scope_invalid", "invalid_json"
    ]  # fmt: skip
    assert batch.claim("h3")["outcome"] == "cancelled"
    assert batch.claim("h3")["reason"] == "no_finish"


def test_effect_isolation(batch: Batch) -> None:
    """Each had an artifact staged but h5; those of h1 and h4 are all that was ever published."""
    assert batch.artifacts() == {"n1": ["h1"], "n5": ["h4"]}
    assert len(batch.artifact_refs()) == 2
    # h5 said that it was done and delivered nothing; h4's artifact is not its own.
    assert batch.claim("h5")["reason"] == "output_missing"
    # h6 was taken away while the run was at work: its word came too late.
    assert batch.answers("finish", "completed", "--claim", "h6") == [(0, None)]
    assert (batch.count(ops.Completion, "n6"), batch.world.works()["n6"].state) == (0, "cancelled")


def test_mixed_terminal_outcomes(tmp_path: Path) -> None:
    """Done, given up, done is an ordinary end: who needs the two that are done goes on, who needs
    the other waits for its next attempt."""
    batch = Batch(tmp_path, max_claims=3)
    says = [
        ["write", "one.txt", "1"],
        *(["artifact", "one.txt", "--claim", name] for name in ("h1", "h2", "h3")),
        *(["finish", end, "--claim", name] for name, end in (
            ("h1", "completed"), ("h2", "cancelled"), ("h3", "completed"),
        )),
    ]  # fmt: skip
    batch.world.submit(
        batch.node("a", says, contract=ARTIFACT),
        batch.node("b", ALONE, contract=ARTIFACT),
        batch.node("c", contract=ARTIFACT),
        batch.node("join", ALONE[2:], after=["a", "c"]),
        batch.node("waits", ALONE[2:], after=["b"]),
    )
    try:
        batch.dispatch(3)
        batch.settle()
        _check_the_mixture(batch)
        until(lambda: SystemClock().now_ms() >= batch.world.works()["b"].retry_not_before)
        for _turn in range(2):
            assert batch.world.works()["waits"].attempts == 0
            batch.dispatch(1)
            batch.settle()
        works = batch.world.works()
        assert {key: works[key].attempts for key in ("b", "join")} == {"b": 2, "join": 1}
        assert {works[key].barrier for key in ("b", "join")} == {"verified"}
        assert works["waits"].blocked == 0
    finally:
        batch.world.end()


def _check_the_mixture(batch: Batch) -> None:
    works = batch.world.works()
    assert {key: (works[key].state, works[key].barrier) for key in "abc"} == {
        "a": ("completed", "verified"), "b": ("available", "none"), "c": ("completed", "verified"),
    }  # fmt: skip
    assert batch.artifacts() == {"a": ["one.txt"], "c": ["one.txt"]}
    assert (works["join"].blocked, works["waits"].blocked) == (0, 1)
    pool = batch.world.history().projection.pools["default"]
    assert (pool.open_claims, pool.unreleased) == (0, 0)
    (release,) = [one for one in batch.world.operations() if isinstance(one, ops.Release)]
    assert release.evidence.kind == "terminal_run"
