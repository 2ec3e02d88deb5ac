"""What is wrong with files that people write: every fault with its place, and all of them.

Lines and columns count from 1, columns in characters. Nothing is judged here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from callboard.faults import fault_line, fault_summary
from callboard.visible import visible

MAX_KEPT = 100


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `pointer` is the JSON pointer of the value; empty: the whole file."""

    file: str
    line: int
    column: int
    pointer: str
    message: str

    def line_of_text(self) -> str:
        """The fault as one line, such as `contract.yaml:3:5 /roles/0: …`."""
        return fault_line(**asdict(self))


class Faults:
    """The faults of some files as they are found; the first ones are kept, all are counted."""

    def __init__(self) -> None:
        self._kept: list[Fault] = []
        self.count = 0

    def add(self, file: str, line: int, column: int, pointer: str, message: str) -> None:
        """Keep one more fault."""
        self.count += 1
        if len(self._kept) < MAX_KEPT:
            self._kept.append(Fault(file, line, column, pointer, message))

    def in_order(self) -> list[Fault]:
        """The kept faults by file and place."""
        return sorted(self._kept)

    def summary(self, what: str) -> str:
        """One sentence: how many there are, and the first of them."""
        return fault_summary(what, self.count, [one.line_of_text() for one in self.in_order()])

    def details(self) -> dict[str, object]:
        """The faults for programs."""
        return {"count": self.count, "faults": [asdict(fault) for fault in self.in_order()]}


def pointer(*steps: str | int) -> str:
    """A JSON pointer of keys and places, escaped; keys as they may be shown."""
    return "".join(
        "/" + visible(str(step))[:100].replace("~", "~0").replace("/", "~1") for step in steps
    )


def quoted(text: str) -> str:
    """A found text as a message names it: bounded, and with nothing that acts on a terminal."""
    seen = visible(text)
    return f"'{seen}'" if len(seen) <= 80 else f"'{seen[:77]}…'"


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` where a known word is close, else the known words."""
    words = sorted(known)
    close = nearest(word, words)
    if close is not None:
        return f"; did you mean {close}?"
    return f"; known are {', '.join(words)}" if words else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like it, if one is."""
    close = difflib.get_close_matches(word[:200], sorted(known), n=1)
    return close[0] if close else None
