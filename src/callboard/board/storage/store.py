"""The port every ledger store answers to: read the tip, append to exactly that tip.

A lost race is an ordinary answer, never an exception and never a partial write. A store knows
lines and bytes; it must not look at what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


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


class LedgerStore(Protocol):
    """An append-only sequence of lines with compare-and-append (§7.7)."""

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
        the ledger, one that no longer begins with them is refused with cause `history_replaced`
        for as long as it is so; details then hold the revisions `seen` and `found` too.
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
