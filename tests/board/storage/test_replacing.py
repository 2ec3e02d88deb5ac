"""A store that has read a ledger, and another process's replacement of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended, LedgerAt, LedgerTip
from callboard.errors import CallboardError
from tests.board.storage.contract import ONE, THREE, TWO, appended
from tests.board.storage.shapes import Git, Shape
from tests.board.storage.test_git import REF, install

Open = Callable[[Path], Repository]


class Said:
    """Takes a ledger for the successor of another one where a line of it names that one's commit,
    and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []

    def __call__(self, seen: bytes, found: bytes, ledger_at: LedgerAt) -> bool:
        self.asked.append((seen, found))
        name = found.split(b'"')[1].decode()
        return ledger_at(name).startswith(seen)


def standing_for(tip: LedgerTip) -> bytes:
    return b'{"%s":1}\n' % str(tip.revision).encode()


def replaced(store: GitStore, base: LedgerTip, data: bytes) -> LedgerTip:
    answer = store.replace(base, data, message="checkpoint")
    assert isinstance(answer, Appended)
    return answer.tip


def assert_refused(store: GitStore, seen: LedgerTip) -> None:
    for _look in range(2):
        with pytest.raises(CallboardError) as refused:
            store.read()
        assert refused.value.details["cause"] == "history_replaced"
        assert refused.value.details["seen"] == seen.revision


def test_a_reader_follows_a_replacement_that_stands_for_what_it_read(
    shape: Shape, opened: Open
) -> None:
    said = Said()
    reader = GitStore(opened(shape.path), succession=said)
    writer = GitStore(opened(shape.path))
    appended(writer, ONE)
    seen = reader.read()
    base = appended(writer, TWO)
    replaced(writer, base, standing_for(base))
    tip = appended(writer, THREE)
    assert reader.read() == tip
    assert said.asked == [(seen.data, tip.data)]
    assert appended(reader, TWO).data == tip.data + TWO


def test_git_sees_the_replaced_ledger_in_the_parent(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    base = appended(store, ONE + TWO)
    tip = replaced(store, base, THREE)
    assert git(shape.path, "rev-parse", f"{REF}^") == base.revision
    assert git(shape.path, "show", f"{REF}:work-queue.jsonl") + "\n" == THREE.decode()
    assert git(shape.path, "show", f"{REF}^:work-queue.jsonl") + "\n" == (ONE + TWO).decode()
    assert git(shape.path, "rev-parse", REF) == tip.revision
    git(shape.path, "fsck", "--strict")


def test_a_shorter_ledger_that_nothing_stands_for_is_refused(shape: Shape, opened: Open) -> None:
    reader = GitStore(opened(shape.path), succession=lambda *_: False)
    writer = GitStore(opened(shape.path))
    base = appended(writer, ONE + TWO)
    seen = reader.read()
    replaced(writer, base, ONE)
    assert_refused(reader, seen)


def test_a_successor_that_does_not_descend_is_refused(shape: Shape, git: Git, opened: Open) -> None:
    said = Said()
    reader = GitStore(opened(shape.path), succession=said)
    writer = GitStore(opened(shape.path))
    base = appended(writer, ONE + TWO)
    seen = reader.read()
    install(shape, git, {"work-queue.jsonl": standing_for(base)})
    assert_refused(reader, seen)
    assert said.asked == []


def test_a_branch_moved_back_behind_a_checkpoint_is_refused(
    shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path), succession=Said())
    base = appended(store, ONE + TWO)
    tip = replaced(store, base, standing_for(base))
    git(shape.path, "update-ref", REF, str(base.revision))
    assert_refused(store, tip)
    git(shape.path, "update-ref", REF, str(tip.revision))
    assert store.read() == tip


def test_a_commit_without_a_ledger_holds_no_history(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    appended(store, ONE)
    tree = git(shape.path, "mktree", stdin=b"")
    empty = git(shape.path, "commit-tree", tree, "-m", "empty")
    blob = git(shape.path, "hash-object", "-w", "--stdin", stdin=b"x")
    for name in (empty, blob, tree):
        with pytest.raises(CallboardError) as refused:
            store.ledger_at(name)
        assert refused.value.code == "history_unavailable"
