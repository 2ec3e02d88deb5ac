"""The ledger on a remote: the contract of stores, what is fetched and pushed, and what is not."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from callboard.board.storage.remote import RemoteStore
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.board.storage.transport import RemoteAccess, Transport
from callboard.errors import CallboardError
from tests.board.storage.contract import ONE, THREE, TWO, Bench, StoreContract, appended
from tests.board.storage.remotes import PRIVATE, REF, Open, Remote, refs, wrapper
from tests.board.storage.shapes import Git


@pytest.fixture
def remote(tmp_path: Path, git: Git, opened: Open) -> Remote:
    return Remote(tmp_path, git, opened)


def refusal(store: RemoteStore, lines: bytes = ONE) -> CallboardError:
    """What an append behind the present tip is refused with."""
    base = store.read()
    with pytest.raises(CallboardError) as refused:
        store.append(base, lines, message="refused")
    return refused.value


def objects(clone: Path) -> list[Path]:
    """Every file below the clone's objects, a `.keep` too."""
    return sorted(path for path in (clone / ".git" / "objects").rglob("*") if path.is_file())


class _RemoteBench:
    """Every handle is in a clone of its own, as on another machine."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._count = 0

    def open(self) -> RemoteStore:
        self._count += 1
        return self._remote.store(self._remote.clone(f"clone{self._count}"))

    def install(self, data: bytes) -> None:
        self._remote.install(data)


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], scope="class")
class TestRemoteStore(StoreContract):
    @pytest.fixture
    def bench(self, options: tuple[str, ...], tmp_path: Path, git: Git, opened: Open) -> Bench:
        return _RemoteBench(Remote(tmp_path, git, opened, *options))


def test_a_read_writes_one_private_ref_and_nothing_else(remote: Remote, git: Git) -> None:
    appended(remote.store(remote.clone("writer")), ONE)
    clone = remote.clone("reader", "--single-branch", "--branch", "main")
    git(remote.path, "tag", "v1", "work-queue")
    before = refs(git, clone)
    files = {path: path.read_bytes() for path in (clone / ".git").glob("*") if path.is_file()}
    assert remote.store(clone).read().data == ONE
    assert refs(git, clone) == {**before, PRIVATE: str(remote.tip())}
    after = {path: path.read_bytes() for path in (clone / ".git").glob("*") if path.is_file()}
    assert files == after


def test_an_append_moves_the_private_ref_to_what_the_remote_has(remote: Remote, git: Git) -> None:
    clone = remote.clone("writer")
    store = remote.store(clone)
    tip = appended(store, ONE)
    assert tip.revision == remote.tip() == refs(git, clone)[PRIVATE] == store.glimpse()
    assert REF not in refs(git, clone)
    assert remote.ledger() == ONE
    assert git(remote.path, "log", "-1", "--format=%an <%ae>", "work-queue") == (
        "Callboard <callboard@callboard.invalid>"
    )


def test_an_append_upon_the_known_tip_is_one_push(remote: Remote, tmp_path: Path, git: Git) -> None:
    log = tmp_path / "calls"
    script = f'for word; do case $word in push|fetch|ls-remote) echo "$word" >> {log};; esac; done'
    environment = wrapper(tmp_path / "bin", f'{script}\nexec "$REAL" "$@"')
    store = remote.store(remote.clone("writer"), environment=environment)
    tip = appended(store, ONE)
    log.write_text("")
    for lines in (TWO, THREE):
        answer = store.append(tip, lines, message="append")
        assert isinstance(answer, Appended)
        tip = answer.tip
    assert log.read_text().split() == ["push", "push"]
    assert remote.ledger() == ONE + TWO + THREE


def test_a_race_is_lost_to_another_clone(remote: Remote, git: Git) -> None:
    one, two = remote.clone("one"), remote.clone("two")
    first, second = remote.store(one), remote.store(two)
    tip = appended(first, ONE)
    assert second.read() == tip
    appended(first, TWO)
    files = objects(two)
    assert second.append(tip, THREE, message="late") == LostRace()
    assert objects(two) == files
    assert remote.ledger() == ONE + TWO
    assert appended(second, THREE).data == ONE + TWO + THREE
    assert local_only(git, two) == []


def local_only(git: Git, clone: Path) -> list[str]:
    """Commits that a ref of the clone reaches and no branch of the remote does."""
    git(clone, "fetch", "-q", "origin")
    reachable = git(clone, "rev-list", "--all", "--not", "--remotes=origin")
    return reachable.split()


def test_a_board_that_was_set_back_is_not_restored_by_an_append(remote: Remote, git: Git) -> None:
    store = remote.store(remote.clone("writer"))
    first = appended(store, ONE)
    tip = appended(store, TWO)
    git(remote.path, "update-ref", REF, str(first.revision))
    assert store.append(tip, THREE, message="late") == LostRace()
    assert remote.ledger() == ONE
    with pytest.raises(CallboardError) as refused:
        store.read()
    assert refused.value.code == "ledger_invalid"
    assert refused.value.details["cause"] == "history_replaced"


def test_a_board_that_was_removed_is_not_revived_by_an_append(remote: Remote, git: Git) -> None:
    store = remote.store(remote.clone("writer"))
    tip = appended(store, ONE)
    git(remote.path, "update-ref", "-d", REF)
    assert store.append(tip, TWO, message="late") == LostRace()
    assert remote.tip() is None


def test_a_server_that_takes_only_fast_forwards_takes_every_append(
    remote: Remote, git: Git
) -> None:
    git(remote.path, "config", "receive.denyNonFastForwards", "true")
    git(remote.path, "config", "receive.denyDeletes", "true")
    remote.hook("update", 'case $2 in 0*) ;; *) git merge-base --is-ancestor "$2" "$3";; esac')
    one, two = remote.store(remote.clone("one")), remote.store(remote.clone("two"))
    for store, lines in ((one, ONE), (two, TWO), (one, THREE)):
        appended(store, lines)
    assert remote.ledger() == ONE + TWO + THREE
    assert git(remote.path, "rev-list", "--count", "work-queue") == "3"


@pytest.mark.parametrize(
    "name",
    ["", "-f", "--upload-pack=x", "https://host/x.git", "../hub.git", "a b", "a:b", "x.lock"],
)
def test_only_a_plain_name_is_a_remote(remote: Remote, name: str) -> None:
    with pytest.raises(CallboardError) as refused:
        remote.store(remote.clone("reader"), name=name)
    assert refused.value.code == "remote_invalid"


def test_a_remote_that_is_not_configured_is_refused_by_name(remote: Remote) -> None:
    clone = remote.clone("reader")
    # A folder of that name would be taken for the remote by git itself.
    remote.git(remote.root, "clone", "-q", "--bare", str(remote.path), str(clone / "elsewhere"))
    with pytest.raises(CallboardError) as refused:
        remote.store(clone, name="elsewhere").read()
    assert refused.value.code == "remote_unknown"
    assert "'elsewhere'" in refused.value.message


def test_a_remote_out_of_reach_is_no_empty_board(remote: Remote) -> None:
    store = remote.store(remote.clone("reader"))
    tip = appended(store, ONE)
    remote.path.rename(remote.root / "away")
    for look in (store.revision, store.read):
        with pytest.raises(CallboardError) as refused:
            look()
        assert refused.value.code == "remote_unreachable"
    with pytest.raises(CallboardError) as unknown:
        store.append(tip, TWO, message="lost")
    assert unknown.value.code == "outcome_unknown"


def test_half_an_answer_is_no_empty_board(remote: Remote, tmp_path: Path) -> None:
    flood = 'case " $* " in *" ls-remote "*) head -c 5000000 /dev/zero;; esac\nexec "$REAL" "$@"'
    appended(remote.store(remote.clone("writer")), ONE)
    store = remote.store(remote.clone("reader"), environment=wrapper(tmp_path / "bin", flood))
    with pytest.raises(CallboardError) as refused:
        store.revision()
    assert refused.value.code == "git_output_limit"


def test_a_push_that_says_too_much_is_looked_after(remote: Remote, tmp_path: Path) -> None:
    flood = 'case " $* " in *" push "*) "$REAL" "$@"; exec yes;; esac\nexec "$REAL" "$@"'
    store = remote.store(remote.clone("writer"), environment=wrapper(tmp_path / "bin", flood))
    assert appended(store, ONE).revision == remote.tip()


def test_offline_shows_what_was_read_last_and_writes_nothing(remote: Remote) -> None:
    clone = remote.clone("reader")
    with pytest.raises(CallboardError) as refused:
        remote.store(clone, offline=True).read()
    assert refused.value.code == "queue_not_fetched"
    tip = appended(remote.store(clone), ONE)
    remote.path.rename(remote.root / "away")
    store = remote.store(clone, offline=True)
    assert store.read() == tip
    assert store.revision() == tip.revision
    assert store.seen_ms() == 1_700_000_000_000
    for write in (store.check_writable, lambda: store.append(tip, TWO, message="no")):
        with pytest.raises(CallboardError) as refused:
            write()
        assert refused.value.code == "board_offline"


def test_a_refused_push_ends_at_once_and_leaves_nothing(
    remote: Remote, git: Git, tmp_path: Path
) -> None:
    clone = remote.clone("writer")
    store = remote.store(clone)
    appended(store, ONE)
    before, tip = refs(git, clone), remote.tip()
    files = objects(clone)
    count = tmp_path / "count"
    remote.hook("pre-receive", f'echo x >> {count}; echo "GH006 protected branch" >&2; exit 1')
    error = refusal(store, TWO)
    assert objects(clone) == files
    assert error.code == "push_refused"
    assert error.details["ref"] == REF
    assert "GH006 protected branch" in str(error.details["said"])
    assert count.read_text() == "x\nx\n"
    assert refs(git, clone) == before
    assert remote.tip() == tip == before[PRIVATE]
    for _ in range(3):
        refusal(store, TWO)
    refusal(remote.store(clone), TWO)
    assert objects(clone) == files
    (remote.path / "hooks" / "pre-receive").unlink()
    assert appended(store, TWO).data == ONE + TWO
    git(clone, "fsck", "--strict")


def taken(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def test_a_reader_of_a_growing_board_stays_bounded(
    remote: Remote, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.board.storage.remote._UNTIDY_BYTES", 0)
    writer = remote.store(remote.clone("writer"))
    noise = b"".join(os.urandom(500).hex().encode() + b"\n" for _ in range(200))
    appended(writer, noise)
    clone = remote.clone("reader", "--single-branch", "--branch", "main")
    store = remote.store(clone)
    store.read()
    ledger_bytes = taken(objects(clone))
    assert ledger_bytes > 100_000
    most = 0
    for number in range(40):
        tip = appended(writer, b'{"n":%d}\n' % number)
        # Another process knows of the fetches of this one.
        store = store if number % 3 else remote.store(clone)
        assert store.read() == tip
        most = max(most, taken(objects(clone)))
    # The fetches since the last tidying as they came, and one whole ledger of each tidying before.
    assert most < (9 + 5 + 1) * ledger_bytes
    loose = [path for path in objects(clone) if len(path.parent.name) == 2]
    assert len(loose) < 3 * 9 + 10
    git(clone, "fsck", "--strict")
    assert git(clone, "rev-list", "--count", PRIVATE) == "41"
    assert store.ledger_at(git(clone, "rev-parse", f"{PRIVATE}~40")) == noise


def test_a_reader_that_cannot_tidy_up_reads_on(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.board.storage.remote._UNTIDY_BYTES", 0)
    tried = tmp_path / "tried"
    script = f'case " $* " in *" repack "*) echo x >> {tried}; exit 128;; esac; exec "$REAL" "$@"'
    writer, clone = remote.store(remote.clone("writer")), remote.clone("reader")
    store = remote.store(clone, environment=wrapper(tmp_path / "bin", script))
    for number in range(20):
        tip = appended(writer, b'{"n":%d}\n' % number)
        assert store.read() == tip
        if number == 15:
            store._brought_file.write_bytes(b"no number")
    assert tried.read_text() == "x\n"
    appended(store, ONE)


def test_a_board_is_never_the_remotes_own_line_of_work(remote: Remote, git: Git) -> None:
    clone = remote.clone("known")
    with pytest.raises(CallboardError) as refused:
        remote.store(clone, branch="main").read()
    assert refused.value.code == "queue_branch_refused"
    git(clone, "remote", "set-head", "origin", "--delete")
    git(remote.path, "symbolic-ref", "HEAD", "refs/heads/trunk")
    store = remote.store(clone, branch="trunk")
    base = store.read()
    git(remote.path, "update-ref", "refs/heads/trunk", "main")
    with pytest.raises(CallboardError) as refused:
        store.append(base, ONE, message="no")
    assert refused.value.code == "queue_branch_refused"


def test_hooks_and_helpers_of_the_clone_are_not_run(remote: Remote, tmp_path: Path) -> None:
    clone = remote.clone("writer")
    mark = tmp_path / "ran"
    for name in ("pre-push", "reference-transaction", "post-update", "pre-auto-gc"):
        hook = clone / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {mark}\nexit 1\n")
        hook.chmod(0o755)
    asking = wrapper(tmp_path / "bin", 'exec "$REAL" "$@"') | {
        "GIT_ASKPASS": str(clone / ".git" / "hooks" / "pre-push"),
        "SSH_ASKPASS": str(clone / ".git" / "hooks" / "pre-push"),
    }
    store = remote.store(clone, environment=asking)
    appended(store, ONE)
    remote.store(remote.clone("other")).read()
    appended(store, TWO)
    assert not mark.exists()


def test_settings_that_would_bend_a_push_or_a_fetch_do_not(remote: Remote, git: Git) -> None:
    clone = remote.clone("writer")
    for setting in (
        "remote.origin.mirror=true", "push.followTags=true", "push.gpgSign=true",
        "fetch.prune=true", "fetch.pruneTags=true", "remote.origin.tagOpt=--tags",
        "submodule.recurse=true", "push.recurseSubmodules=on-demand", "push.default=matching",
        "core.logAllRefUpdates=always", "commit.gpgSign=true", "transfer.fsckObjects=true",
    ):  # fmt: skip
        git(clone, "config", *setting.split("="))
    git(clone, "tag", "-a", "mine", "-m", "mine")
    store = remote.store(clone)
    appended(store, ONE)
    appended(store, TWO)
    assert set(refs(git, remote.path)) == {"refs/heads/main", REF}
    assert "refs/tags/mine" in refs(git, clone)
    assert not (clone / ".git" / "logs" / PRIVATE).exists()


def test_variables_of_another_repository_do_not_reach_in(
    remote: Remote, git: Git, tmp_path: Path
) -> None:
    other = remote.clone("other")
    (tmp_path / "config").write_text("[core]\n\tworktree = /nowhere\n")
    foreign = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_NAMESPACE": "else",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "remote.origin.url",
        "GIT_CONFIG_VALUE_0": "/nowhere",
        "GIT_QUARANTINE_PATH": "/nowhere",
        "GIT_EXEC_PATH": "/nowhere",
    }
    before = refs(git, other)
    clone = remote.clone("writer")
    environment = wrapper(tmp_path / "bin", 'exec "$REAL" "$@"') | foreign
    appended(remote.store(clone, environment=environment), ONE)
    assert remote.ledger() == ONE
    assert refs(git, other) == before


def test_a_relative_address_is_meant_from_the_work_tree(
    remote: Remote, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = remote.clone("writer")
    (clone / "deep").mkdir()
    git(clone, "remote", "set-url", "origin", "../hub.git")
    monkeypatch.chdir("/")
    appended(remote.store(clone / "deep"), ONE)
    assert remote.ledger() == ONE


@pytest.mark.parametrize("where", ["bare", "linked"])
def test_a_board_on_a_remote_in_other_shapes(remote: Remote, git: Git, where: str) -> None:
    clone = remote.clone("writer", *(["--bare"] if where == "bare" else []))
    if where == "linked":
        git(clone, "worktree", "add", "-q", "-b", "side", str(remote.root / "linked"))
        clone = remote.root / "linked"
    store = remote.store(clone)
    appended(store, ONE)
    assert appended(store, TWO).data == remote.ledger() == ONE + TWO


def test_a_plain_clone_never_shows_a_board_of_its_remote_as_empty(
    remote: Remote, opened: Open
) -> None:
    from callboard.board.storage.git import GitStore

    appended(remote.store(remote.clone("writer")), ONE)
    store = GitStore(opened(remote.clone("plain")))
    for ask in (store.read, lambda: store.append(LedgerTip(None, b""), TWO, message="fork")):
        with pytest.raises(CallboardError) as refused:
            ask()
        assert refused.value.code == "queue_not_fetched"
        assert "callboard --remote origin status" in str(refused.value.hint)


def test_a_call_that_takes_too_long_is_stopped_with_all_it_started(
    remote: Remote, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    environment = wrapper(
        tmp_path / "bin",
        'case " $* " in *" ls-remote "*) '
        f"sh -c 'trap \"\" TERM; echo $$ >> {pids}; while :; do sleep 5; done' & "
        f'echo $$ >> {pids}; wait;; esac\nexec "$REAL" "$@"',
    )
    clone = remote.clone("reader")
    store = remote.store(clone, environment=environment, timeout_s=0.5)
    with pytest.raises(CallboardError) as refused:
        store.revision()
    assert refused.value.code == "remote_timeout"
    started = [int(line) for line in pids.read_text().split()]
    assert started
    deadline = time.monotonic() + 20
    while any(_runs(pid) for pid in started):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_a_user_s_own_ssh_is_kept_and_another_never_asks(remote: Remote, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'echo "${{GIT_SSH_COMMAND-none}}|$GIT_TERMINAL_PROMPT" >> {seen}; exec "$REAL" "$@"'
    environment = wrapper(tmp_path / "bin", f'case " $* " in *" ls-remote "*) {script};; esac\n'
                          'exec "$REAL" "$@"')  # fmt: skip
    clone = remote.clone("reader")
    remote.store(clone, environment=environment).revision()
    remote.store(clone, environment={**environment, "GIT_SSH_COMMAND": "mine"}).revision()
    remote.git(clone, "config", "core.sshCommand", "theirs")
    remote.store(clone, environment=environment).revision()
    assert seen.read_text().split("\n")[:3] == ["ssh -o BatchMode=yes|0", "mine|0", "none|0"]


def test_a_question_about_the_remote_that_was_killed_is_no_answer(
    remote: Remote, tmp_path: Path
) -> None:
    killed = 'case " $* " in *" --get-regexp "*) kill -9 $$;; esac\nexec "$REAL" "$@"'
    store = remote.store(remote.clone("reader"), environment=wrapper(tmp_path / "bin", killed))
    with pytest.raises(CallboardError) as refused:
        store.revision()
    assert refused.value.code == "remote_unreachable"


def test_the_transport_needs_git(remote: Remote, opened: Open) -> None:
    clone = opened(remote.clone("reader"))
    with pytest.raises(CallboardError) as refused:
        Transport(clone, RemoteAccess("origin", {"PATH": "/nowhere"}))
    assert refused.value.code == "git_missing"


@pytest.mark.parametrize("how", ["removed", "set back", "another"])
def test_a_new_process_knows_what_this_clone_has_seen(remote: Remote, git: Git, how: str) -> None:
    clone = remote.clone("clone")
    store = remote.store(clone)
    first = appended(store, ONE)
    second = appended(store, TWO)
    if how == "removed":
        git(remote.path, "update-ref", "-d", REF)
    elif how == "set back":
        git(remote.path, "update-ref", REF, str(first.revision))
    else:
        git(remote.path, "update-ref", "-d", REF)
        appended(remote.store(remote.clone("other")), THREE)
    later = remote.store(clone)
    for _look in range(2):
        with pytest.raises(CallboardError) as refused:
            later.read()
        error = refused.value
        assert (error.code, error.details["cause"]) == ("ledger_invalid", "history_replaced")
        assert error.details["seen"] == second.revision
        assert str(second.revision) in error.hint
        assert refs(git, clone)[PRIVATE] == second.revision
    # What was on purpose is taken once this clone has been told.
    git(clone, "update-ref", "-d", PRIVATE)
    assert remote.store(clone).read().revision != second.revision
