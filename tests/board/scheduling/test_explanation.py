"""Why a node stands where it stands, with the path to whatever is in the way."""

from __future__ import annotations

from callboard.board.protocol.policy import Retry
from callboard.board.scheduling.explanation import MAX_PATH, Explainer, Standing
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import work, work_id


def standing(board: Board, key: str) -> Standing:
    return Explainer(board.projection, board.at).standing(work_id(key))


def path(board: Board, key: str) -> list[str]:
    """The node keys of the first obstacle's path."""
    works = board.projection.works
    return [works[one].work.node_key for one in standing(board, key).obstacles[0].path]


def chain() -> Board:
    return Board([work("a"), work("b", after=["a"]), work("c", after=["b"]), work("x")])


def test_the_life_of_a_node_in_reasons() -> None:
    board = chain()
    assert standing(board, "a").reason == "ready"
    board.grant()
    assert standing(board, "a").reason == "ownership_claimed"
    board.complete("a")
    assert standing(board, "a").reason == "ownership_completed"
    board.cancel_work("x")
    assert standing(board, "x").reason == "ownership_cancelled"


def test_waiting_names_the_way_to_what_is_waited_for() -> None:
    board = chain()
    assert (standing(board, "c").reason, path(board, "c")) == ("dependency_wait", ["c", "b", "a"])
    board.grant()
    assert standing(board, "b").reason == "dependency_wait"
    board.complete("a")
    assert standing(board, "b").reason == "dependency_result_unavailable"
    assert path(board, "b") == ["b", "a"]
    assert standing(board, "c").reason == "dependency_wait"
    board.verify("a")
    assert standing(board, "b").reason == "ready"
    assert path(board, "c") == ["c", "b"]


def test_what_can_never_come_is_told_at_once_down_the_graph() -> None:
    """A cancelled or failed ancestor shows on every descendant, with the way to it (C-73)."""
    board = chain()
    board.cancel_work("a")
    assert (standing(board, "b").reason, path(board, "b")) == ("dependency_failed", ["b", "a"])
    assert (standing(board, "c").reason, path(board, "c")) == ("dependency_failed", ["c", "b", "a"])
    assert board.grant(9) == ["x"]
    assert board.plan().stop.reason == "no_eligible_work"
    board.submit([work("d", after=["c"])])
    assert path(board, "d") == ["d", "c", "b", "a"]


def test_a_failed_delivery_shows_down_the_graph() -> None:
    board = chain()
    board.grant()
    board.complete("a")
    board.fail_delivery("a")
    assert standing(board, "b").reason == "dependency_delivery_failed"
    assert (standing(board, "c").reason, path(board, "c")) == (
        "dependency_delivery_failed",
        ["c", "b", "a"],
    )


def test_the_final_reason_comes_first_whatever_the_edge_order() -> None:
    board = Board([work("a"), work("b"), work("c"), work("j", after=["a", "b", "c"])])
    board.cancel_work("c")
    found = standing(board, "j")
    assert found.reason == "dependency_failed"
    assert [one.reason for one in found.obstacles] == [
        "dependency_failed",
        "dependency_wait",
        "dependency_wait",
    ]


def test_gates_delays_and_predecessors_are_all_told() -> None:
    gate = make.issue_gate()
    board = Board([work("a"), work("b", after=["a"], gates=[gate])])
    assert [one.reason for one in standing(board, "b").obstacles] == [
        "dependency_wait",
        "external_unavailable",
    ]
    assert standing(board, "b").obstacles[1].found == "issue example/library#7"
    board.grant()
    board.cancel_claim("a")
    (delay,) = standing(board, "a").obstacles
    assert (delay.reason, delay.until_ms) == ("retry_delayed", board.at + 30_000)
    board.pass_ms(30_000)
    assert standing(board, "a").reason == "ready"


def test_capacity_is_told_by_its_limit_and_only_where_nothing_else_is_in_the_way() -> None:
    nodes = [work("a"), work("b"), work("c", after=["b"])]
    for limit, changes in (
        ("logical", {"logical_limit": 1}),
        ("native", {"native_limit": 1}),
        ("account", {"per_account_limit": 1}),
    ):
        board = Board(nodes, make.with_pool(**changes))
        board.grant()
        (found,) = standing(board, "b").obstacles
        assert (found.reason, found.limit) == ("capacity_blocked", limit)
        assert standing(board, "c").reason == "dependency_wait"


def test_a_pause_of_grants_is_told() -> None:
    board = chain()
    board.control("grants_paused", True)
    assert standing(board, "a").reason == "grants_paused"
    assert standing(board, "b").reason == "dependency_wait"


def test_deep_graphs_are_walked_once_and_without_recursion() -> None:
    once = make.with_pool(retry=Retry(max_attempts=1, backoff_ms=1))
    board = Board([work("n0")], once)
    for start in range(1, 1_501, 250):
        board.submit(
            [
                work(f"n{n}", after=[f"n{before}" for before in (n - 1, n - 2) if before >= 0])
                for n in range(start, start + 250)
            ]
        )
    board.cancel_work("n0")
    explainer = Explainer(board.projection, board.at)
    found = explainer.standing(work_id("n1500"))
    assert found.reason == "dependency_failed"
    obstacle = found.obstacles[0]
    assert obstacle.path[0] == work_id("n1500")
    assert obstacle.path[-1] == work_id("n0")
    assert len(obstacle.path) == MAX_PATH
    assert obstacle.path_length == 1_501
    reasons = {explainer.standing(work_id(f"n{n}")).reason for n in range(1, 1_500, 100)}
    assert reasons == {"dependency_failed"}
