"""Checkpoints of boards with deployments, changed priorities and mirrors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from callboard import canonical
from callboard.board.ledger import checkpoint
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.protocol import operations as ops
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import ADMINISTRATOR, work
from tests.board.ledger import checkpoints as checkpointing
from tests.board.projection import audit

OLD, NEW, NEWEST = "a" * 40, "b" * 40, "c" * 40
ONE, TWO = "1" * 64, "2" * 64
PROJECTOR = ops.Actor(role="projector", principal="5", repository=make.REPOSITORY, workflow="m")
A, B, C, D = (make.work_id(key) for key in "abcd")
Doc = dict[str, Any]


def profile(ref: str, contract: str) -> Any:
    return make.profile(ref=ref, logical_contract=contract)


def evolved() -> Board:
    """`a` granted at the first revision, `b` promised the third, `c` pinned, `d` preferred."""
    policy = make.with_pool(profiles={"default": profile(OLD, ONE)})
    board = Board([work("a")], policy)
    board.grant()
    for before, after in (((OLD, ONE), (NEW, ONE)), ((NEW, ONE), (NEWEST, TWO))):
        made = ops.Deployment(
            pool="default",
            worker_profile="default",
            expected_ref=before[0],
            expected_contract=before[1],
            profile=profile(*after),
            available=True,
            reason="test",
        )
        board.say("deployment", [made], ADMINISTRATOR)
    board.submit([work("b"), work("c", execution_ref=NEW), work("d")])
    preferred = ops.WorkPriority(work_id=D, priority=1, expected_priority=3, reason="test")
    board.say("priority", [preferred], ADMINISTRATOR)
    issue = make.resource(1, repository=make.REPOSITORY)
    link = ops.IssueLink(work_id=A, resource=issue, projector_ref=OLD)
    board.say("issue_link", [link], PROJECTOR)
    claim_id = str(board.work("a").claim_id)
    for number, subject in (("11", {}), ("12", {"claim_id": claim_id})):
        comment = ops.IssueComment(work_id=A, comment_id=number, projector_ref=OLD, **subject)
        board.say("issue_comment", [comment], PROJECTOR)
    return board


def of(board: Board) -> checkpoint.Made:
    return checkpointing.made(board.data, board.projection)


def test_what_evolved_is_restored_with_every_index() -> None:
    board = evolved()
    found = checkpoint.read_root(of(board).commit)
    assert audit.document(found) == audit.document(board.projection)
    assert audit.kept(found, board.at) == audit.counted(found, board.at)
    checkpointing.compare_what_is_kept(found, board.projection)
    assert vars(found.links) == vars(board.projection.links)
    assert found.pools["default"].routes == board.projection.pools["default"].routes


def test_a_board_goes_on_behind_its_checkpoint_as_before_it() -> None:
    board = evolved()
    after = History.read(of(board).line).projection
    for projection in (board.projection, after):
        lanes = {one.work.node_key: one.lane for one in projection.works.values()}
        assert (lanes["b"].contract, lanes["c"].ref) == (TWO, NEW)
    assert checkpointing.selections(after, board.at) == checkpointing.selections(
        board.projection, board.at
    )


def without(*path: str) -> Callable[[Doc], Any]:
    def change(state: Doc) -> Any:
        for step in path[:-1]:
            state = state[step]
        return state.pop(path[-1])

    return change


def put(value: Any, *path: str) -> Callable[[Doc], Any]:
    def change(state: Doc) -> Any:
        for step in path[:-1]:
            state = state[step]
        state[path[-1]] = value

    return change


ROUTE = ("deployments", "default", "default")
ISSUE = ("issue_links", A)
OTHER = make.resource(2, "pull_request", repository=make.REPOSITORY)
SAYS_TOO_LITTLE = {"default": {"current": OLD, "revisions": {}}}


@pytest.mark.parametrize(
    ("pointer", "change"),
    [
        ("/deployments", put({}, "deployments")),
        ("/deployments/elsewhere", put(SAYS_TOO_LITTLE, "deployments", "elsewhere")),
        ("/deployments/default", put({}, "deployments", "default")),
        (
            "/deployments/default/nobody",
            lambda s: s["deployments"]["default"].update(
                nobody=s["deployments"]["default"].pop("default")
            ),
        ),
        ("/deployments/default/default/current", put("f" * 40, *ROUTE, "current")),
        ("/deployments/default/default/revisions", without(*ROUTE, "revisions", OLD)),
        (
            f"/deployments/default/default/revisions/{NEW}/profile/ref",
            put(NEWEST, *ROUTE, "revisions", NEW, "profile", "ref"),
        ),
        (
            f"/deployments/default/default/revisions/{NEW}/profile/max_claims",
            put(2, *ROUTE, "revisions", NEW, "profile", "max_claims"),
        ),
        (
            f"/deployments/default/default/revisions/{NEW}/available",
            without(*ROUTE, "revisions", NEW, "available"),
        ),
        (f"/works/{B}", put("3" * 64, "works", B, "admission_contract")),
        (f"/works/{B}", put(OLD, "works", B, "admission_ref")),
        (f"/works/{C}", put(TWO, "works", C, "admission_contract")),
        (f"/works/{C}", put("f" * 40, "works", C, "execution_ref")),
        (f"/works/{A}", put(ONE, "works", A, "admission_contract")),
        (f"/works/{A}/effective_priority", put(3, "works", A, "effective_priority")),
        (f"/works/{B}/effective_priority", put(6, "works", B, "effective_priority")),
        ("/issue_links", put({}, "issue_links")),
        ("/issue_comments", put({}, "issue_comments")),
        (
            f"/issue_links/{'0' * 64}",
            lambda s: s["issue_links"].update({"0" * 64: s["issue_links"][A]}),
        ),
        (
            f"/issue_links/{A}/resource",
            lambda s: s["issue_links"][A]["resource"].update(kind="pull_request"),
        ),
        (f"/issue_links/{B}/resource", lambda s: s["issue_links"].update({B: s["issue_links"][A]})),
        (f"/issue_links/{A}/claim_id", put("c_other", *ISSUE, "claim_id")),
        (f"/issue_links/{A}/commit_id", put("q_other", *ISSUE, "commit_id")),
        ("/issue_comments/11/work_id", put(B, "issue_comments", "11", "work_id")),
        ("/issue_comments/12", without("issue_comments", "12", "claim_id")),
        ("/issue_comments/12/claim_id", put("c_other", "issue_comments", "12", "claim_id")),
        (
            "/issue_comments/12/authority_claim_id",
            put("c_other", "issue_comments", "12", "authority_claim_id"),
        ),
        ("/issue_comments/11/commit_id", put("q_other", "issue_comments", "11", "commit_id")),
        (
            "/issue_comments/eleven",
            lambda s: s["issue_comments"].update(eleven=s["issue_comments"].pop("11")),
        ),
    ],
)
def test_what_contradicts_itself_is_located(pointer: str, change: Callable[[Doc], Any]) -> None:
    record: Doc = canonical.decode(of(evolved()).line[:-1])
    record = copy.deepcopy(record)
    change(record["operations"][0]["state"])
    with pytest.raises(CallboardError) as caught:
        History.read(checkpointing.resealed(record))
    assert caught.value.details["cause"] == "checkpoint_invalid"
    faults: Any = caught.value.details["faults"]
    assert any(fault["pointer"].startswith(pointer) for fault in faults), faults


def test_an_empty_board_takes_over_a_checkpoint_or_nothing_of_it() -> None:
    board = evolved()
    record: Doc = canonical.decode(of(board).line[:-1])
    record["operations"][0]["state"]["issue_links"] = {}
    projection = Projection()
    with pytest.raises(CallboardError):
        History.read(checkpointing.resealed(record))
    assert (projection.tip, projection.links.by_work) == (None, {})
