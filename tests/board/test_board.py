"""The façade on a real repository: what it reads from commits, posting, granting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard.board.board import Accepted, Board, Folders, Nothing, new_request_id
from callboard.board.execution.principal import make_principal
from callboard.board.publishing.plan import Plan, parse_plan
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.repositories import fingerprint, git, head, worker_repository

RECIPE = 'command = ["true"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one worker recipe."""
    return worker_repository(tmp_path / "repository", RECIPE)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """The folders of a user with an identity."""
    make_principal(tmp_path / "config")
    return Folders(tmp_path / "config", tmp_path / "state")


@pytest.fixture
def board(folder: Path, folders: Folders) -> Iterator[Board]:
    """The board of the repository."""
    with Board.open(folder, folders, clock=FixedClock(1_700_000_000_000)) as board:
        yield board


def commit(folder: Path) -> str:
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "files", cwd=folder)
    return head(folder)


def plan(*keys: str, graph: str = "g") -> Plan:
    return parse_plan({"graph": graph, "nodes": [{"key": key, "payload": {}} for key in keys]})


def tip(folder: Path) -> str | None:
    return git("rev-parse", "-q", "--verify", "work-queue", cwd=folder, check=False) or None


def test_posting_granting_and_reading_touch_only_the_boards_branch(
    folder: Path, board: Board
) -> None:
    def outside() -> dict[str, str]:
        own = (".git/objects", ".git/refs/heads", ".git/callboard")
        found = fingerprint(folder).items()
        return {path: mark for path, mark in found if not path.startswith(own)}

    before, main = outside(), head(folder)
    (part,) = board.submit(plan("a", "b"), request_id="s")
    assert isinstance(part.outcome, Accepted)
    granted = board.grant(max_claims=2, max_dispatches=2, request_id="g")
    assert isinstance(granted, Accepted)
    assert len(granted.request.claims) == 2
    assert board.receipt(granted, request_id="g")["status"] == "granted"
    assert board.view().projection.counters.claimed == 2
    assert (outside(), head(folder)) == (before, main)


def test_recipes_and_settings_come_from_heads_commit(folder: Path, board: Board) -> None:
    (folder / ".callboard" / "config.toml").write_text("[work_queue]\nconcurrency = 2\n")
    assert board.settings().work_queue.concurrency == 16
    (folder / ".callboard" / "workers" / "extra.toml").write_text(RECIPE)
    assert list(board.recipes(head(folder))) == ["default"]
    revision = commit(folder)
    policy = board.propose_policy()
    assert policy.pools["default"].logical_limit == 2
    assert {one.ref for one in policy.pools["default"].profiles.values()} == {revision}


def test_later_settings_change_nothing_until_they_are_installed(folder: Path, board: Board) -> None:
    board.submit(plan("a"))
    (folder / ".callboard" / "config.toml").write_text("[work_queue]\nconcurrency = 2\n")
    commit(folder)
    board.submit(plan("b"))
    assert board.view().projection.pool("default").logical_limit == 16
    changed = {one["pointer"] for one in board.policy_check()["differences"]}
    assert "/pools/default/logical_limit" in changed


def test_the_branch_is_that_of_the_settings(folder: Path, folders: Folders) -> None:
    (folder / ".callboard" / "config.toml").write_text('[board]\nbranch = "queue"\n')
    commit(folder)
    with Board.open(folder, folders) as board:
        board.submit(plan("a"))
    assert git("rev-parse", "--verify", "queue", cwd=folder)
    assert tip(folder) is None


def test_a_worker_that_is_gone_blocks_only_its_own_nodes(folder: Path, board: Board) -> None:
    (folder / ".callboard" / "workers" / "extra.toml").write_text(RECIPE)
    commit(folder)
    board.submit(plan("a"))
    profile = board.view().projection.pool("default").profiles["extra"]
    git("reset", "-q", "--hard", "HEAD^", cwd=folder)
    git("reflog", "expire", "--expire=now", "--all", cwd=folder)
    git("gc", "-q", "--prune=now", cwd=folder)
    with pytest.raises(CallboardError) as caught:
        board.submit(
            parse_plan({"graph": "h", "nodes": [{"key": "x", "payload": {}, "profile": "extra"}]})
        )
    assert caught.value.code == "worker_unavailable"
    assert caught.value.details["ref"] == profile.ref


def test_parts_are_posted_in_an_order_that_keeps_predecessors_first(board: Board) -> None:
    nodes = [
        {
            "key": f"n{number}",
            "payload": {},
            **({"after": [f"n{number + 1}"]} if number < 299 else {}),
        }
        for number in range(300)
    ]
    parts = board.submit(parse_plan({"graph": "g", "nodes": nodes}), request_id="big", split=True)
    assert [part.request_id for part in parts] == ["big.1", "big.2"]
    assert board.view().projection.counters.work == 300


def test_a_part_that_would_be_refused_leaves_nothing(folder: Path, board: Board) -> None:
    nodes = [{"key": f"n{number}", "payload": {}} for number in range(300)]
    nodes[-1]["payload"] = {"t": "x" * 20_000}
    with pytest.raises(CallboardError) as caught:
        board.submit(parse_plan({"graph": "g", "nodes": nodes}), split=True)
    assert caught.value.code == "payload_limit"
    assert tip(folder) is None


def test_more_open_work_than_the_ledger_can_close_is_refused_whole(
    folder: Path, board: Board
) -> None:
    nodes = [{"key": f"n{number}", "payload": {}} for number in range(4_000)]
    with pytest.raises(CallboardError) as caught:
        board.submit(parse_plan({"graph": "g", "nodes": nodes}), split=True)
    assert caught.value.code == "ledger_limit"
    assert tip(folder) is None


@pytest.mark.parametrize("request_id", ["", "-x", "a..b", "a\x00b", "x" * 257, " a"])
def test_a_request_is_named_plainly(folder: Path, board: Board, request_id: str) -> None:
    for change in (
        lambda: board.submit(plan("a"), request_id=request_id),
        lambda: board.set_paused("grants", True, reason="x", request_id=request_id),
    ):
        with pytest.raises(CallboardError) as caught:
            change()
        assert caught.value.code == "request_id_invalid"
    assert tip(folder) is None


def test_only_a_first_submission_begins_a_board(folder: Path, board: Board) -> None:
    for change in (
        lambda: board.grant(),
        lambda: board.set_paused("grants", True, reason="x"),
        lambda: board.cancel(["0" * 64], reason="x"),
        lambda: board.ledger_bytes(),
    ):
        with pytest.raises(CallboardError) as caught:
            change()
        assert caught.value.code == "queue_missing"
    assert tip(folder) is None


def test_several_pools_want_a_name(folder: Path, folders: Folders) -> None:
    (folder / ".callboard" / "config.toml").write_text(
        "[work_queue.pools.fast]\n[work_queue.pools.slow]\n"
    )
    commit(folder)
    with Board.open(folder, folders) as board:
        board.submit(
            parse_plan(
                {"graph": "g", "defaults": {"pool": "slow"}, "nodes": [{"key": "a", "payload": {}}]}
            )
        )
        with pytest.raises(CallboardError) as caught:
            board.grant()
        assert caught.value.code == "pool_required"
        assert isinstance(board.grant(pool="fast"), Nothing)
        assert isinstance(board.grant(pool="slow"), Accepted)


def test_nothing_begins_where_the_board_is_checked_out(
    folder: Path, folders: Folders, board: Board, tmp_path: Path
) -> None:
    board.submit(plan("a"))
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), "work-queue", cwd=folder)
    before = tip(folder)
    stop = threading.Event()
    with Board.open(linked, folders) as inside:
        changes: list[Callable[[], object]] = [
            lambda: inside.submit(plan("b", graph="h")),
            lambda: inside.grant(),
            lambda: inside.dispatch({}, inside.batch()),
            lambda: inside.set_paused("grants", True, reason="x"),
            lambda: inside.cancel(list(inside.view().projection.works), reason="x"),
            lambda: inside.run(
                {}, pool=None, workers=1, until_idle=True, stop=stop, on_event=lambda _: None
            ),
        ]
        for change in changes:
            with pytest.raises(CallboardError) as caught:
                change()
            assert caught.value.code == "queue_branch_refused"
        assert tip(folder) == before
        assert isinstance(board.grant(), Accepted)
        assert inside.view().projection.counters.claimed == 1


MISHAPS: dict[str, list[str]] = {
    "moved back": ["update-ref", "refs/heads/work-queue", "work-queue^"],
    "replaced": ["update-ref", "refs/heads/work-queue", "refs/heads/other"],
    "deleted": ["update-ref", "-d", "refs/heads/work-queue"],
}


class _Meddling(threading.Event):
    """Something happens to the branch the first time that anybody waits."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__()
        self._happen: Callable[[], object] | None = happen

    def wait(self, timeout: float | None = None) -> bool:
        if self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return super().wait(timeout)


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_run_stops_where_the_history_it_read_is_no_longer_there(
    folder: Path, folders: Folders, board: Board, mishap: str
) -> None:
    with Board.open(folder, folders, branch="other") as other:
        other.submit(plan("z"))
    board.submit(plan("a"))
    board.set_paused("grants", True, reason="x")
    seen = tip(folder)
    stop = _Meddling(lambda: git(*MISHAPS[mishap], cwd=folder))
    with pytest.raises(CallboardError) as caught:
        board.run({}, pool=None, workers=1, until_idle=False, stop=stop, on_event=lambda _: None)
    assert caught.value.code == "ledger_invalid"
    assert caught.value.details["cause"] == "history_replaced"
    assert (caught.value.details["seen"], caught.value.details["found"]) == (seen, tip(folder))


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_board_that_lost_its_history_neither_shows_nor_changes_another(
    folder: Path, folders: Folders, board: Board, mishap: str
) -> None:
    with Board.open(folder, folders, branch="other") as other:
        other.submit(plan("z"))
    board.submit(plan("a"))
    board.submit(plan("b", graph="h"))
    seen = tip(folder)
    assert seen is not None
    git(*MISHAPS[mishap], cwd=folder)
    left = tip(folder)
    for act in (board.view, board.grant, lambda: board.submit(plan("c", graph="i")), board.view):
        with pytest.raises(CallboardError) as caught:
            act()
        assert caught.value.details["cause"] == "history_replaced"
    assert tip(folder) == left
    git("update-ref", "refs/heads/work-queue", seen, cwd=folder)
    assert board.view().projection.counters.work == 2


def test_request_ids_do_not_repeat() -> None:
    assert len({new_request_id() for _try in range(100)}) == 100
