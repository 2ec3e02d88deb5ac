"""Refusals of new Work, of grants and of observations."""

from __future__ import annotations

from msgspec import structs

from callboard.board.ledger import finish as finishing
from callboard.board.projection.transitions.admission import admit
from callboard.board.projection.transitions.context import Context
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import (
    DISPATCHER,
    PRODUCER,
    work,
    work_id,
)
from tests.board.ledger.refusals import case
from tests.board.ledger.situations import (
    ZEROS,
    bound,
    completed,
    enrolled,
    failed,
    finish_of,
    first,
    one,
    replacement_of,
    submits,
)

# --- admission ------------------------------------------------------------------------------------


@case("admission_paused", "paused")
def a_submission_in_a_pause() -> None:
    board = one()
    board.control("admission_paused", True)
    submits(work("b"), board)


@case("node_duplicate", "'b'")
def a_node_twice() -> None:
    one().submit([work("b"), work("b")])


@case("work_conflict", "payload")
def a_node_redefined() -> None:
    submits(work("a", payload={"other": True}))


@case("work_invalid", "/work_id")
def a_node_under_a_false_name() -> None:
    submits(work("b", work_id=ZEROS))


@case("pool_unknown", "'basement'")
def an_unknown_pool() -> None:
    submits(work("b", pool="basement"))


@case("profile_unknown", "'wizard'")
def an_unknown_profile() -> None:
    submits(work("b", worker_profile="wizard"))


@case("trust_domain_mismatch", "'secret'")
def another_trust_domain() -> None:
    submits(work("b", batch_trust_domain="secret"))


@case("profile_mismatch", "execution_ref " + "b" * 40)
def a_pin_the_profile_lacks() -> None:
    submits(work("b", execution_ref="b" * 40))


@case("profile_mismatch", "logical_contract " + ZEROS)
def a_contract_the_profile_lacks() -> None:
    submits(work("b", logical_contract=ZEROS))


@case("not_authorized", "principal 8 is no producer")
def a_stranger() -> None:
    actor = structs.replace(PRODUCER, principal="8")
    submits(work("b"), one(document=enrolled()), actor)


@case("not_authorized", "priority 1")
def a_priority_not_granted() -> None:
    submits(work("b", priority=1), one(document=enrolled()))


@case("fairness_key_unknown", "'team'")
def a_key_not_granted() -> None:
    submits(work("b", account="team"), one(document=enrolled()))


@case("fairness_key_unknown", "'team'")
def a_key_not_registered() -> None:
    submits(work("b", account="team"))


@case("inheritance_violated", "priority 2")
def a_child_that_overtakes() -> None:
    board = completed()
    submits(work("b", priority=2), board, board.worker(board.group("a")))


@case("claim_scope_invalid", "'h2'")
def a_submission_for_no_member() -> None:
    board = completed()
    submits(work("b"), board, board.worker(board.group("a"), "h2"))


@case("claim_scope_invalid", "'h3'")
def an_admission_for_no_member() -> None:
    board = completed()
    actor = board.worker(board.group("a"), "h3")
    commit = board.make("submit", [work("b")], actor)
    admit(board.projection, Context(commit, 9), [(0, work("b"))])


@case("claim_scope_invalid", "'h9'")
def a_finish_for_no_member() -> None:
    board = bound()
    group = board.group("a")
    parameters = finish_of(group.assignment.dispatch_id, "h9")
    operations = finishing.finish_operations(
        board.projection, structs.replace(parameters, claim_handle="h1"), board.at
    )
    board.say("finish", operations, board.worker(group, None), parameters=parameters)


@case("claim_scope_invalid", "finishes 'h1'")
def a_finish_for_a_sibling() -> None:
    board = bound()
    group = board.group("a")
    parameters = finish_of(group.assignment.dispatch_id, "h1")
    operations = finishing.finish_operations(board.projection, parameters, board.at)
    board.say("finish", operations, board.worker(group, "h2"), parameters=parameters)


@case("repository_not_allowed", "'example/secret'")
def a_gate_elsewhere() -> None:
    resource = make.resource(repository="example/secret")
    gate = ops.IssueDependency(resource=resource, condition="closed")
    submits(work("b", gates=[gate]))


@case("replacement_invalid", work_id("a"))
def a_replacement_of_sound_work() -> None:
    board = completed()
    submits(work("b", replacement_of=replacement_of(board)), board)


@case("replacement_invalid", "priority 3")
def a_replacement_that_overtakes() -> None:
    board = failed()
    submits(work("b", priority=2, replacement_of=replacement_of(board)), board)


@case("payload_limit", "21 bytes of canonical JSON")
def a_large_payload() -> None:
    node = work("a", payload={"k": "x" * 13})
    first(node, make.policy(limits=make.limits(payload_bytes=20)))


@case("predecessor_limit", "2 predecessors, at most 1")
def a_wide_join() -> None:
    document = make.policy(limits=make.limits(predecessors=1))
    Board([work("a"), work("b"), work("c", after=["a", "b"])], document)


@case("dependency_self", "'b'")
def a_node_behind_itself() -> None:
    submits(work("b", after=["b"]))


@case("dependency_missing", work_id("gone"))
def a_node_behind_nothing() -> None:
    submits(work("b", after=["gone"]))


@case("dependency_cycle", "'b' -> 'c' -> 'b'")
def a_cycle() -> None:
    one().submit([work("b", after=["c"]), work("c", after=["b"])])


def _two_pools() -> records.PolicyDocument:
    return make.policy(pools={"default": make.pool(), "side": make.pool()})


@case("graph_pool_mismatch", "'side'")
def a_graph_that_moves() -> None:
    submits(work("b", pool="side"), one(document=_two_pools()))


@case("graph_pool_mismatch", "'side'")
def a_graph_in_two_pools() -> None:
    board = one(graph="other", document=_two_pools())
    board.submit([work("b"), work("c", pool="side")])


@case("graph_limit", "3 nodes, at most 2")
def a_large_graph() -> None:
    Board([work(key) for key in "abc"], make.policy(limits=make.limits(graph_nodes=2)))


@case("pending_limit", "3 unsettled nodes, at most 2")
def a_long_backlog() -> None:
    Board([work(key) for key in "abc"], make.policy(limits=make.limits(pending_nodes=2)))


@case("assignment_limit", "at most 900")
def a_work_no_assignment_holds() -> None:
    first(
        work("a", payload={"k": "x" * 900}), make.policy(limits=make.limits(assignment_bytes=900))
    )


# --- grants ---------------------------------------------------------------------------------------


@case("selection_mismatch", "1 Claims that are not the fair prefix of 1")
def a_grant_out_of_turn() -> None:
    board = Board([work("a"), work("b")])
    (claim,) = board.plan(request_id="jump").claims
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=256, max_bytes=49_152
    )
    board.say(
        "dispatch_next",
        [structs.replace(claim, work_id=work_id("b"))],
        DISPATCHER,
        parameters=parameters,
        request_id="jump",
    )


@case("dependency_result_unavailable", work_id("a"))
def an_index_that_lies() -> None:
    board = Board([work("a"), work("b", after=["a"])])
    board.grant()
    board.settle("a")
    works = board.projection.works
    works[work_id("a")] = structs.replace(works[work_id("a")], result=None)
    board.plan()


# --- observations ---------------------------------------------------------------------------------


@case("observation_invalid", "/resource_state")
def a_ready_gate_that_is_open() -> None:
    board = one()
    board.observe(make.observation("o", make.issue_gate(), board.at, resource_state="open"))


@case("observation_duplicate", "'o'")
def an_observation_twice() -> None:
    board = one()
    board.observe(make.observation("o", make.issue_gate(), board.at))
    board.observe(make.observation("o", make.issue_gate(8), board.at))


@case("credential_generation_stale", "'old'")
def an_observation_under_an_old_credential() -> None:
    board = one()
    seen = make.observation("o", make.issue_gate(), board.at, credential_generation="old")
    board.observe(seen)
