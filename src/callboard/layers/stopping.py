"""What ends a layer that gets nowhere: the caps of its contract, held against its state. Pure.

Where two caps are reached, the one that tells most of what is wrong is the reason: failures of a
role, then controls, then goal checks, then cost, and the number of turns last.
"""

from __future__ import annotations

from collections.abc import Iterator

from callboard.layers.records.state import State, StopReason, Usage
from callboard.layers.records.workflow import Caps, WorkflowContract


def stop_of(contract: WorkflowContract, state: State) -> tuple[StopReason, str] | None:
    """The reason to stop with a sentence that has the numbers; None while no cap is reached."""
    return next(_reached(contract, state), None)


def _reached(contract: WorkflowContract, state: State) -> Iterator[tuple[StopReason, str]]:
    caps = contract.caps
    yield from _failing(contract, state)
    if state.invalid_controls >= caps.max_invalid_controls:
        yield (
            "invalid_control",
            _too_many(
                f"{_counted(state.invalid_controls, 'control')} could not be followed",
                caps.max_invalid_controls,
            ),
        )
    if state.failed_goal_checks >= caps.max_failed_goal_checks:
        yield (
            "failed_goal_checks",
            _too_many(
                f"the goal was checked and not met {_counted(state.failed_goal_checks, 'time')}",
                caps.max_failed_goal_checks,
            ),
        )
    yield from _used_up(caps, state)


def _failing(contract: WorkflowContract, state: State) -> Iterator[tuple[StopReason, str]]:
    most = contract.caps.max_role_failures
    for role in contract.roles:
        history = state.roles.get(role.name)
        if history is not None and history.failures_in_row >= most:
            yield (
                "role_failures",
                _too_many(
                    f"{role.name} failed {_counted(history.failures_in_row, 'time')} in a row",
                    most,
                ),
            )


def _used_up(caps: Caps, state: State) -> Iterator[tuple[StopReason, str]]:
    dear = over_cost(caps, state.usage)
    if dear is not None:
        yield dear
    if caps.max_turns is not None and state.iteration >= caps.max_turns:
        yield (
            "max_turns",
            f"{_counted(state.iteration, 'attempt')} of {caps.max_turns} allowed were begun",
        )


def over_cost(caps: Caps, usage: Usage) -> tuple[StopReason, str] | None:
    """The stop of a layer that with all below it has used so much; None: it may go on."""
    cost, most = usage.cost_microusd, caps.max_cost_microusd
    if most is None or cost < most:
        return None
    return (
        "cost_cap",
        f"the layer with all below it has cost {_dollars(cost)}, of {_dollars(most)} allowed",
    )


def _too_many(what: str, most: int) -> str:
    return f"{what}, and {most} of them {'ends' if most == 1 else 'end'} the layer"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _dollars(microusd: int) -> str:
    whole, rest = divmod(microusd, 1_000_000)
    return f"{whole}.{rest:06d} USD"
