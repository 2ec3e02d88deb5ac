"""How items refer to each other: names taken twice, missing ends, cycles."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.project.source.graph import cycles, path_text
from tests.project.source.scene import faults


def items(**edges: str) -> str:
    rows = [f"- {{id: {key}, title: x, depends_on: [{ends}]}}\n" for key, ends in edges.items()]
    return "work_items:\n" + "".join(rows)


@pytest.mark.parametrize(
    ("one", "two"),
    [("A", "A"), ("Foo", "foo"), ("é", "e\u0301"), ("straße", "STRASSE"), ("ﬁ", "fi"), ("A", "Ａ")],
)
def test_names_that_people_confuse_are_taken_once(tmp_path: Path, one: str, two: str) -> None:
    for key in ("goals", "work_items"):
        data = f'{key}:\n- {{id: "{one}", title: x}}\n- {{id: "{two}", title: y}}\n'
        (fault,) = faults(tmp_path, data)
        assert fault[:3] == (3, 8, f"/{key}/1/id")
        assert "first in work.yaml line 2" in fault[3]


def test_a_goal_and_an_item_may_have_one_name(tmp_path: Path) -> None:
    data = "goals:\n- {id: A, title: x}\nwork_items:\n- {id: A, title: x, goal: A}\n"
    assert faults(tmp_path, data) == []


def test_unknown_ends_are_told_where_they_are_named(tmp_path: Path) -> None:
    data = "work_items:\n- {id: A, title: x, goal: G, depends_on: [a, B, r:1, B]}\n"
    found = faults(tmp_path, data)
    assert [(column, pointer) for _, column, pointer, _ in found] == [
        (27, "/work_items/0/goal"),
        (43, "/work_items/0/depends_on/0"),
        (46, "/work_items/0/depends_on/1"),
        (54, "/work_items/0/depends_on/3"),
    ]
    assert "'A' is meant?" in found[1][3]
    assert "stands twice" in found[3][3]


def test_a_cycle_is_told_with_its_path(tmp_path: Path) -> None:
    found = faults(tmp_path, items(A="B", B="C, D", C="A", D="", E="E", F="A"))
    assert [(line, pointer, message) for line, _, pointer, message in found] == [
        (2, "/work_items/0/depends_on/0", "a cycle: A -> B -> C -> A"),
        (6, "/work_items/4/depends_on/0", "a cycle: E -> E"),
    ]


def test_two_cycles_of_one_knot_are_both_told(tmp_path: Path) -> None:
    found = faults(tmp_path, items(A="B, C", B="A", C="A"))
    assert [message for *_, message in found] == ["a cycle: A -> B -> A", "a cycle: A -> C -> A"]


def test_streams_may_cross_where_items_do_not(tmp_path: Path) -> None:
    assert faults(tmp_path, items(A1="", B1="A1", A2="B1")) == []


def test_a_long_chain_is_no_danger() -> None:
    size = 20_000
    chain = {str(n): [str(n + 1)] for n in range(size)} | {str(size): []}
    assert cycles(chain) == []
    (ring,) = {tuple(cycle) for cycle in cycles(chain | {str(size): ["0"]})}
    assert len(ring) == size + 2
    assert len(path_text(ring)) < 200


graphs = st.integers(1, 7).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size - 1), unique=True, max_size=size), min_size=size, max_size=size
    )
)


@given(graphs)
def test_cycles_are_found_exactly_where_there_are_any(rows: list[list[int]]) -> None:
    edges = {str(key): [str(end) for end in ends] for key, ends in enumerate(rows)}
    found = cycles(edges)
    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(two in edges[one] for one, two in pairwise(cycle))
    assert bool(found) == (not _sorted(edges))
    # Every item on any cycle is on one that is told: the graphs here are small.
    assert {key for cycle in found for key in cycle} == {
        key for key in edges if _returns(edges, key)
    }


def _sorted(edges: dict[str, list[str]]) -> bool:
    """Whether items can be taken away one by one, each with nothing left that it needs."""
    left = set(edges)
    while free := {key for key in left if not left.intersection(edges[key])}:
        left -= free
    return not left


def _returns(edges: dict[str, list[str]], start: str) -> bool:
    seen: set[str] = set()
    ring = set(edges[start])
    while ring:
        seen |= ring
        ring = {end for key in ring for end in edges[key]} - seen
    return start in seen
