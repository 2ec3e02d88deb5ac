"""Git's maintenance at every moment of a write: folders, packed refs and pruned objects."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.errors import CallboardError
from tests.board.storage import appender
from tests.board.storage.contract import ONE, TWO, appended
from tests.board.storage.shapes import Git, Shape
from tests.waiting import until

BRANCH = "boards/deep/one"
REF = f"refs/heads/{BRANCH}"
Open = Callable[[Path], Repository]
Maintain = Callable[[], None]
# Every call of the operating system in which a write meets a folder or a file of the repository.
CALLS: list[tuple[ModuleType, str]] = [
    (os, "open"),
    (os, "mkdir"),
    (os, "utime"),
    (os, "fsync"),
    (os, "replace"),
    (os, "link"),
    (os, "rename"),
    (os, "unlink"),
    (fcntl, "flock"),
]


@contextmanager
def struck(
    monkeypatch: pytest.MonkeyPatch, calls: list[tuple[ModuleType, str]], nth: int, act: Maintain
) -> Iterator[list[str]]:
    """Run `act` once, just before the `nth` of these calls; gives the names of calls made."""
    made: list[str] = []

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            if len(made) == nth:
                patch.undo()
                act()
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for module, name in calls:
            patch.setattr(module, name, wrapped(name, getattr(module, name)))
        yield made


def drop_empty_folders(git_dir: Path) -> None:
    """What `repack -d`, `prune` and `pack-refs` do to folders, done to all of them."""
    for place in (git_dir / "objects", git_dir / "refs" / "heads"):
        for folder, _, _ in os.walk(place, topdown=False):
            if Path(folder) != place and Path(folder).name not in ("info", "pack"):
                try:
                    os.rmdir(folder)
                except OSError:
                    continue


def _maintenance(kind: str, shape: Shape, git: Git) -> Maintain:
    def folders() -> None:
        drop_empty_folders(shape.git_dir)

    def own_folder() -> None:
        shutil.rmtree(shape.git_dir / "callboard", ignore_errors=True)

    def pack() -> None:
        git(shape.path, "pack-refs", "--all", "--prune", check=False)
        git(shape.path, "repack", "-q", "-a", "-d")
        drop_empty_folders(shape.git_dir)

    return {"folders": folders, "own folder": own_folder, "pack": pack}[kind]


@pytest.mark.parametrize("kind", ["folders", "own folder", "pack"])
@pytest.mark.parametrize("existing", [True, False])
def test_an_append_stands_whenever_maintenance_strikes(
    kind: str,
    existing: bool,
    shape: Shape,
    git: Git,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = GitStore(opened(shape.path), BRANCH)
    appended(store, ONE)
    maintain = _maintenance(kind, shape, git)
    for nth in itertools.count(1):
        if not existing:
            git(shape.path, "update-ref", "-d", REF)
            # As the message about a branch that is gone says, for a new board.
            for note in (shape.git_dir / "callboard").glob("tip-*"):
                note.unlink()
            store = GitStore(opened(shape.path), BRANCH)
        _maintenance("pack", shape, git)()
        assert not (shape.git_dir / "refs" / "heads" / "boards").exists()
        base, line = store.read(), b'{"nth":%d}\n' % nth
        with struck(monkeypatch, CALLS, nth, maintain) as made:
            answer = store.append(base, line, message="x")
        assert isinstance(answer, Appended)
        assert GitStore(opened(shape.path), BRANCH).read().data == base.data + line
        assert not list(shape.git_dir.rglob("*.pending"))
        assert not list(shape.git_dir.glob("refs/**/*.lock"))
        if len(made) < nth:
            assert {"open", "mkdir", "fsync", "replace", "link", "rename", "flock"} <= set(made)
            break
    git(shape.path, "fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("again", [True, False])
def test_a_blob_pruned_while_it_is_written_is_written_again(
    again: bool, shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = opened(shape.path)

    def prune() -> None:
        git(shape.path, "prune", "--expire=now")

    for nth in itertools.count(1):
        data = b"blob %d" % nth
        if again:
            repository.write_blob(data)
        with struck(monkeypatch, CALLS, nth, prune) as made:
            oid = repository.write_blob(data)
        assert repository.read_blob(oid, 100) == data
        if len(made) < nth:
            assert ("utime" if again else "replace") in made
            break


def test_a_ledger_pruned_before_its_ref_is_written_again(
    shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GitStore(opened(shape.path), BRANCH)
    base = appended(store, ONE)

    def prune() -> None:
        git(shape.path, "prune", "--expire=now")

    # The third is the commit's: the ledger and the tree are there, and nothing names them.
    with struck(monkeypatch, [(os, "replace")], 3, prune) as made:
        assert isinstance(store.append(base, TWO, message="x"), Appended)
    assert len(made) == 3
    assert GitStore(opened(shape.path), BRANCH).read().data == ONE + TWO
    git(shape.path, "fsck", "--strict", "--no-dangling")


def test_a_ref_packed_right_after_its_move_is_no_unknown_outcome(
    shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GitStore(opened(shape.path), BRANCH)
    tips = []

    def pack() -> None:
        git(shape.path, "pack-refs", "--all", "--prune")
        assert not (shape.git_dir / "refs" / "heads" / "boards").exists()
        tips.append(git(shape.path, "rev-parse", REF))

    # After the rename the pending file is discarded, and only then are folders synced.
    with struck(monkeypatch, [(os, "unlink")], 1, pack):
        answer = store.append(store.read(), ONE, message="x")
    assert isinstance(answer, Appended)
    assert tips == [answer.tip.revision]


def test_a_writer_whose_lock_was_deleted_is_not_taken_for_dead(
    shape: Shape, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = opened(shape.path), opened(shape.path)
    folder = shape.git_dir / "callboard"
    begun, linked = threading.Event(), threading.Event()
    answers: list[bool | str] = []
    commits = [first.commit_file(None, "x", [b"%d" % n], message="x", at_ms=0) for n in range(2)]

    def second_new() -> str:
        begun.set()
        assert linked.wait(60)
        return commits[1]

    def second_moves() -> None:
        try:
            answers.append(second.move_ref(REF, None, second_new))
        except CallboardError as error:
            answers.append(error.code)

    thread = threading.Thread(target=second_moves)

    def first_new() -> str:
        # Both now hold a lock of the same name.
        shutil.rmtree(folder)
        thread.start()
        assert begun.wait(60)
        return commits[0]

    def before_the_rename() -> None:
        linked.set()
        until(lambda: len(list(folder.glob("*.pending"))) >= 2, timeout_s=60)

    with struck(monkeypatch, [(os, "rename")], 1, before_the_rename):
        assert first.move_ref(REF, None, first_new) is True
        thread.join()
    assert first.read_ref(REF) == commits[0]
    assert answers in ([False], ["ref_locked"])


def test_a_repository_that_is_gone_stays_gone(shape: Shape, opened: Open) -> None:
    store = GitStore(opened(shape.path), BRANCH)
    repository = opened(shape.path)
    base = appended(store, ONE)
    assert base.revision is not None
    shutil.rmtree(shape.path)
    for act in (
        lambda: repository.write_blob(b"x"),
        lambda: repository.move_ref(REF, None, lambda: str(base.revision)),
    ):
        with pytest.raises(CallboardError) as refused:
            act()
        assert refused.value.code == "storage_failed"
        assert refused.value.details["errno"] == "ENOENT"
        assert "free space" not in refused.value.hint
        assert not shape.path.exists()


def test_the_worktrees_may_vanish_while_they_are_listed(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    worktrees = shape.git_dir / "worktrees"
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            (worktrees / "one").mkdir(parents=True)
            shutil.rmtree(worktrees)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(2000):
            assert repository.checkout_of("side") is None
    finally:
        over.set()
        thread.join()


def test_writers_beside_ceaseless_maintenance_land_once_each(
    shape: Shape, git: Git, opened: Open
) -> None:
    each = 40
    running = [appender.start(shape.path, f"p{number}", each, BRANCH) for number in range(2)]
    over = threading.Event()

    def sweep() -> None:
        while not over.is_set():
            drop_empty_folders(shape.git_dir)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for command in itertools.cycle(
            (
                ["pack-refs", "--all"],
                ["repack", "-qad"],
                ["gc", "-q"],
                ["multi-pack-index", "write"],
                ["prune", "--expire=now"],
                ["repack", "-qAd", "--write-midx"],
                ["prune-packed"],
                ["gc", "-q", "--prune=now"],
            )
        ):
            if all(process.poll() is not None for process in running):
                break
            # What Git itself makes of a swept folder is no matter here.
            git(shape.path, *command, check=False)
        outcomes = [_ended(process) for process in running]
    finally:
        over.set()
        sweeper.join()
    assert outcomes == [(0, each)] * 2
    lines = GitStore(opened(shape.path), BRANCH).read().data.splitlines()
    assert len(lines) == len(set(lines)) == 2 * each
    # One that was written of packs that are gone by now, the next append removes.
    appended(GitStore(opened(shape.path), BRANCH), ONE)
    git(shape.path, "fsck", "--strict", "--no-dangling")


def _ended(process: subprocess.Popen[str]) -> tuple[int, int]:
    said = process.communicate(timeout=120)[0]
    return process.returncode, len(said.split())
