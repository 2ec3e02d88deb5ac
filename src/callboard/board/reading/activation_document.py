"""The activation snapshot as a document: what an agent may know of the board, as of one moment.

Source: specification 1, §§7.9, 7.12. Closed records with their bounds. The trusted side writes it
once, when it starts an agent; whoever reads it afterwards has no other source, so nothing in it may
be taken for authority or for the present state.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard import canonical
from callboard.board.protocol.agent_roles import AgentRole
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Digest, Identity
from callboard.board.reading.columns import Column
from callboard.board.reading.view import Document
from callboard.errors import CallboardError
from callboard.validate import parse

PROVENANCE: Literal["activation_snapshot"] = "activation_snapshot"

MAX_NODES = 8_192
MAX_SETTLED = 256
"""The most nodes that are done, of those whose words are shown and of the others each."""
MAX_ROW_BYTES = 16 * 1024 * 1024
"""The most bytes of all nodes together, without their bodies."""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""The most bytes of all payloads and Results together."""
MAX_SNAPSHOT_BYTES = 40 * 1024 * 1024

Role = AgentRole
Count = Annotated[int, Meta(ge=0)]


class Node(Record, frozen=True, kw_only=True):
    """One Work. Only the first six fields and the counts they imply are told of everybody's.

    The rest is there for Work whose submitted words the reader may see. `ahead` predicts how many
    grants of its pool come first. `payload` and `result` are the bodies.
    """

    work_id: Digest
    pool: Identity
    priority: int
    column: Column
    stage: str
    reason: str
    claim_handle: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    graph_id: str | UnsetType = UNSET
    node_key: str | UnsetType = UNSET
    fairness_key: str | UnsetType = UNSET
    worker_profile: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    since_ms: int | UnsetType = UNSET
    evidence: dict[str, Any] | UnsetType = UNSET
    next: str | UnsetType = UNSET
    depends_on: list[str] | UnsetType = UNSET
    gates: list[Any] | UnsetType = UNSET
    obstacles: list[Any] | UnsetType = UNSET
    claims: list[Any] | UnsetType = UNSET
    ahead: int | UnsetType = UNSET
    payload: dict[str, Any] | UnsetType = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    body_left_out: bool | UnsetType = UNSET

    @property
    def is_shown(self) -> bool:
        """Whether the reader may see what was submitted of it."""
        return isinstance(self.node_key, str)


class PoolFacts(Record, frozen=True, kw_only=True):
    """One pool: its limits, what is taken of it, who competes, and who is predicted to be next.

    `classes` has a row a priority; `keys` one for each fairness key of Work that is shown, and
    `other_keys` sums up all others. Counts are of nodes by column.
    """

    pool: Identity
    mode: str
    columns: dict[str, Count]
    limits: dict[str, Count]
    open: dict[str, Count]
    classes: list[dict[str, Any]]
    keys: list[dict[str, Any]]
    other_keys: dict[str, Any]
    workers: list[dict[str, Any]]
    prediction: dict[str, Any]


class LeftOut(Record, frozen=True, kw_only=True):
    """How much is on the board and not in the snapshot, for want of room."""

    unsettled: Count
    settled: Count
    bodies: Count


class Snapshot(Record, frozen=True, kw_only=True):
    """The whole document; `tip` is None where the board had no history yet.

    `role` is for display, and no authority. Times in Unix ms.
    """

    version: Literal[1]
    provenance: Literal["activation_snapshot"]
    role: Role
    tip: str | None
    evaluated_at_ms: Count
    repository: str | None
    paused: dict[str, bool]
    pools: list[PoolFacts]
    nodes: Annotated[list[Node], Meta(max_length=MAX_NODES)]
    left_out: LeftOut

    def stamp(self) -> Document:
        """What every answer from this snapshot begins with."""
        return {
            "provenance": self.provenance,
            "tip": self.tip,
            "evaluated_at_ms": self.evaluated_at_ms,
        }


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The bytes of the file, at most `MAX_SNAPSHOT_BYTES`; the same snapshot gives the same."""
    # All of it comes from records that were checked when they were read.
    return canonical.encode_trusted(snapshot)


def read_snapshot(data: bytes) -> Snapshot:
    """The snapshot in a file's bytes. Raises `snapshot_invalid`."""
    try:
        value = canonical.decode(data, limit_bytes=MAX_SNAPSHOT_BYTES)
    except CallboardError as error:
        raise CallboardError(
            "snapshot_invalid",
            f"the activation snapshot is no JSON of ours: {error.message}",
            "the host writes it when it starts an agent; start the agent again",
            {"code": error.code},
        ) from error
    return parse(Snapshot, value, what="activation snapshot", code="snapshot_invalid")
