"""A branch that somebody looks at, moves or removes while it holds the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.board.storage.git import GitStore
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.errors import CallboardError
from tests.board.storage.contract import ONE, TWO, appended
from tests.board.storage.shapes import Git, Shape
from tests.board.storage.test_git import REF, Open, install

# --- a branch that is checked out ----------------------------------------------------------------


def test_the_ledger_branch_may_be_checked_out(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("sha1")
    appended(GitStore(opened(shape.path)), ONE)
    git(shape.path, "checkout", "-q", "work-queue")
    (shape.path / "note").write_text("dirty\n")
    git(shape.path, "add", "note")
    (shape.path / "work-queue.jsonl").write_bytes(b"scribble")
    index = (shape.git_dir / "index").read_bytes()
    store = GitStore(opened(shape.path))
    assert store.read().data == ONE
    assert appended(store, TWO).data == ONE + TWO
    assert (shape.path / "note").read_text() == "dirty\n"
    assert (shape.path / "work-queue.jsonl").read_bytes() == b"scribble"
    assert (shape.git_dir / "index").read_bytes() == index
    assert (shape.git_dir / "HEAD").read_text() == f"ref: {REF}\n"


def test_nothing_new_may_begin_in_the_work_tree_that_has_the_ledger_checked_out(
    make_shape: Callable[[str], Shape], git: Git, opened: Open, tmp_path: Path
) -> None:
    shape = make_shape("sha1")
    appended(GitStore(opened(shape.path)), ONE)
    linked = tmp_path / "a worktree"
    git(shape.path, "worktree", "add", "-q", str(linked), "work-queue")
    GitStore(opened(shape.path)).check_writable()
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(linked)).check_writable()
    assert refused.value.code == "queue_branch_refused"
    assert refused.value.details == {"branch": "work-queue", "checkout": str(linked)}
    assert f"is checked out in '{linked}'" in refused.value.message
    assert refused.value.hint.endswith(f"git -C '{linked}' checkout BRANCH")
    git(linked, "checkout", "-q", "--detach")
    GitStore(opened(linked)).check_writable()


def test_a_bare_repository_has_no_checkout(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("bare")
    store = GitStore(opened(shape.path))
    appended(store, ONE)
    git(shape.path, "symbolic-ref", "HEAD", REF)
    store.check_writable()
    assert appended(store, TWO).data == ONE + TWO


@pytest.mark.parametrize("relative", [False, True])
def test_a_branch_without_commits_that_is_checked_out_is_not_taken(
    relative: bool,
    make_shape: Callable[[str], Shape],
    git: Git,
    opened: Open,
    tmp_path: Path,
) -> None:
    shape = make_shape("sha1")
    linked = tmp_path / "linked"
    git(shape.path, "worktree", "add", "-q", "--detach", str(linked))
    git(linked, "symbolic-ref", "HEAD", REF)
    if relative:
        # As Git itself writes it from 2.48 on, where it is told to.
        (admin,) = (shape.git_dir / "worktrees").iterdir()
        (admin / "gitdir").write_text(os.path.relpath(linked / ".git", admin) + "\n")
    store = GitStore(opened(shape.path))
    with pytest.raises(CallboardError) as refused:
        store.append(store.read(), ONE, message="x")
    assert refused.value.code == "queue_branch_refused"
    assert f"it is checked out in '{linked}'" in refused.value.message


def test_a_worktree_that_git_is_just_making_hinders_nobody(
    shape: Shape, git: Git, opened: Open, tmp_path: Path
) -> None:
    git(shape.path, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    (shape.git_dir / "worktrees" / "linked" / "HEAD").write_bytes(b"")
    assert appended(GitStore(opened(shape.path)), ONE).data == ONE


# --- a history that goes back --------------------------------------------------------------------


def refused_as_replaced(store: GitStore, seen: LedgerTip, found: str | None) -> CallboardError:
    """Every look refuses, the first as the second."""
    for _look in range(2):
        with pytest.raises(CallboardError) as refused:
            store.read()
        assert refused.value.code == "ledger_invalid"
        assert refused.value.details["cause"] == "history_replaced"
        assert refused.value.details["seen"] == seen.revision
        assert refused.value.details["found"] == found
        assert f"no longer holds the commit {seen.revision}" in refused.value.message
        assert "`git fsck --lost-found`" in refused.value.hint
    return refused.value


def test_a_branch_moved_back_is_refused_until_it_is_set_right(
    shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path))
    first = appended(store, ONE)
    seen = appended(store, TWO)
    assert first.revision is not None
    assert seen.revision is not None
    git(shape.path, "update-ref", REF, first.revision)
    error = refused_as_replaced(store, seen, first.revision)
    assert (error.details["line"], error.details["byte"]) == (2, len(ONE))
    with pytest.raises(CallboardError) as refused:
        store.append(first, TWO, message="x")
    assert refused.value.details["cause"] == "history_replaced"
    assert store.append(seen, TWO, message="x") == LostRace()
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path)).read()
    assert refused.value.details["cause"] == "history_replaced"
    git(shape.path, "branch", "-f", "work-queue", seen.revision)
    assert store.read() == seen
    assert appended(store, ONE).data == ONE + TWO + ONE


def test_another_history_in_its_place_is_refused(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    appended(store, ONE)
    seen = appended(store, TWO)
    other = b'{"other":1}\n'
    found = install(shape, git, {"work-queue.jsonl": ONE + other + TWO + TWO})
    error = refused_as_replaced(store, seen, found)
    assert (error.details["line"], error.details["byte"]) == (2, len(ONE))
    found = install(shape, git, {"work-queue.jsonl": other + ONE + TWO})
    error = refused_as_replaced(store, seen, found)
    assert (error.details["line"], error.details["byte"]) == (1, 0)


def test_a_branch_that_vanished_is_refused(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    seen = appended(store, ONE)
    git(shape.path, "branch", "-qD", "work-queue")
    error = refused_as_replaced(store, seen, None)
    assert "the branch is gone" in error.message
    assert error.details["byte"] == 0
    with pytest.raises(CallboardError) as refused:
        store.append(LedgerTip(None, b""), TWO, message="x")
    assert refused.value.details["cause"] == "history_replaced"
    assert git(shape.path, "branch", "--list", "work-queue") == ""


def refused_as_gone(store: GitStore, last: LedgerTip) -> CallboardError:
    """A process that has read nothing yet neither reads an empty board nor begins a new one."""
    with pytest.raises(CallboardError) as read:
        store.read()
    with pytest.raises(CallboardError) as written:
        store.append(LedgerTip(None, b""), TWO, message="x")
    for refused in (read, written):
        assert (refused.value.code, refused.value.details["cause"]) == (
            "ledger_invalid", "history_replaced",
        )  # fmt: skip
        assert (refused.value.details["seen"], refused.value.details["found"]) == (
            last.revision, None,
        )  # fmt: skip
        assert f"git branch work-queue {last.revision}" in refused.value.hint
    return read.value


def test_a_new_process_is_told_that_the_branch_was_here(
    shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path))
    assert store.read() == LedgerTip(None, b"")
    appended(store, ONE)
    last = appended(store, TWO)
    assert last.revision is not None
    git(shape.path, "branch", "-qD", "work-queue")
    refused_as_gone(GitStore(opened(shape.path)), last)
    assert git(shape.path, "branch", "--list", "work-queue") == ""
    # As the hint says.
    git(shape.path, "branch", "work-queue", last.revision)
    assert GitStore(opened(shape.path)).read() == last
    assert appended(GitStore(opened(shape.path)), ONE).data == ONE + TWO + ONE


def test_other_branches_are_no_business_of_the_one_that_is_gone(
    shape: Shape, git: Git, opened: Open
) -> None:
    appended(GitStore(opened(shape.path)), ONE)
    git(shape.path, "branch", "-qD", "work-queue")
    assert appended(GitStore(opened(shape.path), "other"), TWO).data == TWO


def test_a_board_is_begun_anew_once_the_note_of_the_old_one_is_deleted(
    shape: Shape, git: Git, opened: Open
) -> None:
    last = appended(GitStore(opened(shape.path)), ONE)
    git(shape.path, "branch", "-qD", "work-queue")
    error = refused_as_gone(GitStore(opened(shape.path)), last)
    note = Path(error.hint.rpartition("delete ")[2].strip("'"))
    note.unlink()
    assert GitStore(opened(shape.path)).read() == LedgerTip(None, b"")
    begun = appended(GitStore(opened(shape.path)), TWO)
    git(shape.path, "branch", "-qD", "work-queue")
    refused_as_gone(GitStore(opened(shape.path)), begun)


@pytest.mark.parametrize("left", [b"", b"0123\n", b"\xff" * 500, b"0" * 40], ids=len)
def test_a_note_that_says_nothing_is_no_note(
    shape: Shape, git: Git, opened: Open, left: bytes
) -> None:
    appended(GitStore(opened(shape.path)), ONE)
    (note,) = (shape.git_dir / "callboard").glob("tip-*")
    note.write_bytes(left)
    git(shape.path, "branch", "-qD", "work-queue")
    assert GitStore(opened(shape.path)).read() == LedgerTip(None, b"")


def test_an_append_does_without_a_note_that_cannot_be_written(
    shape: Shape, git: Git, opened: Open
) -> None:
    first = appended(GitStore(opened(shape.path)), ONE)
    (note,) = (shape.git_dir / "callboard").glob("tip-*")
    note.unlink()
    note.symlink_to("/dev/full")
    assert GitStore(opened(shape.path)).append(first, TWO, message="x") != LostRace()
    assert GitStore(opened(shape.path)).read().data == ONE + TWO
    note.unlink()
    note.mkdir()
    assert appended(GitStore(opened(shape.path)), ONE).data == ONE + TWO + ONE


def test_other_commits_of_the_same_bytes_and_of_more_are_taken(
    shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path))
    seen = appended(store, ONE)
    again = install(shape, git, {"work-queue.jsonl": ONE, "README": b"about\n"})
    assert again != seen.revision
    assert store.read() == LedgerTip(again, ONE)
    more = install(shape, git, {"work-queue.jsonl": ONE + TWO})
    assert store.read() == LedgerTip(more, ONE + TWO)
    assert appended(store, ONE).data == ONE + TWO + ONE


def test_a_later_tip_read_during_an_append_is_not_forgotten(
    shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = opened(shape.path)
    store, other = GitStore(repository), GitStore(opened(shape.path))
    first = appended(store, ONE)
    move = repository.move_ref

    def move_and_look(*asked: Any) -> bool:
        moved = move(*asked)
        appended(other, ONE)
        assert store.read().data == ONE + TWO + ONE
        return moved

    monkeypatch.setattr(repository, "move_ref", move_and_look)
    mine = store.append(first, TWO, message="x")
    assert isinstance(mine, Appended)
    later = other.read()
    assert mine.tip.revision is not None
    git(shape.path, "update-ref", REF, mine.tip.revision)
    refused_as_replaced(store, later, mine.tip.revision)


@pytest.mark.parametrize("name", ["refs/heads/work-queue", "refs/tags/x", "refs/"])
def test_a_full_ref_name_is_no_branch(name: str, shape: Shape, opened: Open) -> None:
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path), name)
    assert refused.value.code == "queue_branch_refused"
    assert refused.value.details == {"branch": name}
    assert name in refused.value.message
    assert "work-queue" in refused.value.hint or "such as" in refused.value.hint


def test_a_branch_that_was_set_back_is_refused_by_whoever_comes_next(
    shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path))
    first = appended(store, ONE)
    second = appended(store, TWO)
    git(shape.path, "update-ref", REF, str(first.revision))
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path)).read()
    assert (refused.value.code, refused.value.details["cause"]) == (
        "ledger_invalid",
        "history_replaced",
    )
    assert (refused.value.details["seen"], refused.value.details["found"]) == (
        second.revision,
        first.revision,
    )
    assert f"git branch -f {REF.removeprefix('refs/heads/')} {second.revision}" in (
        refused.value.hint or ""
    )
    git(shape.path, "update-ref", REF, str(second.revision))
    assert GitStore(opened(shape.path)).read().data == ONE + TWO


def test_a_branch_that_was_moved_on_by_others_is_read(shape: Shape, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    appended(store, ONE)
    note = store._last_tip.path.read_bytes()
    appended(store, TWO)
    # As after a crash between the move and the note.
    store._last_tip.path.write_bytes(note)
    assert GitStore(opened(shape.path)).read().data == ONE + TWO
