"""Shares on real boards: whole orders of grants, as commits make them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import work
from tests.board.scheduling.textbook import order

Item = tuple[str, int, str]
CLASSES = [8, 4, 2, 1, 1]


def economics(weights: dict[str, int], **changes: Any) -> records.PolicyDocument:
    """Weights of keys, and groups of 16 Claims of any key."""
    return make.batching(accounting_weights={"": 1, **weights}, **changes)


def board_of(items: list[Item], document: records.PolicyDocument) -> Board:
    nodes = [work(name, priority=priority, account=key) for name, priority, key in items]
    board = Board(nodes[:200], document)
    for start in range(200, len(nodes), 200):
        board.submit(nodes[start : start + 200])
    return board


def drain(board: Board, size: int = 256) -> list[str]:
    """Grant everything, `size` Claims a request."""
    found: list[str] = []
    while board.plan().winners:
        found += board.grant(size)
    return found


def keys_of(items: list[Item], names: list[str]) -> list[str]:
    key_of = {name: key for name, _priority, key in items}
    return [key_of[name] for name in names]


def backlog(counts: dict[str, int], priority: int = 3) -> list[Item]:
    return [(f"{key}{n}", priority, key) for key, count in counts.items() for n in range(count)]


@pytest.mark.parametrize("size", [1, 7, 256])
def test_keys_get_their_shares_through_commits_of_any_size(size: int) -> None:
    items = backlog({"a": 60, "b": 36, "c": 24})
    board = board_of(items, economics({"a": 5, "b": 3, "c": 2}))
    found = [name for _ in range(-(-100 // size)) for name in board.grant(min(size, 100))][:100]
    assert Counter(keys_of(items, found)) == {"a": 50, "b": 30, "c": 20}
    assert found == list(order(items, CLASSES, {"a": 5, "b": 3, "c": 2}))[:100]


def test_classes_and_keys_share_at_once() -> None:
    weights = {"a": 5, "b": 3, "c": 2}
    items = [
        (f"{priority}{key}{n}", priority, key)
        for priority in range(1, 6)
        for key in "abc"
        for n in range(45 if priority == 1 else 25)
    ]
    board = board_of(items, economics(weights))
    found = board.grant(160)
    by_class = Counter(name[0] for name in found)
    assert by_class == {"1": 80, "2": 40, "3": 20, "4": 10, "5": 10}
    third = Counter(name[1] for name in found if name[0] == "3")
    assert third == {"a": 10, "b": 6, "c": 4}
    assert found == list(order(items, CLASSES, weights))[:160]


def test_a_late_joiner_and_a_returner_alternate_at_once_on_a_board() -> None:
    board = board_of(backlog({"a": 120}), economics({"a": 1, "b": 1}))
    board.grant(100)
    board.submit([work(f"b{n}", account="b") for n in range(4)])
    assert [name[0] for name in board.grant(8)] in (list("abababab"), list("babababa"))
    board.grant(6)
    board.submit([work(f"c{n}", account="b") for n in range(4)])
    assert [name[0] for name in board.grant(6)] in (list("acacac"), list("cacaca"))


def test_a_board_read_anew_after_seventeen_grants_goes_on_the_same() -> None:
    items = backlog({"a": 60, "b": 40, "c": 30, "d": 70})
    document = economics({"a": 5, "b": 3, "c": 2, "d": 7})
    first = board_of(items, document)
    for _ in range(17):
        first.grant()
    second = Board()
    second.projection = History.read(first.data).projection
    second._names = first._names
    assert [first.grant() for _ in range(100)] == [second.grant() for _ in range(100)]
    assert first.document() == second.document()


def test_seven_groups_of_the_same_time_keep_the_exact_order() -> None:
    """A thousand items, weights 1, 1, 2, 3, 1, 10, 1: no run and no copy orders them otherwise."""
    weights = dict(zip("abcdefg", [1, 1, 2, 3, 1, 10, 1], strict=True))
    items = [(f"n{n}", 3, "abcdefg"[n % 7]) for n in range(1_000)]
    expected = list(order(items, CLASSES, weights))
    copies = [drain(board_of(items, economics(weights)), size) for size in (256, 256, 100)]
    assert copies[0] == copies[1] == copies[2] == expected
    total = sum(weights.values())
    left = Counter(key for _name, _priority, key in items)
    served = Counter[str]()
    for count, key in enumerate(keys_of(items, expected), start=1):
        served[key] += 1
        if any(served[name] == left[name] for name in weights):
            break
        for name, weight in weights.items():
            assert abs(served[name] - count * weight / total) <= 3
    assert count > 200


def test_an_idle_group_of_seven_gets_no_credit_for_the_past() -> None:
    weights = dict(zip("abcdefg", [1, 1, 2, 3, 1, 10, 1], strict=True))
    items = [(f"n{n}", 3, "abcde"[n % 5]) for n in range(300)]
    board = board_of(items, economics(weights))
    board.grant(80)
    board.submit([work(f"g{n}", account="g") for n in range(50)])
    board.submit([work(f"f{n}", account="f") for n in range(50)])
    found = keys_of(items + [(f"{k}{n}", 3, k) for k in "fg" for n in range(50)], board.grant(38))
    counts = Counter(found)
    # Two rounds of the weights: 10:1 for the newcomers, each within the bound.
    assert abs(counts["f"] - 20) <= 3
    assert abs(counts["g"] - 2) <= 3


@pytest.mark.parametrize(("weights", "bound"), [({"a": 1, "b": 1}, 3), ({"a": 10, "b": 1}, 12)])
def test_a_latecomer_waits_a_bounded_number_of_grants(weights: dict[str, int], bound: int) -> None:
    """Behind a thousand items of another key: at most w(a)/w(b) + 2 grants."""
    board = board_of(backlog({"a": 1_000}), economics(weights))
    board.grant(3)
    board.submit([work("late", account="b")])
    found = board.grant(bound)
    assert "late" in found


def test_strict_priority_starves_as_documented() -> None:
    document = economics({"a": 1}, mode="strict-priority")
    items = [("low", 5, ""), *backlog({"a": 250}, priority=1)]
    board = board_of(items, document)
    found = board.grant(200)
    assert "low" not in found
    board.submit([work(f"more{n}", priority=1) for n in range(100)])
    assert "low" not in board.grant(150)
    assert board.grant(1) == ["low"]
    assert board.plan().stop.reason in ("no_work", "no_eligible_work")


def test_strict_mode_is_fair_among_the_keys_of_a_class_and_keeps_no_class_clock() -> None:
    weights = {"a": 2, "b": 1}
    items = backlog({"a": 20, "b": 20}, priority=2) + backlog({"c": 5}, priority=4)
    document = economics(weights | {"c": 1}, mode="strict-priority")
    board = board_of(items, document)
    found = board.grant(256)
    assert found == list(order(items, CLASSES, weights, strict=True))
    clocks = board.projection.clocks["default"]
    assert (clocks.classes.v, clocks.classes.passes, clocks.classes.active) == (0, {}, frozenset())
    assert sorted(clocks.keys) == [2, 4]


def test_without_keys_and_classes_it_is_first_come_first_served() -> None:
    board = Board([work("a", enqueued=9_000), work("b", enqueued=5), work("c", enqueued=1)])
    board.submit([work("d", enqueued=0)], make.DISPATCHER)
    winner = board.plan().winners[0]
    assert winner.basis == ("fifo_default",)
    assert board.grant(9) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("key", ["", "team", "\u00e9quipe"])
def test_the_first_item_ever_of_a_key_is_taken_at_once(key: str) -> None:
    document = economics({key: 1} if key else {})
    board = Board([work("first", account=key, priority=5)], document)
    assert board.grant() == ["first"]
    board.complete("first")
    board.verify("first")
    again = Board()
    again.projection = History.read(board.data).projection
    again._names = board._names
    again.submit([work("second", account=key, priority=1)])
    assert again.grant() == ["second"]


def test_a_cancelled_attempt_is_charged_and_not_refunded() -> None:
    board = board_of(backlog({"a": 2, "b": 2}), economics({"a": 1, "b": 1}))
    assert board.grant() == ["a0"]
    clocks = board.projection.clocks
    board.cancel_claim("a0")
    assert board.projection.clocks == clocks
    board.pass_ms(30_000)
    assert board.grant(3) == ["b0", "a0", "b1"]


def test_what_is_not_admitted_moves_no_clock() -> None:
    board = board_of(backlog({"a": 5, "b": 5}), economics({"a": 1, "b": 2}))
    board.grant(2)
    before = board.projection.clocks
    for claims in (1, 3, 256):
        board.plan(claims)
        board.plan(claims, max_bytes=10)
        board.plan(claims, at=0)
    assert board.projection.clocks == before


@st.composite
def workloads(chance: st.DrawFn) -> tuple[list[Item], dict[str, int], bool]:
    count = chance(st.integers(1, 40))
    items = [
        (f"n{n}", chance(st.integers(1, 5)), chance(st.sampled_from(["", "a", "b", "\u00e9"])))
        for n in range(count)
    ]
    weights = {key: chance(st.integers(1, 9)) for key in ("a", "b", "\u00e9")}
    return items, weights, chance(st.booleans())


@given(workloads(), st.integers(1, 50))
@settings(max_examples=25)
def test_any_backlog_is_served_in_the_textbook_order(
    load: tuple[list[Item], dict[str, int], bool], size: int
) -> None:
    items, weights, strict = load
    mode = "strict-priority" if strict else "weighted-priority"
    board = board_of(items, economics(weights, mode=mode))
    assert drain(board, size) == list(order(items, CLASSES, weights, strict=strict))


# --- the conformance vectors --------------------------------------------------------------------


def select(case: dict[str, Any]) -> tuple[list[str], str]:
    names = sorted({node["profile"] for node in case["nodes"]})
    bounds = {"max_claims": case["profile_max"], "share_keys": case["share_keys"]}
    profiles = {name: make.profile(name, **bounds) for name in names}
    document = make.policy(
        mode=case["mode"],
        class_weights=case["class_weights"],
        accounting_weights=case["accounting_weights"],
        pools={"default": make.pool(default_profile=names[0], profiles=profiles)},
    )
    nodes: list[ops.Work] = [
        work(
            node["key"],
            priority=node["priority"],
            account=node["account"],
            worker_profile=node["profile"],
            enqueued=node["enqueued"],
        )
        for node in case["nodes"]
    ]
    plan = Board(nodes, document).plan(case["max_claims"], case["max_dispatches"])
    return [one.state.work.node_key for one in plan.winners], plan.stop.reason


def test_selection_vectors(vectors: Path | None) -> None:
    found = [] if vectors is None else json.loads((vectors / "selection.json").read_text("utf-8"))
    for case in found:
        assert select(case) == (case["expected"], case["reason"]), case["name"]
    assert vectors is None or len(found) >= 5


def test_passes_travel_as_decimal_text() -> None:
    board = board_of(backlog({"a": 3, "b": 3}), economics({"a": 997, "b": 991}))
    board.grant(3)
    clock = board.document()["clocks"]["default"]["keys"]["3"]
    assert clock["v"].isdigit()
    assert all(text.isdigit() for text in clock["pass"].values())
    assert clock["active"] == {"a": True, "b": True}
    assert canonical.encode(clock)
