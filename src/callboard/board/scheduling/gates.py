"""Whether an observed gate lets its Work go at a given time.

Source: specification 1, §7.16; wire-v3 §6. Only the latest observation of the exact gate counts,
within the pool's age bound and under the current credential generation.
"""

from __future__ import annotations

from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.board.protocol.operations import Gate


def gate_reason(projection: Projection, pool: str, gate: Gate, at: int) -> str | None:
    """Why the gate is shut at `at`, or None where it is open."""
    observation = projection.observations.get(identities.gate_identity(gate))
    if observation is None:
        return "external_unavailable"
    if observation.state == "unknown":
        return "external_unavailable"
    if observation.state != "ready":
        return "external_wait"
    if observation.credential_generation != projection.credential_generation:
        return "observation_stale"
    age = at - observation.observed_at
    if age > projection.pool(pool).max_observation_age_ms:
        return "observation_stale"
    return None


def open_observations(projection: Projection, state: WorkState, at: int) -> list[str] | None:
    """The observation ids a Claim on this Work binds, in edge order; None while a gate is shut."""
    found: list[str] = []
    for gate in state.gates:
        if gate_reason(projection, state.work.pool, gate, at) is not None:
            return None
        observation = projection.observations[identities.gate_identity(gate)]
        if observation.observation_id not in found:
            found.append(observation.observation_id)
    return found
