"""What is wrong with a work file: every fault with its place, and all of them at once.

Places are for people: lines and columns count from 1, columns in characters. Nothing is
judged here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from callboard.errors import CallboardError
from callboard.faults import TOLD, fault_line, fault_summary
from callboard.project.names import shown
from callboard.project.records import Record

MAX_SHOWN = 100
MAX_KEPT = 1000


class Fault(Record, frozen=True, kw_only=True):
    """One fault. `pointer` is the JSON pointer of the value; empty: the whole file."""

    file: str
    pointer: str
    line: int
    column: int
    message: str

    def line_of_text(self) -> str:
        """The fault as one line: `work.yaml:3:5 /work_items/0/title: …`."""
        return fault_line(**msgspec.structs.asdict(self))


class Faults:
    """The faults of some files as they are found; at most `MAX_KEPT` are kept, all are counted."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self.count = 0

    def add(self, file: str, pointer: str, line: int, column: int, message: str) -> None:
        """Keep one more fault."""
        self.count += 1
        if len(self._found) < MAX_KEPT:
            self._found.append(
                Fault(file=file, pointer=pointer, line=line, column=column, message=message)
            )

    def of(self, files: Iterable[str]) -> tuple[Fault, ...]:
        """The faults in the order of `files`, and in each by place."""
        order = {file: number for number, file in enumerate(files)}
        return tuple(
            sorted(
                self._found,
                key=lambda fault: (
                    order.get(fault.file, len(order)),
                    fault.line,
                    fault.column,
                    fault.pointer,
                ),
            )
        )


def refusal(faults: tuple[Fault, ...], count: int, *, what: str) -> CallboardError:
    """`source_invalid` with the faults; the first ones in words, up to a hundred for programs."""
    return CallboardError(
        "source_invalid",
        fault_summary(what, count, [fault.line_of_text() for fault in faults[:TOLD]]),
        "correct the file; `callboard project source scan` lists every fault with its place",
        {
            "count": count,
            "faults": [msgspec.structs.asdict(fault) for fault in faults[:MAX_SHOWN]],
        },
    )


def pointer(*steps: str | int) -> str:
    """A JSON pointer of keys and places, escaped; long and hidden keys as they may be shown."""
    return "".join(f"/{_step(step)}" for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return str(step)
    # A key is quoted only where it is long or holds what must not reach a terminal.
    safe = shown(step)
    text = step if safe[1:-1] == step else safe
    return text.replace("~", "~0").replace("/", "~1")
