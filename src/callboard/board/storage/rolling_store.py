"""Keeping a board's commits in its rolling pack, one pack a ref, durable before the ref moves.

Each append writes a pack that holds all of the one before it and three objects more. The old one
goes once the ref has moved and the new one is durable. What a crash leaves behind is named in the
note, and taken in or cleared away by the next append. A pack that Git's maintenance has taken over
is not missed: another one begins. Never used for a ref without holding its turn (`refs.move`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import NamedTuple

from dulwich.file import SharedPerm
from dulwich.object_format import OBJECT_FORMATS

from callboard.board.storage import growing, rolling, standing
from callboard.board.storage.pack_files import PackFiles
from callboard.board.storage.refusals import typed_io
from callboard.board.storage.rolling import Image, Mark, Rolling
from callboard.board.storage.rolling_note import Note, NoteFile, Tip
from callboard.board.storage.vanishing import retried

_PACK_LIMIT_BYTES = 256 * 1024 * 1024
# How many replaced packs stay, and how many at least where they are large, and appends slow.
_LINGERING = 8
_LINGERING_ALWAYS = 1
_LINGERING_BYTES = 8 * 1024 * 1024


class Addition(NamedTuple):
    """What an append adds: the ledger's blob `oid`, grown from `previous`, and smaller objects.

    `others` are (kind, name, contents).
    """

    previous: str | None
    oid: str
    data: bytes
    others: tuple[tuple[str, str, bytes], ...]


class _Known(NamedTuple):
    """A pack, its name, and the names of packs that are a part of it for certain."""

    stem: str
    pack: Rolling
    parts: frozenset[str] = frozenset()

    @property
    def tip(self) -> Tip:
        return Tip(self.stem, self.pack.newest.hex(), *self.pack.mark)


@dataclass(frozen=True, slots=True)
class _Made:
    """A pack that is durable, or about to be, the note that names it, and one without it."""

    known: _Known
    image: Image
    note: Note
    without: Note


class RollingPacks:
    """The rolling packs of one repository, by ref. Thread-safe for different refs."""

    def __init__(
        self, objects: Path, common_dir: Path, object_format: str, shared: SharedPerm | None
    ) -> None:
        self._algorithm = object_format
        self._common_dir = common_dir
        self._objects = objects
        self._shared = shared
        self._files = PackFiles(objects, OBJECT_FORMATS[object_format].hex_length // 2, shared)
        self._known: dict[str, _Known] = {}
        # By thread too: one may still be clearing up after its append when the next is under way.
        self._made: dict[tuple[str, int], _Made] = {}
        self._notes: dict[str, Note] = {}

    def write(self, ref: str, addition: Addition) -> None:
        """Make the addition durable in the pack of `ref`; it is kept until `moved`, `failed`
        or `refused`."""
        known = self._known.pop(ref, None)
        file = NoteFile(self._common_dir, ref, self._shared)
        note = file.read()
        if note is None:
            self._files.unkeep_left()
            note = Note()
        with typed_io("write a pack to", self._objects):
            made = self._compose(addition, self._sifted(note), known, file)
            file.write(made.note)
            self._made[ref, get_ident()] = made
            retried(lambda: self._files.publish(made.known.stem, made.image))

    def check(self, ref: str) -> None:
        """See that what was written is still there, and write it again where it is not."""
        made = self._made.get((ref, get_ident()))
        if made is not None:
            with typed_io("write a pack to", self._objects):
                retried(lambda: self._present(made))

    def _present(self, made: _Made) -> None:
        if not self._files.is_whole(made.known.stem):
            self._files.publish(made.known.stem, made.image)

    def failed(self, ref: str) -> None:
        """The ref did not move, or may not have: leave all as a dead process would have."""
        made = self._made.pop((ref, get_ident()), None)
        if made is not None:
            self._files.abandon(made.known.stem)

    def refused(self, ref: str) -> None:
        """Nothing can ever lead to what was made: remove it at once. For the holder of the turn.

        Where Git has laid something beside it meanwhile, it is left as by `failed`.
        """
        made = self._made.pop((ref, get_ident()), None)
        if made is None:
            return
        with suppress(OSError):
            if self._files.discard(made.known.stem):
                NoteFile(self._common_dir, ref, self._shared).write(made.without)

    def moved(self, ref: str) -> None:
        """The ref has moved, durably: remove what the new pack replaces.

        What fails here is no matter, as the next append tries it again.
        """
        made = self._made.pop((ref, get_ident()), None)
        if made is None:
            return
        note, known = made.note, made.known
        try:
            self._files.release(known.stem)
            gone = self._remove(self._due(note.spent), note, known)
            self._files.mend_multi_pack_index({*note.gone, *gone})
        except OSError:
            self._files.abandon(known.stem)
        self._known[ref] = known
        self._notes[ref] = note

    def close(self) -> None:
        """Remove the replaced packs that were left for readers, as no append follows soon."""
        for ref, note in list(self._notes.items()):
            del self._notes[ref]
            known = self._known.pop(ref, None)
            if known is not None:
                with suppress(OSError):
                    self._remove(note.spent, note, known)
                self._known.setdefault(ref, known)

    def _remove(self, stems: Sequence[str], note: Note, known: _Known) -> list[str]:
        """Remove these replaced packs; answers which are gone."""
        gone: list[str] = []
        others = list(note.standing)
        held = [known.pack.names]
        for stem in stems:
            self._files.clear(stem)
            if stem in known.parts:
                removed = self._files.remove(stem, None, _PACK_LIMIT_BYTES)
            else:
                removed = self._files.remove(stem, held, _PACK_LIMIT_BYTES)
            # Most are replaced by the present pack, some by one that has become full since.
            while not removed and others and stem not in known.parts:
                held.append(self._files.names(others.pop(), self._algorithm, _PACK_LIMIT_BYTES))
                removed = self._files.remove(stem, held, _PACK_LIMIT_BYTES)
            gone += [stem] if removed else []
        return gone

    def _due(self, spent: Sequence[str]) -> list[str]:
        """Those of the packs, oldest first, that are to go now.

        The latest stay for a while. A reader, Git's too, lists the packs first and opens them
        after, and looks again once; it must not find each of them gone.
        """
        total = 0
        for count, stem in enumerate(reversed(spent)):
            total += self._files.size(stem) or 0
            if count >= _LINGERING or (count >= _LINGERING_ALWAYS and total > _LINGERING_BYTES):
                return list(spent[: len(spent) - count])
        return []

    # --- what to write ---

    def _sifted(self, note: Note) -> Note:
        """The note without what is no longer there."""
        # No pack is on two of the lists, or twice on one: none may vouch for itself.
        stands = [stem for stem in dict.fromkeys(note.standing) if self._files.is_there(stem)]
        spent = [stem for stem in dict.fromkeys(note.spent) if stem not in stands]
        here = [stem for stem in spent if self._files.is_there(stem)]
        return Note(
            tuple(tip for tip in note.tips if self._files.is_there(tip.pack)),
            tuple(stands),
            tuple(here),
            (*note.gone, *(stem for stem in spent if stem not in here)),
        )

    def _compose(
        self, addition: Addition, note: Note, known: _Known | None, file: NoteFile
    ) -> _Made:
        """The pack to write, and the note to be written before it."""
        found = self._adopt(addition, note, known)
        before = None if found is None else found.tip
        shared = 0 if found is None else len(found.pack.data)
        pack, continued = self._begun(addition, found)
        stands, spent, tips = list(note.standing), list(note.spent), []
        if before is not None and self._files.is_there(before.pack):
            tips.append(before)
            (spent if continued else stands).append(before.pack)
            # It is the tip's, so whoever made it was killed after the ref had moved.
            self._files.unkeep(before.pack)
        for tip in note.tips:
            if tip.pack in spent or tip.pack in stands:
                continue
            # A pack whose ledger never became the tip, or a board's that others have changed.
            self._files.clear(tip.pack)
            self._files.unkeep(tip.pack)
            fresh = before is None and addition.previous is not None
            folded = not fresh and self._fold(pack, tip, shared)
            (spent if folded else stands).append(tip.pack)
        if not continued and len(stands) > 1:
            stands = standing.merged(stands, self._files, self._algorithm, note, file)
        stood = tuple(stands)
        parts = found.parts | {found.stem} if found is not None and continued else frozenset()
        made = _Known(self._files.new_stem(), pack, frozenset(parts & {*spent}))
        stands = [stem for stem in stands if stem not in spent]
        after = Note((made.tip, *tips), tuple(stands), tuple(dict.fromkeys(spent)), note.gone)
        earlier = tuple(dict.fromkeys((*tips, *note.tips)))
        packs = {tip.pack for tip in earlier}
        stood = tuple(stem for stem in stood if stem not in packs)
        return _Made(made, pack.image(), after, Note(earlier, stood, note.spent, note.gone))

    def _begun(self, addition: Addition, found: _Known | None) -> tuple[Rolling, bool]:
        """The pack with the addition in it, and whether it goes on from the one that was found."""
        oid = bytes.fromhex(addition.oid)
        stream = None if found is None else growing.extend(found.pack.stream, addition.data)
        continued = (
            found is not None
            and not found.pack.is_full
            and oid not in found.pack.names
            and self._files.is_whole(found.stem)
        )
        if found is not None and stream is not None and continued:
            pack = found.pack
            pack.grow(oid, addition.data, stream)
        else:
            pack = Rolling.begin(self._algorithm, oid, addition.data, stream)
        for kind, name, data in addition.others:
            pack.add(kind, bytes.fromhex(name), data)
        return pack, continued

    def _adopt(self, addition: Addition, note: Note, known: _Known | None) -> _Known | None:
        """The pack whose newest ledger is the one the addition has grown from."""
        if addition.previous is None:
            return None
        previous = bytes.fromhex(addition.previous)
        if known is not None and known.pack.newest == previous:
            return known if addition.data.startswith(known.pack.data) else None
        for tip in note.tips:
            if tip.blob != addition.previous:
                continue
            files = self._files.read(tip.pack, _PACK_LIMIT_BYTES)
            if files is None:
                continue
            mark = Mark(tip.closed, tip.closed_bytes)
            earlier = None if known is None else known.pack
            pack = rolling.parse(*files, self._algorithm, previous, addition.data, mark, earlier)
            if pack is not None:
                return _Known(tip.pack, pack)
            # What was known may have been drawn into the attempt.
            known = None
        return None

    def _fold(self, pack: Rolling, tip: Tip, shared: int) -> bool:
        """Take what only that pack has into `pack`, so that it may go; False where it stays."""
        files = self._files.read(tip.pack, _PACK_LIMIT_BYTES)
        if files is None:
            return False
        mark = Mark(tip.closed, tip.closed_bytes)
        blob = bytes.fromhex(tip.blob)
        other = rolling.parse(*files, self._algorithm, blob, None, mark, None)
        return other is not None and pack.fold(other, shared) and other.names <= pack.names
