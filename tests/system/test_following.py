"""Workers that follow HEAD on a remote: at little cost, and never to what others cannot fetch."""

from __future__ import annotations

from pathlib import Path

from callboard.board.board import Board
from tests.board.storage.remotes import wrapper
from tests.repositories import git
from tests.system.machines import Machine, Machines


class Calls:
    """What one machine has git do about the remote, or about what is on it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._log = folder / "calls"
        words = "push|fetch|ls-remote|for-each-ref|rev-list"
        script = f'for word; do case $word in {words}) echo "$word" >> {self._log};; esac; done'
        self._log.write_text("")
        machine.environment |= wrapper(folder / "bin", f'{script}\nexec "$REAL" "$@"')

    def taken(self) -> list[str]:
        calls = self._log.read_text().split()
        self._log.write_text("")
        return calls


def commit(machine: Machine) -> str:
    git("commit", "-q", "--allow-empty", "-m", "more", cwd=machine.path)
    return git("rev-parse", "HEAD", cwd=machine.path)


def refs_of(board: Board) -> set[str]:
    pools = board.history().projection.pools.values()
    return {route.current for pool in pools for route in pool.routes.values()}


def test_a_turn_in_which_no_worker_moves_asks_the_remote_nothing(
    machines: Machines, tmp_path: Path
) -> None:
    one, two = machines.all
    one.submit({"key": "a"})
    calls = Calls(one, tmp_path)
    with one.open() as board:
        actor = board.site.actor("dispatcher")
        old = refs_of(board)
        for number in range(3):
            two.submit({"key": f"b{number}"})
            board.history()
            calls.taken()
            board._follower.follow(actor)
            assert calls.taken() == []
        new = commit(one)
        git("push", "-q", "origin", "HEAD", cwd=one.path)
        calls.taken()
        board._follower.follow(actor)
        # One question, answered by what was pushed from here, and one push.
        assert calls.taken() == ["for-each-ref", "push"]
        assert refs_of(board) == {new} != old
        for number in range(3, 6):
            two.submit({"key": f"b{number}"})
            board.history()
            calls.taken()
            board._follower.follow(actor)
            assert calls.taken() == []


def test_a_commit_that_was_not_pushed_is_asked_for_until_it_is(
    machines: Machines, tmp_path: Path
) -> None:
    one, two = machines.all
    one.submit({"key": "a"})
    calls = Calls(one, tmp_path)
    with one.open() as board:
        actor = board.site.actor("dispatcher")
        old = refs_of(board)
        new = commit(one)
        calls.taken()
        board._follower.follow(actor)
        assert "push" not in calls.taken()
        assert refs_of(board) == old
        git("push", "-q", "origin", "HEAD", cwd=one.path)
        two.submit({"key": "b"})
        board.history()
        board._follower.follow(actor)
        assert refs_of(board) == {new}
    assert two.history().projection.pools.keys() == one.history().projection.pools.keys()


def test_what_another_machine_has_deployed_is_followed_from(
    machines: Machines, tmp_path: Path
) -> None:
    one, two = machines.all
    one.submit({"key": "a"})
    with two.open() as board:
        board.history()
        middle = commit(one)
        git("push", "-q", "origin", "HEAD", cwd=one.path)
        with one.open() as other:
            other._follower.follow(other.site.actor("dispatcher"))
            assert refs_of(other) == {middle}
        git("pull", "-q", "origin", "main", cwd=two.path)
        new = commit(two)
        git("push", "-q", "origin", "HEAD:main", cwd=two.path)
        # The other deployment is not known here yet: the append loses its race, and is made anew.
        board._follower.follow(board.site.actor("dispatcher"))
        assert refs_of(board) == {new}
