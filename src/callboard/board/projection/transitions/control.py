"""Control and Policy: what operators change without touching shares or debt, and new epochs.

Source: specification 1, §7.10; wire-v3 §§5, 6.
"""

from __future__ import annotations

from itertools import chain, islice

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context
from callboard.board.protocol.operations import Control, Policy
from callboard.board.protocol.rules import policy_faults
from callboard.errors import CallboardError
from callboard.validate import refuse

MAX_UNSETTLED_NAMED = 20
MAX_UNSETTLED_SHOWN = 3


def apply_control(projection: Projection, _context: Context, operation: Control) -> None:
    """Pause, resume, or record a credential generation."""
    wants_flag = operation.control != "credential_generation"
    if wants_flag != isinstance(operation.value, bool):
        raise CallboardError(
            "record_invalid",
            f"{operation.control} has the value {operation.value!r}",
            "pauses take true or false, a generation takes an identity",
        )
    if wants_flag:
        setattr(projection, operation.control, operation.value)
        return
    generation = str(operation.value)
    if generation in projection.seen_generations:
        raise CallboardError(
            "credential_generation_reused",
            f"the credential generation {generation!r} was already used",
            "name a new generation",
        )
    projection.journal.put(projection.seen_generations, generation, True)
    projection.credential_generation = generation


def apply_policy(projection: Projection, _context: Context, operation: Policy) -> None:
    """Install an epoch, at genesis or on a quiescent board."""
    faults = policy_faults(operation.policy)
    if faults:
        raise refuse("policy_invalid", "policy", faults, "correct the named settings")
    if operation.epoch in projection.seen_epochs:
        raise CallboardError(
            "policy_epoch_reused",
            f"the policy epoch {operation.epoch!r} was already used",
            "each installation has its own epoch",
        )
    unsettled = unsettled_names(projection)
    if unsettled:
        shown = ", ".join(_shown(projection, one) for one in unsettled[:MAX_UNSETTLED_SHOWN])
        more = " and more" if len(unsettled) > MAX_UNSETTLED_SHOWN else ""
        raise CallboardError(
            "policy_not_quiescent",
            f"a policy begins on a board at rest, and these are not settled: {shown}{more}",
            "pause admission, let what can end do so (callboard run --until-idle), cancel the rest",
            {"unsettled": unsettled},
        )
    projection.install_policy(operation.epoch, operation.policy)


def _shown(projection: Projection, name: str) -> str:
    """A name out of `unsettled_names` as a person may know it."""
    kind, _, identity = name.partition(" ")
    state = projection.works.get(identity)
    return f"{kind} {identity[:12]}" if state is None else f"node {state.work.node_key!r}"


def unsettled_names(projection: Projection) -> list[str]:
    """At most 20 names of what keeps the board from being quiescent."""
    open_work = (
        f"work {identity}" for identity, state in projection.works.items() if not state.is_settled
    )
    # Work is looked through only where a pool's count says that some of it is open.
    work = open_work if any(pool.unsettled for pool in projection.pools.values()) else ()
    dispatches = (f"dispatch {identity}" for identity in projection.open_dispatches)
    return list(islice(chain(work, dispatches), MAX_UNSETTLED_NAMED))
