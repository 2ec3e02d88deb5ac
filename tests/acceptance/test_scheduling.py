"""Who is next: turns in the order of arrival, shares by weight, and what moves nobody's turn.

The expected orders are worked out by hand from the rule of service, or by `textbook`, which keeps
exact fractions and picks one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.publishing.intents import Nothing
from callboard.board.scheduling.explanation import Explainer
from tests.acceptance.desk import Desk
from tests.acceptance.rereading import reread
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import work
from tests.board.scheduling.textbook import order

HOUR_MS = 3_600_000
CLASSES = [8, 4, 2, 1, 1]


def economics(weights: dict[str, int], **changes: Any) -> records.PolicyDocument:
    """Weights of keys, and launches of up to 16 Claims of any key."""
    return make.batching(accounting_weights={"": 1, **weights}, **changes)


def backlog(key: str, count: int, start: int = 0) -> list[Any]:
    """That many nodes of one key, called by the key and a number."""
    return [work(f"{key}{number}", account=key) for number in range(start, start + count)]


def letters(keys: list[str]) -> str:
    """The keys' first letters in a row."""
    return "".join(key[0] for key in keys)


# --- one after the other --------------------------------------------------------------------------


def test_default_fifo_behavior(desk: Desk) -> None:
    """Three users, whose clocks go back by an hour each, post one node each with no settings."""
    for number, (user, key) in enumerate((("zoe", "a"), ("ada", "b"), ("kim", "c"))):
        desk.pass_ms(-number * HOUR_MS, user)
        desk.post(key, user=user)
    posted = [state.actor.principal for state in desk.projection.requests.values()]
    assert len(set(posted)) == 3
    assert [desk.grant() for _turn in range(3)] == [["a"], ["b"], ["c"]]
    # A ledger whose writers wrote down times in the reverse order means the same.
    written = Board([work("a", enqueued=9_000), work("b", enqueued=5_000)])
    written.submit([work("c", enqueued=1)], make.DISPATCHER)
    assert written.grant(3) == ["a", "b", "c"]


def test_default_concurrency() -> None:
    board = Board(
        [work("a"), work("b", after=["a"]), work("c"), work("d"), work("e"), work("f")],
        make.with_pool(logical_limit=3, native_limit=3),
    )
    assert board.grant() == ["a"]
    # b waits for a and is skipped; the only bucket there is fills the pool.
    assert board.grant(9) == ["c", "d"]
    assert (board.plan().stop.reason, board.plan().stop.limit) == ("capacity_blocked", "logical")
    board.settle("d")
    assert board.grant(9) == ["e"]
    board.settle("e")
    board.settle("a")
    # The last to begin have ended first, and b is before f as it was posted before it.
    assert board.grant(9) == ["b", "f"]


def test_fifo_within_a_bucket(desk: Desk) -> None:
    desk.post("a", "b", request_id="first")
    desk.pass_ms(-HOUR_MS)
    desk.post("c")
    desk.post("d", "b", "a")
    desk.post("a", "b", request_id="first")
    desk.cancel("c")
    desk.post("e")
    places = [state.place for state in map(desk.work, "abde")]
    assert places == sorted(places)
    assert desk.grant(9) == ["a", "b", "d", "e"]
    # An attempt that ended goes back to the place it had.
    board = Board([work("a"), work("b"), work("c")])
    assert board.grant() == ["a"]
    board.cancel_claim("a")
    board.pass_ms(30_000)
    board.submit([work("d", enqueued=0)])
    assert board.grant(9) == ["a", "b", "c", "d"]


# --- shares -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"a": 1, "b": 1}, "ab" * 10),
        # Passes at the first turns: a 1/5, b 1/3, c 1/2; at the seventh, all meet at 1.
        ({"a": 5, "b": 3, "c": 2}, "abacabaabc" * 2),
        ({"a": 1, "b": 100}, ("b" * 99 + "ab") + ("b" * 99 + "ab")),
        ({"a": 1_000, "b": 1}, "a" * 1_000 + "b"),
    ],
    ids=["1:1", "5:3:2", "1:100", "1000:1"],
)
def test_fixed_set_proportionality(weights: dict[str, int], expected: str) -> None:
    counts = Counter(expected)
    board = Board([work("done")], economics(weights))
    board.cancel_work("done")
    for key in weights:
        for start in range(0, counts[key] + 3, 200):
            board.submit(backlog(key, min(200, counts[key] + 3 - start), start))
    found = ""
    while len(found) < len(expected):
        found += letters(board.grant(min(150, len(expected) - len(found))))
    assert found == expected
    total = sum(weights.values())
    rounds, rest = divmod(len(expected), total)
    if rest == 0:
        assert counts == {key: rounds * weight for key, weight in weights.items()}


def test_strict_priority(desk: Desk) -> None:
    """A trace of starvation: as long as somebody posts what is urgent, the rest waits."""
    desk.commit('[work_queue]\nmode = "strict-priority"\nconcurrency = 64\n')
    desk.post({"key": "low", "priority": 5}, {"key": "middle", "priority": 3}, "other")
    trace: list[str] = []
    for number in range(12):
        desk.post({"key": f"urgent{number}", "priority": 1})
        trace += desk.grant()
    assert trace == [f"urgent{number}" for number in range(12)]
    desk.post({"key": "last", "priority": 2})
    assert desk.grant(9) == ["last", "middle", "other", "low"]
    assert desk.work("low").attempts == 1


def test_weighted_priority(desk: Desk) -> None:
    """One round of the weights 8, 4, 2, 1, 1, all classes backlogged."""
    desk.commit("[work_queue]\nconcurrency = 64\n")
    desk.post(
        *(
            {"key": f"{priority}-{number}", "priority": priority}
            for priority in (5, 4, 3, 2, 1)
            for number in range(18)
        )
    )
    # Passes are eighths for class 1, quarters for class 2, halves for class 3; equal passes go by
    # the class.
    turns = "1 12 1 123 1 12 1 12345".replace(" ", "")
    assert letters(desk.grant(32)) == turns * 2
    assert Counter(turns) == {"1": 8, "2": 4, "3": 2, "4": 1, "5": 1}
    served = Counter(
        state.work.priority for state in desk.projection.works.values() if state.attempts
    )
    assert served == {1: 16, 2: 8, 3: 4, 4: 2, 5: 2}


def joins() -> tuple[str, str]:
    """Equal weights: a key that comes late joins the turns of now, without credit."""
    board = Board(backlog("a", 30), economics({"a": 1, "b": 1}))
    found = letters(board.grant(10))
    board.submit(backlog("b", 9))
    return found + letters(board.grant(6)), "a" * 10 + "ababab"


def empties_and_refills() -> tuple[str, str]:
    """Weights 1 and 4. b begins at 1/4 and serves up to 1, where a comes first; then a is empty.
    Back at a time of 5/4, its turn is one stride of its own away, and b has it till then."""
    board = Board([*backlog("a", 1), *backlog("b", 30)], economics({"a": 1, "b": 4}))
    found = letters(board.grant(6))
    board.submit(backlog("a", 5, 1))
    return found + letters(board.grant(10)), "bbbabb" + "bbbabbbbab"


def reaches_its_cap() -> tuple[str, str]:
    """At most two open Claims a key: a waits for a release and does not catch up then."""
    document = make.with_pool(per_account_limit=2)
    document = make.policy(pools=document.pools, accounting_weights={"": 1, "a": 1, "b": 1})
    board = Board([*backlog("a", 9), *backlog("b", 9)], document)
    found = letters(board.grant(9))
    for key in ("b0", "b1"):
        board.settle(key)
    found += letters(board.grant(9))
    for key in ("a0", "a1", "b2", "b3"):
        board.settle(key)
    return found + letters(board.grant(9)), "abab" + "bb" + "abab"


def loses_its_worker() -> tuple[str, str]:
    """While the worker of a is withdrawn, a is no competitor; back, it alternates at once."""
    document = make.with_pool(
        profiles={name: make.profile(name) for name in "xy"}, default_profile="x"
    )
    document = make.policy(pools=document.pools, accounting_weights={"": 1, "a": 1, "b": 1})
    nodes = [work(f"a{n}", account="a", worker_profile="x") for n in range(6)]
    nodes += [work(f"b{n}", account="b", worker_profile="y") for n in range(12)]
    board = Board(nodes, document)
    switch(board, "x", available=False)
    found = letters(board.grant(5))
    switch(board, "x", available=True)
    return found + letters(board.grant(6)), "bbbbb" + "ababab"


def switch(board: Board, worker: str, *, available: bool) -> None:
    """Withdraw a worker, or offer it again."""
    profile = make.profile(worker)
    made = ops.Deployment(
        pool="default", worker_profile=worker, expected_ref=profile.ref, expected_contract="",
        profile=profile, available=available, reason="test",
    )  # fmt: skip
    board.say("deployment", [made], make.ADMINISTRATOR)


def waits_for_its_retry() -> tuple[str, str]:
    """The turn of an attempt that failed is used up; its key is away until the pause is over."""
    board = Board([*backlog("a", 1), *backlog("b", 9)], economics({"a": 1, "b": 1}))
    found = letters(board.grant(2))
    board.cancel_claim("a0")
    found += letters(board.grant(2))
    board.pass_ms(29_999)
    found += letters(board.grant(1))
    board.pass_ms(1)
    return found + letters(board.grant(3)), "ab" + "bb" + "b" + "abb"


@pytest.mark.parametrize(
    "story",
    [joins, empties_and_refills, reaches_its_cap, loses_its_worker, waits_for_its_retry],
    ids=lambda story: story.__name__,
)
def test_dynamics(story: Callable[[], tuple[str, str]]) -> None:
    found, expected = story()
    assert found == expected


def test_restart() -> None:
    """After every commit of a life with grants, ends and retries, whoever reads the ledger anew
    goes on as if nothing had happened."""
    weights = {"a": 5, "b": 3, "c": 2}
    items = [(f"{key}{n}", 1 + n % 3, key) for n in range(8) for key in weights]
    nodes = [work(name, priority=priority, account=key) for name, priority, key in items]
    board = Board(nodes, economics(weights))
    expected = list(order(items, CLASSES, weights))
    for _turn in range(12):
        board.grant()
    for count in range(1, len(board.commits) + 1):
        again = reread(board, count)
        assert again.grant(24) == expected[count - 1 :], count


def test_no_grant_semantics(desk: Desk) -> None:
    """Each reason for nothing is told apart, moves no turn, and leaves the ledger as it was."""
    desk.commit("[work_queue]\nconcurrency = 1\n")
    desk.post("a", {"key": "b", "after": ["a"]})
    clocks = desk.projection.clocks
    desk.board().set_paused("grants", True, reason="test")
    assert desk.nothing() == Nothing("grants_paused", {"pool": "default"})
    assert desk.projection.clocks == clocks
    desk.board().set_paused("grants", False, reason="test")
    assert desk.grant() == ["a"]
    clocks = desk.projection.clocks
    assert desk.nothing() == Nothing("no_eligible_work", {"pool": "default"})
    desk.post("c")
    assert desk.nothing() == Nothing("capacity_blocked", {"pool": "default", "limit": "logical"})
    desk.cancel("a", "b", "c")
    assert desk.nothing() == Nothing("no_work", {"pool": "default"})
    assert desk.projection.clocks == clocks
    # A pause between attempts, and a group that has no room, are reasons of their own.
    board = Board([work("a"), work("big", payload={"t": "x" * 500})])
    board.grant()
    assert board.plan(max_bytes=300).stop.reason == "assignment_size_blocked"
    board.grant()
    board.cancel_claim("a")
    before = board.data
    assert board.plan().stop.reason == "no_eligible_work"
    (obstacle,) = Explainer(board.projection, board.at).standing(make.work_id("a")).obstacles
    assert (obstacle.reason, obstacle.until_ms) == ("retry_delayed", board.at + 30_000)
    assert board.data == before
