"""The ready frontier against a plain list, whatever comes, goes, and however time moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from callboard.board.projection.entities import WorkState
from callboard.board.projection.frontier import Frontier
from callboard.board.projection.routes import Lane, Revision, Route, admitted
from tests.board import building as make

KEYS = ("", "a", "b")
OLD, NEW = "a" * 40, "b" * 40
FIRST = make.profile(logical_contract="1" * 64)
OTHER = make.profile(ref=NEW, logical_contract="2" * 64)
LANES = (
    admitted("default", Revision(FIRST), None),
    admitted("default", Revision(OTHER), None),
    admitted("default", Revision(FIRST), OLD),
)


def route_of(*revisions: Revision) -> Route:
    """A route with these revisions, at the last of them."""
    return Route(
        revisions[-1].profile.ref, {revision.profile.ref: revision for revision in revisions}
    )


ROUTES = (
    Route.of(FIRST),
    route_of(Revision(FIRST, available=False)),
    route_of(Revision(FIRST), Revision(OTHER)),
    Route.of(OTHER),
)


def state(
    place: int, priority: int, key: str, retry: int, *, gated: bool, lane: Lane = LANES[0]
) -> WorkState:
    gates = (make.issue_gate(),) if gated else ()
    node = make.work(f"n{place}", account=key, gates=gates)
    return WorkState(
        work=node,
        place=place,
        lane=lane,
        priority=priority,
        payload_bytes=2,
        gates=gates,
        retry_not_before=retry,
    )


def frontier_at(route: Route = ROUTES[0]) -> Frontier:
    return Frontier({"default": route})


states = st.builds(
    state,
    st.integers(0, 30),
    st.integers(1, 5),
    st.sampled_from(KEYS),
    st.sampled_from([0, 1, 5, 9, 2**53 - 1]),
    gated=st.booleans(),
    lane=st.sampled_from(LANES),
)
Move = WorkState | int | str | Route
steps = st.lists(
    st.one_of(states, st.integers(0, 12), st.integers(0, 30).map(str), st.sampled_from(ROUTES)),
    max_size=40,
)


@given(steps)
def test_it_shows_what_is_ready_now(moves: list[Move]) -> None:
    """A state enters, a number is the new time, a numeral makes that place leave, and a route is
    the new one of its worker."""
    routes = {"default": ROUTES[0]}
    frontier, inside, at = Frontier(routes), dict[int, WorkState](), -1
    for move in moves:
        if isinstance(move, WorkState) and move.place not in inside:
            frontier.enter(move)
            inside[move.place] = move
        elif isinstance(move, int):
            frontier.advance(move)
            at = move
        elif isinstance(move, str) and int(move) in inside:
            frontier.leave(inside.pop(int(move)))
        elif isinstance(move, Route):
            routes["default"] = move
            frontier.reroute("default")
        running = {
            place: one
            for place, one in inside.items()
            if one.lane.obstacle(routes["default"]) is None
        }
        expected: dict[int, dict[str, list[int]]] = {}
        for place in sorted(running):
            one = running[place]
            if not one.gates and (one.retry_not_before <= at or one.retry_not_before == 0):
                keys = expected.setdefault(one.priority, {})
                keys.setdefault(one.work.fairness_key, []).append(place)
        assert frontier.buckets == expected
        assert set(frontier.gated) == {place for place, one in running.items() if one.gates}
        waiting = [one for one in running.values() if not one.gates and one.retry_not_before > at]
        assert frontier.delayed == sum(one.retry_not_before > 0 for one in waiting)


def test_a_retry_opens_at_its_very_millisecond() -> None:
    frontier = frontier_at()
    frontier.enter(state(1, 3, "", 1_000, gated=False))
    frontier.advance(999)
    assert frontier.buckets == {}
    frontier.advance(1_000)
    assert frontier.buckets == {3: {"": [1]}}
    frontier.advance(999)
    assert frontier.buckets == {}
    assert frontier.delayed == 1


def test_a_time_that_was_met_exactly_is_passed_once() -> None:
    frontier = frontier_at()
    for place, retry in ((1, 5), (2, 6), (3, 9)):
        frontier.enter(state(place, 3, "", retry, gated=False))
    for at, ready in ((5, [1]), (6, [1, 2]), (5, [1]), (9, [1, 2, 3]), (5, [1]), (4, []), (5, [1])):
        frontier.advance(at)
        assert frontier.buckets == ({3: {"": ready}} if ready else {})
        assert frontier.delayed == 3 - len(ready)


def test_equal_retries_keep_their_places_apart() -> None:
    frontier = frontier_at()
    first, second = state(1, 3, "", 5, gated=False), state(2, 3, "", 5, gated=False)
    for one in (second, first):
        frontier.enter(one)
    frontier.leave(structs.replace(second))
    frontier.advance(5)
    assert frontier.buckets == {3: {"": [1]}}


def test_work_waits_apart_while_its_worker_cannot_run() -> None:
    routes = {"default": ROUTES[1]}
    frontier = Frontier(routes)
    frontier.enter(state(1, 3, "", 0, gated=False))
    frontier.enter(state(2, 3, "", 5, gated=False))
    frontier.enter(state(3, 3, "", 0, gated=True))
    assert (frontier.buckets, frontier.gated, frontier.delayed) == ({}, {}, 0)
    routes["default"] = ROUTES[0]
    frontier.reroute("default")
    assert frontier.buckets == {3: {"": [1]}}
    assert (set(frontier.gated), frontier.delayed) == ({3}, 1)


def test_each_lane_goes_by_its_own_promise() -> None:
    follows, other, pinned = LANES
    assert [lane.obstacle(ROUTES[0]) for lane in LANES] == [None, "worker_incompatible", None]
    assert follows.obstacle(ROUTES[1]) == pinned.obstacle(ROUTES[1]) == "worker_unavailable"
    assert [lane.obstacle(ROUTES[2]) for lane in LANES] == ["worker_incompatible", None, None]
    assert pinned.obstacle(ROUTES[3]) == "worker_unavailable"
    assert other.obstacle(ROUTES[3]) is None


def test_a_worker_without_contract_keeps_to_its_exact_revision() -> None:
    bare = make.profile()
    lane = admitted("default", Revision(bare), None)
    assert lane.ref == OLD
    moved = route_of(Revision(bare), Revision(make.profile(ref=NEW)))
    assert lane.obstacle(moved) is None
    assert lane.profile_on(moved) == bare
