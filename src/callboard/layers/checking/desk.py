"""Where a check lays out what it looks at: the survey of the files, and their reading.

Each refusal becomes a finding, and the check goes on.
"""

from __future__ import annotations

from typing import TypeVar

from callboard.errors import CallboardError
from callboard.layers import tree
from callboard.layers.checking.findings import Findings
from callboard.layers.disk import Disk, Kind, Survey
from callboard.layers.names import is_id
from callboard.layers.records.base import MAX_RECORD_BYTES, Record, digest
from callboard.layers.stored import parse_record, read_file

R = TypeVar("R", bound=Record)

MAX_INPUT_BYTES = 64 * 1024 * 1024
"""Of a frozen file that is no record; only its digest is taken."""

_MAX_PARSED = 100
_LEFT_OVER = (".tmp", ".building", ".removed")


class Desk:
    """The files of trees as a survey found them, and the findings about them."""

    def __init__(self, disk: Disk, survey: Survey, findings: Findings) -> None:
        self.disk = disk
        self.survey = survey
        self.findings = findings
        self._parsed: dict[tuple[type[Record], str], Record] = {}

    def entries(self, folder: str) -> list[tuple[str, Kind]]:
        """What a folder holds; nothing where there is none."""
        return self.survey.folders.get(folder, [])

    def files(self, folder: str, ending: str) -> list[str]:
        """The names of the finished files in a folder that have this ending, without it."""
        return [
            name.removesuffix(ending)
            for name, kind in self.entries(folder)
            if kind == "file" and name.endswith(ending) and not name.startswith(".")
        ]

    def has(self, place: str) -> bool:
        """Whether something lies there."""
        folder, _, name = place.rpartition("/")
        return any(name == found for found, _ in self.entries(folder))

    def is_layer(self, folder: str, name: str, kind: Kind) -> bool:
        """Whether this is the folder of a layer, and not only called like one."""
        place = f"{folder}/{name}"
        return kind == "folder" and is_id(name) and any(map(self.has, tree.marks(place)))

    def data(self, place: str, limit_bytes: int = MAX_RECORD_BYTES) -> bytes | None:
        """The bytes of a file that has to be there; None: a finding says why not."""
        try:
            return read_file(self.disk, place, limit_bytes)
        except CallboardError as error:
            self.findings.refused(place, error)
            return None

    def record(self, place: str, kind: type[R], limit_bytes: int = MAX_RECORD_BYTES) -> R | None:
        """The record that has to be there; None: a finding says why it is not."""
        data = self.data(place, limit_bytes)
        return None if data is None else self.parsed(place, data, kind, limit_bytes)

    def parsed(
        self, place: str, data: bytes, kind: type[R], limit_bytes: int = MAX_RECORD_BYTES
    ) -> R | None:
        """The record in bytes that were read from `place`."""
        try:
            return parse_record(data, kind, place, limit_bytes)
        except CallboardError as error:
            self.findings.refused(place, error)
            return None

    def frozen(self, place: str, kind: type[R], sha256: str | None) -> R | None:
        """A record whose bytes have that digest, if one is known. Equal bytes are parsed once."""
        data = self.data(place)
        if data is None:
            return None
        found = digest(data)
        known = self._parsed.get((kind, found))
        record = known if isinstance(known, kind) else self.parsed(place, data, kind)
        if record is not None and len(self._parsed) < _MAX_PARSED:
            self._parsed[kind, found] = record
        self.same(place, found, sha256)
        return record

    def unchanged(self, place: str, sha256: str | None) -> None:
        """That a file which is no record has the digest that was frozen."""
        data = self.data(place, MAX_INPUT_BYTES)
        if data is not None:
            self.same(place, digest(data), sha256)

    def same(self, place: str, found: str, sha256: str | None) -> None:
        """That a digest is the frozen one."""
        if sha256 is not None and found != sha256:
            message = f"it has the digest {found}, {sha256} was frozen"
            self.findings.add("hash_mismatch", place, message)

    def stray(self, folder: str, name: str, kind: Kind, *, expected: bool) -> None:
        """A finding about a name in a folder of the machine, unless it is expected there."""
        place = f"{folder}/{name}"
        if kind == "other":
            self.findings.add("file_not_regular", place, "it is a link, a pipe or a device")
        elif name.startswith(".") and name.endswith(_LEFT_OVER):
            what = "a folder that is built" if kind == "folder" else "a write that is not finished"
            self.findings.add("temporary_file", place, what)
        elif not expected:
            what = "folder" if kind == "folder" else "file"
            self.findings.add("foreign_file", place, f"a {what} of this name belongs to nothing")
