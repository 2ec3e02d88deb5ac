"""Deployments and priorities: what runs where from now on, and all that stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.commit import DispatchNextParameters
from callboard.board.scheduling.explanation import Explainer
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import ADMINISTRATOR, DISPATCHER, PRODUCER, RECONCILER, refused, work

OLD, NEW, NEWEST = "a" * 40, "b" * 40, "c" * 40
ONE, TWO = "1" * 64, "2" * 64


def profile(ref: str = OLD, contract: str | None = ONE, **changes: Any) -> records.Profile:
    given = {} if contract is None else {"logical_contract": contract}
    return make.profile(ref=ref, **given, **changes)


def policy(**pool: Any) -> records.PolicyDocument:
    profiles = {"default": profile(), "other": make.profile("other", logical_contract=ONE)}
    return make.with_pool(**({"profiles": profiles} | pool))


def board_of(*works: ops.Work, document: records.PolicyDocument | None = None) -> Board:
    return Board(works, document or policy())


def deployment(
    to: records.Profile,
    *,
    available: bool = True,
    expects: tuple[str, str] = (OLD, ONE),
    **changes: Any,
) -> ops.Deployment:
    given: dict[str, Any] = {
        "pool": "default",
        "worker_profile": "default",
        "expected_ref": expects[0],
        "expected_contract": expects[1],
        "profile": to,
        "available": available,
        "reason": "test",
    }
    return ops.Deployment(**(given | changes))


def deploy(
    board: Board, to: records.Profile, actor: ops.Actor = ADMINISTRATOR, **given: Any
) -> None:
    board.say("deployment", [deployment(to, **given)], actor)


def reason(board: Board, key: str) -> str:
    return Explainer(board.projection, board.at).standing(make.work_id(key)).reason


def routes(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = board.document().get("deployments", {})
    return found


# --- what follows a deployment -------------------------------------------------------------------


@pytest.mark.parametrize("actor", [ADMINISTRATOR, PRODUCER, DISPATCHER])
def test_waiting_work_follows_a_compatible_revision(actor: ops.Actor) -> None:
    board = board_of(work("a"), work("b"))
    board.grant()
    clocks = board.projection.clocks
    deploy(board, profile(NEW), actor)
    assert board.projection.clocks == clocks
    assert board.grant() == ["b"]
    assert board.group("b").profile.ref == NEW
    assert board.group("a").profile.ref == OLD


def test_a_granted_dispatch_keeps_its_revision_to_the_end() -> None:
    board = board_of(work("a"))
    board.grant()
    deploy(board, profile(NEW, TWO), available=False)
    group = board.group("a")
    board.start("a")
    wrong = ops.Run(
        run_id="9",
        run_attempt=1,
        repository=make.REPOSITORY,
        workflow=group.profile.workflow,
        ref=NEW,
        principal="7",
        event="host_dispatch",
    )
    error = refused(lambda: board.dispatch(board.group("a"), "bound", run=wrong))
    assert error.code == "run_binding_conflict"
    board.dispatch(board.group("a"), "bound", run=board.run(board.group("a")))
    board.finish("a")
    board.verify("a")
    board.release(board.group("a"), "terminal_run")
    assert (board.work("a").barrier, board.group("a").profile.ref) == ("verified", OLD)


def test_work_waits_uncharged_while_its_worker_is_unavailable() -> None:
    board = board_of(work("a"), work("b", worker_profile="other"), work("c", after=["a"]))
    deploy(board, profile(), available=False)
    assert reason(board, "a") == "worker_unavailable"
    assert reason(board, "b") == "ready"
    assert reason(board, "c") == "dependency_wait"
    assert board.grant(9) == ["b"]
    assert board.plan().stop.reason == "no_eligible_work"
    assert (board.work("a").attempts, board.work("a").state) == (0, "available")
    deploy(board, profile())
    assert board.grant() == ["a"]


def test_an_incompatible_revision_pauses_what_was_promised_the_old_contract() -> None:
    board = board_of(work("a"))
    deploy(board, profile(NEW, TWO))
    board.submit([work("b")])
    assert reason(board, "a") == "worker_incompatible"
    assert board.grant(9) == ["b"]
    assert board.group("b").profile == profile(NEW, TWO)
    deploy(board, profile(), expects=(NEW, TWO))
    board.submit([work("c")])
    assert board.grant(9) == ["a", "c"]


def test_time_passed_in_a_pause_is_no_credit() -> None:
    """Keys of equal weight: the one whose worker was away joins at the present clock."""
    document = policy()
    document = make.policy(pools=document.pools, accounting_weights={"": 1, "x": 1})
    late = [work(f"x{n}", account="x", worker_profile="other") for n in range(4)]
    board = board_of(*(work(f"n{n}") for n in range(12)), *late, document=document)
    other = make.profile("other", logical_contract=ONE)
    deploy(board, other, worker_profile="other", available=False)
    assert board.grant(6) == [f"n{n}" for n in range(6)]
    deploy(board, other, worker_profile="other")
    assert board.grant(4) == ["n6", "x0", "n7", "x1"]


def test_a_pin_keeps_its_revision_while_others_move_on() -> None:
    board = board_of(work("a"))
    deploy(board, profile(NEW))
    board.submit([work("b", execution_ref=OLD), work("c", execution_ref=NEW), work("d")])
    deploy(board, profile(NEWEST, TWO), expects=(NEW, ONE))
    assert [reason(board, key) for key in "abcd"] == [
        "worker_incompatible",
        "ready",
        "ready",
        "worker_incompatible",
    ]
    assert board.grant(9) == ["b", "c"]
    assert [board.group(key).profile.ref for key in "bc"] == [OLD, NEW]


def test_a_historical_revision_can_be_withdrawn_without_moving_the_route() -> None:
    board = board_of(work("a", execution_ref=OLD), work("b"))
    deploy(board, profile(NEW))
    deploy(board, profile(), available=False, activate=False, expects=(NEW, ONE))
    assert (reason(board, "a"), reason(board, "b")) == ("worker_unavailable", "ready")
    assert routes(board)["default"]["default"]["current"] == NEW
    deploy(board, profile(), activate=False, expects=(NEW, ONE))
    assert reason(board, "a") == "ready"


def test_a_worker_without_contract_runs_old_work_at_its_exact_revision() -> None:
    bare = {"default": make.profile()}
    board = board_of(work("a"), document=policy(profiles=bare))
    deploy(board, make.profile(ref=NEW), expects=(OLD, ""))
    board.submit([work("b")])
    assert board.grant(9) == ["a", "b"]
    assert [board.group(key).profile.ref for key in "ab"] == [OLD, NEW]


def test_a_group_holds_one_revision() -> None:
    wide = {"default": profile(max_claims=16, share_keys=True)}
    board = board_of(work("a"), work("b"), document=policy(profiles=wide))
    deploy(board, profile(NEW, max_claims=16, share_keys=True))
    board.submit([work("c", execution_ref=OLD), work("d")])
    assert board.grant(9) == ["a", "b", "c", "d"]
    groups = [board.group(key).assignment.dispatch_id for key in "abcd"]
    assert groups[0] == groups[1] == groups[3] != groups[2]
    assert board.group("c").profile.ref == OLD


def test_one_dispatch_does_not_pass_over_work_of_another_revision() -> None:
    wide = {"default": profile(max_claims=16, share_keys=True)}
    board = board_of(work("a", execution_ref=OLD), document=policy(profiles=wide))
    deploy(board, profile(NEW, max_claims=16, share_keys=True))
    board.submit([work("b"), work("c", execution_ref=OLD)])
    plan = board.plan(9, 1)
    assert [claim.work_id for claim in plan.claims] == [make.work_id("a")]
    assert plan.stop.reason == "dispatch_budget_blocked"


def test_admission_freezes_the_contract_of_its_day() -> None:
    board = board_of(work("a"))
    deploy(board, profile(NEW, TWO))
    board.submit([work("b"), work("c", logical_contract=TWO), work("d", execution_ref=OLD)])
    works = board.document()["works"]
    assert "admission_contract" not in works[make.work_id("a")]
    assert works[make.work_id("b")]["admission_contract"] == TWO
    assert works[make.work_id("c")]["admission_contract"] == TWO
    assert "admission_contract" not in works[make.work_id("d")]


def test_an_unavailable_worker_takes_in_work_that_waits() -> None:
    board = board_of(work("a"))
    deploy(board, profile(), available=False)
    board.submit([work("b")])
    assert reason(board, "b") == "worker_unavailable"


def test_a_board_without_deployments_says_nothing_of_them() -> None:
    board = board_of(work("a", execution_ref=OLD, logical_contract=ONE))
    assert "deployments" not in board.document()
    deploy(board, profile(), available=False)
    assert routes(board) == {
        "default": {
            "default": {
                "current": OLD,
                "revisions": {
                    OLD: {
                        "available": False,
                        "profile": {
                            "workflow": ".callboard/workers/default.toml",
                            "ref": OLD,
                            "trust_domain": "default",
                            "credential_scope": "repository",
                            "effect_scope": make.REPOSITORY,
                            "max_claims": 1,
                            "share_keys": False,
                            "logical_contract": ONE,
                        },
                    }
                },
            }
        }
    }
    deploy(board, profile())
    assert "deployments" not in board.document()


def test_a_new_policy_begins_its_routes_anew() -> None:
    board = board_of(work("a"))
    deploy(board, profile(NEW, TWO), available=False)
    board.cancel_work("a")
    operation = ops.Policy(epoch="e2", policy=policy())
    board.say("policy", [operation], ADMINISTRATOR, epoch="e2")
    assert "deployments" not in board.document()
    board.submit([work("b")])
    assert board.grant() == ["b"]
    assert board.group("b").profile.ref == OLD


def test_callers_that_may_launch_other_workers_share_the_pool() -> None:
    board = board_of(work("a"), work("b", worker_profile="other"))
    parameters = DispatchNextParameters(
        pool="default",
        max_claims=9,
        max_dispatches=9,
        max_bytes=9999,
        worker_profiles=["other"],
    )
    claims = [
        ops.Claim(
            work_id=make.work_id("b"),
            claim_id=identities.claim_id("r", 1),
            dispatch_id=identities.dispatch_id("r", 1),
            handle="h1",
            observations=[],
        )
    ]
    board.say("dispatch_next", claims, DISPATCHER, parameters=parameters, request_id="r")
    assert (board.work("a").state, board.work("b").state) == ("available", "claimed")
    assert board.grant() == ["a"]


# --- what a deployment may not do ----------------------------------------------------------------


@pytest.mark.parametrize("expects", [(NEW, ONE), (OLD, TWO), (OLD, ""), (NEW, TWO)])
def test_a_stale_expectation_deploys_nothing(expects: tuple[str, str]) -> None:
    board = board_of(work("a"))
    error = refused(lambda: deploy(board, profile(NEW), expects=expects))
    assert error.code == "deployment_conflict"
    assert (error.details["ref"], error.details["contract"]) == (OLD, ONE)
    assert "deployments" not in board.document()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workflow", ".callboard/workers/other.toml"),
        ("trust_domain", "another"),
        ("credential_scope", "organisation"),
        ("effect_scope", "example/library"),
        ("max_claims", 2),
        ("share_keys", True),
    ],
)
def test_authority_is_no_matter_of_a_deployment(field: str, value: Any) -> None:
    board = board_of(work("a"))
    error = refused(deploy, board, profile(NEW, **{field: value}))
    assert error.code == "deployment_boundary"
    assert error.details["fields"] == [field]


def test_a_principal_is_no_matter_of_a_deployment() -> None:
    listed = make.policy(
        authorization=UNSET,
        producers={"7": records.Producer(pools=["default"], priorities=[3], fairness_keys=[""])},
        pools={
            "default": make.pool(profiles={"default": profile(principal="7")}),
        },
    )
    board = board_of(work("a"), document=listed)
    for principal in ("8", UNSET):
        error = refused(deploy, board, profile(NEW, principal=principal))
        assert (error.code, error.details["fields"]) == ("deployment_boundary", ["principal"])


def test_a_registered_revision_never_changes() -> None:
    board = board_of(work("a"))
    error = refused(lambda: deploy(board, profile(OLD, TWO)))
    assert error.code == "deployment_conflict"
    deploy(board, profile(NEW))
    error = refused(lambda: deploy(board, profile(OLD, TWO), expects=(NEW, ONE)))
    assert error.code == "deployment_conflict"
    deploy(board, profile(), expects=(NEW, ONE))
    assert board.grant() == ["a"]
    assert board.group("a").profile.ref == OLD


def test_availability_of_what_was_never_deployed_is_refused() -> None:
    board = board_of(work("a"))
    error = refused(lambda: deploy(board, profile(NEW), activate=False))
    assert error.code == "deployment_unregistered"


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"pool": "elsewhere"}, "pool_unknown"), ({"worker_profile": "nobody"}, "profile_unknown")],
)
def test_a_deployment_names_a_worker_there_is(changes: dict[str, Any], code: str) -> None:
    board = board_of(work("a"))
    assert refused(lambda: deploy(board, profile(NEW), **changes)).code == code


def test_a_reconciler_deploys_nothing() -> None:
    board = board_of(work("a"))
    assert refused(lambda: deploy(board, profile(NEW), RECONCILER)).code == "role_forbidden"


@pytest.mark.parametrize(
    "changes",
    [
        {"execution_ref": NEW},
        {"logical_contract": TWO},
        {"execution_ref": OLD, "logical_contract": TWO},
    ],
)
def test_work_states_only_what_was_approved(changes: dict[str, Any]) -> None:
    board = board_of(work("a"))
    error = refused(lambda: board.submit([work("b", **changes)]))
    assert error.code == "profile_mismatch"


def test_several_deployments_of_one_request_see_each_other_or_fail_together() -> None:
    board = board_of(work("a"))
    steps = [deployment(profile(NEW)), deployment(profile(NEWEST), expects=(NEW, ONE))]
    board.say("deployment", steps, ADMINISTRATOR)
    assert routes(board)["default"]["default"]["current"] == NEWEST
    both = [
        deployment(profile(), expects=(NEWEST, ONE)),
        deployment(profile(NEW), expects=(NEWEST, ONE)),
    ]
    error = refused(lambda: board.say("deployment", both, ADMINISTRATOR))
    assert error.code == "deployment_conflict"
    assert routes(board)["default"]["default"]["current"] == NEWEST
    assert board.grant() == ["a"]
    assert board.group("a").profile.ref == NEWEST


# --- priorities ----------------------------------------------------------------------------------


def prefer(board: Board, key: str, priority: int, expected: int = 3) -> None:
    operation = ops.WorkPriority(
        work_id=make.work_id(key), priority=priority, expected_priority=expected, reason="test"
    )
    board.say("priority", [operation], ADMINISTRATOR)


def test_a_new_priority_counts_from_the_next_charge_on() -> None:
    strict = make.policy(mode="strict-priority")
    board = board_of(work("a"), work("b"), work("c"), document=strict)
    prefer(board, "c", 1)
    prefer(board, "a", 5)
    assert board.grant(9) == ["c", "b", "a"]
    works = board.document()["works"]
    assert [works[make.work_id(key)]["priority"] for key in "abc"] == [3, 3, 3]
    assert works[make.work_id("c")]["effective_priority"] == 1
    assert "effective_priority" not in works[make.work_id("b")]
    assert set(board.projection.clocks["default"].keys) == {1, 3, 5}


def test_within_its_new_class_work_keeps_its_place() -> None:
    strict = make.policy(mode="strict-priority")
    board = board_of(work("a"), work("b", priority=1), work("c"), document=strict)
    prefer(board, "c", 1)
    prefer(board, "a", 1)
    assert board.grant(9) == ["a", "b", "c"]


def test_a_priority_moves_neither_clocks_nor_retry_time() -> None:
    board = board_of(work("a"), work("b"))
    board.grant(2)
    board.cancel_claim("a")
    clocks, until = board.projection.clocks, board.work("a").retry_not_before
    prefer(board, "a", 1)
    assert board.projection.clocks == clocks
    assert board.work("a").retry_not_before == until > board.at
    assert board.plan().stop.reason == "no_eligible_work"
    board.pass_ms(30_000)
    assert board.grant() == ["a"]


def test_a_priority_is_taken_back_like_it_was_given() -> None:
    board = board_of(work("a"))
    before = board.document()["works"]
    prefer(board, "a", 1)
    prefer(board, "a", 3, expected=1)
    assert board.document()["works"] == before


def test_children_inherit_the_admitted_priority() -> None:
    board = board_of(work("a", priority=2))
    prefer(board, "a", 5, expected=2)
    board.grant()
    board.complete("a")
    actor = board.worker(board.group("a"))
    board.submit([work("b", priority=2)], actor)
    error = refused(lambda: board.submit([work("c", priority=1)], actor))
    assert error.code == "inheritance_violated"


def test_only_what_somebody_saw_is_changed() -> None:
    board = board_of(work("a"))
    error = refused(lambda: prefer(board, "a", 1, expected=2))
    assert error.code == "priority_conflict"
    assert error.details == {"priority": 3, "expected": 2}


def test_only_available_work_changes_its_priority() -> None:
    board = board_of(work("a"), work("b"), work("c"))
    board.grant(2)
    board.complete("b")
    board.cancel_work("c")
    for key in "abc":
        error = refused(prefer, board, key, 1)
        assert error.code == "work_closed", key
    assert refused(lambda: prefer(board, "nobody", 1)).code == "work_unknown"


def test_blocked_work_may_be_preferred_before_it_is_ready() -> None:
    strict = make.policy(mode="strict-priority")
    board = board_of(work("a"), work("b", after=["a"]), work("c"), document=strict)
    prefer(board, "b", 1)
    assert board.grant() == ["a"]
    board.settle("a")
    assert board.grant() == ["b"]


def test_only_an_administrator_prefers() -> None:
    board = board_of(work("a"))
    operation = ops.WorkPriority(
        work_id=make.work_id("a"), priority=1, expected_priority=3, reason="test"
    )
    for actor in (PRODUCER, DISPATCHER, RECONCILER):
        error = refused(board.say, "priority", [operation], actor)
        assert error.code == "role_forbidden"
