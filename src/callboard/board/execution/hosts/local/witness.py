"""What this machine can tell of runs beside the ledger: their folders, their reports, their end.

Looking only: it never makes the registry, and what it cannot know it leaves unsaid. Nothing is
decided by it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from callboard.board.execution.hosts.local import registry_file
from callboard.board.execution.hosts.local.identity import state as liveness
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.hosts.local.run_report import claim_ending, read_report
from callboard.board.execution.site import Site
from callboard.errors import CallboardError


class Witness:
    """This machine, as a witness of one site's runs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def run_folder(self, run_id: str) -> Path | None:
        """Where this host keeps a run's logs and report, if it does."""
        folder = RunFolder.of(self._site.folders.state, run_id).root
        return folder if folder.is_dir() else None

    def ending(self, run_id: str, claim_id: str) -> dict[str, Any] | None:
        """How the run's commands and the Claim ended, by the report in the run's folder; None
        where this host has none. See `run_report.claim_ending`."""
        report = read_report(RunFolder.of(self._site.folders.state, run_id))
        return None if report is None else claim_ending(report, claim_id)

    def supervisor_is_gone(self, dispatch_id: str) -> bool:
        """Whether the group's run was under way here and nobody watches over it any more, so
        that the next `run` will end it. False also where this host cannot know."""
        if not (self._site.folders.state / registry_file.FILE_NAME).is_file():
            return False
        try:
            row = self._site.registry.find(self._site.key, dispatch_id)
            if row is None or row.state != "running" or row.supervisor is None:
                return False
            return liveness(row.supervisor) == "dead"
        except CallboardError:
            return False
