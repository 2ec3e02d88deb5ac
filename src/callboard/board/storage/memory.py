"""A ledger that lives in this process: for trying things out and for driving publishers.

It keeps the port's whole contract, races included; it must never be mistaken for a durable
store, since its bytes end with the process.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from callboard.board.storage.framing import check_ledger, check_lines
from callboard.board.storage.refusals import base_mismatch, nothing_to_replace
from callboard.board.storage.store import Appended, LedgerTip, LostRace, history_unavailable

_WHERE = "the ledger in memory"


class MemoryStore:
    """A thread-safe `LedgerStore` in memory.

    `data` is a ledger to start from. `before_append` and `after_append` are called outside the
    lock around every write: the first may let another writer go first (a lost race), the second may
    raise after the write stood (an outcome the caller never learnt).
    """

    is_far = False

    def __init__(
        self,
        data: bytes | None = None,
        *,
        before_append: Callable[[MemoryStore], None] | None = None,
        after_append: Callable[[MemoryStore], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._before_append = before_append
        self._after_append = after_append
        self._tip = LedgerTip(None, b"")
        self._replaced: list[bytes] = []
        self._lengths: dict[str, tuple[int, int]] = {}
        if data is not None:
            self._move(LedgerTip(_revision(None, data, ""), data))

    def _move(self, tip: LedgerTip) -> None:
        """Make `tip` the present one; an earlier one is found by its ledger's number and length."""
        self._tip = tip
        self._lengths[str(tip.revision)] = (len(self._replaced), len(tip.data))

    def revision(self) -> str | None:
        """The tip's revision; see `LedgerStore.revision`."""
        return self._tip.revision

    def read(self) -> LedgerTip:
        """The tip; see `LedgerStore.read`."""
        tip = self._tip
        if tip.revision is not None:
            check_ledger(tip.data, _WHERE)
        return tip

    def append(self, base: LedgerTip, lines: bytes, *, message: str) -> Appended | LostRace:
        """Add `lines` behind `base`; see `LedgerStore.append`."""
        return self._hooked(lambda: self._append(base, lines, message))

    def replace(self, base: LedgerTip, data: bytes, *, message: str) -> Appended | LostRace:
        """Put `data` in the place of `base`; see `LedgerStore.replace`."""
        return self._hooked(lambda: self._replace(base, data, message))

    def ledger_at(self, revision: str) -> bytes:
        """An earlier ledger; see `LedgerStore.ledger_at`."""
        with self._lock:
            if revision not in self._lengths:
                raise history_unavailable(revision)
            number, length = self._lengths[revision]
            return [*self._replaced, self._tip.data][number][:length]

    def _hooked(self, write: Callable[[], Appended | LostRace]) -> Appended | LostRace:
        if self._before_append is not None:
            self._before_append(self)
        answer = write()
        if self._after_append is not None:
            self._after_append(self)
        return answer

    def _append(self, base: LedgerTip, lines: bytes, message: str) -> Appended | LostRace:
        check_lines(lines, len(base.data), _WHERE)
        with self._lock:
            if not self._is_at(base):
                return LostRace()
            tip = self.read()
            self._move(LedgerTip(_revision(tip.revision, lines, message), tip.data + lines))
            return Appended(self._tip)

    def _replace(self, base: LedgerTip, data: bytes, message: str) -> Appended | LostRace:
        if base.revision is None:
            raise nothing_to_replace()
        check_lines(data, 0, _WHERE)
        with self._lock:
            if not self._is_at(base):
                return LostRace()
            tip = self.read()
            self._replaced.append(tip.data)
            self._move(LedgerTip(_revision(tip.revision, data, message), data))
            return Appended(self._tip)

    def _is_at(self, base: LedgerTip) -> bool:
        if self._tip.revision != base.revision:
            return False
        if self._tip.data != base.data:
            raise base_mismatch(base.revision)
        return True


def _revision(parent: str | None, data: bytes, message: str) -> str:
    digest = hashlib.sha256(repr((parent, message)).encode("utf-8", "surrogatepass"))
    digest.update(data)
    return digest.hexdigest()[:40]
