"""One run over one target: what was tried, what was found, and the file each finding goes to.

A finding does not end the run. Those with one cause are kept once: the same kind, and the same
place in the package where it came up.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.targets import TARGETS, Finding


class Session:
    """Runs inputs through a target and files the findings in a folder."""

    def __init__(
        self, target: str, folder: Path, check: Callable[[bytes], None] | None = None
    ) -> None:
        self.target = target
        self.tried = 0
        self.found: dict[str, Path] = {}
        self._folder = folder
        self._check = check or TARGETS[target]

    def run(self, data: bytes) -> None:
        """Try one input."""
        self.tried += 1
        try:
            self._check(data)
        except Finding as finding:
            self._file(data, finding)

    def _file(self, data: bytes, finding: Finding) -> None:
        cause = finding.__cause__ or finding
        frames = traceback.extract_tb(cause.__traceback__)
        place = f"{frames[-1].name}:{frames[-1].lineno}" if frames else ""
        signature = f"{finding.kind} {type(cause).__name__} {place}"
        if finding.kind == "disagreement":
            signature = f"{finding.kind} {place} {str(finding)[:60]}"
        if signature in self.found:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(data).hexdigest()[:16]
        path = self._folder / f"{self.target}-{finding.kind}-{name}"
        path.write_bytes(data)
        trace = "".join(traceback.format_exception(finding))
        path.with_suffix(".txt").write_text(f"{signature}\n{finding}\n\n{trace}")
        self.found[signature] = path
