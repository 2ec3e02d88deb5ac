"""Sealing the trace of an attempt: a manifest of its files, and a receipt of it in the session.

Links, pipes and the like are named and never followed or opened. Counts and sizes are bounded,
whatever a role left there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from callboard.errors import CallboardError
from callboard.layers.attempts import trace_of
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.attempt import (
    SkippedFile,
    SkipReason,
    TracedFile,
    TraceManifest,
    TraceSeal,
)
from callboard.layers.records.base import Record, digest, encode
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.tree import Layer
from callboard.visible import visible

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 32 * 1024 * 1024
MAX_FILES = 4_000
MAX_TRACE_BYTES = 4 * 1024 * 1024 * 1024
"""Of all files together that are digested; larger ones are named only."""

_CHUNK_BYTES = 1024 * 1024
_MAX_PATH = 4096
_TEMPORARY = re.compile(r"\..*\.tmp", re.DOTALL)


def seal_of(layer: Layer, attempt: str) -> str:
    """The place of the receipt that stays when the trace is pruned."""
    return layer.file("trace_seals", f"{attempt}.json")


def seal(
    disk: Disk,
    layer: Layer,
    attempt: str,
    *,
    git_before: GitSubject | None,
    git_after: GitSubject | None,
    now_ms: int,
) -> TraceSeal:
    """Publish the manifest of what is in the trace now, then its seal, instead of older ones."""
    trace = trace_of(layer, attempt)
    listing = Listing.of(disk, trace)
    manifest = encode(
        TraceManifest(
            schema_version=1,
            session_id=layer.session.session_id,
            attempt_id=attempt,
            git_before=git_before,
            git_after=git_after,
            files=tuple(listing.files),
            skipped=tuple(listing.skipped),
            complete=listing.complete,
            created_at_ms=now_ms,
        )
    )
    made = TraceSeal(
        schema_version=1,
        attempt_id=attempt,
        manifest_sha256=digest(manifest),
        files=len(listing.files),
        size_bytes=sum(file.size_bytes for file in listing.files),
        sealed_at_ms=now_ms,
    )
    put(disk, f"{trace}/{MANIFEST}", manifest)
    put_record(disk, seal_of(layer, attempt), made)
    return made


def put(disk: Disk, place: str, data: bytes) -> None:
    """Publish a file of the machine where a role may have put something of its own."""
    if disk.kind(place) == "folder":
        disk.remove_tree(place)
    disk.publish(place, data)


def put_record(disk: Disk, place: str, record: Record) -> None:
    """As `put`, for a record."""
    put(disk, place, encode(record))


@dataclass(slots=True)
class Listing:
    """What lies in a trace, in the order of its paths."""

    files: list[TracedFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    complete: bool = True

    @classmethod
    def of(cls, disk: Disk, trace: str) -> Listing:
        """The listing of the folder `trace`, without manifest and temporary files."""
        found = cls()
        rest_bytes = MAX_TRACE_BYTES
        for path, reason in _walk(disk, trace):
            if len(found.files) + len(found.skipped) == MAX_FILES:
                found.complete = False
                break
            if reason is None:
                file = _file(disk, trace, path, rest_bytes)
                if isinstance(file, TracedFile):
                    found.files.append(file)
                    rest_bytes -= file.size_bytes
                    continue
                reason = file
            shown = visible(path)[:_MAX_PATH] or "."
            found.skipped.append(SkippedFile(path=shown, reason=reason))
        found.files.sort(key=lambda file: file.path)
        found.skipped.sort(key=lambda file: file.path)
        return found


def digest_of(disk: Disk, place: str, limit_bytes: int) -> tuple[str, int] | None:
    """Digest and size of a regular file; None where it has more than `limit_bytes`."""
    content = hashlib.sha256()
    size_bytes = 0
    with disk.reading(place) as stream:
        while data := stream.read(_CHUNK_BYTES):
            size_bytes += len(data)
            if size_bytes > limit_bytes:
                return None
            content.update(data)
    return f"sha256:{content.hexdigest()}", size_bytes


def _file(disk: Disk, trace: str, path: str, rest_bytes: int) -> TracedFile | SkipReason:
    try:
        found = digest_of(disk, f"{trace}/{path}", rest_bytes)
    except (CallboardError, OSError):
        # Shut, or exchanged for something else at this moment.
        return "unreadable"
    if found is None:
        return "size"
    return TracedFile(path=path, sha256=found[0], size_bytes=found[1])


def _walk(disk: Disk, trace: str) -> Iterator[tuple[str, SkipReason | None]]:
    """Everything below a folder by its path, with why it has no digest, None for plain files."""
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            entries = disk.entries(f"{trace}/{path}".rstrip("/"))
        except (CallboardError, OSError):
            yield path, "unreadable"
            continue
        folders = []
        for name, kind in entries:
            below = f"{path}/{name}" if path else name
            if below == MANIFEST or (not path and _TEMPORARY.fullmatch(name)):
                continue
            if len(below) > _MAX_PATH or visible(below) != below:
                yield below, "name"
            elif kind == "folder":
                folders.append(below)
            elif kind == "file":
                yield below, None
            else:
                yield below, _what(disk, f"{trace}/{below}")
        waiting += reversed(folders)


def _what(disk: Disk, place: str) -> SkipReason:
    try:
        disk.target(place)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return "special"
    return "link"
