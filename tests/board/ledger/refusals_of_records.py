"""Refusals of lines, records, envelopes, chains, policies and budgets."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.ledger.budget import refresh_budget
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.worker import check_worker
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol.envelope import read_line, written
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import (
    ADMINISTRATOR,
    DISPATCHER,
    PRODUCER,
    RECONCILER,
    SENDER,
    genesis,
    line_of,
    work,
    work_id,
)
from tests.board.ledger.refusals import case
from tests.board.ledger.situations import (
    ZEROS,
    bound,
    finish_of,
    granted,
    one,
    started,
    submits,
)

# --- the codec, through one line ------------------------------------------------------------------


@case("invalid_unicode", "byte 1 ")
def not_utf8() -> None:
    read_line(b'"\xff"')


@case("duplicate_key", "'id'")
def a_key_twice() -> None:
    read_line(b'{"id":"a","\\u0069d":"b"}')


@case("noncanonical_number", "1.5")
def a_fraction() -> None:
    read_line(b'{"version":1.5}')


@case("invalid_json", "at the end")
def half_an_object() -> None:
    read_line(b'{"a":')


@case("resource_limit", "64 levels")
def too_deep() -> None:
    read_line(b"[" * 66)


@case("resource_limit", "83886081 bytes", wrapped=True)
def too_large_a_ledger() -> None:
    History.read(b" " * (canonical.MAX_PARSE_BYTES + 1))


# --- records and envelopes ------------------------------------------------------------------------


@case("unsupported_protocol", "version 2")
def another_version() -> None:
    read_line(b'{"version":2}')


@case("record_invalid", "/id: is missing")
def a_record_without_fields() -> None:
    read_line(b'{"version":3}')


@case("record_invalid", "'yes'")
def a_pause_with_a_word() -> None:
    one().control("grants_paused", "yes")


@case("record_invalid", "credential_generation has the value True")
def a_generation_that_is_a_flag() -> None:
    one().control("credential_generation", True)


@case("record_invalid", "'run'")
def a_start_with_a_run() -> None:
    board = granted()
    group = board.group("a")
    board.dispatch(group, "started", SENDER, sender=SENDER, run=board.run(group))


@case("record_invalid", "names no run")
def a_binding_without_run() -> None:
    board = started()
    board.dispatch(board.group("a"), "bound")


@case("record_invalid", "uncertain")
def a_doubt_with_a_run() -> None:
    board = started()
    group = board.group("a")
    board.dispatch(group, "uncertain", run=board.run(group))


@case("actor_invalid", "run_id and run_attempt")
def half_a_run() -> None:
    submits(work("b"), actor=structs.replace(PRODUCER, run_id="1"))


@case("actor_invalid", "run_attempt 1")
def a_rerun() -> None:
    board = bound()
    actor = structs.replace(board.worker(board.group("a")), run_attempt=2)
    board.say("observe", [make.observation("o", make.issue_gate(), board.at)], actor)


@case("role_forbidden", "a producer may not ask for control")
def a_producer_s_pause() -> None:
    pause = ops.Control(control="grants_paused", value=True, reason="r")
    one().say("control", [pause], PRODUCER)


@case("role_forbidden", "a administrator may not begin a ledger with submit")
def an_administrator_s_genesis() -> None:
    commit = make.resealed(genesis([work("a")]), actor=ADMINISTRATOR)
    Board().put(commit)


@case("role_forbidden", "not from reconciler")
def a_start_by_a_reconciler() -> None:
    board = granted()
    board.dispatch(board.group("a"), "started", RECONCILER, sender=RECONCILER)


@case("role_forbidden", "binding")
def a_worker_s_doubt() -> None:
    board = started()
    group = board.group("a")
    board.dispatch(group, "uncertain", board.worker(group), reason="lost")


def deployed(board: Board, **changes: Any) -> None:
    made = ops.Deployment(
        pool="default",
        worker_profile="default",
        expected_ref=make.REF,
        expected_contract="",
        profile=make.profile(ref="b" * 40),
        available=True,
        reason="test",
    )
    board.say("deployment", [structs.replace(made, **changes)], ADMINISTRATOR)


@case("deployment_conflict", "b" * 40)
def a_deployment_over_another() -> None:
    deployed(one(), expected_ref="b" * 40)


@case("deployment_boundary", "max_claims from 1 to 2")
def a_deployment_of_more_rights() -> None:
    deployed(one(), profile=make.profile(ref="b" * 40, max_claims=2))


@case("deployment_unregistered", "b" * 40)
def a_withdrawal_of_what_never_ran() -> None:
    deployed(one(), activate=False)


@case("priority_conflict", "priority 3, not 4")
def a_priority_over_another() -> None:
    change = ops.WorkPriority(
        work_id=work_id("a"), priority=1, expected_priority=4, reason="urgent"
    )
    one().say("priority", [change], ADMINISTRATOR)


PROJECTOR = ops.Actor(role="projector", principal="5", repository=make.REPOSITORY, workflow="m")


def linked(board: Board, number: int = 1, **changes: Any) -> None:
    resource = make.resource(number, **({"repository": make.REPOSITORY} | changes))
    made = ops.IssueLink(work_id=work_id("a"), resource=resource, projector_ref=make.REF)
    board.say("issue_link", [made], PROJECTOR)


def commented(board: Board, comment_id: str) -> None:
    made = ops.IssueComment(work_id=work_id("a"), comment_id=comment_id, projector_ref=make.REF)
    board.say("issue_comment", [made], PROJECTOR)


@case("issue_link_invalid", "pull_request")
def a_merge_as_a_mirror() -> None:
    linked(one(), kind="pull_request")


@case("issue_link_conflict", work_id("a"))
def a_second_mirror() -> None:
    board = one()
    linked(board)
    linked(board, 2)


@case("issue_link_missing", "comment 11")
def a_comment_without_an_issue() -> None:
    commented(one(), "11")


@case("issue_comment_conflict", "the comment 11")
def a_second_comment() -> None:
    board = one()
    linked(board)
    commented(board, "11")
    commented(board, "12")


@case("selection_mismatch", "0")
def a_grant_to_workers_the_caller_may_not_launch() -> None:
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=1, max_bytes=9999, worker_profiles=["other"]
    )
    board = one()
    board.say("dispatch_next", board.plan().claims, DISPATCHER, parameters=parameters)


@case("operation_forbidden", "operation 0 is a Control")
def a_pause_by_observation() -> None:
    pause = ops.Control(control="grants_paused", value=True, reason="r")
    one().say("observe", [pause], RECONCILER)


@case("operation_forbidden", "ends with its Release")
def a_release_without_release() -> None:
    board = granted()
    board.say("release", board.cancellations("a"), RECONCILER)


@case("operation_forbidden", "order")
def a_release_in_disorder() -> None:
    board = granted()
    gone = ops.WorkCancellation(work_id=work_id("a"), reason="r")
    board.release(board.group("a"), "prelaunch", [gone, *board.cancellations("a")])


@case("operation_forbidden", "one Policy")
def two_policies() -> None:
    installed = [ops.Policy(epoch=epoch, policy=make.policy()) for epoch in ("e2", "e3")]
    one().say("policy", installed, ADMINISTRATOR)


@case("operation_forbidden", "no Work")
def a_submission_of_nothing() -> None:
    # No line can say this: its parameters need a node.
    commit = make.commit(
        None, "submit", "r", [ops.Policy(epoch="e1", policy=make.policy())], PRODUCER
    )
    replay.apply(Projection(), written(commit))


@case("operation_forbidden", "outside that dispatch")
def a_release_of_another_s_work() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    board.release(board.group("a"), "prelaunch", board.cancellations("b"))


@case("operation_limit", "holds 4 operations, the policy allows 3")
def too_many_operations() -> None:
    Board([work(key) for key in "abc"], make.policy(limits=make.limits(operations=3)))


@case("parameters_mismatch", "'submit-1'")
def other_operations_than_asked() -> None:
    parameters = wire.SubmitParameters(nodes=[work("c")])
    one().say("submit", [work("b")], PRODUCER, parameters=parameters)


@case("fingerprint_mismatch", ZEROS)
def a_forged_fingerprint() -> None:
    board = one()
    commit = board.make("submit", [work("b")], PRODUCER)
    forged = structs.replace(commit.request, fingerprint=ZEROS)
    board.put(structs.replace(commit, request=forged))


# --- the chain ------------------------------------------------------------------------------------


@case("chain_broken", "'q_elsewhere'")
def another_predecessor() -> None:
    board = one()
    board.put(make.commit("q_elsewhere", "submit", "r", [work("b")], PRODUCER))


@case("commit_duplicate", "'q_twice'")
def one_id_twice() -> None:
    board = one()
    board.say("submit", [work("b")], PRODUCER, commit_id="q_twice")
    board.say("submit", [work("c")], PRODUCER, commit_id="q_twice")


@case("request_duplicate", "'genesis'")
def one_request_twice() -> None:
    one().say("submit", [work("b")], PRODUCER, request_id="genesis")


@case("policy_missing", "exactly one Policy")
def a_genesis_without_policy() -> None:
    Board().submit([work("a")])


@case("repository_mismatch", "'example/other'")
def another_repository_s_actor() -> None:
    submits(work("b"), actor=structs.replace(PRODUCER, repository="example/other"))


@case("policy_epoch_mismatch", "'e0'")
def another_epoch() -> None:
    one().say("submit", [work("b")], PRODUCER, epoch="e0")


@case("queue_missing", "no history")
def a_policy_before_genesis() -> None:
    str(Projection().policy)


@case("queue_missing", "no board")
def a_worker_before_genesis() -> None:
    board = bound()
    commit = board.make(
        "finish", [], board.worker(board.group("a")), parameters=finish_of("d", "h1")
    )
    check_worker(Projection(), commit)


@case("blank_line", "blank", wrapped=True)
def a_blank_line() -> None:
    History.read(one().data + b" \n")


@case("truncated_line", "no newline", wrapped=True)
def a_torn_line() -> None:
    History.read(one().data[:-1])


def _chain(count: int = 4) -> list[wire.QueueCommit]:
    board = one()
    for number in range(count - 1):
        board.submit([work(f"n{number}")])
    return board.commits


def _ledger(*commits: wire.QueueCommit) -> bytes:
    return b"".join(line_of(commit) for commit in commits)


@case("fork", "follow", wrapped=True)
def two_children() -> None:
    chain = _chain(2)
    other = make.commit(chain[0].id, "submit", "other", [work("z")], PRODUCER)
    History.read(_ledger(*chain, other))


@case("commit_conflict", "line 2 has the same id", wrapped=True)
def one_id_with_two_bodies() -> None:
    chain = _chain(3)
    other = make.commit(
        chain[0].id, "submit", "other", [work("z")], PRODUCER, commit_id=chain[1].id
    )
    History.read(_ledger(*chain, other))


@case("second_root", "root", wrapped=True)
def two_roots() -> None:
    other = genesis([work("z")], commit_id="q_other")
    History.read(_ledger(*_chain(2), other))


@case("predecessor_missing", "q_nowhere", wrapped=True)
def a_line_lost() -> None:
    stray = make.commit("q_nowhere", "submit", "r", [work("z")], PRODUCER)
    History.read(_ledger(*_chain(2), stray))


@case("chain_cycle", "back to it", wrapped=True)
def a_ring() -> None:
    ring = [
        make.commit(previous, "submit", name, [work(name)], PRODUCER, commit_id=name)
        for previous, name in (("y", "x"), ("x", "y"))
    ]
    History.read(_ledger(*_chain(2), *ring))


@case("ledger_invalid", "line 2")
def an_invalid_ledger() -> None:
    History.read(one().data + b"{}\n")


@case("ledger_invalid", "256")
def an_impossible_refresh_budget() -> None:
    refresh_budget(requested=256, operations=256, ledger_bytes=0, ledger_limit=1)


# --- policies, controls, budgets ------------------------------------------------------------------


@case("policy_invalid", "default key")
def a_policy_without_default_key() -> None:
    one(document=make.policy(accounting_weights={"team": 1}))


@case("policy_epoch_reused", "'e1'")
def an_epoch_twice() -> None:
    board = one()
    board.cancel_work("a")
    board.say("policy", [ops.Policy(epoch="e1", policy=make.policy())], ADMINISTRATOR)


@case("policy_not_quiescent", "node 'a'")
def a_policy_amid_work() -> None:
    installed = ops.Policy(epoch="e2", policy=make.policy())
    one().say("policy", [installed], ADMINISTRATOR, epoch="e2")


@case("credential_generation_reused", "'initial'")
def a_generation_twice() -> None:
    one().control("credential_generation", "initial")


@case("ledger_limit", "admission watermark 2000")
def a_full_ledger() -> None:
    board = one(document=make.policy(limits=make.limits(ledger_bytes=2000)))
    board.submit([work("b"), work("c")])


@case("ledger_limit", "1 observations are written")
def too_many_observations() -> None:
    board = one(document=make.policy(limits=make.limits(observation_writes=1)))
    # The limit counts what stands: the second is one too many.
    board.observe(make.observation("o1", make.issue_gate(), board.at))
    board.observe(make.observation("o2", make.issue_gate(), board.at))
