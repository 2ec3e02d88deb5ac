"""The fair prefix: who goes together, what ends it, and that nobody is ever passed over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from callboard import canonical
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.commit import DispatchNextParameters
from callboard.board.scheduling.packing import BatchPlan, BatchRequest, plan_batch
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import DISPATCHER, refused, work


def two_recipes(max_claims: int = 16, **changes: Any) -> records.PolicyDocument:
    """Profiles x and y, each for wide groups of one key."""
    profiles = {name: make.profile(name, max_claims=max_claims) for name in "xy"}
    return make.with_pool(default_profile="x", profiles=profiles, **changes)


def keys(plan: BatchPlan) -> list[str]:
    return [one.state.work.node_key for one in plan.winners]


def groups(plan: BatchPlan) -> list[int]:
    return [len(assignment.claims) for assignment in plan.assignments]


def mixed(names: str) -> list[ops.Work]:
    """Nodes x1, y2, … of the recipes their letters name."""
    return [work(f"{name}{n}", worker_profile=name) for n, name in enumerate(names, start=1)]


def test_an_incompatible_winner_ends_the_prefix() -> None:
    board = Board(mixed("xyx"), two_recipes())
    clocks = board.projection.clocks
    plan = board.plan(3, 1)
    assert (keys(plan), plan.stop.reason) == (["x1"], "dispatch_budget_blocked")
    assert board.projection.clocks == clocks
    plan = board.plan(3, 2)
    assert (keys(plan), groups(plan)) == (["x1", "y2", "x3"], [2, 1])
    assert plan.stop.reason == "claim_budget_reached"


def test_work_of_workers_the_caller_may_not_launch_waits_uncharged() -> None:
    document = structs.replace(two_recipes(), accounting_weights={"": 1, "k": 1})
    nodes = [
        work("x1", worker_profile="x"),
        work("x2", worker_profile="x", account="k"),
        work("y3", worker_profile="y"),
        work("y4", worker_profile="y", after=["x1"]),
    ]
    board = Board(nodes, document)
    request = BatchRequest("default", 4, 4, 49_152, "r", "q", profiles=("y",))
    plan = plan_batch(board.projection, request, board.at)
    assert (keys(plan), plan.stop.reason) == (["y3"], "no_eligible_work")
    # The key "k" has ready Work of another worker only, so it does not compete and is not charged.
    assert plan.clocks.keys[3].active == {""}
    assert set(plan.clocks.keys[3].passes) == {""}
    nobody = BatchRequest("default", 4, 4, 49_152, "r", "q", profiles=())
    assert plan_batch(board.projection, nobody, board.at).stop.reason == "no_eligible_work"
    whole = BatchRequest("default", 4, 4, 49_152, "r", "q", profiles=("x", "y"))
    anyone = BatchRequest("default", 4, 4, 49_152, "r", "q")
    found = [plan_batch(board.projection, one, board.at) for one in (whole, anyone)]
    assert found[0] == found[1]


def test_a_rejected_winner_is_charged_nothing() -> None:
    document = two_recipes()
    document = structs.replace(document, accounting_weights={"": 1, "k": 1})
    nodes = [work("x1", worker_profile="x"), work("y2", worker_profile="y", account="k")]
    board = Board(nodes, document)
    board.grant(3, 1)
    clocks = board.projection.clocks["default"].keys[3]
    # Both competed for the one grant; only the admitted winner was served.
    assert clocks.active == {"", "k"}
    assert clocks.v == clocks.passes["k"] == 1
    assert clocks.passes[""] == 2


def test_keys_share_a_group_where_the_profile_lets_them() -> None:
    weights = {"": 1, "a": 1, "b": 1}
    nodes = [work("a1", account="a"), work("a2", account="a"), work("b1", account="b")]
    shared = Board(nodes, make.batching(accounting_weights=weights)).plan(3, 1)
    assert (keys(shared), groups(shared)) == (["a1", "b1", "a2"], [3])
    assert [one.handle for one in shared.claims] == ["h1", "h2", "h3"]
    alone = make.with_pool(profiles={"default": make.profile(max_claims=16)})
    apart = Board(nodes, structs.replace(alone, accounting_weights=weights))
    assert (keys(apart.plan(3, 1)), groups(apart.plan(3, 1))) == (["a1"], [1])
    assert groups(apart.plan(3, 2)) == [2, 1]


def test_trust_domains_are_never_mixed() -> None:
    profiles = {
        "x": make.profile("x", max_claims=16, trust_domain="inner"),
        "y": make.profile("x", max_claims=16, trust_domain="outer"),
    }
    document = make.with_pool(default_profile="x", profiles=profiles)
    nodes = [
        work("x1", worker_profile="x", batch_trust_domain="inner"),
        work("y2", worker_profile="y", batch_trust_domain="outer"),
    ]
    assert groups(Board(nodes, document).plan(2)) == [1, 1]


@pytest.mark.parametrize("width", [1, 2, 16])
def test_a_group_takes_as_many_as_its_profile_allows(width: int) -> None:
    profiles = {"default": make.profile(max_claims=width)}
    board = Board([work(f"n{n}") for n in range(20)], make.with_pool(profiles=profiles))
    plan = board.plan(20)
    assert groups(plan) == [width] * (20 // width) + [20 % width] * (20 % width > 0)
    assert plan.claims[-1].claim_id.endswith("_20")
    assert plan.claims[-1].dispatch_id.endswith(f"_{len(plan.assignments)}")


def test_a_full_group_is_left_for_the_next_one() -> None:
    board = Board(mixed("xyxyx"), two_recipes(max_claims=2))
    plan = board.plan(5)
    names = [
        [board.projection.works[one.work_id].work.node_key for one in assignment.claims]
        for assignment in plan.assignments
    ]
    assert names == [["x1", "x3"], ["y2", "y4"], ["x5"]]


# --- what ends a prefix -------------------------------------------------------------------------


def test_the_claim_budget_ends_it() -> None:
    plan = Board([work(f"n{n}") for n in range(3)]).plan(2)
    assert (keys(plan), plan.stop.reason, plan.stop.limit) == (
        ["n0", "n1"],
        "claim_budget_reached",
        None,
    )


def test_the_operation_budget_counts_the_observations_before() -> None:
    document = make.policy(limits=make.limits(operations=4))
    board = Board([work(f"n{n}") for n in range(3)], document)
    board.submit([work(f"m{n}") for n in range(4)])
    assert len(board.plan(9).claims) == 4
    plan = board.plan(9, observed=3)
    assert (len(plan.claims), plan.stop.reason) == (1, "operation_budget_reached")
    assert board.plan(9, observed=4).claims == []
    seen = [make.observation(f"o{n}", make.issue_gate(n), board.at) for n in (1, 2, 3)]
    assert board.grant(9, observations=seen) == ["n0"]


def test_the_dispatch_budget_ends_it() -> None:
    board = Board([work(f"n{n}") for n in range(5)])
    plan = board.plan(5, 2)
    assert (len(plan.claims), plan.stop.reason) == (2, "dispatch_budget_blocked")


def test_each_capacity_is_named() -> None:
    nodes = [work(f"n{n}") for n in range(5)]
    logical = Board(nodes, make.with_pool(logical_limit=2)).plan(5)
    assert (len(logical.claims), logical.stop.reason, logical.stop.limit) == (
        2,
        "capacity_blocked",
        "logical",
    )
    native = Board(nodes, make.with_pool(native_limit=3)).plan(5)
    assert (len(native.claims), native.stop.limit) == (3, "native")
    account = Board(nodes, make.with_pool(per_account_limit=1)).plan(5)
    assert (len(account.claims), account.stop.limit) == (1, "account")


def test_capacities_are_independent() -> None:
    """A finished Claim frees a logical slot only; a release frees the native one."""
    board = Board(
        [work(f"n{n}") for n in range(4)], make.with_pool(logical_limit=2, native_limit=2)
    )
    board.grant(4)
    assert board.plan(4).stop.limit == "logical"
    board.complete("n0")
    assert board.plan(4).stop.limit == "native"
    board.release(board.group("n0"), "terminal_run")
    assert board.grant(4) == ["n2"]
    assert board.plan(4).stop.limit == "logical"


def test_no_work_is_told_from_no_eligible_work() -> None:
    board = Board([work("a"), work("b", after=["a"])])
    board.grant()
    assert board.plan().stop.reason == "no_eligible_work"
    board.cancel_work("b")
    assert board.plan().stop.reason == "no_work"
    plan = board.plan(5)
    assert plan.claims == []
    assert plan.assignments == []


def exact_room(board: Board, claims: int) -> int:
    """The bytes of one group of that many Claims."""
    plan = board.plan(claims, 1)
    assert len(plan.claims) == claims
    return len(canonical.encode(plan.assignments[0]))


def test_assignment_bytes_are_exact() -> None:
    board = Board([work(f"n{n}", payload={"k": "\u00e9" * n}) for n in range(6)], make.batching())
    for count in (1, 2, 6):
        room = exact_room(board, count)
        fits = board.plan(count, 1, room)
        assert len(fits.claims) == count
        assert fits.stop.reason == "claim_budget_reached"
        short = board.plan(count, 1, room - 1)
        assert len(short.claims) == count - 1
        expected = "assignment_size_blocked" if count == 1 else "dispatch_budget_blocked"
        assert short.stop.reason == expected


def test_a_member_too_large_for_one_group_opens_the_next() -> None:
    board = Board([work(f"n{n}") for n in range(4)], make.batching())
    room = exact_room(board, 2)
    plan = board.plan(4, 4, room)
    assert groups(plan) == [2, 2]


def test_the_smaller_of_two_size_limits_holds() -> None:
    nodes = [work(f"n{n}") for n in range(9)]
    board = Board(nodes, make.batching(limits=make.limits(assignment_bytes=1_500)))
    for asked in (700, 49_152):
        plan = board.plan(9, 9, asked)
        sizes = [len(canonical.encode(one)) for one in plan.assignments]
        assert len(plan.claims) == 9
        assert len(sizes) > 1
        assert max(sizes) <= min(asked, 1_500) < max(sizes) + 250


# --- caps of accounts ---------------------------------------------------------------------------


def test_a_capped_key_stands_aside_and_returns_without_credit() -> None:
    document = make.with_pool(
        per_account_limit=2,
        profiles={"default": make.profile(max_claims=1)},
    )
    document = structs.replace(document, accounting_weights={"": 1, "a": 1, "b": 1})
    nodes = [work(f"{key}{n}", account=key) for key in "ab" for n in range(6)]
    board = Board(nodes, document)
    plan = board.plan(9)
    assert keys(plan) == ["a0", "b0", "a1", "b1"]
    assert (plan.stop.reason, plan.stop.limit) == ("capacity_blocked", "account")
    board.grant(9)
    for name in ("b0", "b1"):
        board.settle(name)
    assert board.grant(9) == ["b2", "b3"]
    for name in ("b2", "b3", "a0", "a1"):
        board.settle(name)
    # a was idle for two grants of b and does not catch them up.
    assert board.grant(9) == ["a2", "b4", "a3", "b5"]


def test_a_cap_holds_across_classes() -> None:
    document = structs.replace(
        make.with_pool(per_account_limit=2), accounting_weights={"": 1, "a": 1, "b": 1}
    )
    nodes = [work(f"a{n}", account="a", priority=1 + n) for n in range(4)]
    board = Board([*nodes, work("b0", account="b", priority=5)], document)
    assert sorted(board.grant(9)) == ["a0", "a1", "b0"]
    board.settle("a0")
    assert board.grant(9) == ["a2"]


# --- the committed batch is the plan ------------------------------------------------------------


def parameters(**changes: Any) -> DispatchNextParameters:
    made = DispatchNextParameters(
        pool="default", max_claims=4, max_dispatches=256, max_bytes=49_152
    )
    return structs.replace(made, **changes)


def swapped(claims: list[ops.Claim]) -> list[ops.Claim]:
    return [claims[1], claims[0], *claims[2:]]


def exchanged(claims: list[ops.Claim]) -> list[ops.Claim]:
    first, second, *rest = claims
    return [
        structs.replace(first, work_id=second.work_id),
        structs.replace(second, work_id=first.work_id),
        *rest,
    ]


@pytest.mark.parametrize(
    "alter",
    [
        lambda claims: claims[:-1],
        swapped,
        exchanged,
        lambda claims: [structs.replace(claims[0], handle="h2"), *claims[1:]],
        lambda claims: [structs.replace(claims[0], claim_id="c_mine"), *claims[1:]],
        lambda claims: [*claims[:3], structs.replace(claims[3], dispatch_id="d_mine")],
        lambda claims: [structs.replace(claims[0], observations=["o"]), *claims[1:]],
        lambda claims: [*claims, structs.replace(claims[3], claim_id="c_5")],
    ],
    ids=["short", "swapped", "exchanged", "handle", "claim", "group", "observed", "long"],
)
def test_any_other_batch_is_refused_whole(alter: Any) -> None:
    board = Board([work(f"n{n}") for n in range(6)], make.batching())
    claims = board.plan(4, request_id="r").claims
    before = board.document()

    def grant(found: list[ops.Claim]) -> object:
        return board.say(
            "dispatch_next", found, DISPATCHER, parameters=parameters(), request_id="r"
        )

    assert refused(lambda: grant(alter(claims))).code == "selection_mismatch"
    assert board.document() == before
    grant(claims)
    assert board.projection.counters.claims == 4


def test_a_batch_without_a_claim_is_never_committed() -> None:
    board = Board([work("a", gates=[make.issue_gate()])])
    seen = make.observation("o", make.issue_gate(), board.at, state="waiting")
    error = refused(lambda: board.say("dispatch_next", [seen], DISPATCHER, parameters=parameters()))
    assert error.code == "selection_mismatch"
    assert board.projection.observations == {}


def test_planning_changes_nothing() -> None:
    board = Board([work(f"n{n}", priority=1 + n % 5) for n in range(9)], make.batching())
    before = board.document()
    plans = [board.plan(9) for _ in range(3)]
    assert plans[0].claims == plans[1].claims == plans[2].claims
    assert board.document() == before


@given(
    st.lists(st.sampled_from("xy"), min_size=1, max_size=12),
    st.integers(1, 14),
    st.integers(1, 5),
    st.sampled_from([300, 700, 1_200, 49_152]),
)
def test_a_prefix_grows_with_its_budgets_and_never_reorders(
    names: list[str], claims: int, dispatches: int, size: int
) -> None:
    board = Board(mixed("".join(names)), two_recipes(max_claims=3))
    everything = [f"{name}{n}" for n, name in enumerate(names, start=1)]
    plan = board.plan(claims, dispatches, size)
    found = keys(plan)
    assert found == everything[: len(found)]
    assert len(found) <= claims
    assert len(plan.assignments) <= dispatches
    assert all(len(canonical.encode(one)) <= size for one in plan.assignments)
    assert sum(groups(plan)) == len(found)
    more = keys(board.plan(claims + 1, dispatches + 1, 49_152))
    assert more[: len(found)] == found
