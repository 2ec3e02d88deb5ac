"""Nothing is granted from here to workers of a host that this machine cannot ask."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec import UNSET

from callboard.board.execution.dispatching import dispatch
from callboard.board.execution.reach import Reach
from callboard.board.execution.runner import Runner, RunSummary
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.publishing.intents import DispatchNext, Nothing
from tests.board import building
from tests.board.building import refused
from tests.board.execution.hosts.field import Field, Ground
from tests.board.github_board import WORKFLOW

PROFILES = {"default": building.profile(), "far": building.profile(workflow=WORKFLOW)}
UNSUPPORTED = "host_unsupported"


def far(key: str) -> ops.Work:
    return building.work(key, worker_profile="far")


def asked(field: Field, **changes: Any) -> DispatchNext:
    """One grant from that board's watcher."""
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=4, max_dispatches=4, max_bytes=49_152, **changes
    )
    return DispatchNext("grant-x", field.watcher.actor("dispatcher"), parameters)


def run(field: Field, only: list[str] | None = None) -> RunSummary:
    """A run of this machine until it is idle."""
    runner = Runner(
        field.watcher, {}, pools=None, workers=4, only=only, new_request_id=lambda: "grant-y",
        follow=lambda _actor: None, on_event=lambda _event: None,
    )  # fmt: skip
    return runner.run(until_idle=True, stop=threading.Event())


def test_workers_of_such_a_host_are_named_with_and_without_work(field_ground: Ground) -> None:
    for work in ("near", far("far")):
        field = Field(field_ground, work, profiles=PROFILES)
        assert Reach(field.watcher).lacking("default") == {"far": UNSUPPORTED}
    near = Field(field_ground, "near")
    assert Reach(near.watcher).lacking("default") == {}


def test_the_refusal_names_the_workflow_and_says_what_to_do(field_ground: Ground) -> None:
    field = Field(field_ground, far("far"), profiles=PROFILES)
    reach = Reach(field.watcher)
    reach.lacking("default")
    error = reach.refusal("default", "far")
    assert (error.code, error.details) == (UNSUPPORTED, {"workflow": WORKFLOW})
    assert WORKFLOW in error.message
    assert error.hint


@pytest.mark.parametrize("only", [None, ["far"], ["default"], ["default", "far"]])
def test_a_run_leaves_their_work_and_says_why(field_ground: Ground, only: list[str] | None) -> None:
    field = Field(field_ground, far("far"), profiles=PROFILES)
    before = field.store.read()
    summary = run(field, only)
    assert summary.reason == "idle"
    assert [(one["column"], one["reason"]) for one in summary.left] == [("ready", UNSUPPORTED)]
    assert field.store.read() == before


@pytest.mark.parametrize("names", [UNSET, ["default", "far"]])
def test_one_grant_passes_their_work_over(field_ground: Ground, names: Any) -> None:
    field = Field(field_ground, far("far"), profiles=PROFILES)
    before = field.store.read()
    answer = dispatch(field.watcher, {}, asked(field, worker_profiles=names))
    assert isinstance(answer.outcome, Nothing)
    assert field.store.read() == before


@pytest.mark.parametrize("both", [True, False])
def test_a_grant_that_only_they_could_take_is_refused(field_ground: Ground, both: bool) -> None:
    profiles = PROFILES if both else {"default": PROFILES["far"]}
    field = Field(field_ground, far("x") if both else "x", profiles=profiles)
    before = field.store.read()
    names = ["far"] if both else UNSET
    error = refused(dispatch, field.watcher, {}, asked(field, worker_profiles=names))
    assert error.code == UNSUPPORTED
    assert field.store.read() == before


def test_work_of_this_host_is_granted_beside_theirs(field_ground: Ground) -> None:
    field = Field(field_ground, far("far"), "near", profiles=PROFILES)
    # The commit that the worker is pinned at is not in the repository: the launch is refused.
    error = refused(dispatch, field.watcher, {}, asked(field))
    assert error.code == "worker_unavailable"
    works = field.projection.works.values()
    assert {one.work.node_key: one.claim_id is not None for one in works} == {
        "far": False,
        "near": True,
    }
