"""History: the lines of a ledger in causal order, applied to one projection.

Source: specification 1, §§7.6, 7.17; wire-v3 §§1, 6. It reads a ledger cold, or continues from a
prefix it has already validated; both give the same projection. It never repairs or skips a line.
What stood before a checkpoint is read when somebody asks for it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from msgspec import Struct

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.ledger.checkpoint import prove
from callboard.board.ledger.past import LedgerAt, Past, Segment, no_ledger_at
from callboard.board.projection.state import Projection
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.envelope import ReadLine, read_line
from callboard.errors import CallboardError

_OWN_CODE = frozenset({"unsupported_operation"})


class Line(Struct, frozen=True, gc=False):
    """One record: its physical line (from 1), its bytes up to the next, and what was read there."""

    number: int
    byte: int
    end: int
    read: ReadLine

    @property
    def commit(self) -> QueueCommit:
        """The record itself."""
        return self.read.commit


class Span(Struct, frozen=True, gc=False):
    """Where an applied commit stands in the data."""

    number: int
    start: int
    end: int


class History:
    """A validated ledger: its bytes, its projection, and where each commit stands.

    `base` is the ordinal of its root: 0, or how many commits a checkpoint stands for. `ledger_at`
    finds the ledgers before it.
    """

    def __init__(self, ledger_at: LedgerAt = no_ledger_at) -> None:
        self._ledger_at = ledger_at
        self._clear()

    def _clear(self) -> None:
        self._past: Past | None = None
        self.data = b""
        self.projection = Projection()
        self.spans: list[Span] = []
        self.base = 0
        self._lines = 0

    @classmethod
    def read(cls, data: bytes, ledger_at: LedgerAt = no_ledger_at) -> History:
        """Read a whole ledger. Raises `ledger_invalid` with cause, line and byte."""
        history = cls(ledger_at)
        history._extend(data)
        return history

    def continued(self, data: bytes) -> History:
        """The history of `data`: this one extended where it is a prefix, else read cold.

        Whether a ledger may be another one is the store's to say, which refuses it. A refused
        extension leaves this history empty, never half extended.
        """
        if data == self.data:
            return self
        if self.data and data.startswith(self.data):
            try:
                self._extend(data)
            except BaseException:
                self._clear()
                raise
            return self
        fresh = History.read(data, self._ledger_at)
        if self.data and fresh.base:
            fresh._compare_with(self)
        return fresh

    def _compare_with(self, known: History) -> None:
        """Hold this ledger's checkpoint, and those before it, against the history that this process
        knew, as far as the older ledgers are at hand: one that tells another story is refused."""
        try:
            later: list[bytes] = []
            for segment in self._before().segments():
                if segment.data.startswith(known.data):
                    self._prove(known.continued(segment.data), later)
                    break
                later.insert(0, segment.data)
        except CallboardError as error:
            if error.code != "history_unavailable":
                root = self.spans[0]
                raise invalid(error, root.number, root.start, self.commit(self.base).id) from error

    def _prove(self, prior: History, later: list[bytes]) -> None:
        for data in later:
            after = History.read(data, self._ledger_at)
            prove(after.commit(after.base), prior.projection)
            prior = after
        prove(self.commit(self.base), prior.projection)

    def adopt(self, data: bytes) -> None:
        """Take in the appended line of a commit already applied; `data` is the ledger with it."""
        self._lines += 1
        self.spans.append(Span(self._lines, len(self.data), len(data)))
        self.data = data

    def commit(self, ordinal: int) -> QueueCommit:
        """The commit at a place in the chain, read again from its line.

        Raises `history_unavailable` where it stood before a checkpoint and is not at hand.
        """
        if ordinal < self.base:
            line = self._before().segment(ordinal).line(ordinal)
        else:
            span = self.spans[ordinal - self.base]
            line = self.data[span.start : span.end]
        return read_line(line.rstrip(b"\n")).commit

    def previous(self, commit_id: str) -> str | None:
        """The id of the commit before a known one, as far as its record says one, always at hand.

        A root has none, be it the first of all or a checkpoint.
        """
        ordinal = self.projection.commit_ids[commit_id]
        if not ordinal:
            return None
        before, own = islice(self.projection.requests.values(), ordinal - 1, ordinal + 1)
        return None if own.kind == "checkpoint" else before.id

    def segment(self, ordinal: int) -> Segment:
        """The ledger that has the commit with that ordinal, this one or an earlier one."""
        return self._present() if ordinal >= self.base else self._before().segment(ordinal)

    def segments(self) -> Iterator[Segment]:
        """This ledger and those that checkpoints stand for, the latest first."""
        yield self._present()
        if self.base:
            yield from self._before().segments()

    def prefix(self, ordinal: int) -> History:
        """The history of the first `ordinal` commits of the chain, read anew."""
        if ordinal <= 0:
            return History(self._ledger_at)
        return History.read(self.segment(ordinal - 1).prefix(ordinal), self._ledger_at)

    def _present(self) -> Segment:
        spans = [(span.start, span.end) for span in self.spans]
        return Segment(self.data, spans, self.base, None)

    def _before(self) -> Past:
        if self._past is None:
            ids = list(self.projection.commit_ids)[: self.base]
            self._past = Past(self.commit(self.base), ids, self._ledger_at)
        return self._past

    def _extend(self, data: bytes) -> None:
        waiting: dict[str | None, Line] = {}
        with _collector_paused(), self.projection.without_undo():
            for line in _lines(data, len(self.data), self._lines):
                self._lines = line.number
                self._take(line, waiting, data)
            for line in waiting.values():
                raise self._misplaced(line, waiting)
        self.data = data

    def _take(self, line: Line, waiting: dict[str | None, Line], data: bytes) -> None:
        """Apply a line and what waited for it, or let it wait for its predecessor.

        Nothing waits for longer than it has to: so a fault is met at the same line by those who
        read all and those who read on. What was applied already is the same, and counts once.
        """
        if line.commit.previous == self.projection.tip:
            self._apply(line)
            while self.projection.tip in waiting:
                self._apply(waiting.pop(self.projection.tip))
        elif not self._is_known(line, data):
            rival = waiting.setdefault(line.commit.previous, line)
            if rival.read.plain != line.read.plain:
                raise _rivals(rival, line)

    def _apply(self, line: Line) -> None:
        try:
            replay.apply(self.projection, line.read)
        except CallboardError as error:
            raise invalid(error, line.number, line.byte, line.commit.id) from error
        if not self.spans:
            self.base = self.projection.ordinal - 1
        self.spans.append(Span(line.number, line.byte, line.end))

    def _is_known(self, line: Line, data: bytes) -> bool:
        ordinal = self.projection.commit_ids.get(line.commit.id)
        if ordinal is None or ordinal < self.base:
            return False
        span = self.spans[ordinal - self.base]
        first = read_line(data[span.start : span.end].rstrip(b"\n"))
        if first.plain != line.read.plain:
            raise _broken("commit_conflict", line, f"line {span.number} has the same id")
        return True

    def _misplaced(self, line: Line, rest: dict[str | None, Line]) -> CallboardError:
        previous = line.commit.previous
        if previous is None:
            return _broken("second_root", line, "the ledger already has a root")
        if previous in self.projection.commit_ids:
            return _broken("fork", line, f"another commit already follows {previous!r}")
        if any(other.commit.id == previous for other in rest.values()):
            start = self._missing_start(line, rest)
            if start is None:
                return _broken("chain_cycle", line, "its predecessors lead back to it")
            return self._misplaced(start, {})
        return _broken("predecessor_missing", line, f"no commit has the id {previous!r}")

    @staticmethod
    def _missing_start(line: Line, rest: dict[str | None, Line]) -> Line | None:
        by_id = {other.commit.id: other for other in rest.values()}
        seen: set[str] = set()
        while line.commit.previous in by_id:
            if line.commit.id in seen:
                return None
            seen.add(line.commit.id)
            line = by_id[line.commit.previous]
        return line


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A history is large and free of cycles; looking for some takes a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _rivals(first: Line, second: Line) -> CallboardError:
    previous = second.commit.previous
    if first.commit.id == second.commit.id:
        return _broken("commit_conflict", second, f"line {first.number} has the same id")
    if previous is None:
        return _broken("second_root", second, f"{first.commit.id!r} is a root already")
    return _broken("fork", second, f"{first.commit.id!r} already follows {previous!r}")


def _broken(cause: str, line: Line, what: str) -> CallboardError:
    error = CallboardError(cause, f"commit {line.commit.id!r}: {what}", "the chain must be single")
    return invalid(error, line.number, line.byte, line.commit.id)


def _lines(data: bytes, start: int, number: int) -> Iterator[Line]:
    """The records of `data` from byte `start` on, `number` lines being already read."""
    if len(data) > canonical.MAX_PARSE_BYTES:
        raise invalid(
            CallboardError("resource_limit", f"the ledger has {len(data)} bytes", ""), 1, 0, None
        )
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        if end < 0:
            raise invalid(
                CallboardError("truncated_line", "the last line has no newline", ""),
                number,
                start,
                None,
            )
        line = data[start:end]
        try:
            if not line.strip():
                raise CallboardError("blank_line", "the line is blank", "")
            read = read_line(line)
        except CallboardError as error:
            raise invalid(error, number, start, None) from error
        yield Line(number, start, end + 1, read)
        start = end + 1


def invalid(error: CallboardError, line: int, byte: int, commit_id: str | None) -> CallboardError:
    """`ledger_invalid` for what is wrong with one line, its cause kept."""
    code = error.code if error.code in _OWN_CODE else "ledger_invalid"
    inner = error.details.get("byte")
    details: dict[str, object] = {
        **error.details,
        "cause": error.code,
        "line": line,
        "byte": byte + (inner if isinstance(inner, int) else 0),
    }
    if commit_id is not None:
        details["commit_id"] = commit_id
    where = f"line {line}, byte {details['byte']}"
    return CallboardError(
        code,
        f"the ledger is not valid at {where}: {error.code}: {error.message}",
        "nothing was changed; look at the line with `callboard ledger verify`, and restore the "
        "branch from a good copy if it was damaged",
        details,
    )
