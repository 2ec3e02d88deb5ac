"""The ready frontier against a plain list, whatever comes, goes, and however time moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from callboard.board.projection.entities import WorkState
from callboard.board.projection.frontier import Frontier
from tests.board import building as make

KEYS = ("", "a", "b")


def state(place: int, priority: int, key: str, retry: int, *, gated: bool) -> WorkState:
    gates = (make.issue_gate(),) if gated else ()
    node = make.work(f"n{place}", priority=priority, account=key, gates=gates)
    return WorkState(work=node, place=place, payload_bytes=2, gates=gates, retry_not_before=retry)


states = st.builds(
    state,
    st.integers(0, 30),
    st.integers(1, 5),
    st.sampled_from(KEYS),
    st.sampled_from([0, 1, 5, 9, 2**53 - 1]),
    gated=st.booleans(),
)
steps = st.lists(st.one_of(states, st.integers(0, 12), st.integers(0, 30).map(str)), max_size=40)


@given(steps)
def test_it_shows_what_is_ready_now(moves: list[WorkState | int | str]) -> None:
    """A state enters, a number is the new time, and a numeral makes that place leave."""
    frontier, inside, at = Frontier(), dict[int, WorkState](), -1
    for move in moves:
        if isinstance(move, WorkState) and move.place not in inside:
            frontier.enter(move)
            inside[move.place] = move
        elif isinstance(move, int):
            frontier.advance(move)
            at = move
        elif isinstance(move, str) and int(move) in inside:
            frontier.leave(inside.pop(int(move)))
        expected: dict[int, dict[str, list[int]]] = {}
        for place in sorted(inside):
            one = inside[place]
            if not one.gates and (one.retry_not_before <= at or one.retry_not_before == 0):
                keys = expected.setdefault(one.work.priority, {})
                keys.setdefault(one.work.fairness_key, []).append(place)
        assert frontier.buckets == expected
        assert set(frontier.gated) == {place for place, one in inside.items() if one.gates}
        waiting = [one for one in inside.values() if not one.gates and one.retry_not_before > at]
        assert frontier.delayed == sum(one.retry_not_before > 0 for one in waiting)
        assert frontier.is_empty() == (not inside)


def test_a_retry_opens_at_its_very_millisecond() -> None:
    frontier = Frontier()
    frontier.enter(state(1, 3, "", 1_000, gated=False))
    frontier.advance(999)
    assert frontier.buckets == {}
    frontier.advance(1_000)
    assert frontier.buckets == {3: {"": [1]}}
    frontier.advance(999)
    assert frontier.buckets == {}
    assert not frontier.is_empty()


def test_a_time_that_was_met_exactly_is_passed_once() -> None:
    frontier = Frontier()
    for place, retry in ((1, 5), (2, 6), (3, 9)):
        frontier.enter(state(place, 3, "", retry, gated=False))
    for at, ready in ((5, [1]), (6, [1, 2]), (5, [1]), (9, [1, 2, 3]), (5, [1]), (4, []), (5, [1])):
        frontier.advance(at)
        assert frontier.buckets == ({3: {"": ready}} if ready else {})
        assert frontier.delayed == 3 - len(ready)


def test_equal_retries_keep_their_places_apart() -> None:
    frontier = Frontier()
    first, second = state(1, 3, "", 5, gated=False), state(2, 3, "", 5, gated=False)
    for one in (second, first):
        frontier.enter(one)
    frontier.leave(structs.replace(second))
    frontier.advance(5)
    assert frontier.buckets == {3: {"": [1]}}
