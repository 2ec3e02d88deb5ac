"""Who is next in a layer, and why each other role is not. Pure; the same state, the same answer.

A role's conditions all have to hold. Among the eligible ones the greatest priority goes first,
then the order of the contract. Nothing here starts, writes or forgets anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callboard.layers.records.state import RoleHistory, State
from callboard.layers.records.workflow import FrozenRole, WorkflowContract

_NEVER = RoleHistory()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a role could go now, and one sentence that says why or why not."""

    role: str
    eligible: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The role that goes next, or None; `verdicts` follow the contract's order."""

    role: FrozenRole | None
    verdicts: tuple[Verdict, ...]


def choose(contract: WorkflowContract, state: State) -> Choice:
    """The next role of a layer that is `ready`.

    While nothing has run, only roles with `run_on_start` compete, if one of them is eligible.
    """
    unmet = {role.name: list(_unmet(role, state)) for role in contract.roles}
    competing = [role for role in contract.roles if not unmet[role.name]]
    starters = [role for role in competing if role.config.run_on_start]
    starting = state.iteration == 0 and bool(starters)
    if starting:
        competing = starters
    # `max` keeps the first of equals, which is the contract's order.
    first = max(competing, key=lambda role: role.config.priority, default=None)
    verdicts = []
    for role in contract.roles:
        if unmet[role.name]:
            reason = "; ".join(unmet[role.name])
        elif starting and not role.config.run_on_start:
            reason = "nothing has run yet, and other roles are there to start"
        else:
            reason = _eligible(role, first, len(competing))
        verdicts.append(Verdict(role.name, role in competing, reason))
    return Choice(first, tuple(verdicts))


def _unmet(role: FrozenRole, state: State) -> Iterator[str]:
    """Each condition of the role that does not hold, in words."""
    config = role.config
    turn = state.iteration + 1
    own = state.roles.get(role.name, _NEVER)
    if not config.enabled:
        yield "disabled"
    if turn < config.not_before_iteration:
        yield f"not before iteration {config.not_before_iteration}, and the next is {turn}"
    if config.run_every is not None and own.last_iteration > 0:
        due = own.last_iteration + config.run_every
        if turn < due:
            yield (
                f"last ran at iteration {own.last_iteration} and runs every {config.run_every},"
                f" so it is due at {due}"
            )
    if config.must_follow is not None:
        found = _last_attempt(config.must_follow, state)
        if found is not None:
            yield f"must follow {config.must_follow}, {found}"
    if config.run_after_successes is not None:
        other, wanted = config.run_after_successes.role, config.run_after_successes.count
        had = state.roles.get(other, _NEVER).successes - own.seen_successes.get(other, 0)
        if had < wanted:
            yield f"waits for {_successes(wanted)} of {other} since it ran last, has {had}"


def _last_attempt(wanted: str, state: State) -> str | None:
    """What was instead of a successful attempt of `wanted`; None: that is what was."""
    if state.last_role is None:
        return "but nothing has run yet"
    if state.last_role != wanted:
        return f"the last attempt was {state.last_role}"
    return None if state.last_succeeded else "whose last attempt failed"


def _successes(count: int) -> str:
    return f"{count} success" if count == 1 else f"{count} successes"


def _eligible(role: FrozenRole, first: FrozenRole | None, competing: int) -> str:
    priority = role.config.priority
    if first is None or first is role:
        if competing == 1:
            return f"the only eligible role, with priority {priority}"
        return f"first of {competing} eligible roles, with priority {priority}"
    if first.config.priority > priority:
        return (
            f"eligible with priority {priority}, after {first.name}"
            f" with priority {first.config.priority}"
        )
    return f"eligible with priority {priority}, after {first.name}, which the set names earlier"


def after(
    history: Mapping[str, RoleHistory], role: str, succeeded: bool, iteration: int
) -> dict[str, RoleHistory]:
    """The histories once an attempt of `role` ended, begun as number `iteration` of its layer.

    Whether it succeeded or not, the role has now seen every success of the others so far.
    """
    own = history.get(role, _NEVER)
    seen = {name: other.successes for name, other in history.items() if name != role}
    ended = RoleHistory(
        runs=own.runs + 1,
        successes=own.successes + succeeded,
        failures_in_row=0 if succeeded else own.failures_in_row + 1,
        last_iteration=iteration,
        seen_successes={name: count for name, count in sorted(seen.items()) if count},
    )
    return {**history, role: ended}
