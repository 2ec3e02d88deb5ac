"""Exporting a sealed trace as one archive, the same bytes for the same trace.

Only what the seal vouches for goes into it; it never replaces a file that is there.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import secrets
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from callboard.errors import CallboardError
from callboard.files import sync_folder
from callboard.layers.attempts import trace_of
from callboard.layers.disk import Disk
from callboard.layers.records.attempt import TracedFile, TraceManifest
from callboard.layers.records.base import encode
from callboard.layers.sealing import MANIFEST
from callboard.layers.traces import sealed_manifest
from callboard.layers.tree import Layer

_LEVEL = 6


def export(disk: Disk, layer: Layer, attempt: str, target: Path) -> int:
    """Write the trace as a `.tar.gz` at the absolute path `target`; its size in bytes.

    Names in it begin with the attempt's id. Raises `trace_missing`, `trace_unsealed`,
    `trace_pruned`, `trace_changed` (details: `file`) where something differs from what was
    sealed, or `export_failed` where the file cannot be made or there is one.
    """
    _, manifest, is_sealed = sealed_manifest(disk, layer, attempt)
    if manifest is None or not is_sealed:
        raise _changed(attempt, MANIFEST)
    temporary = target.with_name(f".{target.name[:48]}.{secrets.token_hex(8)}.tmp")
    try:
        with contextlib.ExitStack() as cleanup:
            stream = cleanup.enter_context(temporary.open("xb"))
            cleanup.callback(temporary.unlink)
            _write(disk, layer, manifest, stream)
            stream.flush()
            os.fsync(stream.fileno())
            # A link never replaces anything.
            os.link(temporary, target)
            size_bytes = os.fstat(stream.fileno()).st_size
        sync_folder(target.parent)
    except OSError as error:
        raise CallboardError(
            "export_failed",
            f"the archive {str(target)!r} cannot be made: {error.strerror}",
            "name a file that is not there yet, in a folder that can be written to",
            {"attempt_id": attempt},
        ) from error
    return size_bytes


def _write(disk: Disk, layer: Layer, manifest: TraceManifest, stream: IO[bytes]) -> None:
    attempt = manifest.attempt_id
    with (
        gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as packed,
        tarfile.TarFile(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        data = encode(manifest)
        archive.addfile(_member(attempt, MANIFEST, len(data)), io.BytesIO(data))
        for file in manifest.files:
            with _opened(disk, layer, attempt, file) as content:
                archive.addfile(_member(attempt, file.path, file.size_bytes), content)
                content.check()


def _member(attempt: str, path: str, size_bytes: int) -> tarfile.TarInfo:
    """A member without anything of this machine: no owner, no time, one mode."""
    member = tarfile.TarInfo(f"{attempt}/{path}")
    member.size = size_bytes
    member.mode = 0o644
    return member


class _Checked(io.RawIOBase):
    """A file of a trace, and whether what was read of it is what was sealed."""

    def __init__(self, stream: IO[bytes], attempt: str, file: TracedFile) -> None:
        self._stream = stream
        self._attempt = attempt
        self._file = file
        self._content = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes; `trace_changed` where there are fewer, as a seal said more."""
        data = self._stream.read(size)
        if len(data) < size:
            raise _changed(self._attempt, self._file.path)
        self._content.update(data)
        return data

    def check(self) -> None:
        """`trace_changed` unless everything was read, and was what was sealed."""
        is_all = not self._stream.read(1)
        if not is_all or f"sha256:{self._content.hexdigest()}" != self._file.sha256:
            raise _changed(self._attempt, self._file.path)


@contextlib.contextmanager
def _opened(disk: Disk, layer: Layer, attempt: str, file: TracedFile) -> Iterator[_Checked]:
    try:
        with disk.reading(f"{trace_of(layer, attempt)}/{file.path}") as stream:
            yield _Checked(stream, attempt, file)
    except CallboardError as error:
        if error.code in ("file_missing", "file_not_regular", "path_invalid"):
            raise _changed(attempt, file.path) from error
        raise


def _changed(attempt: str, path: str) -> CallboardError:
    return CallboardError(
        "trace_changed",
        f"{path!r} in the trace of {attempt} is not what was sealed",
        "look at `callboard layers traces inspect`; copy the folder by hand to keep it as it is",
        {"attempt_id": attempt, "file": path},
    )
