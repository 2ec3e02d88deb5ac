"""Merging the packs that were full, so that few are left however long a board is in use.

The newest is merged with its elders until the next elder is at least twice as large as all of
them: so each is twice its junior, their number grows with the logarithm of what they hold, and
each byte is copied a few times in its life. Entries are copied as they stand, never unpacked: in
these packs a delta names its base. Packs beyond `_LARGEST_BYTES` are left to Git's maintenance.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from callboard.board.storage import pack_format as fmt
from callboard.board.storage.pack_files import PackFiles
from callboard.board.storage.rolling import Image
from callboard.board.storage.rolling_note import Note, NoteFile
from callboard.board.storage.vanishing import retried

_LARGEST_BYTES = 64 * 1024 * 1024
_UNREADABLE = (ValueError, IndexError, struct.error)


def merged(
    stems: Sequence[str], files: PackFiles, algorithm: str, note: Note, file: NoteFile
) -> list[str]:
    """The packs `stems`, oldest first, with the youngest of them merged where that is due.

    A merged pack is durable, and in the note, before the packs it is made of are removed.
    """
    kept = list(stems)
    due = _due(kept, files)
    image = _image(due, files, algorithm) if len(due) > 1 else None
    if image is None:
        return kept
    stem = files.new_stem()
    file.write(Note(note.tips, (*kept, stem), note.spent, note.gone))
    retried(lambda: files.publish(stem, image))
    files.release(stem)
    names = fmt.index_names(image.table, len(image.digest))
    for old in due:
        if files.remove(old, [names], _LARGEST_BYTES):
            kept.remove(old)
    return [*kept, stem]


def _due(stems: Sequence[str], files: PackFiles) -> list[str]:
    """The youngest packs that are to become one."""
    due: list[str] = []
    total = 0
    for stem in reversed(stems):
        size = files.size(stem)
        if size is None:
            continue
        if (due and size >= 2 * total) or total + size > _LARGEST_BYTES:
            break
        due.append(stem)
        total += size
    return due


def _image(stems: Sequence[str], files: PackFiles, algorithm: str) -> Image | None:
    """The pack of all their objects; None where one of them is no pack of ours."""
    rows: dict[bytes, bytes] = {}
    bases: dict[bytes, bytes] = {}
    body = bytearray()
    for stem in stems:
        found = files.read(stem, _LARGEST_BYTES)
        if found is None or not files.is_ordinary(stem):
            return None
        try:
            entries = _entries(*found, algorithm)
            for oid, data, base in entries:
                if oid in rows:
                    continue
                rows[oid] = fmt.row(oid, fmt.HEADER_BYTES + len(body), zlib.crc32(data))
                body += data
                if base is not None:
                    bases[oid] = base
        except _UNREADABLE:
            return None
    if not _rooted(rows, bases):
        return None
    pieces: list[fmt.Bytes] = [fmt.pack_header(len(rows)), body]
    digest = fmt.digest(algorithm, pieces)
    return Image(pieces, digest, fmt.index_bytes(sorted(rows.values()), digest, algorithm))


def _entries(
    pack: bytes, index: bytes, algorithm: str
) -> list[tuple[bytes, memoryview, bytes | None]]:
    """Name, bytes and, of a delta, base of each entry; `ValueError` for a damaged pack."""
    width = len(fmt.digest(algorithm, ()))
    end = len(pack) - width
    if fmt.digest(algorithm, (memoryview(pack)[:end],)) != pack[end:]:
        raise ValueError("a damaged pack")
    tables = fmt.read_index(index, pack[end:], algorithm)
    order = sorted(range(len(tables.offsets)), key=tables.offsets.__getitem__)
    stops = [tables.offsets[row] for row in order[1:]] + [end]
    found: list[tuple[bytes, memoryview, bytes | None]] = []
    for row, stop in zip(order, stops, strict=True):
        start = tables.offsets[row]
        head = fmt.read_head(pack, start)
        base = None
        if head.number == fmt.REF_DELTA:
            base = pack[head.body : head.body + width]
        elif head.number not in fmt.KINDS:
            raise ValueError("an entry bound to its place")
        oid = tables.oids[row * width : row * width + width]
        found.append((oid, memoryview(pack)[start:stop], base))
    return found


def _rooted(rows: dict[bytes, bytes], bases: dict[bytes, bytes]) -> bool:
    """Whether every delta leads to a whole object, as it must where packs are mixed."""
    rooted: set[bytes] = set()
    for oid in rows:
        seen: list[bytes] = []
        while oid in bases and oid not in rooted and len(seen) <= len(rows):
            seen.append(oid)
            oid = bases[oid]
        if oid not in rows or len(seen) > len(rows):
            return False
        rooted.update(seen)
    return True
