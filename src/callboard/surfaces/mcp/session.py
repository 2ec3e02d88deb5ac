"""What one server works with: a role, a snapshot, and for who may stage something its folder.

All of it comes from the trusted context, or is an observer's. Nothing a client says changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from callboard import canonical
from callboard.board.execution.intent_checks import INTENT_CHECKS
from callboard.board.outputs.agent_staging import AgentStager
from callboard.board.outputs.context import AgentTerms, read_context
from callboard.board.outputs.folder import StagingFolder
from callboard.board.outputs.staging import Stager, read_assignment
from callboard.board.protocol.commit import Assignment
from callboard.board.reading.activation_document import (
    MAX_SNAPSHOT_BYTES,
    Role,
    Snapshot,
    encode_snapshot,
    read_snapshot,
)
from callboard.errors import CallboardError
from callboard.regular import read_regular

# Whose context states no terms may propose Work, and launch none of it.
_NOTHING = AgentTerms(max_dispatches=0, max_claims=0, pool=None)


@dataclass(frozen=True, slots=True)
class Session:
    """A server's whole world. `snapshot_sha256` ties cursors to the snapshot they walk."""

    role: Role
    snapshot: Snapshot
    snapshot_sha256: str
    staging: Path | None = None
    assignment: Assignment | None = None
    work_tree: Path | None = None
    terms: AgentTerms | None = None

    @classmethod
    def observing(cls, snapshot: Snapshot) -> Session:
        """The session of an observer that was started without a context."""
        return cls("observer", snapshot, canonical.sha256_hex(encode_snapshot(snapshot)))

    @classmethod
    def of_context(cls, path: Path) -> Session:
        """The session that the trusted context at `path` describes.

        Raises `context_invalid`, `assignment_invalid`, `snapshot_invalid` or `staging_invalid`;
        none of them is ever answered by a lesser role.
        """
        context = read_context(path)
        assignment = None if context.assignment is None else _assignment(Path(context.assignment))
        data = _snapshot_bytes(context.snapshot)
        staging = None if context.staging is None else Path(context.staging)
        if staging is not None:
            with StagingFolder(staging):
                pass
        tree = context.work_tree
        return cls(
            role=context.role,
            snapshot=read_snapshot(data),
            snapshot_sha256=canonical.sha256_hex(data),
            staging=staging,
            assignment=assignment,
            work_tree=Path(tree) if isinstance(tree, str) else None,
            terms=context.terms,
        )

    def stager(self) -> Stager:
        """What stages a worker's wishes. Raises `role_forbidden` for everybody else."""
        if self.staging is None or self.assignment is None:
            raise CallboardError(
                "role_forbidden",
                f"the role {self.role} has no Claim to speak for",
                "only the worker of a run can finish Claims and hand outputs over",
            )
        return Stager(self.staging, self.assignment, INTENT_CHECKS)

    def asker(self) -> Stager | AgentStager:
        """What stages requests to the board, of whoever may have any."""
        if self.staging is None or self.assignment is not None:
            return self.stager()
        return AgentStager(self.staging, self.role, self.terms or _NOTHING, INTENT_CHECKS)


def _assignment(path: Path) -> Assignment:
    try:
        return read_assignment(path)
    except CallboardError as error:
        raise CallboardError(
            "assignment_invalid",
            f"the worker's assignment cannot be used: {error.message}",
            "a worker never acts without its assignment; the host writes it when it starts a run",
            error.details,
        ) from error


def _snapshot_bytes(path: str) -> bytes:
    try:
        return read_regular(
            path, MAX_SNAPSHOT_BYTES, what="the activation snapshot", code="resource_limit"
        )
    except CallboardError as error:
        hint = "the host writes it when it starts an agent"
        if error.code == "file_missing":
            hint += "; for a worker, where its recipe says mcp = true"
        raise CallboardError("snapshot_invalid", error.message, hint, error.details) from error
