"""Launches: which step may follow which, on what proof, and when a reservation is freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET, structs

from callboard.board.projection.entities import DispatchState
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.publishing.lifecycle import EvidenceKind
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import RECONCILER, SENDER, Phase, refused, work

PHASES = ("reserved", "started", "bound", "uncertain", "unresolved", "rejected", "released")
STEPS: tuple[Phase, ...] = ("started", "bound", "rejected", "uncertain", "unresolved")

FOLLOWS = {
    "reserved": {"started"},
    "started": {"bound", "rejected", "uncertain", "unresolved"},
    "uncertain": {"bound", "rejected", "uncertain", "unresolved"},
    "unresolved": {"bound", "rejected", "unresolved"},
    "bound": {"bound"},
    "rejected": set[str](),
    "released": set[str](),
}

PROOFS: dict[str, tuple[EvidenceKind, set[str]]] = {
    "reserved": ("prelaunch", {"trusted_publisher"}),
    "started": ("nonlaunch", {"trusted_publisher", "host_api", "github_api"}),
    "uncertain": ("nonlaunch", {"trusted_publisher", "host_api", "github_api"}),
    "unresolved": ("nonlaunch", {"trusted_publisher", "host_api", "github_api"}),
    "rejected": ("nonlaunch", {"trusted_publisher", "host_api", "github_api"}),
    "bound": ("terminal_run", {"host_api", "github_api"}),
}
"""What frees a group in a phase: the kind of evidence, and the sources it may come from."""

KINDS = ("prelaunch", "nonlaunch", "terminal_run", "delivery", "reconciliation")
SOURCES = ("trusted_publisher", "github_api", "trusted_activation", "verified_receipts", "host_api")


def step(board: Board, state: Phase) -> None:
    group = board.group("a")
    fields: dict[str, Callable[[], dict[str, Any]]] = {
        "started": lambda: {"sender": SENDER, "credential_principal": "7"},
        "bound": lambda: {"run": board.run(group)},
        "rejected": lambda: {"evidence": board.evidence(group, "nonlaunch")},
        "uncertain": lambda: {"reason": "response_lost"},
        "unresolved": lambda: {"reason": "budget_spent"},
    }
    actor = SENDER if state == "started" else RECONCILER
    board.dispatch(group, state, actor, **fields[state]())


WAYS: dict[str, tuple[Phase, ...]] = {
    "reserved": (),
    "started": ("started",),
    "bound": ("started", "bound"),
    "uncertain": ("started", "uncertain"),
    "unresolved": ("started", "uncertain", "unresolved"),
    "rejected": ("started", "rejected"),
}


def at(phase: str, document: records.PolicyDocument | None = None) -> Board:
    """A board whose one group is in a phase, its Claim open unless it is released."""
    board = Board([work("a")], document)
    board.grant()
    for state in WAYS.get(phase, ()):
        step(board, state)
    if phase == "released":
        group = board.group("a")
        board.release(group, "prelaunch", board.cancellations("a"))
        board.pass_ms(30_000)
        board.grant()
        # The look-ups below go by the Work's Claim, so the freed group is put in its place.
        board.projection.claims[str(board.work("a").claim_id)] = board.projection.claims[
            group.assignment.claims[0].claim_id
        ]
    return board


@pytest.mark.parametrize("phase", PHASES)
def test_only_the_drawn_steps_follow_a_phase(phase: str) -> None:
    for state in STEPS:
        board = at(phase)
        before = board.document()
        if state in FOLLOWS[phase]:
            step(board, state)
            assert board.group("a").state == state
            assert board.group("a").lifecycle_writes == len(WAYS[phase]) + 1
            continue
        error = refused(step, board, state)
        expected = "dispatch_released" if phase == "released" else "dispatch_state_invalid"
        assert error.code == expected, (phase, state)
        assert board.document() == before


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phase", list(PROOFS))
def test_only_the_right_proof_from_the_right_source_frees_a_group(
    phase: str, kind: EvidenceKind, source: str
) -> None:
    board = at(phase)
    group = board.group("a")
    needed, sources = PROOFS[phase]
    end = board.cancellations("a")
    if kind == needed and source in sources:
        board.release(group, kind, end, source=source)
        assert board.projection.counters.unreleased == 0
        assert board.projection.dispatches[group.assignment.dispatch_id].released
    else:
        error = refused(lambda: board.release(group, kind, end, source=source))
        assert error.code == "evidence_invalid"
        assert board.projection.counters.unreleased == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"repository": "example/other"},
        {"workflow": ".callboard/workers/other.toml"},
        {"ref": "b" * 40},
        {"principal": "8"},
        {"run_id": "5"},
        {"run_id": UNSET, "run_attempt": UNSET},
        {"run_attempt": UNSET},
        {"status": UNSET},
    ],
)
def test_terminal_evidence_is_about_exactly_the_bound_run(changes: dict[str, Any]) -> None:
    board = at("bound")
    before = board.document()
    error = refused(
        lambda: board.release(board.group("a"), "terminal_run", board.cancellations("a"), **changes)
    )
    assert error.code == "evidence_invalid"
    assert board.document() == before


@pytest.mark.parametrize("phase", ["reserved", "started", "rejected"])
def test_proof_of_no_launch_names_no_run(phase: str) -> None:
    board = at(phase)
    kind, _sources = PROOFS[phase]
    error = refused(
        lambda: board.release(
            board.group("a"), kind, board.cancellations("a"), run_id="5", run_attempt=1
        )
    )
    assert error.code == "evidence_invalid"
    assert "names a run, 5" in error.message


def test_nothing_but_proof_frees_a_doubtful_launch() -> None:
    """Time, pauses and cancelled Claims leave the reservation where it is."""
    board = at("unresolved")
    board.pass_ms(10**9)
    board.cancel_claim("a")
    board.control("grants_paused", True)
    assert board.projection.counters.unreleased == 1
    assert board.projection.pools["default"].unreleased == 1


def test_a_late_binding_is_accepted_and_the_attempt_counts_once() -> None:
    board = at("unresolved")
    step(board, "bound")
    assert board.group("a").state == "bound"
    assert board.work("a").attempts == 1
    board.finish("a")
    assert board.work("a").state == "completed"


def test_a_group_is_freed_once() -> None:
    board = at("bound")
    group = board.group("a")
    board.release(group, "terminal_run", board.cancellations("a"))
    assert refused(lambda: board.release(group, "terminal_run")).code == "dispatch_released"
    assert board.projection.counters.unreleased == 0


def test_the_same_binding_again_changes_nothing_but_the_count() -> None:
    board = at("bound")
    before = board.group("a")
    step(board, "bound")
    after = board.group("a")
    assert after.noted_id == board.projection.tip != before.noted_id
    assert structs.replace(after, lifecycle_writes=2, noted_id=before.noted_id) == before
    assert after.lifecycle_writes == 3


def test_the_worker_may_find_its_binding_made() -> None:
    board = at("bound")
    group = board.group("a")
    board.dispatch(group, "bound", board.worker(group), run=board.run(group))
    assert board.group("a").state == "bound"


def test_one_run_carries_one_group() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    board.bind("a")
    other = board.start("b")
    run = structs.replace(board.run(board.group("a")))
    assert refused(lambda: board.dispatch(other, "bound", run=run)).code == "run_binding_conflict"
    board.dispatch(other, "bound", run=board.run(other))


@pytest.mark.parametrize(
    "changes",
    [
        {"repository": "example/fork"},
        {"workflow": ".callboard/workers/other.toml"},
        {"ref": "b" * 40},
        {"principal": "8"},
        {"event": "workflow_dispatch"},
    ],
)
def test_a_run_fits_its_profile_in_every_part(changes: dict[str, Any]) -> None:
    board = at("started")
    group = board.group("a")
    run = structs.replace(board.run(group), **changes)
    error = refused(lambda: board.dispatch(group, "bound", run=run))
    assert error.code == "run_binding_conflict"
    assert board.group("a").run is None
    board.dispatch(group, "bound", run=board.run(group))


def test_launch_records_are_bounded_and_the_release_still_goes() -> None:
    bounds = records.Reconciliation(max_attempts=2, deadline_ms=1)
    board = at("started", make.with_pool(reconciliation=bounds))
    for _ in range(5):
        step(board, "uncertain")
    assert board.group("a").lifecycle_writes == 6
    assert refused(lambda: step(board, "uncertain")).code == "lifecycle_limit"
    assert refused(lambda: step(board, "bound")).code == "lifecycle_limit"
    board.release(board.group("a"), "nonlaunch", board.cancellations("a"))
    assert board.projection.counters.unreleased == 0


def on_github() -> records.PolicyDocument:
    profile = make.profile(workflow=".github/workflows/worker.lock.yml")
    return make.with_pool(profiles={"default": profile})


def test_a_github_worker_is_believed_on_github_s_word_only() -> None:
    board = at("bound", on_github())
    end = board.cancellations("a")
    group = board.group("a")
    assert group.run is not None
    assert group.run.event == "workflow_dispatch"
    error = refused(lambda: board.release(group, "terminal_run", end, source="host_api"))
    assert error.code == "evidence_invalid"
    board.release(group, "terminal_run", end, source="github_api")


def test_a_listed_principal_must_be_the_launching_one() -> None:
    document = make.policy(
        authorization=UNSET,
        producers={"7": records.Producer(pools=["default"], priorities=[3], fairness_keys=[""])},
        pools={"default": make.pool(profiles={"default": make.profile(principal="9")})},
    )
    board = at("reserved", document)
    group = board.group("a")

    def start(**fields: Any) -> None:
        board.dispatch(group, "started", SENDER, sender=SENDER, **fields)

    assert refused(lambda: start(credential_principal="7")).code == "credential_mismatch"
    start()
    assert board.group("a").principal == "9"
    board.dispatch(group, "bound", run=board.run(board.group("a")))


def test_the_named_credential_owns_the_run() -> None:
    board = at("reserved")
    group = board.group("a")
    assert group.principal == "7"
    board.dispatch(group, "started", SENDER, sender=SENDER, credential_principal="12")
    started: DispatchState = board.group("a")
    assert started.principal == "12"
    wrong = structs.replace(board.run(started), principal="7")
    assert refused(lambda: board.dispatch(started, "bound", run=wrong)).code == (
        "run_binding_conflict"
    )
    board.dispatch(started, "bound", run=board.run(started))
    proof = board.evidence(board.group("a"), "terminal_run", principal="7")
    made = ops.Release(dispatch_id=started.assignment.dispatch_id, evidence=proof)
    end = [*board.cancellations("a"), made]
    assert refused(lambda: board.say("release", end, RECONCILER)).code == "evidence_invalid"


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("bound", {"sender": SENDER}),
        ("uncertain", {"credential_principal": "7", "reason": "r"}),
        ("uncertain", {"run": "a run", "reason": "r"}),
        ("rejected", {"credential_principal": "7"}),
        ("rejected", {}),
    ],
)
def test_a_step_carries_its_own_fields_only(state: Phase, fields: dict[str, Any]) -> None:
    board = at("reserved" if state == "started" else "started")
    group = board.group("a")
    given = fields | ({"run": board.run(group)} if "run" in fields or state == "bound" else {})
    actor = SENDER if state == "started" else RECONCILER
    error = refused(lambda: board.dispatch(group, state, actor, **given))
    assert error.code in ("record_invalid", "evidence_invalid")
    assert board.group("a") == group


def test_a_finished_member_frees_its_slot_and_not_the_group() -> None:
    board = Board([work("a"), work("b")], make.batching())
    assert board.grant(2) == ["a", "b"]
    board.bind("a")
    board.finish("b")
    pool = board.projection.pools["default"]
    assert (pool.open_claims, pool.unreleased) == (1, 1)
    board.verify("b")
    assert (pool.open_claims, pool.unreleased) == (1, 1)
    error = refused(lambda: board.release(board.group("a"), "terminal_run"))
    assert error.code == "release_open_claims"
    group = board.group("a")
    board.release(group, "terminal_run", board.cancellations("a"))
    assert (pool.open_claims, pool.unreleased) == (0, 0)
    assert board.work("b").barrier == "verified"
    assert board.work("a").state == "available"
