"""What a golden ledger is expected to come to, as plain JSON beside it.

`{"outcome": "valid", "commits", "kinds", "states": [[lines, sha256], …]}`: the digest of the state
document after so many lines, the last after all of them; only that where lines are out of order.
`{"outcome": "refused", "code", "cause", "line", "byte", "states"}`: where reading ends, and the
states of the lines before.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError

FOLDER = Path(__file__).resolve().parent
SUMS = FOLDER / "SHA256SUMS"
MAX_STATES = 24


def digest(history: History) -> str:
    """The digest of a history's state."""
    return canonical.sha256_hex(canonical.encode_trusted(state_document(history.projection)))


def outcome(data: bytes) -> dict[str, Any]:
    """What reading comes to now."""
    rows = data.splitlines(keepends=True)
    try:
        history = History.read(data)
    except CallboardError as error:
        details = error.details
        return {
            "outcome": "refused",
            "code": error.code,
            "cause": details["cause"],
            "line": details["line"],
            "byte": details["byte"],
            "states": states(rows, int(str(details["line"])) - 1),
        }
    # What stands twice is one commit; what a checkpoint stands for is not in the file.
    commits = {read.plain: read.commit for read in (read_line(row[:-1]) for row in rows)}
    kinds = Counter(
        str(one.__struct_config__.tag) for commit in commits.values() for one in commit.operations
    )
    return {
        "outcome": "valid",
        "commits": len(commits),
        "kinds": dict(sorted(kinds.items())),
        "states": [*states(rows, len(rows) - 1), [len(rows), digest(history)]],
    }


def states(rows: list[bytes], upto: int) -> list[list[Any]]:
    """The digests after some numbers of lines, up to one; none where such a part is no ledger."""
    step = max(1, upto // MAX_STATES)
    found: list[list[Any]] = []
    for lines in range(step, upto + 1, step):
        try:
            found.append([lines, digest(History.read(b"".join(rows[:lines])))])
        except CallboardError:
            return []
    return found


def sums() -> dict[str, str]:
    """File name to digest, as they were recorded."""
    if not SUMS.exists():
        return {}
    lines = [line.split("  ") for line in SUMS.read_text().splitlines()]
    return {name: value for value, name in lines}


def sum_of(name: str) -> str:
    """The digest of a file as it is."""
    return hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
