"""Byte budgets: to the byte at the brim, and closing always possible where opening was allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.ledger.budget import check_room_to_grant, refresh_budget
from callboard.board.projection import reserve
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import PRODUCER, RECONCILER, SENDER, line_of, refused, work

# --- refreshes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "operations", "written", "paused", "expected"),
    [
        (128, 256, 0, False, 128),
        (0, 256, 0, False, 0),
        (255, 256, 0, False, 255),
        (255, 255, 0, False, 254),
        (128, 3, 0, False, 2),
        (5, 1, 0, False, 0),
        (128, 256, 999, False, 128),
        (128, 256, 1_000, False, 0),
        (128, 256, 5_000, False, 0),
        (128, 256, 0, True, 0),
    ],
)
def test_refreshes_leave_room_for_a_claim(
    requested: int, operations: int, written: int, paused: bool, expected: int
) -> None:
    found = refresh_budget(
        requested=requested,
        operations=operations,
        ledger_bytes=written,
        ledger_limit=1_000,
        grants_paused=paused,
    )
    assert found == expected


@pytest.mark.parametrize("requested", [-1, 256, 10**9])
@pytest.mark.parametrize("paused", [True, False])
def test_a_refresh_budget_has_a_range(requested: int, paused: bool) -> None:
    error = refused(
        lambda: refresh_budget(
            requested=requested,
            operations=256,
            ledger_bytes=0,
            ledger_limit=1,
            grants_paused=paused,
        )
    )
    assert error.code == "ledger_invalid"
    assert str(requested) in error.message


def test_refresh_vectors(vectors: Path | None) -> None:
    name = "observation-refresh-budget.json"
    found: dict[str, Any] = (
        {} if vectors is None else json.loads((vectors / name).read_text("utf-8"))
    )
    for case in found.get("cases", []):
        given = {
            key: case[key]
            for key in ("requested", "operations", "ledger_bytes", "ledger_limit", "grants_paused")
            if key in case
        }
        if "error" in case:
            error = refused(refresh_budget, **given)
            assert error.code == case["error"], case["name"]
        else:
            assert refresh_budget(**given) == case["expected"], case["name"]
    assert vectors is None or len(found["cases"]) > 10


# --- the reserve --------------------------------------------------------------------------------


def test_what_is_open_is_reserved_for_by_the_published_figures() -> None:
    """At the defaults: 12,288 an attempt, 18,432 a delivery, 14,336 a launch record."""
    board = Board([work("a")])
    assert board.projection.reserve_bytes == 3 * 12_288 + 18_432
    board.grant()
    group = 9 * 14_336 + 2_048 + 8_192
    assert board.projection.reserve_bytes == 2 * 12_288 + 18_432 + 8_192 + group
    board.start("a")
    assert board.projection.reserve_bytes == 2 * 12_288 + 18_432 + 8_192 + group - 14_336
    started = board.group("a")
    board.dispatch(started, "bound", run=board.run(started))
    board.finish("a")
    assert board.projection.reserve_bytes == 18_432 + group - 2 * 14_336
    board.verify("a")
    assert board.projection.reserve_bytes == group - 2 * 14_336
    board.release(board.group("a"), "terminal_run")
    assert board.projection.reserve_bytes == 0


def test_cancelling_frees_the_reserve_of_a_work() -> None:
    board = Board([work("a"), work("b")])
    board.grant()
    board.cancel_claim("a")
    assert board.work("a").attempts == 1
    kept = reserve.of_work(
        board.work("a"), board.projection.pool("default"), board.projection.policy.limits
    )
    assert kept == 2 * 12_288 + 18_432
    board.cancel_work("a")
    board.cancel_work("b")
    board.release(board.projection.dispatches[next(iter(board.projection.dispatches))], "prelaunch")
    assert board.projection.reserve_bytes == 0


def fill(board: Board, size: int) -> tuple[int, CallboardError]:
    """Submit independent Work until the board is full; how many were taken, and the refusal."""
    taken = 1
    while True:
        nodes = [work(f"n{taken + n}") for n in range(size)]
        try:
            board.submit(nodes)
        except CallboardError as error:
            if size == 1:
                return taken, error
            size = 1
            continue
        taken += size


def test_a_github_board_takes_about_three_hundred_open_work() -> None:
    github = make.profile(workflow=".github/workflows/worker.lock.yml")
    board = Board([work("a")], make.with_pool(profiles={"default": github}))
    taken, error = fill(board, 100)
    assert (error.code, error.details["limit"]) == ("ledger_limit", "recovery_bytes")
    assert taken == 16_777_216 // 55_296 == 303
    assert error.details["open_work"] == 304


def test_a_local_board_takes_almost_five_times_as_many() -> None:
    board = Board([work("a")])
    taken, error = fill(board, 250)
    assert (error.code, error.details["limit"]) == (
        "ledger_limit",
        "ledger_bytes + recovery_bytes",
    )
    assert 1_450 < taken < 1_517
    written = board.projection.ledger_bytes
    assert written == len(board.data)
    assert written + (taken + 1) * 55_296 > 67_108_864 + 16_777_216


# --- the brim -----------------------------------------------------------------------------------


def test_the_watermark_is_met_to_the_byte() -> None:
    first = Board([work("a")])
    line = first.make("submit", [work("b")], PRODUCER, request_id="b")
    needed = first.projection.ledger_bytes + len(line_of(line))
    for room, fits in ((needed, True), (needed - 1, False)):
        # Numbers of equal length, so that the genesis has the same size.
        assert len(str(room)) == len(str(needed))
        limited = make.policy(limits=make.limits(ledger_bytes=room))
        board = Board([work("a")], limited)
        growth = len(board.data) - len(first.data)
        board = Board([work("a")], make.policy(limits=make.limits(ledger_bytes=room + growth)))
        assert len(board.data) == len(first.data) + growth
        again = board.make("submit", [work("b")], PRODUCER, request_id="b")
        if fits:
            board.put(again)
            assert board.projection.ledger_bytes == board.projection.policy.limits.ledger_bytes
        else:
            error = refused(board.put, again)
            assert (error.code, error.details["limit"]) == ("ledger_limit", "ledger_bytes")


def test_beyond_the_watermark_only_closing_goes_on() -> None:
    document = make.policy(limits=make.limits(ledger_bytes=6_000))
    board = Board([work("a"), work("b")], document)
    board.grant()
    board.bind("a")
    while board.projection.ledger_bytes <= 6_000:
        board.control("admission_paused", False)
    for opening in (
        lambda: board.submit([work("c")]),
        lambda: board.grant(),
        lambda: board.observe(make.observation("o", make.issue_gate(), board.at)),
    ):
        error = refused(opening)
        assert (error.code, error.details["limit"]) == ("ledger_limit", "ledger_bytes")
    before = board.document()["works"]
    board.submit([work("a")])
    assert board.document()["works"] == before
    board.finish("a")
    board.verify("a")
    board.release(board.group("a"), "terminal_run")
    board.cancel_work("b")
    assert board.projection.reserve_bytes == 0


REASON = "r" * 128
NUMBER = "9" * 256


def padded(board: Board, evidence: ops.Evidence) -> ops.Evidence:
    """The evidence, as long as the policy allows."""
    limit = board.projection.policy.limits.evidence_bytes
    grown = structs.replace(evidence, receipt="x", conclusion="c")
    room = limit - len(canonical.encode(grown))
    return structs.replace(grown, receipt="x" * min(256, room + 1))


class Wordy:
    """Says everything about a board's groups as long-windedly as its limits allow."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.sums: list[int] = []
        self._count = 0

    def say(self, kind: str, operations: list[ops.Operation], **given: Any) -> None:
        self._count += 1
        name = f"{self._count:0256}"
        actor = structs.replace(
            given.pop("actor", RECONCILER),
            workflow="w" * 256,
            run_id=NUMBER,
            run_attempt=4096,
        )
        identity = f"{self._count:0>256}"
        self.board.say(kind, operations, actor, request_id=name, commit_id=identity, **given)
        projection = self.board.projection
        self.sums.append(projection.ledger_bytes + projection.reserve_bytes)

    def doubts(self, key: str) -> None:
        """Every launch record a group may have."""
        board = self.board
        group = board.group(key)
        sender = structs.replace(SENDER, workflow="w" * 256, run_id=NUMBER, run_attempt=4096)
        start = ops.Dispatch(
            dispatch_id=group.assignment.dispatch_id,
            state="started",
            sender=sender,
            credential_principal="7",
        )
        self.say("dispatch", [start], actor=sender)
        for _ in range(reserve.lifecycle_limit(board.projection.pool("default")) - 2):
            proof = padded(board, board.evidence(group, "reconciliation"))
            doubt = ops.Dispatch(
                dispatch_id=group.assignment.dispatch_id,
                state="uncertain",
                reason=REASON,
                evidence=proof,
            )
            self.say("dispatch", [doubt])
        bound = ops.Dispatch(
            dispatch_id=group.assignment.dispatch_id,
            state="bound",
            run=board.run(group, NUMBER[:-4] + f"{self._count:04}"),
            evidence=padded(board, board.evidence(group, "reconciliation")),
        )
        self.say("dispatch", [bound])

    def lose(self, key: str) -> None:
        """End the attempt with the run."""
        board = self.board
        group = board.group(key)
        proof = padded(board, board.evidence(group, "terminal_run"))
        release = ops.Release(dispatch_id=group.assignment.dispatch_id, evidence=proof)
        self.say("release", [*board.cancellations(key, REASON), release])

    def deliver(self, key: str) -> None:
        """Complete, verify with the largest Result, release."""
        board = self.board
        board.finish(key)
        limit = board.projection.policy.limits.result_bytes
        descriptor = {"k": "x" * (limit - len(canonical.encode({"k": ""})))}
        proof = padded(board, board.evidence(board.group(key), "delivery"))
        self.say("result", [board.result(key, descriptor=descriptor, evidence=proof)])
        self.lose_nothing(key)

    def lose_nothing(self, key: str) -> None:
        board = self.board
        group = board.group(key)
        proof = padded(board, board.evidence(group, "terminal_run"))
        self.say("release", [ops.Release(dispatch_id=group.assignment.dispatch_id, evidence=proof)])


@pytest.mark.parametrize("granted", [1, 5])
def test_whatever_was_opened_can_be_closed_at_the_brim(granted: int) -> None:
    """The board is filled until it takes no more; then all of it ends, in full length."""
    tight = make.limits(ledger_bytes=200_000, recovery_bytes=2_000_000)
    pool = make.pool(retry=records.Retry(max_attempts=2, backoff_ms=1))
    board = Board([work("n0")], make.policy(limits=tight, pools={"default": pool}))
    board.submit([work(f"first{n}") for n in range(granted - 1)] or [work("n0")])
    keys = board.grant(granted)
    count, error = fill(board, 1)
    assert (error.code, error.details["limit"]) == ("ledger_limit", "ledger_bytes + recovery_bytes")
    assert count > 10
    wordy = Wordy(board)
    for number, key in enumerate(keys):
        wordy.doubts(key)
        if number % 2:
            wordy.lose(key)
        else:
            wordy.deliver(key)
    for state in list(board.projection.works.values()):
        if state.state == "available":
            gone = ops.WorkCancellation(work_id=state.work.work_id, reason=REASON)
            wordy.say("cancel_work", [gone])
    assert board.projection.reserve_bytes == 0
    assert board.projection.counters.unreleased == 0
    assert board.projection.ledger_bytes <= 2_200_000


@pytest.mark.parametrize("outcome", ["lose", "deliver"])
def test_no_step_of_a_life_outgrows_what_was_reserved_for_it(outcome: str) -> None:
    """Written and reserved bytes together never grow while something is being closed."""
    board = Board([work("a")])
    board.grant()
    wordy = Wordy(board)
    wordy.doubts("a")
    getattr(wordy, outcome)("a")
    if outcome == "lose":
        wordy.say("cancel_work", [ops.WorkCancellation(work_id=make.work_id("a"), reason=REASON)])
    assert wordy.sums == sorted(wordy.sums, reverse=True)
    assert board.projection.reserve_bytes == 0


# --- a writer's care: room for a grant ------------------------------------------------------------


def has_room(board: Board) -> bool:
    try:
        check_room_to_grant(board.projection)
    except CallboardError:
        return False
    return True


def filled(policy: records.PolicyDocument) -> Board:
    """A board on which the last Work that a careful writer posts is posted."""
    board = Board([make.work("n0")], policy)
    number = 0
    while True:
        number += 1
        board.submit([make.work(f"n{number}", graph=f"g{number}")])
        if not has_room(board):
            error = refused(check_room_to_grant, board.projection)
            assert (error.code, error.details["limit"]) == ("ledger_limit", "room_to_grant")
            replay.take_back(board.projection)
            return board


@pytest.mark.parametrize("github", [False, True])
def test_a_board_filled_with_care_still_grants(github: bool) -> None:
    workflow = ".github/workflows/a.lock.yml" if github else ".callboard/workers/default.toml"
    limits = make.limits(ledger_bytes=400_000, recovery_bytes=600_000)
    profiles = {"default": make.profile(workflow=workflow)}
    board = filled(make.policy(limits=limits, pools={"default": make.pool(profiles=profiles)}))
    waiting = board.projection.counters.available
    assert waiting > 5
    assert board.grant() == ["n0"]


def test_with_runs_under_way_a_writer_need_not_keep_room() -> None:
    board = filled(make.policy(limits=make.limits(ledger_bytes=400_000, recovery_bytes=600_000)))
    board.grant()
    check_room_to_grant(board.projection)
