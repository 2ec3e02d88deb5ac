"""What a page has really done: its board's ledger, read cold, and the journal its workers kept.

The words of a page can be right by accident; these facts cannot. Reads only, once a page has ended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from callboard.board.board import Folders
from callboard.board.ledger.history import History
from callboard.board.protocol import operations as ops
from tests.system.world import World, ledger_bytes
from tests.waiting import until


@dataclass(slots=True)
class Played(World):
    """The world that a page leaves behind; `root` is its reader's home."""

    @property
    def folders(self) -> Folders:
        """The reader's folders, where they are by default."""
        return Folders(
            self.root / ".config" / "callboard", self.root / ".local" / "state" / "callboard"
        )

    @property
    def journal(self) -> list[dict[str, Any]]:
        """Nothing: the workers of pages write plain lines, see `begun`."""
        return []

    def ledger(self) -> bytes:
        """The ledger where the board lives: on the page's remote, if it has one."""
        hub = self.path.parent / "hub.git"
        return ledger_bytes(hub if hub.exists() else self.path)

    def history(self) -> History:
        """The ledger, read cold."""
        return History.read(self.ledger())

    def begun(self) -> dict[str, int]:
        """How often each line stands in the journal that the page's workers keep."""
        path = self.root / "desk" / "journal"
        return dict(Counter(path.read_text().splitlines())) if path.exists() else {}

    def stories(self) -> dict[str, str]:
        """What happened to each node, `graph:key`, in the ledger's order, a word for each fact."""
        works: dict[str, str] = {}
        groups: dict[str, list[str]] = {}
        claims: dict[str, str] = {}
        told: dict[str, list[str]] = {}
        for operation in self.operations():
            match operation:
                case ops.Work():
                    works[operation.work_id] = name = f"{operation.graph_id}:{operation.node_key}"
                    told[name] = []
                case ops.Claim():
                    claims[operation.claim_id] = operation.work_id
                    groups.setdefault(operation.dispatch_id, []).append(operation.work_id)
            for work_id, word in _facts(operation, groups, claims):
                told[works[work_id]].append(word)
        return {name: " ".join(words) for name, words in told.items()}

    def runs(self) -> Counter[str]:
        """How many runs were begun for each launch, by the record of runs."""
        return Counter(row.dispatch_id for row in self.rows() if row.state != "void")

    def check_laws(self) -> None:
        """What holds after every page: all is settled, and nothing happened twice."""
        until(lambda: not self.supervisors(), timeout_s=60)
        self.check_once()
        self.check_nothing_open()
        assert max(self.runs().values(), default=0) <= 1, self.runs()


def _facts(
    operation: ops.Operation, groups: dict[str, list[str]], claims: dict[str, str]
) -> list[tuple[str, str]]:
    match operation:
        case ops.Claim():
            return [(operation.work_id, "granted")]
        case ops.Dispatch():
            return [(one, operation.state) for one in groups[operation.dispatch_id]]
        case ops.Release():
            return [(one, "released") for one in groups[operation.dispatch_id]]
        case ops.Completion():
            return [(operation.work_id, "completed")]
        case ops.Result():
            return [(operation.work_id, "verified")]
        case ops.DeliveryFailure():
            return [(operation.work_id, f"failed({operation.disposition})")]
        case ops.ClaimCancellation():
            return [(claims[operation.claim_id], f"lost({operation.reason})")]
        case ops.WorkCancellation():
            return [(operation.work_id, f"cancelled({operation.reason})")]
        case _:
            return []
