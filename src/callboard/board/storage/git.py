"""The ledger as one file on one branch of a Git repository, changed by compare and swap.

Commits carry Callboard's own fixed identity (`commits.IDENTITY`), never the user's; who acted is
said by the records. Other files on the branch are kept. HEAD, index, work tree, hooks and
configuration are never touched, also not where the branch is checked out.

Each commit goes into the board's own pack (`rolling_store`), where it costs what it adds; measured
by benchmarks/storage_append.py. Repositories with reftable are refused.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from io import BytesIO

from callboard.board.storage.commits import TreeEntry, path_parts
from callboard.board.storage.framing import (
    MAX_LEDGER_BYTES,
    check_ledger,
    check_lines,
    ledger_invalid,
    too_large,
)
from callboard.board.storage.last_tip import LastTip
from callboard.board.storage.refs import check_name
from callboard.board.storage.refusals import (
    base_mismatch,
    branch_gone,
    branch_set_back,
    nothing_to_replace,
)
from callboard.board.storage.remote_refusals import queue_not_fetched
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import (
    Appended,
    LedgerTip,
    LostRace,
    Succession,
    history_unavailable,
    no_succession,
)
from callboard.clock import Clock, SystemClock
from callboard.errors import CallboardError

_ABSENT = LedgerTip(None, b"")


LEDGER_FILE = "work-queue.jsonl"
_REFS = "refs/"
_HEADS = "refs/heads/"
MAX_DESCENT = 100_000
"""How many first parents are followed from a tip to the commit that was seen before."""


class GitStore:
    """A `LedgerStore` on `refs/heads/<branch>`, thread-safe.

    The repository stays the caller's to close. `clock` dates the commits, `succession` says which
    ledger may stand for a longer one that was there before.
    """

    is_far = False

    def __init__(
        self,
        repository: Repository,
        branch: str = "work-queue",
        file: str = LEDGER_FILE,
        *,
        clock: Clock | None = None,
        succession: Succession = no_succession,
    ) -> None:
        self._repository = repository
        self._succession = succession
        self._branch = branch
        self._file = file
        self._clock = SystemClock() if clock is None else clock
        self._ref = f"refs/heads/{branch}"
        self._kept_by = self._ref
        self._where = f"{file!r} on branch {branch!r}"
        self._last = _ABSENT
        self._last_tip = LastTip(repository.common_dir, self._ref, repository.shared_permissions)
        self._lock = threading.RLock()
        check_branch(branch)
        check_name(self._ref)
        if len(path_parts(file)) != 1:
            raise CallboardError(
                "path_invalid",
                f"the ledger file {file!r} lies in a folder",
                "name a file at the top of the branch",
                {"path": file},
            )
        if branch.startswith("-") or branch == "HEAD":
            raise self._refused("Git does not take it as a branch name")

    def revision(self) -> str | None:
        """The branch tip's commit id; see `LedgerStore.revision`."""
        held = self._repository.ref_value(self._ref)
        if held.target is not None:
            raise self._refused("it is only another name for a different branch")
        return held.oid

    def glimpse(self) -> str | None:
        """What `revision` would answer, as far as that is known without asking another machine."""
        return self.revision()

    def fetched(self) -> str | None:
        """What `revision` answers, once its objects are here."""
        return self.revision()

    def seen_ms(self) -> int | None:
        """When a board on another machine was last read, in Unix ms; None where that is untold."""
        return None

    def read(self) -> LedgerTip:
        """The ledger at the branch tip; see `LedgerStore.read`.

        Also raises `queue_branch_refused` where the branch is the repository's own line of work
        or holds no ledger file, `ledger_invalid` with cause `file_not_regular` where that is no
        plain file, or `history_replaced` where this clone has written to the branch and it is gone
        or set back, and `object_missing` or `object_corrupt` where Git's data is.
        """
        with self._lock:
            # Looked at under the lock: a tip older than the last one seen is a branch gone back.
            revision = self.revision()
            if revision is None:
                self._refuse_unfetched()
            else:
                self._refuse_default()
            return self._at(revision)

    def check_writable(self) -> None:
        """Refuse with `queue_branch_refused` where HEAD of this very work tree is on the branch.

        An append would leave the index behind, and the next `git commit -a` take its lines out
        again. For whoever begins something; what runs already is recorded all the same.
        """
        folder = self._repository.work_tree
        if folder is None or self._repository.head_branch() != self._branch:
            return
        raise CallboardError(
            "queue_branch_refused",
            f"the branch {self._branch!r} is checked out in {str(folder)!r}, where the next commit "
            "could undo what the board writes",
            f"check out another branch first: git -C {shlex.quote(str(folder))} checkout BRANCH",
            {**self._details(), "checkout": _plain(str(folder))},
        )

    def append(self, base: LedgerTip, lines: bytes, *, message: str) -> Appended | LostRace:
        """Commit `lines` behind `base`; see `LedgerStore.append`.

        A ref lock that stays busy is a lost race; one that was left behind raises `ref_locked`
        with the file's path. `outcome_unknown`: the disk failed after the write, read again.
        Raises `queue_branch_refused` as `read` does, and where a branch without commits is checked
        out.
        """
        check_lines(lines, len(base.data), self._where)
        return self._swap(base, base.data + lines, message)

    def replace(self, base: LedgerTip, data: bytes, *, message: str) -> Appended | LostRace:
        """Commit `data` in the place of `base`, whose commit is the parent; see
        `LedgerStore.replace`, and `append` for what is raised."""
        if base.revision is None:
            raise nothing_to_replace()
        check_lines(data, 0, self._where)
        return self._swap(base, data, message)

    def ledger_at(self, revision: str) -> bytes:
        """The ledger file of an earlier commit; see `LedgerStore.ledger_at`."""
        try:
            return self._loaded(revision).data
        except CallboardError as error:
            if error.code in ("object_missing", "object_wrong_kind", "queue_branch_refused"):
                raise history_unavailable(revision) from error
            raise

    def _swap(self, base: LedgerTip, after: bytes, message: str) -> Appended | LostRace:
        with self._lock:
            revision = self._present(base)
            if revision != base.revision:
                return LostRace()
            self._refuse_default()
            data = self._at(revision).data
        if data != base.data:
            raise base_mismatch(revision)
        if revision is None:
            self._refuse_unborn()
        commits: list[str] = []

        def make() -> str:
            commits.append(self._commit(revision, after, message))
            return commits[0]

        if not self._move(revision, make):
            return LostRace()
        tip = LedgerTip(commits[0], after)
        with self._lock:
            # Another thread may have read a later tip meanwhile, and what it was told stays.
            if self._last.revision == revision:
                self._last = tip
        if not self.is_far:
            self._last_tip.write(commits[0])
        return Appended(tip)

    def _present(self, base: LedgerTip) -> str | None:
        """Where the branch is, before something is made upon `base`."""
        return self.revision()

    def _move(self, old: str | None, make: Callable[[], str]) -> bool:
        """Move the branch from `old` to the commit that `make` answers; False: the race is lost.

        The only place that decides where the branch is, and what it takes to move it.
        """
        try:
            return self._repository.move_ref(self._ref, old, make)
        except CallboardError as error:
            if error.code == "ref_locked" and not error.details["stale"]:
                return False
            raise

    def _commit(self, parent: str | None, data: bytes, message: str) -> str:
        """Write the new ledger and its commit. The only place that decides how it is stored."""
        return self._repository.commit_file(
            parent,
            self._file,
            [data],
            message=message,
            at_ms=self._clock.now_ms(),
            ref=self._kept_by,
        )

    def _at(self, revision: str | None) -> LedgerTip:
        """The ledger at `revision`, from memory when it is the last one seen.

        Whatever was seen stays: `ledger_invalid` where the ledger neither begins with it nor
        stands, in a commit behind it, for one that does.
        """
        seen = self._last
        if seen.revision != revision:
            if seen.revision is None and revision is not None:
                self._refuse_set_back(revision)
            tip = _ABSENT if revision is None else self._loaded(revision)
            if not tip.data.startswith(seen.data) and not self._succeeds(seen, tip):
                raise self._replaced(seen, tip)
            self._last = tip
        return self._last

    def _succeeds(self, seen: LedgerTip, found: LedgerTip) -> bool:
        if seen.revision is None or found.revision is None:
            return False
        if not self._descends(found.revision, seen.revision):
            return False
        return self._succession(seen.data, found.data, self.ledger_at)

    def _descends(self, later: str, earlier: str) -> bool:
        """Whether first parents lead from `later` to `earlier`, as far as this clone has them."""
        try:
            for _step in range(MAX_DESCENT):
                if later == earlier:
                    return True
                parents = self._repository.commit_info(later).parents
                if not parents:
                    return False
                later = parents[0]
        except CallboardError as error:
            if error.code != "object_missing":
                raise
        return False

    def _loaded(self, revision: str) -> LedgerTip:
        data = self._load(self._repository.entry(revision, self._file))
        check_ledger(data, self._where)
        return LedgerTip(revision, data)

    def _load(self, entry: TreeEntry | None) -> bytes:
        if entry is None:
            raise self._refused(f"it exists and holds no {self._file!r}")
        if not entry.is_file:
            reason = "it is not a regular file"
            raise ledger_invalid("file_not_regular", reason, self._where, line=1, byte=0)
        try:
            return self._repository.read_blob(entry.oid, MAX_LEDGER_BYTES)
        except CallboardError as error:
            if error.code == "resource_limit":
                raise too_large(MAX_LEDGER_BYTES + 1, self._where) from error
            raise

    def _refuse_default(self) -> None:
        if self._repository.default_branch() == self._branch:
            raise self._refused("it is the default branch of 'origin'")

    def _refuse_unfetched(self) -> None:
        """An absent branch that a remote has, or that was here, is no empty board."""
        self._refuse_default()
        remote = self._repository.tracked_by(self._branch)
        if remote is not None:
            raise queue_not_fetched(remote, self._branch)
        # What this process has read itself is compared where the ledger is.
        last = None if self._last.revision else self._last_tip.read()
        # Another writer may have begun it, and noted that, since it was looked for.
        if last is not None and self.revision() is None:
            raise branch_gone(self._where, self._branch, last, self._last_tip.path)

    def _refuse_set_back(self, revision: str) -> None:
        """A branch that no longer holds what was written here last: its ends would be forgotten."""
        last = None if self.is_far else self._last_tip.read()
        if last is None or self._descends(revision, last):
            return
        # Another writer may have moved it on, and noted that, since it was looked at.
        found = self.revision()
        if found is None or not self._descends(found, last):
            raise branch_set_back(self._where, self._branch, last, revision, self._last_tip.path)

    def _refuse_unborn(self) -> None:
        self._refuse_unfetched()
        folder = self._repository.checkout_of(self._branch)
        if folder is not None:
            raise self._refused(f"it is checked out in {str(folder)!r}, and holds no ledger")

    def _replaced(self, seen: LedgerTip, found: LedgerTip) -> CallboardError:
        """The refusal of a ledger that does not begin with the one this process has read before.

        Line and byte are those of the first line read before that is gone or another one.
        """
        line, byte = _first_difference(seen.data, found.data)
        differs = f"differs from line {line}, byte {byte} on"
        now = "is gone" if found.revision is None else f"is at {found.revision}, which {differs}"
        return CallboardError(
            "ledger_invalid",
            f"{self._where} no longer holds the commit {seen.revision} that this process has read: "
            f"the branch {now}",
            "if it was moved or removed by mistake, find its last commit with `git reflog` or `git "
            "fsck --lost-found`, and set it back with `git branch -f`; to go on with what is there "
            "now, start again",
            {
                "cause": "history_replaced",
                "line": line,
                "byte": byte,
                "where": self._where,
                "seen": seen.revision,
                "found": found.revision,
            },
        )

    def _refused(self, found: str) -> CallboardError:
        return CallboardError(
            "queue_branch_refused",
            f"the branch {self._branch!r} cannot hold the queue: {found}",
            "choose a branch of its own, such as 'work-queue'",
            self._details(),
        )

    def _details(self) -> dict[str, object]:
        return {"branch": _plain(self._branch)}


def _first_difference(seen: bytes, found: bytes) -> tuple[int, int]:
    """The number (from 1) and the first byte (from 0) of the first line of `seen` not in place."""
    line, byte = 1, 0
    for one, other in zip(BytesIO(seen), BytesIO(found), strict=False):
        if one != other:
            break
        line += 1
        byte += len(one)
    return line, byte


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def check_branch(name: str) -> None:
    """Refuse the full name of a ref, which as a branch would mean `refs/heads/refs/…`.

    Raises `queue_branch_refused`.
    """
    if not name.startswith(_REFS):
        return
    short = name.removeprefix(_HEADS)
    hint = "name a branch, such as 'work-queue'"
    if short and not short.startswith(_REFS):
        hint = f"use the short name: --branch {shlex.quote(short)}"
    raise CallboardError(
        "queue_branch_refused",
        f"{name!r} is the full name of a ref, not that of a branch",
        hint,
        {"branch": _plain(name)},
    )
