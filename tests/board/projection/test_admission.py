"""New Work: whole graphs or nothing, at places that never move, within every limit to the unit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.envelope import written
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import PRODUCER, refused, work, work_id


def keys(board: Board) -> list[str]:
    works = board.projection.works
    return [
        works[board.projection.by_place[place]].work.node_key
        for place in sorted(board.projection.by_place)
    ]


def test_references_may_point_forward_within_a_submission() -> None:
    board = Board([work("last", after=["mid"]), work("mid", after=["first"]), work("first")])
    assert keys(board) == ["last", "mid", "first"]
    assert [board.work(key).blocked for key in ("last", "mid", "first")] == [1, 1, 0]
    assert board.grant(3) == ["first"]


def test_a_graph_grows_behind_nodes_that_stand() -> None:
    board = Board([work("a")])
    board.submit([work("b", after=["a"])])
    board.submit([work("d", after=["c", "b"]), work("c", after=["a"])])
    assert keys(board) == ["a", "b", "d", "c"]
    assert board.work("d").blocked == 2
    board.grant()
    board.settle("a")
    board.submit([work("e", after=["a"])])
    assert board.work("e").blocked == 0
    assert (board.work("b").blocked, board.work("d").blocked) == (0, 2)


@pytest.mark.parametrize(
    "nodes",
    [
        [work("x"), work("y", after=["y"])],
        [work("x"), work("y", after=["gone"])],
        [work("x"), work("y", after=["z"]), work("z", after=["y"])],
        [work("x"), work("x", priority=1)],
        [work("x"), work("a", priority=1)],
        [work("x"), work("y", pool="none")],
        [work("x"), work("y", payload={"k": "v" * 17_000})],
        [work("x"), work("y", graph="other", depends_on=work("y", after=["a"]).depends_on)],
    ],
)
def test_one_bad_node_admits_none(nodes: list[ops.Work]) -> None:
    board = Board([work("a")])
    before = board.document()
    refused(lambda: board.submit(nodes))
    assert board.document() == before
    assert keys(board) == ["a"]


def edges_of(nodes: list[ops.Work]) -> set[tuple[str, str]]:
    names = {node.work_id: node.node_key for node in nodes}
    return {
        (node.node_key, names[one.work_id])
        for node in nodes
        for one in node.depends_on
        if isinstance(one, ops.WorkDependency)
    }


def is_acyclic(edges: set[tuple[str, str]], names: set[str]) -> bool:
    """Take away nodes without predecessors until none is left, or none can go."""
    left = set(names)
    while left:
        free = {name for name in left if not any(a == name and b in left for a, b in edges)}
        if not free:
            return False
        left -= free
    return True


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.sets(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
def test_a_graph_is_admitted_exactly_if_it_has_no_cycle(after: list[set[int]]) -> None:
    nodes = [
        work(f"n{index}", after=[f"n{one}" for one in sorted(before - {index})])
        for index, before in enumerate(after)
    ]
    edges = edges_of(nodes)
    names = {node.node_key for node in nodes}
    board = Board([work("root", graph="other")])
    if is_acyclic(edges, names):
        board.submit(nodes)
        assert set(keys(board)) == names | {"root"}
        return
    error = refused(lambda: board.submit(nodes))
    assert error.code == "dependency_cycle"
    path = canonical.decode(canonical.encode(error.details["path"]))
    assert path[0] == path[-1]
    assert len(set(path)) == len(path) - 1
    assert all(step in edges for step in itertools.pairwise(path))
    assert all(repr(name) in error.message for name in path)


def test_a_long_cycle_is_named_without_recursion() -> None:
    count = 250
    ring = [work(f"n{n}", after=[f"n{(n + 1) % count}"]) for n in range(count)]
    board = Board([work("a")])
    error = refused(lambda: board.submit(ring))
    assert error.code == "dependency_cycle"
    assert len(error.message) < 1_000
    chain = [work(f"n{n}", after=[f"n{n + 1}"]) for n in range(count)]
    board.submit([*chain, work(f"n{count}")])
    assert board.projection.counters.nodes == count + 2


def test_a_graph_with_open_work_and_no_cycle_always_has_something_ready() -> None:
    board = Board([work("p"), work("c1", after=["p"]), work("c2", after=["p", "c1"])])
    for expected in ("p", "c1", "c2"):
        assert board.grant(3) == [expected]
        board.settle(expected)
    assert board.plan().stop.reason == "no_work"


# --- repetition ---------------------------------------------------------------------------------


def test_a_node_that_stands_keeps_its_place_and_state() -> None:
    board = Board([work("a"), work("b")])
    board.grant()
    place, attempts = board.work("a").place, board.work("a").attempts
    board.submit([work("b"), work("a"), work("c")])
    assert (board.work("a").place, board.work("a").attempts) == (place, attempts)
    assert board.work("a").state == "claimed"
    assert keys(board) == ["a", "b", "c"]
    assert board.work("c").place > board.work("b").place


def test_repeating_everything_admits_nothing_even_in_a_pause() -> None:
    board = Board([work("a")])
    board.control("admission_paused", True)
    before = board.document()["works"]
    board.submit([work("a")])
    assert board.document()["works"] == before
    assert board.projection.counters.work == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 2},
        {"account": "team"},
        {"payload": {"effect_contract": {"kind": "none"}, "more": 1}},
        {"enqueued": 1},
        {"after": ["a"]},
        {"worker_profile": "other"},
        {"subject": make.resource()},
    ],
)
def test_admitted_work_never_changes(changes: dict[str, Any]) -> None:
    document = make.policy(
        accounting_weights={"": 1, "team": 2},
        pools={"default": make.pool("default", "other")},
    )
    board = Board([work("a"), work("b")], document)
    before = board.document()
    error = refused(lambda: board.submit([work("b", **changes)]))
    assert error.code == "work_conflict"
    assert board.document() == before


@pytest.mark.parametrize(("one", "other"), [(1, True), (False, 0), ([[1]], [[True]])])
def test_a_payload_that_differs_only_in_the_kind_of_a_value_is_another(
    one: object, other: object
) -> None:
    """1 and true are different JSON, though Python takes them for equal."""
    board = Board([work("a", payload={"v": one})])
    error = refused(lambda: board.submit([work("a", payload={"v": other})]))
    assert error.code == "work_conflict"


# --- limits to the unit -------------------------------------------------------------------------


def test_sixty_four_predecessors_are_allowed_and_sixty_five_are_not() -> None:
    names = [f"n{n}" for n in range(65)]
    small = make.policy(limits=make.limits(result_bytes=1))
    board = Board([work(name) for name in names], small)
    board.submit([work("join", after=names[:64])])
    assert board.work("join").blocked == 64
    error = refused(lambda: board.submit([work("wide", after=names)]))
    assert error.code == "record_invalid"
    assert "depends_on" in error.message


def test_a_join_of_many_full_results_cannot_be_handed_over() -> None:
    """With results of full size, few predecessors fill an assignment."""
    board = Board([work(f"n{n}") for n in range(12)])
    names = [f"n{n}" for n in range(12)]
    board.submit([work("ten", after=names[:10])])
    assert refused(lambda: board.submit([work("twelve", after=names)])).code == "assignment_limit"


def test_payload_bytes_are_those_of_its_canonical_form() -> None:
    frame = len(canonical.encode({"k": ""}))
    board = Board([work("a", payload={"k": "x" * (16_384 - frame)})])
    assert board.work("a").payload_bytes == 16_384
    assert (
        refused(lambda: board.submit([work("b", payload={"k": "x" * (16_385 - frame)})])).code
        == "payload_limit"
    )
    wide = "\u00e9" * ((16_384 - frame) // 2)
    board.submit([work("c", payload={"k": wide})])
    assert (
        refused(lambda: board.submit([work("d", payload={"k": wide + "\u00e9"})])).code
        == "payload_limit"
    )


def test_graph_nodes_count_work_and_distinct_gates() -> None:
    document = make.policy(limits=make.limits(graph_nodes=5))
    issue, merge = make.issue_gate(), make.merge_gate()
    board = Board([work("a", gates=[issue]), work("b", gates=[issue, merge])], document)
    assert board.projection.counters.nodes == 4
    board.submit([work("c", gates=[merge])])
    assert board.projection.counters.nodes == 5
    error = refused(lambda: board.submit([work("d")]))
    assert (error.code, error.details["count"]) == ("graph_limit", 6)
    board.submit([work("d", graph="other", gates=[issue])])
    assert board.projection.counters.nodes == 7
    closed = make.issue_gate(condition="closed")
    board.submit([work("e", graph="other", gates=[closed, issue])])
    assert board.projection.counters.nodes == 9


def test_pending_work_is_counted_until_its_delivery_is_decided() -> None:
    document = make.policy(limits=make.limits(pending_nodes=2))
    board = Board([work("a"), work("b")], document)
    assert refused(lambda: board.submit([work("c")])).code == "pending_limit"
    board.grant()
    board.complete("a")
    assert refused(lambda: board.submit([work("c")])).code == "pending_limit"
    board.verify("a")
    board.submit([work("c")])
    board.cancel_work("b")
    board.submit([work("d")])
    assert refused(lambda: board.submit([work("e")])).code == "pending_limit"


def largest(board: Board, fits: int, node: Any) -> int:
    """The largest size up to `fits` of which the board still takes `node(size)`."""
    low, high = 0, fits
    while low < high:
        middle = (low + high + 1) // 2
        commit = board.make("submit", [node(middle)], PRODUCER, request_id="probe")
        try:
            replay.apply(board.projection, written(commit))
        except CallboardError as error:
            if error.code != "assignment_limit":
                raise
            high = middle - 1
        else:
            replay.take_back(board.projection)
            low = middle
    return low


@pytest.mark.parametrize("after", [[], ["a"]])
def test_what_is_admitted_can_be_handed_over_under_the_longest_names(after: list[str]) -> None:
    document = make.policy(limits=make.limits(assignment_bytes=4_000, result_bytes=500))
    board = Board([work("a")], document)

    def node(size: int) -> ops.Work:
        contract = {"effect_contract": {"kind": "none"}, "k": "x" * size}
        return work("big", after=after, payload=contract)

    size = largest(board, 4_000, node)
    assert 1_000 < size < 4_000
    board.submit([node(size)])
    board.grant()
    board.complete("a")
    board.verify("a", descriptor={"k": "y" * (500 - len(canonical.encode({"k": ""})))})
    longest = "r" * 256
    plan = board.plan(max_claims=256, request_id=longest)
    assert [one.state.work.node_key for one in plan.winners] == ["big"]
    assert len(canonical.encode(plan.assignments[0])) <= 4_000
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=256, max_dispatches=256, max_bytes=49_152
    )
    board.say(
        "dispatch_next",
        plan.claims,
        make.DISPATCHER,
        parameters=parameters,
        request_id=longest,
    )
    assert board.work("big").state == "claimed"


# --- who may submit -----------------------------------------------------------------------------


def enrolled(**changes: Any) -> records.PolicyDocument:
    producer = records.Producer(
        pools=["default"], priorities=[3, 4], fairness_keys=["", "unlisted"]
    )
    return make.policy(
        authorization=UNSET,
        producers={"7": producer},
        pools={"default": make.pool(profiles={"default": make.profile(principal="9")})},
        **changes,
    )


def test_an_older_policy_lists_what_its_producers_may() -> None:
    board = Board([work("a"), work("b", priority=4, account="unlisted")], enrolled())
    assert board.grant(2) == ["a", "b"]
    assert refused(lambda: board.submit([work("c", priority=5)])).code == "not_authorized"
    stranger = structs.replace(PRODUCER, principal="70")
    assert refused(lambda: board.submit([work("c")], stranger)).code == "not_authorized"


@pytest.mark.parametrize("actor", [make.DISPATCHER, make.ADMINISTRATOR])
def test_dispatchers_and_administrators_submit_to_a_board_that_stands(actor: ops.Actor) -> None:
    board = Board([work("a")])
    board.submit([work("b")], actor)
    assert keys(board) == ["a", "b"]


def test_a_dispatcher_may_begin_a_board_and_nobody_else_beside_a_producer() -> None:
    first = make.genesis([work("a")])
    for actor in (PRODUCER, make.DISPATCHER, make.SENDER):
        board = Board()
        board.put(make.resealed(first, actor=actor))
        assert keys(board) == ["a"]
    board = Board()
    begin = make.resealed(first, actor=make.ADMINISTRATOR)
    assert refused(lambda: board.put(begin)).code == "role_forbidden"
    assert board.projection.tip is None


def test_a_worker_s_children_inherit_and_hang_on_an_open_delivery() -> None:
    board = Board([work("a", priority=2), work("z", priority=2)])
    board.grant()
    group = board.bind("a")
    actor = board.worker(group)
    child = work("b", after=["a"], priority=2)
    assert refused(lambda: board.submit([child], actor)).code == "claim_scope_invalid"
    board.finish("a")
    for wrong in ({"priority": 1}, {"pool": "default", "account": "team"}):
        node = work("b", after=["a"], **({"priority": 2} | wrong))
        assert refused(board.submit, [node], actor).code == "inheritance_violated"
    board.submit([child, work("c", priority=5)], actor)
    board.verify("a")
    assert refused(lambda: board.submit([work("d", priority=2)], actor)).code == (
        "claim_scope_invalid"
    )


# --- replacements -------------------------------------------------------------------------------


def replacement(board: Board, **changes: Any) -> ops.Replacement:
    evidence = board.evidence(board.group("a"), "delivery", source="trusted_activation")
    evidence = structs.replace(evidence, **changes)
    return ops.Replacement(work_id=work_id("a"), disposition="inspection", evidence=evidence)


def failed_board() -> Board:
    board = Board([work("a"), work("b", after=["a"])])
    board.grant()
    board.complete("a")
    board.fail_delivery("a")
    return board


def test_a_replacement_is_new_work_and_frees_nobody() -> None:
    board = failed_board()
    board.submit([work("a2", replacement_of=replacement(board)), work("b2", after=["a2"])])
    assert keys(board) == ["a", "b", "a2", "b2"]
    assert board.grant(4) == ["a2"]
    board.settle("a2")
    assert board.grant(4) == ["b2"]
    assert board.work("b").blocked == 1
    assert board.work("a").barrier == "failed"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "terminal_run", "status": "completed"},
        {"principal": "8"},
        {"workflow": "other"},
        {"ref": "b" * 40},
    ],
)
def test_a_replacement_rests_on_evidence_about_the_old_run(changes: dict[str, Any]) -> None:
    board = failed_board()
    node = work("a2", replacement_of=replacement(board, **changes))
    assert refused(lambda: board.submit([node])).code == "evidence_invalid"


def test_a_replacement_may_wait_longer_but_not_move() -> None:
    board = failed_board()
    remedy = replacement(board)
    for wrong in ({"priority": 2}, {"graph": "h", "account": "team"}):
        node = work("a2", replacement_of=remedy, **wrong)
        assert refused(board.submit, [node]).code in (
            "replacement_invalid",
            "fairness_key_unknown",
        )
    board.submit([work("a2", graph="h", priority=5, replacement_of=remedy)])
    assert board.work("a2", "h").work.priority == 5
