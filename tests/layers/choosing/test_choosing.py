"""Who is next, held against a second account that reads nothing but the log of attempts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.layers.choosing import after, choose
from callboard.layers.records.state import RoleHistory, State
from callboard.layers.records.workflow import FrozenRole
from tests.layers.contracts import contract, role, state

Log = list[tuple[str, bool]]
NAMES = ("a", "b", "c", "d")


def state_after(log: Log) -> State:
    """The state that a layer has after these attempts."""
    roles: dict[str, RoleHistory] = {}
    for number, (name, succeeded) in enumerate(log, start=1):
        roles = after(roles, name, succeeded, number)
    last = {"last_role": log[-1][0], "last_succeeded": log[-1][1]} if log else {}
    return state(iteration=len(log), roles=roles, **last)


def eligible_by_log(roles: tuple[FrozenRole, ...], log: Log) -> list[str]:
    """Who may go, by counting in the log again and again."""
    turn = len(log) + 1
    found = []
    for one in roles:
        config = one.config
        own = [at for at, (name, _) in enumerate(log, start=1) if name == one.name]
        holds = [config.enabled, turn >= config.not_before_iteration]
        if config.run_every is not None and own:
            holds.append(turn - own[-1] >= config.run_every)
        if config.must_follow is not None:
            holds.append(log[-1:] == [(config.must_follow, True)])
        if config.run_after_successes is not None:
            since = log[own[-1] :] if own else log
            wanted = config.run_after_successes
            holds.append(since.count((wanted.role, True)) >= wanted.count)
        if all(holds):
            found.append(one)
    if not log and any(one.config.run_on_start for one in found):
        found = [one for one in found if one.config.run_on_start]
    return [one.name for one in found]


@st.composite
def role_sets(draw: st.DrawFn) -> tuple[FrozenRole, ...]:
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]

    def made(name: str) -> FrozenRole:
        others = st.sampled_from([other for other in NAMES if other != name])
        return role(
            name,
            after=draw(st.none() | st.tuples(others, st.integers(1, 3))),
            enabled=draw(st.sampled_from([True, True, True, False])),
            priority=draw(st.integers(-2, 2)),
            run_on_start=draw(st.booleans()),
            run_every=draw(st.none() | st.integers(1, 4)),
            must_follow=draw(st.none() | st.none() | others),
            not_before_iteration=draw(st.integers(0, 4)),
        )

    return tuple(made(name) for name in names)


@given(role_sets(), st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=12))
def test_the_choice_is_what_the_log_says(roles: tuple[FrozenRole, ...], log: Log) -> None:
    choice = choose(contract(*roles), state_after(log))
    eligible = eligible_by_log(roles, log)
    assert [one.role for one in choice.verdicts if one.eligible] == eligible
    order = {one.name: (-one.config.priority, at) for at, one in enumerate(roles)}
    best = min(eligible, key=order.__getitem__, default=None)
    assert (choice.role.name if choice.role else None) == best


@given(role_sets(), st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=12))
def test_every_role_has_one_line_that_tells_why(roles: tuple[FrozenRole, ...], log: Log) -> None:
    now = state_after(log)
    choice = choose(contract(*roles), now)
    assert choice == choose(contract(*roles), now)
    assert [one.role for one in choice.verdicts] == [one.name for one in roles]
    for verdict in choice.verdicts:
        assert verdict.reason.strip()
        assert "\n" not in verdict.reason


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=20))
def test_histories_count_what_the_log_has(log: Log) -> None:
    roles = state_after(log).roles
    assert set(roles) == {name for name, _ in log}
    for name, history in roles.items():
        own = [(at, good) for at, (who, good) in enumerate(log, start=1) if who == name]
        outcomes = [good for _, good in own]
        assert history.runs == len(own)
        assert history.successes == sum(outcomes)
        assert history.last_iteration == own[-1][0]
        in_row = 0
        while in_row < len(outcomes) and not outcomes[-1 - in_row]:
            in_row += 1
        assert history.failures_in_row == in_row


def reasons(log: Log, *roles: FrozenRole) -> dict[str, str]:
    return {one.role: one.reason for one in choose(contract(*roles), state_after(log)).verdicts}


UNMET: list[tuple[str, dict[str, Any], Log, str]] = [
    ("disabled", {"enabled": False}, [], "disabled"),
    (
        "early",
        {"not_before_iteration": 3},
        [("b", True)],
        "not before iteration 3, and the next is 2",
    ),
    (
        "not due",
        {"run_every": 5},
        [("a", True), ("b", True)],
        "last ran at iteration 1 and runs every 5, so it is due at 6",
    ),
    ("first", {"must_follow": "b"}, [], "must follow b, but nothing has run yet"),
    ("other", {"must_follow": "b"}, [("a", True)], "must follow b, the last attempt was a"),
    ("failed", {"must_follow": "b"}, [("b", False)], "must follow b, whose last attempt failed"),
    (
        "waits",
        {"after": ("b", 2)},
        [("b", True), ("a", False), ("b", True), ("b", False)],
        "waits for 2 successes of b since it ran last, has 1",
    ),
    (
        "two",
        {"enabled": False, "not_before_iteration": 2},
        [],
        "disabled; not before iteration 2, and the next is 1",
    ),
]


@pytest.mark.parametrize(
    ("config", "log", "reason"), [one[1:] for one in UNMET], ids=[one[0] for one in UNMET]
)
def test_why_a_role_is_not_eligible(config: dict[str, Any], log: Log, reason: str) -> None:
    assert reasons(log, role("a", **config), role("b"))["a"] == reason


def test_why_eligible_roles_wait_for_another() -> None:
    found = reasons([("b", True)], role("a"), role("b", priority=2), role("c", priority=2))
    assert found == {
        "a": "eligible with priority 0, after b with priority 2",
        "b": "first of 3 eligible roles, with priority 2",
        "c": "eligible with priority 2, after b, which the set names earlier",
    }


def test_only_starters_compete_while_nothing_has_run() -> None:
    roles = (role("a", priority=9), role("b", run_on_start=True))
    first = choose(contract(*roles), state_after([]))
    assert first.role is roles[1]
    assert [one.reason for one in first.verdicts] == [
        "nothing has run yet, and other roles are there to start",
        "the only eligible role, with priority 0",
    ]
    second = choose(contract(*roles), state_after([("b", False)]))
    assert second.role is roles[0]


def test_a_starter_that_cannot_go_leaves_the_start_to_others() -> None:
    roles = (role("a"), role("b", run_on_start=True, enabled=False))
    assert choose(contract(*roles), state_after([])).role is roles[0]


def test_no_role_is_a_choice_too() -> None:
    choice = choose(contract(role("a", enabled=False)), state_after([]))
    assert choice.role is None
    assert [one.reason for one in choice.verdicts] == ["disabled"]
