"""The port every ledger store answers to: read the tip, append to exactly that tip, or replace it.

A lost race is an ordinary answer, never an exception and never a partial write. A store knows
lines and bytes; it is told whether a shorter ledger may follow a longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from callboard.errors import CallboardError


@dataclass(frozen=True, slots=True)
class LedgerTip:
    """The ledger as it stood at one moment.

    `revision` is the tip's commit id (40 or 64 lower-case hex), None while the branch is absent;
    `data` the whole ledger there, complete lines only, `b""` while the branch is absent.
    """

    revision: str | None
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Appended:
    """The lines are durably in the ledger; `tip` is what it became."""

    tip: LedgerTip


@dataclass(frozen=True, slots=True)
class LostRace:
    """Nothing was written: the tip moved on, or another writer kept its lock. Read, then redo."""


LedgerAt = Callable[[str], bytes]
"""The ledger that a revision holds; raises `history_unavailable` where it is not at hand."""

Succession = Callable[[bytes, bytes, LedgerAt], bool]
"""Whether the second ledger stands for one that begins with the first, as its own content and the
earlier ledgers it names prove."""


def no_succession(_seen: bytes, _found: bytes, _ledger_at: LedgerAt) -> bool:
    """Nothing stands for a ledger but a longer one."""
    return False


def history_unavailable(revision: str) -> CallboardError:
    """The refusal to answer from a ledger that this clone does not have."""
    return CallboardError(
        "history_unavailable",
        f"commit {revision[:64]}, which holds the board's earlier ledger, is not in this clone",
        "fetch it, with `git fetch --unshallow` where the clone is shallow; a ledger in a file is "
        "looked into where its branch is",
        {"revision": revision[:64]},
    )


class LedgerStore(Protocol):
    """A sequence of lines with compare-and-append, and compare-and-replace (§§7.7, 7.10)."""

    @property
    def is_far(self) -> bool:
        """Whether a look at the tip asks another machine.

        Then a writer first tries upon the tip it knows, as the append tells whether that holds.
        """
        ...

    def revision(self) -> str | None:
        """A cheap look at the tip; None while the ledger is absent."""
        ...

    def read(self) -> LedgerTip:
        """The tip with its bytes; may be the last answer again when the revision is unchanged.

        Raises `CallboardError` `ledger_invalid` for a ledger that is present but empty, torn or
        otherwise not whole lines; details hold `cause`, `line`, `byte` and `where` as `framing`
        gives them, nothing is repaired. Bytes once answered stay: where others can move or remove
        the ledger, one that neither begins with them nor descends from them and stands for them is
        refused with cause `history_replaced` for as long as it is so; details then hold the
        revisions `seen` and `found` too.
        """
        ...

    def append(self, base: LedgerTip, lines: bytes, *, message: str) -> Appended | LostRace:
        """Add `lines` (one or more, each ending in LF) behind `base`, or write nothing at all.

        Creates the ledger when `base.revision` is None. `message` describes the write for
        people. After `Appended` the bytes survive a crash of the machine. Raises `CallboardError`
        `ledger_invalid` for bad lines as for a bad ledger, and `append_base_invalid`;
        `outcome_unknown` where the lines may stand: look for them before anything else.
        """
        ...

    def replace(self, base: LedgerTip, data: bytes, *, message: str) -> Appended | LostRace:
        """Put `data`, a whole ledger, in the place of that at `base`, or write nothing at all.

        What was at `base` stays within reach of `ledger_at`. Refuses what `append` refuses, and a
        `base` without a revision as `append_base_invalid`.
        """
        ...

    def ledger_at(self, revision: str) -> bytes:
        """The ledger as it stood at an earlier revision, whole lines but otherwise unjudged.

        Raises `history_unavailable` where that is not at hand.
        """
        ...
