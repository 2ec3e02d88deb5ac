"""How a fault of a file that people write is told, wherever its places were found.

Pure wording: who reads a file keeps its faults, and who refuses it says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

TOLD = 3
"""As many of them are told in the sentence of a refusal."""


def fault_line(
    message: str,
    *,
    file: str | None = None,
    line: int | None = None,
    column: int | None = None,
    pointer: str | None = None,
) -> str:
    """One fault with as much of its place as is known, such as `work.yaml:3:5 /goals/0: …`.

    `line` and `column` count from 1; `pointer` is a JSON pointer, empty for the whole file.
    """
    place = ":".join(str(one) for one in (file, line, column) if one is not None)
    if file is None and line is not None:
        place = f"line {place}"
    pointer = pointer or ("" if place else "/")
    return f"{' '.join(one for one in (place, pointer) if one)}: {message}"


def fault_summary(what: str, count: int, lines: Sequence[str]) -> str:
    """One sentence: how many faults `what` has, and the first of their lines."""
    more = f"; and {count - TOLD} more" if count > TOLD else ""
    return f"{what} has {count} fault{'' if count == 1 else 's'}: {'; '.join(lines[:TOLD])}{more}"
