"""A ledger that lives in this process: for trying things out and for driving publishers.

It keeps the port's whole contract, races included; it must never be mistaken for a durable
store, since its bytes end with the process.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from callboard.board.storage.framing import check_ledger, check_lines
from callboard.board.storage.refusals import base_mismatch
from callboard.board.storage.store import Appended, LedgerTip, LostRace

_WHERE = "the ledger in memory"


class MemoryStore:
    """A thread-safe `LedgerStore` in memory.

    `data` is a ledger to start from. `before_append` and `after_append` are called outside the
    lock around every append: the first may let another writer go first (a lost race), the
    second may raise after the write stood (an outcome the caller never learnt).
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
        if data is not None:
            self._tip = LedgerTip(_revision(None, data, ""), data)

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
        if self._before_append is not None:
            self._before_append(self)
        answer = self._append(base, lines, message)
        if self._after_append is not None:
            self._after_append(self)
        return answer

    def _append(self, base: LedgerTip, lines: bytes, message: str) -> Appended | LostRace:
        check_lines(lines, len(base.data), _WHERE)
        with self._lock:
            if self._tip.revision != base.revision:
                return LostRace()
            if self._tip.data != base.data:
                raise base_mismatch(base.revision)
            tip = self.read()
            self._tip = LedgerTip(_revision(tip.revision, lines, message), tip.data + lines)
            return Appended(self._tip)


def _revision(parent: str | None, data: bytes, message: str) -> str:
    digest = hashlib.sha256(repr((parent, message)).encode("utf-8", "surrogatepass"))
    digest.update(data)
    return digest.hexdigest()[:40]
