"""The engine beside the independent model: same verdicts, same states, at every prefix."""

from __future__ import annotations

import random

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.projection.state import Projection
from callboard.board.protocol import envelope
from callboard.board.scheduling.explanation import Explainer
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.errors import CallboardError
from tests.model.canon import Doc
from tests.model.history import mutations, random_history
from tests.model.model import Board

# What the engine works out anew it refuses as different, where the model names the cause.
RECOMPUTED = ("finish_mismatch", "selection_mismatch")


def line_of(commit: Doc) -> bytes:
    return canonical.encode(commit) + b"\n"


def engine_apply(projection: Projection, commit: Doc) -> str | None:
    """The code with which the engine refuses the commit, None where it accepts."""
    try:
        line = line_of(commit)
        replay.apply(projection, envelope.read_line(line[:-1]))
    except CallboardError as error:
        return error.code
    return None


def plain(projection: Projection) -> Doc:
    state: Doc = canonical.decode(
        canonical.encode(state_document(projection)), limit_bytes=canonical.MAX_PARSE_BYTES
    )
    return state


def compare_history(seed: int, steps: int = 60) -> int:
    """Replay one random history through both, asserting equality at every prefix."""
    history = random_history(seed, steps)
    chance = random.Random(seed)
    model, projection = Board(), Projection()
    data = b""
    for number, commit in enumerate(history):
        model.apply(commit)
        assert engine_apply(projection, commit) is None, (seed, number)
        data += line_of(commit)
        assert plain(projection) == model.state(), (seed, number)
        at = max(0, commit["at"] + chance.choice([0, 0, 1, 500, 40_000, -70_000]))
        compare_plans(model, projection, at, chance, (seed, number))
    compare_cold(data, projection, chance)
    return len(history)


def compare_plans(
    model: Board, projection: Projection, at: int, chance: random.Random, where: object
) -> None:
    """The next batch and the standing of every Work, at a time of choice."""
    for pool in sorted(projection.policy.pools):
        claims, dispatches = chance.choice([1, 2, 7, 256]), chance.choice([1, 2, 256])
        size = chance.choice([300, 900, 2000, 49_152])
        mine = allowed_profiles(projection, pool, chance)
        expected = model.plan(
            pool, at, claims, dispatches, size, "r_next", "q_next", worker_profiles=mine
        )
        request = BatchRequest(
            pool,
            claims,
            dispatches,
            size,
            "r_next",
            "q_next",
            profiles=None if mine is None else tuple(mine),
        )
        plan = plan_batch(projection, request, at)
        assert plan.stop.reason == expected["reason"], where
        found = canonical.decode(canonical.encode([*plan.claims]))
        assert found == expected["operations"], where
        assignments = canonical.decode(canonical.encode([*plan.assignments]))
        assert assignments == expected["assignments"], where
    explainer = Explainer(projection, at)
    for work_id in projection.works:
        standing = explainer.standing(work_id)
        wanted = model.explain_work(work_id, at).replace("eligible", "ready")
        paused = standing.reason == "grants_paused"
        if paused or any(one.limit == "native" for one in standing.obstacles):
            # The model explains a Work apart from pauses and from packing.
            assert wanted in ("ready", "capacity_blocked"), (where, work_id)
        else:
            assert standing.reason == wanted, (where, work_id, standing, wanted)


def allowed_profiles(projection: Projection, pool: str, chance: random.Random) -> list[str] | None:
    """The profiles a caller may launch: mostly all, which is None, else some of them."""
    names = sorted(projection.policy.pools[pool].profiles)
    return chance.sample(names, chance.randint(0, len(names))) if chance.random() < 0.2 else None


def compare_cold(data: bytes, projection: Projection, chance: random.Random) -> None:
    """Cold, incremental at random cuts, permuted and duplicated: one state."""
    expected = plain(projection)
    assert plain(History.read(data).projection) == expected
    lines = data.splitlines(keepends=True)
    history = History()
    cut = 0
    while cut < len(lines):
        cut = min(len(lines), cut + chance.randint(1, 9))
        history = history.continued(b"".join(lines[:cut]))
        assert plain(history.projection) == plain(History.read(b"".join(lines[:cut])).projection)
    shuffled = [*lines, *chance.choices(lines, k=3)]
    chance.shuffle(shuffled)
    assert plain(History.read(b"".join(shuffled)).projection) == expected


def compare_mutations(seed: int, steps: int = 60, per_commit: int = 2) -> int:
    """Everything the model refuses for a firm reason the engine refuses, and stays as it was."""
    history = random_history(seed, steps)
    projection = Projection()
    applied = 0
    count = 0
    for mutation in mutations(history, seed, per_commit):
        while applied < mutation.index:
            assert engine_apply(projection, history[applied]) is None
            applied += 1
        before = plain(projection) if projection.tip else None
        beside = Projection()
        if len(mutation.commits) > 1:
            for commit in history[: mutation.index]:
                engine_apply(beside, commit)
            target = beside
            for commit in mutation.commits[:-1]:
                assert engine_apply(target, commit) is None, (seed, mutation.note)
        else:
            target = projection
        code = engine_apply(target, mutation.commits[-1])
        where = (seed, mutation.index, mutation.note, mutation.firm)
        assert code is not None, where
        assert mutation.code in (None, code) or code in RECOMPUTED, (where, code)
        if before is not None:
            assert plain(projection) == before, (seed, mutation.note)
        count += 1
    return count
