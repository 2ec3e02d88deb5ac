"""Observation: what a trusted reader saw of a gate.

Source: specification 1, §7.16; wire-v3 §§5, 6. A newer observation replaces an older one for
future grants; grants already made are not touched.
"""

from __future__ import annotations

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context
from callboard.board.protocol import identities
from callboard.board.protocol.operations import Observation
from callboard.board.protocol.rules import observation_faults
from callboard.canonical import encode_trusted
from callboard.errors import CallboardError
from callboard.validate import refuse


def apply_observation(projection: Projection, _context: Context, operation: Observation) -> None:
    """Take in one observation under the current credential generation."""
    faults = observation_faults(operation)
    if faults:
        raise refuse(
            "observation_invalid", operation.observation_id, faults, "record what was read"
        )
    if operation.observation_id in projection.observation_ids:
        raise CallboardError(
            "observation_duplicate",
            f"observation {operation.observation_id!r} already stands",
            "give each observation its own id",
        )
    if operation.credential_generation != projection.credential_generation:
        raise CallboardError(
            "credential_generation_stale",
            f"the observation was made under {operation.credential_generation!r}, the current "
            f"generation is {projection.credential_generation!r}",
            "read again with the current credential",
        )
    limits = projection.policy.limits
    size = len(encode_trusted(operation))
    if size > limits.evidence_bytes:
        raise CallboardError(
            "evidence_limit",
            f"observation {operation.observation_id!r} has {size} bytes, at most "
            f"{limits.evidence_bytes} are allowed",
            "record only what the condition needs",
            {"bytes": size, "limit_bytes": limits.evidence_bytes},
        )
    if projection.observation_writes >= limits.observation_writes:
        raise CallboardError(
            "ledger_limit",
            f"{projection.observation_writes} observations are written, the policy allows no more",
            "nothing makes room for more; begin another board, or post without gates",
            {"limit": "observation_writes", "count": projection.observation_writes},
        )
    journal = projection.journal
    journal.put(projection.observation_ids, operation.observation_id, operation)
    journal.put(projection.observations, identities.gate_identity(operation), operation)
    projection.observation_writes += 1
