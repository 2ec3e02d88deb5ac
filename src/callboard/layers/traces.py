"""The raw traces of attempts: which there are, whether they are as sealed, and pruning them.

A seal stays for good. Only the trace of a finished attempt is ever taken away, and one of which
a part is gone is no trace any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from callboard.errors import CallboardError
from callboard.layers.attempts import place_of, trace_of
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.names import is_id
from callboard.layers.records.attempt import TracedFile, TraceManifest, TraceSeal
from callboard.layers.records.base import digest, read
from callboard.layers.sealing import MANIFEST, MAX_MANIFEST_BYTES, Listing, seal_of
from callboard.layers.stored import read_record
from callboard.layers.tree import Layer, read_state
from callboard.visible import visible

_PRUNING = ".pruning"

Standing = Literal["open", "sealed", "pruned"]


@dataclass(frozen=True, slots=True)
class Trace:
    """One attempt's trace. `open`: not sealed yet; `pruned`: its seal is all that is left.

    `files` and `size_bytes` are those of the seal, None without one.
    """

    session_id: str
    attempt_id: str
    standing: Standing
    finished: bool
    files: int | None
    size_bytes: int | None
    sealed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A trace compared with its manifest, and that with its seal. Paths are sorted.

    `changed`, `missing`, `added`: files by their paths in the trace. `skipped`: what the manifest
    names without a digest. `complete`: false where there was more than a manifest may name;
    nothing can be told of the rest. `is_sound`: everything that it names is as it was sealed.
    """

    trace: Trace
    manifest_is_sealed: bool
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    skipped: tuple[str, ...]
    complete: bool

    @property
    def is_sound(self) -> bool:
        """Whether nothing differs from what was sealed."""
        return self.manifest_is_sealed and not (self.changed or self.missing or self.added)


def traces_of(disk: Disk, layer: Layer) -> list[Trace]:
    """The traces of one layer, open, sealed and pruned, in the order of their attempts."""
    seals = {name.removesuffix(".json") for name in disk.names(layer.file("trace_seals"))}
    folders = {name for name, kind in _entries(disk, layer) if kind == "folder"}
    return [trace(disk, layer, attempt) for attempt in sorted(seals | folders) if is_id(attempt)]


def _entries(disk: Disk, layer: Layer) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in disk.entries(f"{layer.trace_place}/attempts")]


def trace(disk: Disk, layer: Layer, attempt: str) -> Trace:
    """The trace of one attempt; `trace_missing` where there never was one."""
    sealed = _seal(disk, layer, attempt) if is_id(attempt) else None
    is_there = is_id(attempt) and disk.kind(trace_of(layer, attempt)) == "folder"
    if sealed is None and not is_there:
        raise CallboardError(
            "trace_missing",
            f"the layer {layer.session.session_id} has no trace of '{visible(attempt)[:200]}'",
            "list them with `callboard layers traces list`",
            {"attempt_id": attempt[:200]},
        )
    standing: Standing = "open" if sealed is None else "sealed" if is_there else "pruned"
    return Trace(
        session_id=layer.session.session_id,
        attempt_id=attempt,
        standing=standing,
        finished=disk.kind(f"{place_of(layer, attempt)}/finished.json") == "file",
        files=None if sealed is None else sealed.files,
        size_bytes=None if sealed is None else sealed.size_bytes,
        sealed_at_ms=None if sealed is None else sealed.sealed_at_ms,
    )


def _seal(disk: Disk, layer: Layer, attempt: str) -> TraceSeal | None:
    place = seal_of(layer, attempt)
    return None if disk.kind(place) is None else read_record(disk, place, TraceSeal)


# --- inspecting -----------------------------------------------------------------------------------


def inspect(disk: Disk, layer: Layer, attempt: str) -> Inspection:
    """Compare a sealed trace, every byte of it, with what was sealed.

    Raises `trace_missing`, `trace_unsealed` or `trace_pruned`.
    """
    found, manifest, is_sealed = sealed_manifest(disk, layer, attempt)
    now = Listing.of(disk, trace_of(layer, attempt))
    then_files = {} if manifest is None else _by_path(manifest.files)
    now_files = _by_path(now.files)
    # What lies there and cannot be digested now: a link in a file's place, or a shut file.
    now_others = {one.path for one in now.skipped}
    skipped = set() if manifest is None else {one.path for one in manifest.skipped}
    there = now_files.keys() | now_others
    complete = manifest is None or manifest.complete
    return Inspection(
        trace=found,
        manifest_is_sealed=is_sealed,
        changed=tuple(
            sorted(
                path
                for path, file in then_files.items()
                if path in there and now_files.get(path) != file
            )
        ),
        missing=tuple(sorted((then_files.keys() | skipped) - there)),
        added=tuple(sorted(there - then_files.keys() - skipped)) if complete else (),
        skipped=tuple(sorted(skipped)),
        complete=complete,
    )


def sealed_manifest(
    disk: Disk, layer: Layer, attempt: str
) -> tuple[Trace, TraceManifest | None, bool]:
    """A sealed trace, its manifest if it can be read, and whether that is the sealed one."""
    found = trace(disk, layer, attempt)
    if found.standing == "open":
        raise CallboardError(
            "trace_unsealed",
            f"the trace of {attempt} is not sealed: the attempt runs, or ended badly",
            "wait for its end; `callboard layers run` takes up what was left",
            {"attempt_id": attempt},
        )
    if found.standing == "pruned":
        raise CallboardError(
            "trace_pruned",
            f"the trace of {attempt} was pruned; its seal is all that is left",
            "export traces that are to be kept before pruning them",
            {"attempt_id": attempt},
        )
    sealed = read_record(disk, seal_of(layer, attempt), TraceSeal)
    try:
        data = disk.read(f"{trace_of(layer, attempt)}/{MANIFEST}", MAX_MANIFEST_BYTES)
        manifest = read(data, TraceManifest, MANIFEST, limit_bytes=MAX_MANIFEST_BYTES)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return found, None, False
    return found, manifest, digest(data) == sealed.manifest_sha256


def _by_path(files: Iterable[TracedFile]) -> dict[str, TracedFile]:
    return {file.path: file for file in files}


# --- pruning --------------------------------------------------------------------------------------


def prune(
    disk: Disk,
    layers: Sequence[Layer],
    *,
    sealed_before_ms: int | None = None,
    keep: int | None = None,
) -> list[Trace]:
    """Take the traces of finished attempts away, as far as both conditions say so; they are told.

    `sealed_before_ms`: only those sealed earlier (Unix ms). `keep`: only those beyond so many of
    the latest of all `layers` together. Without any condition nothing is taken. What a prune that
    was killed had begun with is finished first.
    """
    for layer in layers:
        for name, _ in _entries(disk, layer):
            if name.startswith(".") and name.endswith(_PRUNING):
                disk.remove_tree(f"{layer.trace_place}/attempts/{name}")
    if sealed_before_ms is None and keep is None:
        return []
    candidates = [
        (one.sealed_at_ms or 0, one.session_id, one.attempt_id, layer, one)
        for layer in layers
        for one in _ended(disk, layer)
    ]
    candidates.sort(key=lambda found: found[:3], reverse=True)
    pruned = []
    for sealed_at_ms, _, attempt, layer, one in candidates[keep or 0 :]:
        is_old = sealed_before_ms is None or sealed_at_ms < sealed_before_ms
        if is_old and _take_away(disk, layer, attempt):
            pruned.append(one)
    return pruned


def _ended(disk: Disk, layer: Layer) -> list[Trace]:
    task = read_state(disk, layer).task
    current = None if task is None else task.attempt_id
    return [
        one
        for one in traces_of(disk, layer)
        if one.standing == "sealed" and one.finished and one.attempt_id != current
    ]


def _take_away(disk: Disk, layer: Layer, attempt: str) -> bool:
    """Whether it was there; somebody else may have taken it away meanwhile."""
    # It gets another name first: half a trace would pass for one that was tampered with.
    leaving = f"{layer.trace_place}/attempts/.{attempt}{_PRUNING}"
    try:
        disk.move(trace_of(layer, attempt), leaving)
    except CallboardError as error:
        if error.code != "file_missing":
            raise
        return False
    disk.remove_tree(leaving)
    return True
