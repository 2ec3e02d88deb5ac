"""Whether the work files are as they were indexed, and where their edges lead out of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callboard.errors import CallboardError
from callboard.project import names, queries
from callboard.project.doctor.findings import finding
from callboard.project.records import Finding
from callboard.project.source.fields import is_external
from callboard.project.source.nodes import MAX_FILE_BYTES
from callboard.project.source.place import Place
from callboard.project.source.reading import FIRST
from callboard.project.unit import Scope


def files(scope: Scope, root: Path) -> Iterator[Finding]:
    """Files that are not as they were indexed, or never were."""
    indexed = list(queries.sources(scope))
    if not indexed and (there := _sha256_of(root, FIRST)) is not None:
        yield finding(
            "source_unindexed",
            f"the file {FIRST} was never indexed, so the project knows none of its work",
            subject=FIRST,
            sha256=there,
        )
    for source in indexed:
        now = _sha256_of(root, source.path)
        if now != source.sha256:
            yield finding(
                "source_gone" if now is None else "source_changed",
                f"the file {names.shown(source.path)} "
                + ("cannot be read" if now is None else "changed since it was indexed"),
                subject=source.path,
                indexed_sha256=source.sha256,
                sha256=now,
            )


def _sha256_of(root: Path, path: str) -> str | None:
    try:
        return Place(root).read(path, MAX_FILE_BYTES).sha256
    except CallboardError:
        return None


def dependencies(scope: Scope) -> Iterator[Finding]:
    """Edges that lead out of what was indexed; nobody takes them away."""
    for work, other in queries.loose_dependencies(scope):
        what = f"{names.shown(work)} depends on {names.shown(other)}, which "
        if is_external(other):
            yield finding(
                "dependency_external",
                what + "is elsewhere and cannot be verified here",
                subject=work,
                depends_on=other,
            )
        else:
            yield finding(
                "dependency_unknown", what + "no file has", subject=work, depends_on=other
            )
