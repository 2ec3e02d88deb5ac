"""One board's pack: its newest ledger as a whole, and every older one as a beginning of it.

A ledger grows at its end only, so an older one is the first bytes of the newest, and costs a delta
of some twenty bytes. The newest is a deflated stream that grows (`growing`), so that an append
deflates the added lines and little else, and reading the tip takes no delta at all. The file is
written anew each time, as Git never changes a pack; only copying and hashing it grow with the
ledger.

    settled   trees, commits and older ledgers; only ever added to. Older ledgers are deltas
              against an anchor, named, not pointed at: their bytes never change
    anchors   every `ANCHOR_EVERY`th ledger, a delta against the newest
    newest    the ledger at the tip
    recent    the ledgers since the last anchor, deltas against the newest

So no chain is longer than two, and an append makes no more than a few hundred entries anew. Pure:
nothing here touches a disk. A pack that is not exactly of this shape is refused, never mended.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from callboard.board.storage import growing, loose
from callboard.board.storage import pack_format as fmt
from callboard.board.storage.framing import MAX_LEDGER_BYTES
from callboard.board.storage.growing import Growing

ANCHOR_EVERY = 64
_SMALLEST_FREEZE_BYTES = 1024 * 1024
_ROW_BYTES = 28
_LONGEST_REST = 1024 * 1024
_MOST_FOLDED = 64
_TREE_DELTA_BYTES = 256
_UNREADABLE = (ValueError, IndexError, zlib.error)


class Older(NamedTuple):
    """A blob made of the first `shared` bytes of the newest ledger and `rest`.

    `rest` is empty but for a ledger that never became the tip.
    """

    oid: bytes
    shared: int
    rest: bytes = b""


class Image(NamedTuple):
    """A pack file as pieces to be joined, its digest left out, and its index."""

    pieces: Sequence[fmt.Bytes]
    digest: bytes
    table: bytes


class Mark(NamedTuple):
    """Where the closed part of the newest ledger's stream ends: in the stream, in the ledger."""

    closed: int
    closed_bytes: int


@dataclass(slots=True)
class Rolling:
    """What the pack holds. It is changed in place; after a failed write it has to be dropped."""

    algorithm: str
    newest: bytes
    data: bytes
    stream: Growing
    settled: bytearray = field(default_factory=bytearray)
    rows: list[bytes] = field(default_factory=list)
    names: set[bytes] = field(default_factory=set)
    anchors: list[Older] = field(default_factory=list)
    recent: list[Older] = field(default_factory=list)
    tree: tuple[bytes, bytes] | None = None

    @classmethod
    def begin(
        cls, algorithm: str, newest: bytes, data: bytes, of: Growing | None = None
    ) -> Rolling:
        """A pack of one ledger, `of` being its stream where it has been made."""
        stream = growing.start(data) if of is None else of
        return cls(algorithm, newest, data, stream, names={newest})

    @property
    def mark(self) -> Mark:
        """What `parse` has to be told to go on with this pack."""
        return Mark(len(self.stream.closed), self.stream.closed_bytes)

    @property
    def is_full(self) -> bool:
        """Whether copying what is older has become as dear as another copy of the newest.

        Then this pack is best left as it stands, and another one begun: each byte of history is
        met by at most four of ledger.
        """
        history = len(self.settled) + _ROW_BYTES * len(self.rows)
        return history > max(_SMALLEST_FREEZE_BYTES, len(self.stream.closed) // 4)

    def grow(self, newest: bytes, data: bytes, stream: Growing) -> None:
        """Make `data`, which begins with the newest ledger, the newest; `stream` is its stream."""
        self.recent.append(Older(self.newest, len(self.data)))
        self.newest, self.data, self.stream = newest, data, stream
        self.names.add(newest)
        if len(self.recent) >= ANCHOR_EVERY:
            self._settle_recent()

    def _settle_recent(self) -> None:
        anchor = self.recent[-1]
        for older in self.recent[:-1]:
            delta = fmt.prefix_delta(anchor.shared, older.shared, older.rest)
            self._put(older.oid, fmt.ref_delta_entry(anchor.oid, delta))
        self.anchors.append(anchor)
        self.recent.clear()

    def add(self, kind: str, oid: bytes, data: bytes) -> None:
        """Add a tree or a commit, unless the pack has it."""
        if oid in self.names:
            return
        if kind == "tree" and len(data) > _TREE_DELTA_BYTES:
            if self.tree is not None:
                delta = fmt.delta_between(self.tree[1], data)
                if len(delta) < len(data) // 2:
                    self._put(oid, fmt.ref_delta_entry(self.tree[0], delta))
                    return
            self.tree = oid, data
        self._put(oid, fmt.entry(kind, data))

    def fold(self, other: Rolling, shared: int) -> bool:
        """Take in what `other` has and this one has not, so that `other` may be removed.

        Both ledgers begin with the same `shared` bytes; `other` is meant to be the pack of one
        that never became the tip. False where it holds much else; then some of it may have been
        taken in, which does no harm.
        """
        older = [Older(other.newest, len(other.data)), *other.recent, *other.anchors]
        blobs = [blob for blob in older if blob.oid not in self.names]
        rows = [row for row in other.rows if fmt.row_oid(row) not in self.names]
        if len(blobs) + len(rows) > _MOST_FOLDED:
            return False
        for blob in blobs:
            rest = blob.rest
            if blob.shared > shared:
                rest = other.data[shared : blob.shared] + rest
            if len(rest) > _LONGEST_REST:
                return False
            # First, as it must not become an anchor.
            self.recent.insert(0, Older(blob.oid, min(blob.shared, shared), rest))
            self.names.add(blob.oid)
        for row in rows:
            self._put(fmt.row_oid(row), other.entry_at(fmt.row_offset(row)))
        return True

    def entry_at(self, offset: int) -> bytes:
        """The settled entry that begins at `offset` of the pack."""
        starts = map(fmt.row_offset, self.rows)
        end = fmt.HEADER_BYTES + len(self.settled)
        end = min((start for start in starts if start > offset), default=end)
        return bytes(self.settled[offset - fmt.HEADER_BYTES : end - fmt.HEADER_BYTES])

    def _put(self, oid: bytes, entry: bytes) -> None:
        at = fmt.HEADER_BYTES + len(self.settled)
        self.rows.append(fmt.row(oid, at, zlib.crc32(entry)))
        self.settled += entry
        self.names.add(oid)

    # --- writing ---

    def image(self) -> Image:
        """The pack file and its index."""
        rows: list[bytes] = []
        pieces: list[fmt.Bytes] = [b"", self.settled]
        at = fmt.HEADER_BYTES + len(self.settled)

        def put(oid: bytes, *parts: bytes) -> None:
            nonlocal at
            crc, size = 0, 0
            for part in parts:
                crc = zlib.crc32(part, crc)
                size += len(part)
            rows.append(fmt.row(oid, at, crc))
            pieces.extend(parts)
            at += size

        for older in self.anchors:
            put(older.oid, self._against_newest(older))
        head = fmt.entry_head(fmt.NUMBERS["blob"], len(self.data))
        put(self.newest, head, *self.stream.pieces)
        for older in self.recent:
            put(older.oid, self._against_newest(older))
        pieces[0] = fmt.pack_header(len(self.rows) + len(rows))
        # Nearly sorted, which makes it quick.
        self.rows.sort()
        digest = fmt.digest(self.algorithm, pieces)
        index = fmt.index_bytes(sorted(self.rows + rows), digest, self.algorithm)
        return Image(pieces, digest, index)

    def _against_newest(self, older: Older) -> bytes:
        delta = fmt.prefix_delta(len(self.data), older.shared, older.rest)
        return fmt.ref_delta_entry(self.newest, delta)


# --- reading -------------------------------------------------------------------------------------


def parse(
    pack: bytes,
    index: bytes,
    algorithm: str,
    newest: bytes,
    data: bytes | None,
    mark: Mark,
    known: Rolling | None,
) -> Rolling | None:
    """The pack of those two files, if `newest` is its newest ledger and `data` begins with that.

    Every byte is checked: the digests, and that the newest ledger inflates to the first bytes of
    `data`, or, where that is None, to what bears its name. None for anything else. `known` is an
    earlier state of the same board's pack; what both have in common is not looked at again. It
    must not be used any more afterwards.
    """
    try:
        return _Parser(pack, index, algorithm, known).rolling(newest, data, mark)
    except _UNREADABLE:
        return None


class _Parser:
    def __init__(self, pack: bytes, index: bytes, algorithm: str, known: Rolling | None) -> None:
        self._algorithm = algorithm
        self._pack = pack
        self._known = known
        self._width = len(fmt.digest(algorithm, ()))
        self._end = len(pack) - self._width
        if self._end < fmt.HEADER_BYTES:
            raise ValueError("no pack")
        trailer = pack[self._end :]
        if fmt.digest(algorithm, (memoryview(pack)[: self._end],)) != trailer:
            raise ValueError("a damaged pack")
        self._tables = fmt.read_index(index, trailer, algorithm)
        count = len(self._tables.offsets)
        if fmt.pack_count(pack) != count or count == 0:
            raise ValueError("an index of another pack")
        # The rows in the order of the pack.
        self._order = sorted(range(count), key=self._tables.offsets.__getitem__)
        self._starts = [self._tables.offsets[row] for row in self._order]
        if self._starts[0] != fmt.HEADER_BYTES or self._starts[-1] >= self._end:
            raise ValueError("entries outside of the pack")
        if any(map(int.__ge__, self._starts, self._starts[1:])):
            raise ValueError("entries one inside another")

    def rolling(self, name: bytes, whole: bytes | None, mark: Mark) -> Rolling | None:
        place = next((n for n in reversed(range(len(self._order))) if self._oid(n) == name), None)
        if place is None:
            return None
        head = fmt.read_head(self._pack, self._starts[place])
        if head.number != fmt.NUMBERS["blob"] or head.size > MAX_LEDGER_BYTES:
            return None
        data = self._inflated(name, place, head) if whole is None else whole[: head.size]
        if len(data) != head.size:
            return None
        known = self._known
        if known is not None and not data.startswith(known.data):
            known = None
        stream = growing.resume(
            self._pack[head.body : self._stop(place)],
            *mark,
            data,
            None if known is None else known.stream,
        )
        if stream is None:
            return None
        first = place
        anchors: list[Older] = []
        while first and (older := self._older(first - 1, name, len(data))) is not None:
            anchors.insert(0, older)
            first -= 1
        recent = [self._older(n, name, len(data)) for n in range(place + 1, len(self._order))]
        found = Rolling(self._algorithm, name, data, stream, anchors=anchors)
        found.recent = [older for older in recent if older is not None]
        if len(found.recent) != len(recent):
            return None
        self._settled(found, first, known)
        found.names.update(older.oid for older in (*anchors, *found.recent))
        found.names.add(name)
        return found

    def _inflated(self, name: bytes, place: int, head: fmt.Head) -> bytes:
        data = fmt.inflate(memoryview(self._pack)[: self._stop(place)], head.body, head.size)
        if fmt.digest(self._algorithm, (loose.header("blob", (data,)), data)) != name:
            raise ValueError("a blob of another name")
        return data

    def _settled(self, found: Rolling, count: int, known: Rolling | None) -> None:
        """Fill in the first `count` entries, going on from `known` where it is a beginning."""
        stop = self._starts[count]
        first = 0
        if known is not None and self._pack.startswith(known.settled, fmt.HEADER_BYTES):
            reached = fmt.HEADER_BYTES + len(known.settled)
            if reached <= stop:
                first = bisect_left(self._starts, reached)
                found.settled, found.rows = known.settled, known.rows
                found.names = set(map(fmt.row_oid, known.rows))
                found.tree = known.tree
        start = self._starts[first]
        if start != fmt.HEADER_BYTES + len(found.settled):
            raise ValueError("another pack than was known")
        found.settled += self._pack[start:stop]
        for place in range(first, count):
            oid, begin = self._oid(place), self._starts[place]
            number = self._pack[begin] >> 4 & 7
            if number not in fmt.KINDS and number != fmt.REF_DELTA:
                raise ValueError("an entry bound to its place")
            crc = zlib.crc32(memoryview(self._pack)[begin : self._stop(place)])
            found.rows.append(fmt.row(oid, begin, crc))
            found.names.add(oid)

    def _older(self, place: int, newest: bytes, size: int) -> Older | None:
        """The delta against the newest ledger at that place; None where there is another thing."""
        head = fmt.read_head(self._pack, self._starts[place])
        body = head.body + self._width
        if head.number != fmt.REF_DELTA or self._pack[head.body : body] != newest:
            return None
        if head.size > 2 * _LONGEST_REST:
            raise ValueError("a delta that is too long")
        delta = fmt.inflate(memoryview(self._pack)[: self._stop(place)], body, head.size)
        shared, rest = fmt.read_prefix_delta(delta)
        if fmt.delta_sizes(delta)[0] != size:
            raise ValueError("a delta against another ledger")
        return Older(self._oid(place), shared, rest)

    def _oid(self, place: int) -> bytes:
        at = self._order[place] * self._width
        return self._tables.oids[at : at + self._width]

    def _stop(self, place: int) -> int:
        return self._starts[place + 1] if place + 1 < len(self._starts) else self._end
