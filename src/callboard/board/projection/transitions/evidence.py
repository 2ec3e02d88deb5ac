"""What counts as proof about a run.

Source: specification 1, §§7.8, 7.15; wire-v3 §§5, 6, 10. Each use of evidence names the kinds and
sources it accepts; identity is compared with the frozen profile and binding.
"""

from __future__ import annotations

from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import check_bytes
from callboard.board.protocol.operations import Evidence
from callboard.board.protocol.scalars import is_github
from callboard.errors import CallboardError

HOST_SOURCES = frozenset({"github_api", "host_api"})
DELIVERY_SOURCES = frozenset({"verified_receipts", "trusted_publisher"}) | HOST_SOURCES
ALL_SOURCES = DELIVERY_SOURCES | {"trusted_activation"}
NONLAUNCH_SOURCES = frozenset({"trusted_publisher"}) | HOST_SOURCES


def invalid(message: str, hint: str) -> CallboardError:
    """The refusal of evidence that does not prove what it is used for."""
    return CallboardError("evidence_invalid", message, hint)


def check_evidence(
    projection: Projection,
    dispatch: DispatchState,
    evidence: Evidence,
    kinds: frozenset[str],
    sources: frozenset[str],
) -> None:
    """Judge kind, source, size and identity of evidence about one dispatch."""
    check_bytes(projection, evidence, "evidence_bytes")
    if evidence.kind not in kinds:
        raise invalid(
            f"evidence of kind {evidence.kind!r} does not prove this",
            "kinds that do: " + ", ".join(sorted(kinds)),
        )
    github = is_github(dispatch.profile.workflow)
    if evidence.source not in sources or (evidence.source == "host_api" and github):
        raise invalid(
            f"evidence from {evidence.source!r} does not prove this",
            "sources that do: " + ", ".join(sorted(sources)),
        )
    found = (evidence.repository, evidence.workflow, evidence.ref, evidence.principal)
    profile = dispatch.profile
    wanted = (projection.repository, profile.workflow, profile.ref, dispatch.principal)
    if found != wanted:
        raise invalid(
            f"evidence is about {found}, the dispatch has {wanted}",
            "read the evidence of this dispatch's own run",
        )


def check_terminal(dispatch: DispatchState, evidence: Evidence) -> None:
    """Judge that evidence shows the exact bound run and attempt to have ended."""
    run = dispatch.run
    if run is None:
        raise invalid(
            f"dispatch {dispatch.assignment.dispatch_id} has no bound run that could have ended",
            "bind the worker's run first, or prove that it never started",
        )
    if evidence.run_id != run.run_id or evidence.run_attempt != 1:
        raise invalid(
            f"evidence is about run {evidence.run_id!r}, attempt {evidence.run_attempt!r}, the "
            f"bound run is {run.run_id}, attempt 1",
            "only the bound run's own end counts",
        )
    if evidence.status != "completed":
        raise invalid(
            "evidence does not say that the run is completed",
            "wait for the run to end",
        )
