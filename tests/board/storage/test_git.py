"""The ledger on a Git branch: the contract in every shape, and all that must stay untouched."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.board.storage import rolling_store
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.storage import appender
from tests.board.storage.contract import (
    ONE,
    TWO,
    Bench,
    StoreContract,
    appended,
    assert_refused,
)
from tests.board.storage.shapes import SHAPES, Git, Shape

MOST_REPLACED = rolling_store._LINGERING
ROOT = Path(__file__).resolve().parents[3]
REF = "refs/heads/work-queue"
Open = Callable[[Path], Repository]
Fingerprint = Callable[[Path], dict[str, str]]


class _GitBench:
    def __init__(self, shape: Shape, git: Git, opened: Open) -> None:
        self._shape, self._git, self._opened = shape, git, opened

    def open(self) -> GitStore:
        return GitStore(self._opened(self._shape.path), clock=FixedClock(1_700_000_000_000))

    def install(self, data: bytes) -> None:
        install(self._shape, self._git, {"work-queue.jsonl": data})


def install(shape: Shape, git: Git, files: dict[str, bytes]) -> str:
    """Make `work-queue` a branch with one commit of exactly these files."""
    listing = b""
    for name, data in files.items():
        oid = git(shape.git_dir, "hash-object", "-w", "--stdin", stdin=data)
        listing += f"100644 blob {oid}\t{name}\n".encode()
    tree = git(shape.git_dir, "mktree", stdin=listing)
    commit = git(shape.git_dir, "commit-tree", tree, "-m", "made by hand")
    git(shape.git_dir, "update-ref", REF, commit)
    return commit


@pytest.mark.parametrize("shape_name", sorted(SHAPES), scope="class")
class TestGitStore(StoreContract):
    @pytest.fixture
    def bench(
        self,
        shape_name: str,
        make_shape: Callable[[str], Shape],
        git: Git,
        opened: Open,
    ) -> Bench:
        return _GitBench(make_shape(shape_name), git, opened)


@pytest.mark.parametrize("shape_name", sorted(SHAPES))
def test_git_agrees_with_what_was_written(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    store = GitStore(opened(shape.path), clock=FixedClock(1_700_000_000_999))
    first = appended(store, ONE)
    tip = appended(store, TWO)
    assert git(shape.git_dir, "rev-parse", REF) == tip.revision
    assert git(shape.git_dir, "show", f"{REF}:work-queue.jsonl") + "\n" == (ONE + TWO).decode()
    assert git(shape.git_dir, "log", "--format=%H %P", REF).split() == [
        tip.revision,
        first.revision,
        first.revision,
    ]
    who = "Callboard <callboard@callboard.invalid> 1700000000 append"
    assert git(shape.git_dir, "log", "-1", "--format=%an <%ae> %at %s", REF) == who
    assert git(shape.git_dir, "log", "-1", "--format=%cn <%ce> %ct %s", REF) == who
    git(shape.git_dir, "fsck", "--strict", "--no-dangling")
    assert "reflog" not in git(shape.git_dir, "reflog", "show", REF)


def test_other_files_on_the_branch_are_kept(shape: Shape, git: Git, opened: Open) -> None:
    install(shape, git, {"README": b"about\n", "work-queue.jsonl": ONE, "zz": b"last"})
    git(shape.path, "checkout", "-q", "work-queue")
    (shape.path / "tools").mkdir()
    (shape.path / "tools" / "run").write_text("#!/bin/sh\n")
    (shape.path / "tools" / "run").chmod(0o755)
    (shape.path / "link").symlink_to("README")
    git(shape.path, "add", "-A")
    git(shape.path, "update-index", "--chmod=+x", "work-queue.jsonl")
    git(shape.path, "commit", "-qm", "more files")
    git(shape.path, "checkout", "-qf", "main")
    before = git(shape.path, "ls-tree", "-r", REF).splitlines()
    appended(GitStore(opened(shape.path)), TWO)
    after = git(shape.path, "ls-tree", "-r", REF).splitlines()
    assert [line for line in before if "jsonl" not in line] == [
        line for line in after if "jsonl" not in line
    ]
    assert [line.split()[0] for line in after if "jsonl" in line] == ["100755"]


# --- branches that are no queue ------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_branch_of_the_project_is_refused(
    branch: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("worktree")
    before = git(shape.git_dir, "show-ref")
    store = GitStore(opened(shape.path), branch=branch)
    with pytest.raises(CallboardError) as refused:
        store.read()
    assert refused.value.code == "queue_branch_refused"
    with pytest.raises(CallboardError) as refused:
        store.append(LedgerTip(git(shape.git_dir, "rev-parse", branch), b""), ONE, message="x")
    assert refused.value.code == "queue_branch_refused"
    assert store.append(LedgerTip(None, b""), ONE, message="x") == LostRace()
    assert git(shape.git_dir, "show-ref") == before


def test_an_unborn_branch_that_is_checked_out_is_refused(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("unborn")
    store = GitStore(opened(shape.path), branch="main")
    with pytest.raises(CallboardError) as refused:
        store.append(store.read(), ONE, message="x")
    assert refused.value.code == "queue_branch_refused"
    assert git(shape.path, "count-objects") == "0 objects, 0 kilobytes"


def test_the_default_branch_of_origin_is_refused(
    shape: Shape, git: Git, opened: Open, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(shape.path, "branch", "-m", "main", "trunk")
    git(tmp_path, "clone", "-q", str(shape.path), str(clone))
    git(clone, "checkout", "-qb", "other")
    git(clone, "branch", "-D", "trunk")
    store = GitStore(opened(clone), branch="trunk")
    with pytest.raises(CallboardError) as refused:
        store.append(store.read(), ONE, message="x")
    assert refused.value.code == "queue_branch_refused"
    assert "trunk" in refused.value.message


@pytest.mark.parametrize("files", [{"README": b"x\n"}, {}])
def test_an_existing_branch_without_the_ledger_is_refused(
    files: dict[str, bytes], shape: Shape, git: Git, opened: Open
) -> None:
    commit = install(shape, git, files)
    store = GitStore(opened(shape.path))
    for act in (store.read, lambda: store.append(LedgerTip(commit, b""), ONE, message="x")):
        with pytest.raises(CallboardError) as refused:
            act()
        assert refused.value.code == "queue_branch_refused"
        assert "holds no 'work-queue.jsonl'" in refused.value.message
    assert git(shape.path, "rev-parse", REF) == commit


@pytest.mark.parametrize("entry", ["040000 tree", "120000 blob", "160000 commit"])
def test_a_ledger_that_is_no_regular_file_is_refused(
    entry: str, shape: Shape, git: Git, opened: Open
) -> None:
    oids = {
        "tree": git(shape.path, "rev-parse", "HEAD^{tree}"),
        "blob": git(shape.path, "rev-parse", "HEAD:README"),
        "commit": git(shape.path, "rev-parse", "HEAD"),
    }
    listing = f"{entry} {oids[entry.split()[1]]}\twork-queue.jsonl\n".encode()
    tree = git(shape.path, "mktree", stdin=listing)
    git(shape.path, "update-ref", REF, git(shape.path, "commit-tree", tree, "-m", "odd"))
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path)).read()
    assert_refused(refused.value, "file_not_regular", 1, 0)


def test_a_branch_that_is_another_name_is_refused(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "symbolic-ref", REF, "refs/heads/main")
    head = git(shape.path, "rev-parse", "main")
    store = GitStore(opened(shape.path))
    with pytest.raises(CallboardError) as refused:
        store.append(LedgerTip(head, b""), ONE, message="x")
    assert refused.value.code == "queue_branch_refused"
    assert git(shape.path, "rev-parse", "main") == head


@pytest.mark.parametrize(
    "branch", ["-x", "HEAD", "a..b", "a.lock", "", "a/", "\0", "a\udc80", "@{"]
)
def test_names_that_are_no_branch_are_refused(branch: str, shape: Shape, opened: Open) -> None:
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path), branch=branch)
    assert refused.value.code in ("ref_invalid", "queue_branch_refused")
    refused.value.message.encode()


@pytest.mark.parametrize("branch", ["b" * 251, "b" * 300, "a/" + "é" * 126, "b" * 251 + "/c"])
def test_a_part_of_a_name_that_no_lock_file_can_hold_is_refused(
    branch: str, shape: Shape, opened: Open
) -> None:
    longest = max(len(part.encode()) for part in branch.split("/"))
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path), branch=branch)
    assert refused.value.code == "ref_invalid"
    assert f"is {longest} bytes long, and Git can lock at most 250" in refused.value.message


def test_the_longest_name_that_git_takes_is_taken(shape: Shape, git: Git, opened: Open) -> None:
    branch = f"{'a' * 250}/{'é' * 125}"
    store = GitStore(opened(shape.path), branch=branch)
    assert appended(store, ONE).revision == git(shape.path, "rev-parse", f"refs/heads/{branch}")
    git(shape.path, "branch", branch.replace("é", "e"))
    assert git(shape.path, "branch", "b" * 251, check=False) == ""
    assert git(shape.path, "branch", "--list", "b*") == ""


def test_a_name_too_long_for_the_file_system_is_told_as_that(shape: Shape, opened: Open) -> None:
    store = GitStore(opened(shape.path), branch="/".join(["b" * 250] * 20))
    with pytest.raises(CallboardError) as refused:
        store.revision()
    assert refused.value.details["errno"] == "ENAMETOOLONG"
    assert "choose a shorter name" in refused.value.hint


@pytest.mark.parametrize("file", ["a/b", "../x", "", "."])
def test_names_that_are_no_top_level_file_are_refused(
    file: str, shape: Shape, opened: Open
) -> None:
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path), file=file)
    assert refused.value.code == "path_invalid"


def test_an_oversized_ledger_is_refused(shape: Shape, git: Git, opened: Open) -> None:
    install(shape, git, {"work-queue.jsonl": b"x" * (80 * 1024 * 1024) + b"\n"})
    with pytest.raises(CallboardError) as refused:
        GitStore(opened(shape.path)).read()
    assert refused.value.code == "ledger_invalid"
    assert refused.value.details["cause"] == "resource_limit"


# --- leaving everything else alone ---------------------------------------------------------------


def _failing_hooks(shape: Shape, git: Git, tmp_path: Path) -> Path:
    hooks, ran = tmp_path / "hooks", tmp_path / "ran"
    hooks.mkdir()
    names = (
        "pre-commit commit-msg post-commit post-checkout post-merge pre-push update"
        " reference-transaction post-index-change fsmonitor-watchman pre-receive post-rewrite"
    ).split()
    for folder in (hooks, shape.git_dir / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\necho {name} >>{ran}\nexit 1\n")
            (folder / name).chmod(0o755)
    git(shape.git_dir, "config", "core.hooksPath", str(hooks))
    git(shape.git_dir, "config", "core.fsmonitor", str(hooks / "fsmonitor-watchman"))
    return ran


@pytest.mark.parametrize("from_where", ["main tree", "worktree 1", "worktree 2", "git folder"])
def test_failing_hooks_are_not_run(
    from_where: str, make_shape: Callable[[str], Shape], git: Git, opened: Open, tmp_path: Path
) -> None:
    shape = make_shape("bare")
    for number in (1, 2):
        git(shape.path, "worktree", "add", "-q", "--detach", str(tmp_path / f"w{number}"))
    ran = _failing_hooks(shape, git, tmp_path)
    path = {
        "main tree": shape.path,
        "worktree 1": tmp_path / "w1",
        "worktree 2": tmp_path / "w2",
        "git folder": shape.path / "hooks",
    }[from_where]
    store = GitStore(opened(path))
    appended(store, ONE)
    assert appended(store, TWO).data == ONE + TWO
    assert not ran.exists()


def test_nothing_but_objects_and_the_ref_is_touched(
    shape: Shape, git: Git, opened: Open, fingerprint: Fingerprint, tmp_path: Path
) -> None:
    _failing_hooks(shape, git, tmp_path)
    (shape.path / ".gitattributes").write_text("*.jsonl filter=none\n")
    (shape.path / "README").write_text("half staged\n")
    git(shape.path, "-c", "core.fsmonitor=", "add", "README")
    (shape.path / "README").write_text("and more\n")
    (shape.git_dir / "FETCH_HEAD").write_text("something\n")
    before = fingerprint(shape.path)
    store = GitStore(opened(shape.path))
    for lines in (ONE, TWO, ONE):
        appended(store, lines)
    after = fingerprint(shape.path)
    allowed = (".git/objects/", ".git/callboard/", ".git/" + REF)
    assert {name for name in after.keys() ^ before.keys() if not name.startswith(allowed)} == set()
    assert {name: after[name] for name in before} == before


def test_git_variables_of_another_repository_have_no_influence(
    tmp_path: Path,
    git: Git,
    opened: Open,
    fingerprint: Fingerprint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = {}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shapes[name] = SHAPES["sha1"](tmp_path / name, git)
    a, b = shapes["a"], shapes["b"]
    appended(GitStore(opened(a.path)), TWO)
    before = fingerprint(a.path)
    for name, value in {
        "GIT_DIR": a.git_dir,
        "GIT_WORK_TREE": a.path,
        "GIT_INDEX_FILE": a.git_dir / "index",
        "GIT_OBJECT_DIRECTORY": a.git_dir / "objects",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": a.git_dir / "objects",
        "GIT_COMMON_DIR": a.git_dir,
        "GIT_NAMESPACE": "other",
        "GIT_CEILING_DIRECTORIES": b.path,
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "nonsense",
        "GIT_AUTHOR_NAME": "Mallory",
        "GIT_COMMITTER_DATE": "1 +0100",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(b.path)
    tip = appended(GitStore(opened(Path())), ONE)
    assert fingerprint(a.path) == before
    assert git(b.path, "rev-parse", REF) == tip.revision
    assert git(b.path, "log", "-1", "--format=%an", REF) == "Callboard"


def test_no_identity_is_needed_and_a_set_one_is_not_used(
    shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    appended(GitStore(opened(shape.path)), ONE)
    git(shape.path, "config", "user.name", "Mallory")
    git(shape.path, "config", "user.email", "mallory@example.invalid")
    git(shape.path, "config", "user.useConfigOnly", "true")
    git(shape.path, "config", "commit.gpgSign", "true")
    appended(GitStore(opened(shape.path)), TWO)
    assert set(git(shape.path, "log", "--format=%an %cn %G?", REF).splitlines()) == {
        "Callboard Callboard N"
    }


def test_other_locks_and_fetch_head_do_not_matter(shape: Shape, git: Git, opened: Open) -> None:
    for name in ("config.lock", "index.lock", "HEAD.lock", "packed-refs.lock", "shallow.lock"):
        (shape.git_dir / name).touch()
    over = threading.Event()

    def truncate() -> None:
        while not over.wait(0.005):
            (shape.git_dir / "FETCH_HEAD").write_bytes(b"")

    thread = threading.Thread(target=truncate)
    thread.start()
    try:
        store = GitStore(opened(shape.path))
        tips = [appended(store, b'{"n":%d}\n' % number) for number in range(200)]
    finally:
        over.set()
        thread.join()
    assert tips[-1].data == b"".join(b'{"n":%d}\n' % number for number in range(200))
    assert git(shape.path, "rev-list", "--count", REF) == "200"


# --- locks of the ref itself ---------------------------------------------------------------------


def test_a_busy_ref_lock_is_a_lost_race(shape: Shape, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    tip = appended(store, ONE)
    lock = shape.git_dir / f"{REF}.lock"
    lock.touch()
    assert store.append(tip, TWO, message="x") == LostRace()
    assert lock.exists()
    lock.unlink()
    assert appended(store, TWO).data == ONE + TWO


def test_a_stale_ref_lock_is_named_and_kept(shape: Shape, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    tip = appended(store, ONE)
    lock = shape.git_dir / f"{REF}.lock"
    lock.touch()
    os.utime(lock, (1_600_000_000, 1_600_000_000))
    with pytest.raises(CallboardError) as refused:
        store.append(tip, TWO, message="x")
    assert refused.value.code == "ref_locked"
    assert str(lock) in refused.value.hint
    assert refused.value.details == {"ref": REF, "lock": str(lock), "stale": True}
    assert lock.exists()
    assert store.read() == tip


def test_a_lock_on_one_ledger_does_not_hold_up_another(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    other = GitStore(repository, branch="other-queue")
    inside, done = threading.Event(), threading.Event()

    def slow() -> str:
        inside.set()
        assert done.wait(60)
        return repository.commit_file(None, "work-queue.jsonl", [ONE], message="x", at_ms=0)

    thread = threading.Thread(target=repository.move_ref, args=(REF, None, slow))
    thread.start()
    assert inside.wait(60)
    assert GitStore(repository).append(LedgerTip(None, b""), TWO, message="x") == LostRace()
    appended(other, ONE)
    done.set()
    thread.join()
    assert GitStore(repository).read().data == ONE


def test_git_writers_race_fairly(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    base = appended(store, ONE)
    assert base.revision is not None
    tree = git(shape.path, "rev-parse", f"{REF}^{{tree}}")
    commit = git(shape.path, "commit-tree", tree, "-p", base.revision, "-m", "by hand")
    git(shape.path, "update-ref", REF, commit, base.revision)
    assert store.append(base, TWO, message="x") == LostRace()
    git(shape.path, "pack-refs", "--all", "--prune")
    git(shape.path, "gc", "-q", "--prune=now")
    assert store.read() == LedgerTip(commit, ONE)
    tip = appended(store, TWO)
    git(shape.path, "update-ref", "-d", REF)
    assert store.append(tip, TWO, message="x") == LostRace()


# --- several processes, some of them killed ------------------------------------------------------


@pytest.mark.parametrize("shape_name", ["sha1", "sha256", "bare", "worktree"])
def test_contending_processes_land_once_each(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    running = [appender.start(shape.path, f"p{number}", 25) for number in range(4)]
    for process in running:
        assert len(process.communicate(timeout=120)[0].split()) == 25
        assert process.returncode == 0
    lines = GitStore(opened(shape.path)).read().data.decode().splitlines()
    assert sorted(lines) == sorted(
        f'{{"by":"p{number}","n":{count}}}' for number in range(4) for count in range(25)
    )
    assert git(shape.git_dir, "rev-list", "--count", "--first-parent", REF) == "100"
    assert "error" not in git(shape.git_dir, "fsck", "--strict", "--no-dangling")


def test_git_may_pack_refs_and_objects_meanwhile(shape: Shape, git: Git, opened: Open) -> None:
    running = [appender.start(shape.path, f"p{number}", 40) for number in range(2)]
    packed = 0
    while any(process.poll() is None for process in running):
        git(shape.path, "pack-refs", "--all", "--prune", check=False)
        git(shape.path, "repack", "-q", "-a", "-d")
        packed += 1
    for process in running:
        assert len(process.communicate(timeout=120)[0].split()) == 40
        assert process.returncode == 0
    assert packed > 2
    assert len(set(GitStore(opened(shape.path)).read().data.splitlines())) == 80
    git(shape.path, "fsck", "--strict", "--no-dangling")


def test_a_killed_writer_leaves_the_old_or_the_new_tip(
    shape: Shape, git: Git, opened: Open
) -> None:
    accepted: list[str] = []
    for round_number in range(12):
        name = f"k{round_number}"
        process = appender.start(shape.path, name, 10_000)
        assert process.stdout is not None
        seen = [line.strip() for line in itertools.islice(process.stdout, 1 + round_number % 5)]
        process.send_signal(signal.SIGKILL)
        # Not `communicate`, which would lose the lines that iterating has read ahead.
        seen += process.stdout.read().split()
        process.stdout.close()
        process.wait(60)
        accepted += [f'{{"by":"{name}","n":{number}}}' for number in seen]
        store = GitStore(opened(shape.path))
        lines = store.read().data.decode().splitlines()
        assert [line for line in lines if line not in accepted] in ([], lines[-1:])
        assert set(accepted) <= set(lines)
        accepted = lines
        tip = appended(store, b'{"after":%d}\n' % round_number)
        accepted.append(tip.data.decode().splitlines()[-1])
    git(shape.path, "fsck", "--strict", "--no-dangling")
    assert git(shape.path, "status", "--porcelain") == ""


_POINTS = (
    "os.link",
    "os.rename",
    "os.replace",
    "os.fsync",
    "os.open",
    "os.write",
    "pathlib.Path.unlink",
    "pathlib.Path.mkdir",
    "fcntl.flock",
)
_KILLED = """
import importlib, os, signal, sys
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
path, point, nth, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
module, _, name = point.rpartition(".")
owner = importlib.import_module(module.removesuffix(".Path"))
owner = owner.Path if module.endswith(".Path") else owner
real, calls = getattr(owner, name), [0]
def deadly(*args, **kwargs):
    calls[0] += 1
    if calls[0] == nth and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return real(*args, **kwargs)
    finally:
        if calls[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)
with Repository.discover(path) as repository:
    store = GitStore(repository)
    base = store.read()
    setattr(owner, name, deadly)
    store.append(base, b'{"killed":1}\\n', message="x")
"""


@pytest.mark.parametrize("point", _POINTS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("existing", [True, False])
def test_killed_at_any_step_the_next_append_goes_on(
    point: str, when: str, existing: bool, shape: Shape, git: Git, opened: Open
) -> None:
    base = b""
    if existing:
        base = appended(GitStore(opened(shape.path)), ONE).data
    for nth in itertools.count(1):
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(shape.path), point, str(nth), when],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")},
            check=False,
        )
        store = GitStore(opened(shape.path))
        found = store.read()
        assert found.data in (base, base + b'{"killed":1}\n')
        answer = store.append(found, TWO, message="x")
        assert isinstance(answer, Appended)
        base = answer.tip.data
        assert not list(shape.git_dir.rglob("refs/**/*.lock"))
        if done.returncode == 0:
            # Only the first append makes folders.
            assert nth > 1 or (existing and point.endswith("mkdir"))
            break
        assert done.returncode == -signal.SIGKILL
        if nth % 3 == 0:
            git(shape.path, "fsck", "--strict", "--full", "--no-dangling")
    # What was left behind has been cleared away.
    folder = shape.git_dir / "objects" / "pack"
    assert {path.suffix for path in folder.iterdir()} == {".pack", ".idx"}
    assert len(list(folder.iterdir())) <= 2 * (1 + MOST_REPLACED)
    # The note of where the branch was last is the one without a suffix.
    own = {path.suffix for path in (shape.git_dir / "callboard").iterdir()}
    assert own == {".lock", ".json", ""}
    git(shape.path, "fsck", "--strict", "--no-dangling")
    assert git(shape.path, "show", f"{REF}:work-queue.jsonl").encode() + b"\n" == base


# --- failing disks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("/tmp_pack_", "storage_failed"),
        ("/tmp_idx_", "storage_failed"),
        ("/objects/pack", "storage_failed"),
        (".pending", "storage_failed"),
        ("/refs/heads", "outcome_unknown"),
    ],
)
def test_a_disk_that_fails_is_told(
    what: str,
    code: str,
    shape: Shape,
    git: Git,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = GitStore(opened(shape.path))
    base = appended(store, ONE)
    real = os.fsync

    def failing(descriptor: int) -> None:
        if what in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(CallboardError) as refused:
            store.append(base, TWO, message="x")
    assert refused.value.code == code
    found = store.read()
    assert found.data == (ONE + TWO if code == "outcome_unknown" else ONE)
    assert not list(shape.git_dir.rglob("tmp_*"))
    assert not list(shape.git_dir.rglob("refs/**/*.lock"))
    assert appended(store, b'{"n":3}\n').data == found.data + b'{"n":3}\n'
    assert not list(shape.git_dir.rglob("*.pending"))
    git(shape.path, "fsck", "--strict", "--no-dangling")


def test_objects_and_folders_are_synced_before_the_ref_and_the_ref_before_success(
    shape: Shape, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GitStore(opened(shape.path))
    base = store.read()
    events: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append("sync " + os.path.relpath(path, shape.git_dir))
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        events.append("rename " + os.path.relpath(target, shape.git_dir))
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    answer = store.append(base, ONE, message="x")
    assert isinstance(answer, Appended)
    moved = events.index(f"rename {REF}")
    before, after = events[:moved], events[moved + 1 :]
    assert [event.split("_")[1] for event in before[:2]] == ["pack", "idx"]
    assert all(event.startswith("sync objects/pack/tmp_") for event in before[:2])
    assert before[2] == "sync objects/pack"
    assert after == ["sync refs/heads"]
    # Only then does the pack before go; this one stays until something replaces it.
    assert len(list((shape.git_dir / "objects" / "pack").glob("*.pack"))) == 1
