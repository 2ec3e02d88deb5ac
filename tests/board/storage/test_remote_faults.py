"""Races, refusals, cuts and kills between a clone and its remote, with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callboard.board.storage.remote_refs import RemoteRefs
from callboard.board.storage.store import Appended
from callboard.board.storage.transport import RemoteAccess, Transport
from callboard.board.storage.writer_lock import WriterLock
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.storage import remote_appender
from tests.board.storage.contract import ONE, THREE, TWO, appended
from tests.board.storage.remotes import PRIVATE, REF, Open, Remote, refs, wrapper
from tests.board.storage.shapes import Git

FRENCH = """
"$REAL" "$@" 2> /dev/null
status=$?
echo "erreur : impossible de pousser des refs, rejet (non-avance-rapide)" >&2
exit $status"""


@pytest.fixture
def remote(tmp_path: Path, git: Git, opened: Open) -> Remote:
    return Remote(tmp_path, git, opened)


@pytest.mark.parametrize("words", ["its own", "French"])
def test_two_clones_append_twenty_each_at_once(
    remote: Remote, git: Git, tmp_path: Path, words: str
) -> None:
    environment = wrapper(tmp_path / "bin", FRENCH) if words == "French" else dict(os.environ)
    clones = [remote.clone("one"), remote.clone("two")]
    processes = [remote_appender.start(one, one.name, 20, environment) for one in clones]
    remote_appender.release(*processes)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    wanted = {(name, number) for name in ("one", "two") for number in range(20)}
    for clone in clones:
        lines = [json.loads(line) for line in remote.store(clone).read().data.splitlines()]
        assert len(lines) == 40
        assert {(line["by"], line["n"]) for line in lines} == wanted
        assert refs(git, clone)[PRIVATE] == remote.tip()
        assert git(clone, "rev-list", "--all", "--not", str(remote.tip()), "main") == ""
    git(remote.path, "fsck", "--strict")


def test_two_processes_of_one_clone_append_at_once(remote: Remote) -> None:
    clone = remote.clone("shared")
    processes = [remote_appender.start(clone, name, 8) for name in ("one", "two", "three")]
    remote_appender.release(*processes)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(set(remote.ledger().splitlines())) == 24


def test_a_race_for_the_first_append_has_one_winner(remote: Remote) -> None:
    processes = [remote_appender.start(remote.clone(name), name, 1) for name in ("one", "two")]
    remote_appender.release(*processes)
    for process in processes:
        process.communicate(timeout=120)
    assert len(set(remote.ledger().splitlines())) == 2


def test_one_board_s_lock_holds_up_no_other_board(remote: Remote, opened: Open) -> None:
    clone = remote.clone("writer")
    repository = opened(clone)
    appended(remote.store(clone), ONE)
    path = WriterLock(repository.common_dir, PRIVATE, None).path
    with path.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        other = remote.store(clone, branch="other-queue")
        assert appended(other, TWO).data == TWO
        assert time.monotonic() - began < 10
        with pytest.raises(CallboardError) as refused:
            remote.store(clone, timeout_s=0.2).read()
        assert refused.value.code == "remote_timeout"
    assert remote.ledger("other-queue") == TWO


@contextmanager
def truncating(path: Path) -> Iterator[None]:
    """Empty a file over and over for the length of the block."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(0.005):
            path.write_bytes(b"")

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_fetch_head_has_no_part_in_it(remote: Remote, git: Git) -> None:
    count = 200 if DEEP else 20
    clone = remote.clone("one")
    git(clone, "fetch", "-q", "origin", "main")
    one, other = remote.store(clone), remote.store(remote.clone("two"))
    with truncating(clone / ".git" / "FETCH_HEAD"):
        for number in range(count):
            store = one if number % 2 else other
            appended(store, f'{{"n":{number}}}\n'.encode())
    lines = [json.loads(line)["n"] for line in remote.ledger().splitlines()]
    assert lines == list(range(count))


# --- cut histories ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["shallow clone", "shallow fetch", "shallow and single branch"])
def test_a_clone_with_a_cut_history_reads_all_and_appends(
    remote: Remote, git: Git, how: str
) -> None:
    writer = remote.store(remote.clone("writer"))
    for lines in (ONE, TWO):
        appended(writer, lines)
    if how == "shallow clone":
        clone = remote.clone("cut", "--depth", "1", "--branch", "work-queue")
    elif how == "shallow fetch":
        clone = remote.clone("cut")
        git(clone, "fetch", "-q", "--depth", "1", "origin", f"{REF}:refs/heads/copy")
    else:
        clone = remote.clone("cut", "--depth", "1")
    store = remote.store(clone)
    assert store.read().data == ONE + TWO
    appended(store, THREE)
    appended(writer, ONE)
    assert store.read().data == remote.ledger() == ONE + TWO + THREE + ONE
    git(remote.path, "fsck", "--strict")
    assert git(remote.path, "rev-list", "--count", "work-queue") == "4"


@pytest.mark.parametrize("reason", ["a hook", "the cut history"])
def test_what_may_be_refused_for_a_cut_history_is_told_as_such(
    remote: Remote, git: Git, opened: Open, reason: str
) -> None:
    git(remote.root / "source", "commit", "-q", "--allow-empty", "-m", "second")
    git(remote.root / "source", "push", "-q", str(remote.path), "main")
    clone = remote.clone("cut", "--depth", "1")
    git(clone, "commit", "-q", "--allow-empty", "-m", "third")
    commit = git(clone, "rev-parse", "HEAD")
    if reason == "a hook":
        remote.hook("pre-receive", "exit 1")
    else:
        # The remote has forgotten what this clone's history begins with.
        orphan = git(remote.path, "commit-tree", "main^{tree}", "-m", "other")
        git(remote.path, "update-ref", "refs/heads/main", orphan)
        git(remote.path, "gc", "-q", "--prune=now")
    repository = opened(clone)
    made = RemoteRefs(repository, Transport(repository, RemoteAccess("origin", dict(os.environ))))
    with pytest.raises(CallboardError) as refused:
        made.create({"refs/heads/callboard/0123456789ab-1": commit})
    assert refused.value.code == "push_refused"
    assert refused.value.details["shallow"] is True
    assert "may not take" in refused.value.message
    assert "may be the cut history: git fetch --unshallow origin" in str(refused.value.hint)
    assert ("shallow" in str(refused.value.details["said"])) is (reason == "the cut history")
    # What needs no history from here is refused by a hook alone.
    blob = {"refs/callboard/artifacts/c_1/a": repository.write_blob(b"a")}
    if reason == "a hook":
        with pytest.raises(CallboardError) as refused:
            made.create(blob)
        assert refused.value.details["shallow"] is False
        assert "cut" not in refused.value.message + str(refused.value.hint)
    else:
        made.create(blob)


def test_a_hook_s_refusal_to_a_whole_clone_says_nothing_of_a_cut_history(
    remote: Remote, git: Git, opened: Open
) -> None:
    clone = remote.clone("whole")
    remote.hook("pre-receive", "exit 1")
    repository = opened(clone)
    made = RemoteRefs(repository, Transport(repository, RemoteAccess("origin", dict(os.environ))))
    with pytest.raises(CallboardError) as refused:
        made.create({"refs/heads/callboard/0123456789ab-1": git(clone, "rev-parse", "HEAD")})
    assert refused.value.code == "push_refused"
    assert refused.value.details["shallow"] is False
    assert "cut" not in refused.value.message + str(refused.value.hint)


# --- pushes that do not answer ---------------------------------------------------------------


def on_push(script: str) -> str:
    """A `git` that does `script` for a push, and is the real one for all else."""
    return f'case " $* " in *" push "*) {script};; esac\nexec "$REAL" "$@"'


def test_a_push_that_arrives_and_does_not_say_so_has_arrived(
    remote: Remote, tmp_path: Path
) -> None:
    environment = wrapper(tmp_path / "bin", on_push('"$REAL" "$@" > /dev/null; exit 128'))
    store = remote.store(remote.clone("writer"), environment=environment)
    tip = appended(store, ONE)
    assert tip.revision == remote.tip() == store.glimpse()


def test_a_push_that_stops_after_it_arrived_has_arrived(remote: Remote, tmp_path: Path) -> None:
    stop = 'set -m; "$REAL" "$@" > /dev/null; kill -STOP $$'
    environment = wrapper(tmp_path / "bin", on_push(stop))
    store = remote.store(remote.clone("writer"), environment=environment, timeout_s=1.5)
    assert appended(store, ONE).revision == remote.tip()


def test_a_push_that_stops_before_it_arrives_is_an_unknown_outcome(
    remote: Remote, tmp_path: Path
) -> None:
    environment = wrapper(tmp_path / "bin", on_push("kill -STOP $$"))
    clone = remote.clone("writer")
    store = remote.store(clone, environment=environment, timeout_s=1.0)
    base = store.read()
    with pytest.raises(CallboardError) as unknown:
        store.append(base, ONE, message="stopped")
    assert unknown.value.code == "outcome_unknown"
    # It could still arrive, so that what was made stays.
    assert len(list((clone / ".git" / "objects" / "pack").glob("*.keep"))) == 1
    assert remote.tip() is None
    assert appended(remote.store(clone), ONE).data == remote.ledger() == ONE


def test_a_remote_that_stops_within_a_push_keeps_nobody(remote: Remote, tmp_path: Path) -> None:
    clone = remote.clone("writer")
    appended(remote.store(clone), ONE)
    first = tmp_path / "first"
    remote.hook("pre-receive", f"test -e {first} && exit 0; touch {first}; kill -STOP $$")
    store = remote.store(clone, timeout_s=1.5)
    base = store.read()
    with pytest.raises(CallboardError) as unknown:
        store.append(base, TWO, message="stopped")
    assert unknown.value.code == "outcome_unknown"
    assert isinstance(store.append(store.read(), TWO, message="again"), Appended)
    assert remote.ledger() == ONE + TWO


def test_a_lock_that_another_writer_holds_on_the_remote_is_no_refusal(
    remote: Remote, tmp_path: Path
) -> None:
    lock, first = remote.path / "refs" / "heads" / "work-queue.lock", tmp_path / "first"
    script = (
        f'if ! test -e {first}; then touch {first} {lock}; "$REAL" "$@"; status=$?; rm {lock}; '
        "exit $status; fi"
    )
    clone = remote.clone("writer")
    appended(remote.store(clone), ONE)
    store = remote.store(clone, environment=wrapper(tmp_path / "bin", on_push(script)))
    assert appended(store, TWO).data == remote.ledger() == ONE + TWO
    assert first.exists()


def test_a_lock_left_behind_on_the_remote_is_a_refusal(remote: Remote) -> None:
    store = remote.store(remote.clone("writer"))
    base = appended(store, ONE)
    (remote.path / "refs" / "heads" / "work-queue.lock").touch()
    with pytest.raises(CallboardError) as refused:
        store.append(base, TWO, message="locked")
    assert refused.value.code == "push_refused"


def test_a_writer_killed_within_a_push_leaves_a_whole_ledger(
    remote: Remote, tmp_path: Path, git: Git
) -> None:
    writer = remote.clone("writer")
    appended(remote.store(writer), ONE)
    fifo = tmp_path / "reached"
    os.mkfifo(fifo)
    remote.hook("pre-receive", f"echo reached > {fifo}; read _ < {fifo}")
    process = remote_appender.start(writer, "killed", 5)
    remote_appender.release(process)
    assert fifo.read_text() == "reached\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    (remote.path / "hooks" / "pre-receive").unlink()
    fifo.write_text("go\n")
    # The push lost its writer and lives on, so that either it or the next append comes first.
    other = remote.store(remote.clone("other"))
    line = b'{"by":"other"}\n'
    while not isinstance(other.append(other.read(), line, message="other"), Appended):
        pass
    assert remote.ledger().startswith(ONE)
    assert remote.ledger().count(line) == 1
    assert remote.ledger().count(b"killed") <= 1
    assert remote.store(writer).read().data == remote.ledger()
    git(writer, "fsck", "--strict", "--connectivity-only")


def test_a_remote_out_of_reach_is_waited_for_where_that_is_asked(remote: Remote) -> None:
    store = remote.store(remote.clone("patient"), outage_s=60.0)
    appended(store, ONE)
    away = remote.root / "away"
    remote.path.rename(away)
    back = threading.Timer(0.5, lambda: away.rename(remote.path))
    back.start()
    assert store.read().data == ONE
    back.join()


# --- refs of our own -------------------------------------------------------------------------


def test_refs_are_made_once_and_brought_by_name(remote: Remote, git: Git, opened: Open) -> None:
    there, here = opened(remote.clone("one")), opened(remote.clone("two"))
    access = RemoteAccess("origin", dict(os.environ))
    one, two = (RemoteRefs(it, Transport(it, access)) for it in (there, here))
    blob, other = there.write_blob(b"first"), there.write_blob(b"other")
    names = [f"refs/callboard/artifacts/c_1/{name}" for name in ("a", "b", "c")]
    one.create({names[0]: blob})
    one.create(dict.fromkeys(names[:2], blob))
    one.create(dict.fromkeys(names[:2], blob))
    with pytest.raises(CallboardError) as refused:
        one.create({names[1]: other, names[2]: blob})
    assert refused.value.code == "remote_ref_conflict"
    assert refs(git, remote.path)[names[1]] == blob
    two.bring({name: name for name in (*names[:2], "refs/callboard/artifacts/c_1/none")})
    assert here.read_blob(blob, 100) == b"first"
    assert [here.read_ref(name) for name in names[:2]] == [blob, blob]


def test_a_branch_that_stands_is_never_moved_on(remote: Remote, git: Git, opened: Open) -> None:
    clone = remote.clone("one")
    repository = opened(clone)
    made = RemoteRefs(repository, Transport(repository, RemoteAccess("origin", dict(os.environ))))
    base = git(clone, "rev-parse", "HEAD")
    child = git(clone, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "next")
    made.create({"refs/heads/callboard/0123456789ab-1": base})
    with pytest.raises(CallboardError) as refused:
        made.create({"refs/heads/callboard/0123456789ab-1": child})
    assert refused.value.code == "remote_ref_conflict"
    assert refs(git, remote.path)["refs/heads/callboard/0123456789ab-1"] == base


def test_a_commit_is_brought_by_its_id(remote: Remote, git: Git, opened: Open) -> None:
    clone = remote.clone("two")
    source = remote.root / "source"
    git(source, "commit", "-q", "--allow-empty", "-m", "second")
    commit = git(source, "rev-parse", "HEAD")
    git(source, "push", "-q", str(remote.path), "HEAD:refs/heads/side")
    repository = opened(clone)
    brought = RemoteRefs(
        repository, Transport(repository, RemoteAccess("origin", dict(os.environ)))
    )
    assert brought.bring_commit(commit, f"refs/callboard/pins/{commit}")
    assert refs(git, clone)[f"refs/callboard/pins/{commit}"] == commit
    assert not brought.bring_commit("1" * 40, f"refs/callboard/pins/{'1' * 40}")
