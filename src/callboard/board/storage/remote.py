"""The ledger as one file on one branch of a Git remote, appended to by pushes that must not race.

The remote's branch is the authority. A private ref of this clone keeps what was last seen of it,
for the objects' sake and for a look without a network; it is only ever moved to what the remote
has. No branch, no remote-tracking ref and no FETCH_HEAD is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from callboard.board.storage.git import LEDGER_FILE, GitStore
from callboard.board.storage.git_child import Ended
from callboard.board.storage.refs import check_name
from callboard.board.storage.remote_refusals import (
    board_offline,
    fetch_failed,
    history_lost,
    nothing_fetched,
    push_refused,
    push_unknown,
    remote_timeout,
)
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import LedgerTip, Succession, no_succession
from callboard.board.storage.transport import Transport, Update
from callboard.board.storage.writer_lock import Busy, Patience, WriterLock
from callboard.clock import Clock
from callboard.errors import CallboardError

PRIVATE = "refs/callboard/remotes/"
_FETCHES = 3
_PUSHES = 2
_UNTIDY_BYTES = 32 * 1024 * 1024
_UNTIDY_FETCHES = 8
_COUNT_DIGITS = 20


class RemoteStore(GitStore):
    """A `LedgerStore` on the remote's `refs/heads/<branch>`, thread-safe.

    A look or a read asks the remote, whatever is known already. An append upon the tip that this
    store knows last asks nobody: the push itself is the comparison. `offline` reads the private
    ref instead, and writes nothing.
    """

    is_far = True

    def __init__(
        self,
        repository: Repository,
        branch: str,
        transport: Transport,
        file: str = LEDGER_FILE,
        *,
        clock: Clock | None = None,
        succession: Succession = no_succession,
        offline: bool = False,
    ) -> None:
        super().__init__(repository, branch, file, clock=clock, succession=succession)
        self._transport = transport
        self._offline = offline
        self._private = f"{PRIVATE}{transport.remote}/{branch}"
        check_name(self._private)
        self._kept_by = self._private
        self._where = f"{file!r} on branch {branch!r} of the remote {transport.remote!r}"
        name = hashlib.sha256(self._private.encode()).hexdigest()[:32]
        self._seen_file = repository.common_dir / "callboard" / f"seen-{name}"
        self._brought_file = self._seen_file.with_name(f"brought-{name}")
        self._has_looked = False

    # --- looking ---

    def revision(self) -> str | None:
        """Ask the remote for the tip's commit id; see `LedgerStore.revision`.

        Raises `remote_unreachable`, `remote_timeout` or `remote_unknown`.
        """
        if self._offline:
            return self._known_here()
        found = self._transport.patiently(self._look)
        if found is not None and found == self._known_here():
            self._note_time()
        return found

    def glimpse(self) -> str | None:
        """The tip as processes of this clone saw it last, without asking the remote."""
        return self._repository.ref_value(self._private).oid

    def fetched(self) -> str | None:
        """The remote's tip, fetched; offline the one that was fetched last."""
        return self._known_here() if self._offline else self._transport.patiently(self._fetch)

    def seen_ms(self) -> int | None:
        """When the private ref was last what the remote had, in Unix ms; None where untold."""
        try:
            return self._seen_file.stat().st_mtime_ns // 1_000_000
        except OSError:
            return None

    def read(self) -> LedgerTip:
        """The ledger at the remote's tip; see `GitStore.read`.

        Also raises what `revision` raises, and `fetch_failed`; offline `queue_not_fetched`.
        """
        with self._lock:
            before = self._known_here()
            revision = self.fetched()
            if not self._has_looked and before is not None:
                self._refuse_lost(before, revision)
            if revision is None:
                self._refuse_unfetched()
            else:
                self._refuse_default()
            tip = self._at(revision)
            self._has_looked = True
            return tip

    def check_writable(self) -> None:
        """Refuse with `board_offline` where nothing may be written."""
        if self._offline:
            raise board_offline(self._transport.remote)

    def _look(self) -> str | None:
        return self._transport.look(self._ref).get(self._ref)

    def _known_here(self) -> str | None:
        return self._repository.ref_value(self._private).oid

    def _fetch(self) -> str | None:
        """Bring the private ref to where the remote's branch is, and answer that.

        One fetch at a time a clone: of two that move one ref, git fails one.
        """
        writer = WriterLock(
            self._repository.common_dir, self._private, self._repository.shared_permissions
        )
        patience = Patience(self._transport.timeout_s, lambda: False)
        is_untidy = False
        try:
            for _ in range(_FETCHES):
                with writer.held(patience):
                    before = self._known_here()
                    arrived = self._transport.fetch(f"+{self._ref}:{self._private}")
                    found = self._known_here()
                    if arrived:
                        self._note_time()
                        is_untidy = found not in (None, before) and self._is_untidy(str(found))
                if arrived:
                    if is_untidy:
                        self._transport.tidy()
                    return found
                # An absent branch and an unreachable remote end alike; git's words do not count.
                if self._ref not in self._transport.look(self._ref):
                    return None
        except Busy as busy:
            waited_s = self._transport.timeout_s
            raise remote_timeout(self._transport.remote, "being read by others", waited_s) from busy
        raise fetch_failed(self._transport.remote, self._ref)

    # --- appending ---

    def _present(self, base: LedgerTip) -> str | None:
        self.check_writable()
        if self._has_looked and base.revision == self._last.revision:
            return base.revision
        return self.read().revision

    def _move(self, old: str | None, make: Callable[[], str]) -> bool:
        """Push the commit; False where the branch is not at `old` any more.

        A push that fails while the branch stands where it was is tried once more, as another
        writer may just have held the remote's lock; after that it is a refusal.
        """
        writer = WriterLock(
            self._repository.common_dir,
            f"{self._private} push",
            self._repository.shared_permissions,
        )
        # What is made goes into a pack of this ref that one process at a time may write.
        patience = Patience(self._transport.timeout_s, lambda: False)
        try:
            with writer.held(patience):
                return self._settled(old, make)
        except Busy:
            return False

    def _settled(self, old: str | None, make: Callable[[], str]) -> bool:
        arrived: bool | None = False
        try:
            new = self._repository.make_durable(make, self._private)
            # Until the remote has answered, it may lead to what was made.
            arrived = None
            arrived = self._pushed(old, new)
            return arrived
        except CallboardError as error:
            arrived = False if error.code == "push_refused" else arrived
            raise
        finally:
            self._repository.settle(self._private, arrived)

    def _pushed(self, old: str | None, new: str) -> bool:
        ended = Ended(None, b"", "")
        for _ in range(_PUSHES):
            ended = self._transport.push([Update(self._ref, old, new)])
            found = new if ended.status == 0 else self._found_after(ended)
            if found == new:
                self._keep(old, new)
                return True
            if found != old:
                return False
            if ended.status is None:
                why = f"it took longer than {self._transport.timeout_s:g} s and was stopped"
                raise push_unknown(self._transport.remote, self._ref, why)
        raise push_refused(
            self._transport.remote,
            self._ref,
            ended.status,
            ended.said,
            shallow=self._repository.is_shallow,
        )

    def _found_after(self, ended: Ended) -> str | None:
        """Where the branch is after a push that did not say that it arrived."""
        try:
            return self._transport.patiently(self._look)
        except CallboardError as error:
            why = "afterwards the remote could not be asked"
            raise push_unknown(self._transport.remote, self._ref, why) from error

    def _keep(self, old: str | None, new: str) -> None:
        """Move the private ref on, unless another process has: then it knows more than we do.

        The append stands already, so that no trouble here may be told as one of the append.
        """
        with contextlib.suppress(CallboardError):
            if self._repository.set_ref(self._private, old, new):
                self._note_time()

    def _is_untidy(self, commit: str) -> bool:
        """Count what the fetch of `commit` has brought; whether it is time to tidy up, and begin
        to count anew.

        Git unpacks a small fetch: the whole ledger is stored again, in a file of its own. The
        count is in a file that may be lost; for the holder of the fetching turn.
        """
        with contextlib.suppress(CallboardError, OSError):
            one_bytes = self._repository.loose_bytes(commit, self._file)
            brought_bytes = _count(self._brought_file) + one_bytes
            is_untidy = brought_bytes > max(_UNTIDY_BYTES, _UNTIDY_FETCHES * one_bytes)
            self._brought_file.parent.mkdir(exist_ok=True)
            self._brought_file.write_bytes(b"%d" % (0 if is_untidy else brought_bytes))
            return is_untidy
        return False

    def _note_time(self) -> None:
        """Remember when the private ref was seen to be true; it only ever serves a person."""
        with contextlib.suppress(OSError):
            self._seen_file.parent.mkdir(exist_ok=True)
            _touch(self._seen_file, self._clock.now_ms() * 1_000_000)

    # --- refusals ---

    def _refuse_default(self) -> None:
        if self._repository.default_branch(self._transport.remote) == self._branch:
            raise self._refused(f"it is the default branch of {self._transport.remote!r}")

    def _refuse_unfetched(self) -> None:
        if self._offline:
            raise nothing_fetched(self._transport.remote, self._branch)

    def _refuse_lost(self, before: str, revision: str | None) -> None:
        """Refuse a remote that no longer has what this clone has seen there, and keep that.

        Within a process the bytes are compared; between processes only the private ref remembers.
        """
        if revision == before or (revision is not None and self._descends(revision, before)):
            return
        with contextlib.suppress(CallboardError):
            if revision is not None:
                self._repository.set_ref(self._private, revision, before)
        raise history_lost(
            self._transport.remote, self._branch, self._private, seen=before, found=revision
        )

    def _refuse_unborn(self) -> None:
        """A board is never begun on the remote's own line of work; it knows best which that is."""
        if self._transport.default_branch() == self._branch:
            raise self._refused(f"it is the default branch of {self._transport.remote!r}")


def _touch(path: Path, at_ns: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.utime(descriptor, ns=(at_ns, at_ns))
    finally:
        os.close(descriptor)


def _count(path: Path) -> int:
    """The number in a file; 0 where there is none."""
    try:
        with path.open("rb") as stream:
            return int(stream.read(_COUNT_DIGITS))
    except (OSError, ValueError):
        return 0
