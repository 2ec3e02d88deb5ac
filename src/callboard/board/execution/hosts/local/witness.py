"""What this machine can tell of runs beside the ledger: their folders, reports, logs, their end.

Looking only: it never makes the registry, and what it cannot know it leaves unsaid. Nothing is
decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from callboard.board.execution.host import Log, Order
from callboard.board.execution.hosts.choice import hosts_of
from callboard.board.execution.hosts.local import registry_file
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.hosts.local.run_report import (
    claim_ending,
    claim_refusals,
    read_report,
)
from callboard.board.execution.hosts.local.run_timing import read_timing
from callboard.board.execution.site import Site
from callboard.board.projection.entities import DispatchState
from callboard.errors import CallboardError
from callboard.processes.identity import state as liveness


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A bound run that, by this machine's evidence, does nothing any more.

    `abandoned`: nobody watches over it, so that what is left of it has to be ended. `is_watched`:
    its supervisor lives, and is about to settle it.
    """

    run_id: str
    standing: Literal["ended", "abandoned"]
    conclusion: str | None
    is_watched: bool


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

    def refusals(self, run_id: str, claim_id: str) -> list[dict[str, Any]]:
        """What the run staged for the Claim, or for none, and was not taken, by the same report.
        See `run_report.claim_refusals`."""
        report = read_report(RunFolder.of(self._site.folders.state, run_id))
        return [] if report is None else claim_refusals(report, claim_id)

    def timing(self, run_id: str, claim_id: str | None = None) -> dict[str, int]:
        """How long the run's set-up and work took, and the Claim waited, by the same report."""
        report = read_report(RunFolder.of(self._site.folders.state, run_id))
        return {} if report is None else read_timing(report, claim_id)

    def survivors(self, run_id: str) -> list[dict[str, object]]:
        """`{pid, started, command}` of what was still running when a run had ended, and is nobody's
        any more; read from the registry."""
        if not self._has_registry():
            return []
        try:
            row = self._site.registry.by_run(run_id)
        except CallboardError:
            return []
        return [] if row is None else [dict(one) for one in row.survivors]

    def run_end(self, dispatch: DispatchState) -> RunEnd | None:
        """How the bound run of an open launch ended, as its host knows it and the board does not
        yet. None where it goes on, where it is settled, and where nobody here can know."""
        if dispatch.run is None or dispatch.released or not self._has_registry():
            return None
        try:
            host = hosts_of(self._site)(dispatch.profile)
            facts = host.inspect(Order.of(dispatch), dispatch.run.run_id)
            if facts.standing not in ("ended", "abandoned"):
                return None
            row = self._site.registry.by_run(facts.run_id)
        except CallboardError:
            return None
        supervisor = None if row is None else row.supervisor
        is_watched = supervisor is not None and liveness(supervisor) == "alive"
        return RunEnd(facts.run_id, facts.standing, facts.conclusion, is_watched)

    def remark(self, dispatch: DispatchState) -> str | None:
        """What the supervisor of a bound run that is not settled noted last for a person, such as
        what it waits for; None where it noted nothing, and where this machine has no record."""
        if dispatch.run is None or dispatch.released or not self._has_registry():
            return None
        try:
            row = self._site.registry.by_run(dispatch.run.run_id)
        except CallboardError:
            return None
        return str(row.notes[-1]["text"]) if row is not None and row.notes else None

    def sent(self, dispatch: DispatchState) -> bool | None:
        """Whether a process of this machine wrote the launch's start marker, so that the evidence
        about it is here; None before the marker, and where it names no run."""
        sender = dispatch.sender
        if sender is None or not isinstance(sender.run_id, str):
            return None
        if not self._has_registry():
            return False
        try:
            return self._site.registry.dispatcher(sender.run_id) is not None
        except CallboardError:
            return None

    def run_of(self, dispatch: DispatchState) -> str | None:
        """The run of a launch: the bound one, else the one that this machine has on record."""
        if dispatch.run is not None:
            return dispatch.run.run_id
        if not self._has_registry():
            return None
        row = self._site.registry.find(self._site.key, dispatch.assignment.dispatch_id)
        return None if row is None else row.run_id

    def logs(self, dispatch: DispatchState, run_id: str, limit_bytes: int) -> tuple[Log, ...]:
        """The ends of a run's logs, as far as the host of its launch has them."""
        return hosts_of(self._site)(dispatch.profile).logs(run_id, limit_bytes=limit_bytes)

    def _has_registry(self) -> bool:
        return (self._site.folders.state / registry_file.FILE_NAME).is_file()
