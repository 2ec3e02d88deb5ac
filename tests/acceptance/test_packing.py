"""Which turns go together in one run, and that packing never chooses whose turn it is."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from callboard.board.projection.entities import Clock
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.acceptance.desk import RECIPE, Desk
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import work

WIDE = RECIPE + "max_claims = 16\n"


def of_workers(letters: str) -> list[ops.Work]:
    """Nodes x1, y2, … for the workers that the letters name."""
    return [work(f"{one}{n}", worker_profile=one) for n, one in enumerate(letters, start=1)]


def two_workers(max_claims: int = 16, **changes: Any) -> records.PolicyDocument:
    """Workers x and y, each for many Claims of one key."""
    profiles = {one: make.profile(one, max_claims=max_claims) for one in "xy"}
    return make.with_pool(default_profile="x", profiles=profiles, **changes)


def groups(desk: Desk) -> list[list[str]]:
    """The launches of a board, each with its node keys in the order of their handles."""
    projection = desk.projection
    return [
        [projection.works[one.work_id].work.node_key for one in group.assignment.claims]
        for group in projection.dispatches.values()
    ]


def packed(board: Board, claims: int, dispatches: int = 256) -> list[list[str]]:
    """The same of what a plan would launch."""
    works = board.projection.works
    return [
        [works[one.work_id].work.node_key for one in group.claims]
        for group in board.plan(claims, dispatches).assignments
    ]


def test_stable_packing(desk: Desk) -> None:
    """Compatible turns share a launch up to its bound; another worker's turn ends the prefix."""
    desk.commit(default=RECIPE, x=RECIPE + "max_claims = 3\n", y=RECIPE)
    desk.post(*({"key": f"{one}{n}", "profile": one} for n, one in enumerate("xxyxxxx")))
    assert desk.grant(9, dispatches=1) == ["x0", "x1"]
    assert groups(desk) == [["x0", "x1"]]
    # The group that a turn opened earlier in the batch is joined again, in the order of turns.
    assert desk.grant(9, dispatches=3) == ["y2", "x3", "x4", "x5", "x6"]
    assert groups(desk) == [["x0", "x1"], ["y2"], ["x3", "x4", "x5"], ["x6"]]
    handles = [
        [one.handle for one in group.assignment.claims]
        for group in desk.projection.dispatches.values()
    ]
    # Handles count through a batch, and a group's members stand in it for good.
    assert [len(set(found)) for found in handles] == [2, 1, 3, 1]


def test_eligibility_versus_packing(desk: Desk) -> None:
    desk.commit("[work_queue.accounting_weights]\nk = 1\n", default=RECIPE, x=WIDE, y=WIDE)
    desk.post(
        {"key": "x1", "profile": "x"},
        {"key": "y2", "profile": "y", "fairness_key": "k"},
        {"key": "x3", "profile": "x"},
    )
    assert desk.grant(3, dispatches=1) == ["x1"]
    projection = desk.projection
    assert len(projection.claims) == len(projection.dispatches) == 1
    assert (desk.work("y2").attempts, desk.work("y2").state) == (0, "available")
    # y2 competed, which is why k is active; nothing was charged for it. v is x1's pass of 1.
    clock = projection.clocks["default"].keys[3]
    assert clock == Clock(1, {"": 2, "k": 1}, frozenset({"", "k"}))
    assert desk.grant(3, dispatches=1) == ["y2"]
    assert desk.grant(3, dispatches=1) == ["x3"]


def keyed(**changes: Any) -> records.PolicyDocument:
    """One worker for many Claims, and two keys of equal weight."""
    profiles = {"default": make.profile(max_claims=16, **changes)}
    document = make.with_pool(profiles=profiles)
    return make.policy(pools=document.pools, accounting_weights={"": 1, "a": 1, "b": 1})


def pairs(*keys: str, **changes: Any) -> list[ops.Work]:
    """Nodes a1, b2, … of the keys."""
    return [work(f"{key}{n}", account=key, **changes) for n, key in enumerate(keys, start=1)]


def test_batch_isolation() -> None:
    """Keys share a run where the recipe says so; the one launch is charged as many turns."""
    apart = Board(pairs("a", "b", "a"), keyed())
    assert packed(apart, 3) == [["a1", "a3"], ["b2"]]
    assert packed(apart, 3, dispatches=1) == [["a1"]]
    together = Board(pairs("a", "b", "a"), keyed(share_keys=True))
    assert packed(together, 3) == [["a1", "b2", "a3"]]
    # Three Claims were charged for the one launch.
    together.grant(3)
    assert together.projection.counters.claims == 3
    assert together.projection.counters.unreleased == 1
    assert [one.passes for one in together.projection.clocks["default"].keys.values()] == [
        {"a": 3, "b": 2}
    ]


def test_batch_isolation_of_scopes() -> None:
    """Trust, credential and effects are the worker's, and a launch is of one worker: a node cannot
    say another domain, and no revision brings another scope to what a group may hold."""
    profiles = {
        "x": make.profile("same", max_claims=16, share_keys=True),
        "y": make.profile("same", max_claims=16, share_keys=True, trust_domain="outer"),
    }
    document = make.with_pool(default_profile="x", profiles=profiles)
    nodes = [work(f"{one}{n}", worker_profile=one, batch_trust_domain=profiles[one].trust_domain)
             for n, one in enumerate("xyxy")]  # fmt: skip
    board = Board(nodes, document)
    assert packed(board, 4) == [["x0", "x2"], ["y1", "y3"]]
    assert packed(board, 4, dispatches=1) == [["x0"]]
    asserted = work("z", worker_profile="x", batch_trust_domain="outer")
    assert make.refused(board.submit, [asserted]).code == "trust_domain_mismatch"
    for scope in (
        {"trust_domain": "outer"},
        {"credential_scope": "organisation"},
        {"effect_scope": make.LIBRARY},
    ):
        wider = structs.replace(profiles["x"], ref="b" * 40, **scope)
        made = ops.Deployment(
            pool="default", worker_profile="x", expected_ref="a" * 40, expected_contract="",
            profile=wider, available=True, reason="test",
        )  # fmt: skip
        error = make.refused(board.say, "deployment", [made], make.ADMINISTRATOR)
        assert error.code == "deployment_boundary", scope
    assert packed(board, 4) == [["x0", "x2"], ["y1", "y3"]]


def test_capacity() -> None:
    """Places for Claims and places for runs are counted apart, and each is freed by its own end."""
    wide = make.batching().pools["default"]
    bounded = make.policy(
        pools={"default": make.pool(profiles=wide.profiles, logical_limit=3, native_limit=2)}
    )
    board = Board([work(f"n{n}") for n in range(8)], bounded)
    pool = board.projection.pools["default"]
    assert board.grant(2, 1) == ["n0", "n1"]
    assert (pool.open_claims, pool.unreleased) == (2, 1)
    assert board.grant(9) == ["n2"]
    assert (pool.open_claims, pool.unreleased) == (3, 2)
    assert (board.plan().stop.reason, board.plan().stop.limit) == ("capacity_blocked", "logical")
    # One of two is finished: a Claim's place is free, and no run's.
    board.bind("n0")
    board.finish("n0")
    assert (pool.open_claims, pool.unreleased) == (2, 2)
    assert (board.plan().stop.reason, board.plan().stop.limit) == ("capacity_blocked", "native")
    board.verify("n0")
    assert board.plan().stop.limit == "native"
    # A run that still has an open Claim cannot be called ended without ending that, too.
    error = make.refused(board.release, board.group("n0"), "terminal_run")
    assert error.code == "release_open_claims"
    group = board.group("n0")
    board.release(group, "terminal_run", board.cancellations("n1"))
    assert (pool.open_claims, pool.unreleased) == (1, 1)
    # n1 pauses before its next attempt, so the next in turn is n3.
    assert board.grant(9, 1) == ["n3", "n4"]
    assert (pool.open_claims, pool.unreleased) == (3, 2)
