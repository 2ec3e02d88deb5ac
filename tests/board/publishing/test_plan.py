"""Plans: faults with their places, compilation, order and cycles."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.board.protocol import identities
from callboard.board.protocol.contract import NO_WRITES
from callboard.board.protocol.operations import Work, WorkDependency
from callboard.board.publishing.compilation import compile_plan
from callboard.board.publishing.plan import (
    cycle_of,
    full_contract,
    in_order,
    parse_plan,
)
from callboard.errors import CallboardError
from tests.board.reading.staged_board import policy

POLICY = policy("[work_queue.accounting_weights]\nsecurity = 1\n")


def plan(after: dict[str, list[str]]) -> Any:
    return parse_plan(
        {"graph": "g", "nodes": [{"key": k, "payload": {}, "after": v} for k, v in after.items()]}
    )


def compiled(value: dict[str, Any], standing: dict[str, Work] | None = None) -> list[Work]:
    return compile_plan(parse_plan(value), POLICY, (standing or {}).get, 5)


def faults(value: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(CallboardError) as caught:
        compiled(value)
    assert caught.value.code == "plan_invalid"
    found = caught.value.details["faults"]
    assert isinstance(found, list)
    return {fault["pointer"]: fault["message"] for fault in found}


def test_a_node_becomes_work_under_the_policy() -> None:
    (work,) = compiled({"graph": "g", "nodes": [{"key": "a", "payload": {"t": 1}}]})
    assert work.work_id == identities.work_id("g", "a")
    assert (work.pool, work.priority, work.fairness_key) == ("default", 3, "")
    assert (work.worker_profile, work.batch_trust_domain) == ("default", "default")
    assert work.payload == {"t": 1, "effect_contract": NO_WRITES}
    assert work.enqueued == 5


def test_defaults_give_way_to_the_nodes_own_words() -> None:
    defaults = {"priority": 1, "fairness_key": "security", "contract": {"artifact": 2}}
    first, second = compiled(
        {
            "graph": "g",
            "defaults": defaults,
            "nodes": [
                {"key": "a", "payload": {}},
                {"key": "b", "payload": {}, "priority": 5, "fairness_key": "", "contract": {}},
            ],
        }
    )
    assert (first.priority, first.fairness_key) == (1, "security")
    assert first.payload["effect_contract"]["outputs"] == [{"type": "artifact", "min": 2, "max": 2}]
    assert (second.priority, second.fairness_key) == (5, "")
    assert second.payload["effect_contract"] == NO_WRITES


def test_an_independent_node_is_named_by_its_payload() -> None:
    (work,) = compiled({"nodes": [{"payload": {"t": 1}}]})
    assert work.graph_id == identities.root_graph_id(work.payload)
    assert work.node_key == "root"


def test_predecessors_may_come_later_or_stand_already() -> None:
    later, old = compiled(
        {
            "graph": "g",
            "nodes": [{"key": "b", "payload": {}, "after": ["a"]}, {"key": "a", "payload": {}}],
        }
    )
    assert later.depends_on == [WorkDependency(work_id=old.work_id)]
    (more,) = compiled(
        {"graph": "g", "nodes": [{"key": "c", "payload": {}, "after": ["b"]}]},
        {later.work_id: later},
    )
    assert more.depends_on == [WorkDependency(work_id=later.work_id)]


def test_a_standing_node_keeps_its_time() -> None:
    value = {"graph": "g", "nodes": [{"key": "a", "payload": {}}]}
    (work,) = compiled(value)
    again = compile_plan(parse_plan(value), POLICY, {work.work_id: work}.get, 99)
    assert again == [work]


def test_all_unknown_names_are_reported_with_what_is_near() -> None:
    found = faults(
        {
            "graph": "g",
            "nodes": [
                {"key": "alpha", "payload": {}, "profile": "defalt"},
                {"key": "beta", "payload": {}, "after": ["alpa"]},
                {"key": "gamma", "payload": {}, "fairness_key": "securiti"},
            ],
        }
    )
    assert "did you mean 'default'" in found["/nodes/0/profile"]
    assert "did you mean 'alpha'" in found["/nodes/1/after/0"]
    assert "did you mean 'security'" in found["/nodes/2/fairness_key"]


def test_many_faults_are_bounded_and_quick() -> None:
    nodes = [
        {"key": f"n{n}", "payload": {}, "after": [f"m{n}x{k}" for k in range(64)]}
        for n in range(4_000)
    ]
    assert len(faults({"graph": "g", "nodes": nodes})) == 100


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"nodes": [{"payload": {}, "key": "a"}]}, "/graph"),
        ({"graph": "g", "nodes": [{"payload": {}}]}, "/nodes/0/key"),
        ({"graph": "g", "nodes": [{"key": "a"}]}, "/nodes/0/payload"),
        ({"graph": 3, "nodes": [{"key": "a", "payload": {}}]}, "/graph"),
        ({"graph": "g", "node": []}, "/nodes"),
        (
            {
                "graph": "g",
                "nodes": [{"key": "a", "payload": {"effect_contract": NO_WRITES}, "contract": {}}],
            },
            "/nodes/0/contract",
        ),
        (
            {"graph": "g", "nodes": [{"key": "a", "payload": {"effect_contract": {"version": 2}}}]},
            "/nodes/0/payload/effect_contract/version",
        ),
    ],
)
def test_a_fault_has_its_place(value: dict[str, Any], pointer: str) -> None:
    found = faults(value)
    assert any(place.startswith(pointer) for place in found), found


def test_short_contracts_are_written_out() -> None:
    assert full_contract({}) == NO_WRITES
    assert full_contract({"patch": {"min": 0, "max": 1}}) == {
        "version": 1,
        "outputs": [{"type": "patch", "min": 0, "max": 1}],
    }


def test_a_cycle_is_named_along_its_edges() -> None:
    with pytest.raises(CallboardError) as caught:
        plan({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]})
    assert caught.value.code == "dependency_cycle"
    assert caught.value.details["path"] == ["a", "b", "c", "a"]


def is_cyclic(edges: dict[str, list[str]]) -> bool:
    """By the plainest rule: some node can be reached from itself."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        todo = list(edges[start])
        while todo:
            key = todo.pop()
            if key in edges and key not in found:
                found.add(key)
                todo += edges[key]
        return found

    return any(key in reached(key) for key in edges)


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True),
        min_size=1,
    )
)
def test_order_and_cycle_agree(after: dict[str, list[str]]) -> None:
    edges = {key: [one for one in before if one != key] for key, before in after.items()}
    if is_cyclic(edges):
        with pytest.raises(CallboardError) as caught:
            plan(edges)
        assert caught.value.code == "dependency_cycle"
        path = caught.value.details["path"]
        assert isinstance(path, list)
        assert path[0] == path[-1]
        assert all(later in edges[earlier] for earlier, later in itertools.pairwise(path))
        return
    made = plan(edges)
    assert cycle_of(made) == []
    order = [made.nodes[index].key for index in in_order(made)]
    assert sorted(order) == sorted(after)
    for key, before in edges.items():
        for one in before:
            assert one not in after or order.index(one) < order.index(key)
