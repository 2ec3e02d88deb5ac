"""Links and comments: who may mirror what, each fact once and for good."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, structs

from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import PRODUCER, RECONCILER, refused, work

REF = "d" * 40
HOME = make.resource(1, repository=make.REPOSITORY)
PROJECTOR = ops.Actor(
    role="projector",
    principal="5",
    repository=make.REPOSITORY,
    workflow=".github/workflows/mirror.lock.yml",
)
LISTED = records.Projector(
    principal="5",
    workflow=".github/workflows/mirror.lock.yml",
    ref=REF,
    pools=["default"],
    repositories=[make.LIBRARY],
)


def link(
    board: Board,
    key: str = "a",
    resource: ops.Resource = HOME,
    actor: ops.Actor = PROJECTOR,
    **changes: Any,
) -> None:
    given: dict[str, Any] = {
        "work_id": make.work_id(key),
        "resource": resource,
        "projector_ref": REF,
    }
    board.say("issue_link", [ops.IssueLink(**(given | changes))], actor)


def comment(
    board: Board, comment_id: str, key: str = "a", actor: ops.Actor = PROJECTOR, **changes: Any
) -> None:
    given: dict[str, Any] = {
        "work_id": make.work_id(key),
        "comment_id": comment_id,
        "projector_ref": REF,
    }
    board.say("issue_comment", [ops.IssueComment(**(given | changes))], actor)


def board_of(*works: ops.Work, **policy: Any) -> Board:
    return Board(works or (work("a"), work("b")), make.policy(**policy))


def claim_of(board: Board, key: str) -> str:
    return str(board.work(key).claim_id)


def test_a_work_is_mirrored_in_one_issue_and_its_claims_in_comments() -> None:
    board = board_of()
    board.grant()
    link(board)
    comment(board, "11")
    claim = claim_of(board, "a")
    comment(board, "12", claim_id=claim, authority_claim_id=claim)
    found = board.document()
    tip = board.commits
    assert found["issue_links"] == {
        make.work_id("a"): {
            "resource": {
                "kind": "issue",
                "host": "github.com",
                "repository": make.REPOSITORY,
                "repository_id": "R_1",
                "resource_id": "I_1",
                "number": "1",
            },
            "projector_ref": REF,
            "commit_id": tip[-3].id,
        }
    }
    assert found["issue_comments"] == {
        "11": {"work_id": make.work_id("a"), "projector_ref": REF, "commit_id": tip[-2].id},
        "12": {
            "work_id": make.work_id("a"),
            "projector_ref": REF,
            "claim_id": claim,
            "authority_claim_id": claim,
            "commit_id": tip[-1].id,
        },
    }


def test_an_unmirrored_board_says_nothing_of_links() -> None:
    assert not {"issue_links", "issue_comments"} & set(board_of().document())


def test_the_same_fact_again_changes_nothing() -> None:
    board = board_of()
    link(board)
    comment(board, "11")
    before = {name: board.document()[name] for name in ("issue_links", "issue_comments")}
    link(board)
    comment(board, "11")
    assert {name: board.document()[name] for name in before} == before


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        ("a", make.resource(2, repository=make.REPOSITORY)),
        ("a", structs.replace(HOME, number="3")),
        ("b", HOME),
        ("b", structs.replace(HOME, repository=make.REPOSITORY, number="9")),
    ],
)
def test_a_link_never_changes_and_an_issue_has_one_work(key: str, resource: ops.Resource) -> None:
    board = board_of()
    link(board)
    assert refused(lambda: link(board, key, resource)).code == "issue_link_conflict"


def test_a_work_with_a_backing_issue_is_linked_to_that_one() -> None:
    board = board_of(work("a", backing_issue=HOME))
    other = make.resource(2, repository=make.REPOSITORY)
    assert refused(lambda: link(board, resource=other)).code == "issue_link_conflict"
    link(board)


def test_a_pull_request_is_no_mirror() -> None:
    pull = make.resource(1, "pull_request", repository=make.REPOSITORY)
    assert refused(lambda: link(board_of(), resource=pull)).code == "issue_link_invalid"


def test_without_a_list_only_the_board_s_own_repository_is_mirrored() -> None:
    error = refused(lambda: link(board_of(), resource=make.resource(1)))
    assert error.code == "not_authorized"


def test_under_enrolment_nobody_mirrors_unlisted() -> None:
    board = board_of(
        authorization=UNSET,
        producers={"7": records.Producer(pools=["default"], priorities=[3], fairness_keys=[""])},
        pools={"default": make.pool(profiles={"default": make.profile(principal="7")})},
    )
    assert refused(lambda: link(board)).code == "not_authorized"


@pytest.mark.parametrize("as_array", [True, False])
def test_a_listed_projector_mirrors_its_pools_where_it_may(as_array: bool) -> None:
    board = board_of(projectors=[LISTED] if as_array else {"mirror": LISTED})
    link(board, resource=make.resource(1))
    comment(board, "11")
    assert refused(lambda: link(board, "b", HOME)).code == "not_authorized"


@pytest.mark.parametrize(
    "changes",
    [{"principal": "6"}, {"workflow": ".github/workflows/other.lock.yml"}, {"workflow": UNSET}],
)
def test_another_actor_is_not_the_listed_one(changes: dict[str, Any]) -> None:
    board = board_of(projectors=[LISTED])
    actor = structs.replace(PROJECTOR, **changes)
    error = refused(lambda: link(board, resource=make.resource(1), actor=actor))
    assert error.code == "not_authorized"
    link(board, resource=make.resource(1))
    assert refused(lambda: comment(board, "11", actor=actor)).code == "not_authorized"


@pytest.mark.parametrize("changes", [{"ref": "e" * 40}, {"pools": []}, {"repositories": []}])
def test_a_projector_keeps_to_its_entry(changes: dict[str, Any]) -> None:
    board = board_of(projectors=[structs.replace(LISTED, **changes)])
    assert refused(lambda: link(board, resource=make.resource(1))).code == "not_authorized"


def test_a_comment_needs_its_issue() -> None:
    assert refused(lambda: comment(board_of(), "11")).code == "issue_link_missing"


def test_one_comment_a_subject_and_one_subject_a_comment() -> None:
    board = board_of()
    board.grant()
    link(board)
    link(board, "b", make.resource(2, repository=make.REPOSITORY))
    comment(board, "11")
    claim = claim_of(board, "a")
    comment(board, "12", claim_id=claim)
    conflicting: tuple[dict[str, Any], ...] = (
        {"comment_id": "13"},
        {"comment_id": "11", "key": "b"},
        {"comment_id": "11", "claim_id": claim},
        {"comment_id": "13", "claim_id": claim},
        {"comment_id": "12"},
    )
    for given in conflicting:
        error = refused(comment, board, **given)
        assert error.code == "issue_comment_conflict", given
    comment(board, "13", "b")


@pytest.mark.parametrize("field", ["claim_id", "authority_claim_id"])
def test_a_claim_named_is_one_of_the_work(field: str) -> None:
    board = board_of()
    board.grant(2)
    link(board)
    foreign: dict[str, Any] = {field: claim_of(board, "b")}
    assert refused(comment, board, "11", **foreign).code == "claim_mismatch"
    unknown: dict[str, Any] = {field: "c_none"}
    assert refused(comment, board, "11", **unknown).code == "claim_unknown"
    other = make.resource(2, repository=make.REPOSITORY)
    if field == "claim_id":
        error = refused(lambda: link(board, "b", other, claim_id=claim_of(board, "a")))
        assert error.code == "claim_mismatch"


def test_nobody_else_projects_and_a_projector_does_nothing_else() -> None:
    board = board_of()
    for actor in (PRODUCER, RECONCILER, make.ADMINISTRATOR, make.DISPATCHER):
        assert refused(link, board, actor=actor).code == "role_forbidden"
    assert refused(lambda: board.submit([work("c")], PROJECTOR)).code == "role_forbidden"


def test_links_outlive_work_and_epoch() -> None:
    board = board_of(work("a"))
    link(board)
    board.cancel_work("a")
    comment(board, "11")
    operation = ops.Policy(epoch="e2", policy=make.policy())
    board.say("policy", [operation], make.ADMINISTRATOR, epoch="e2")
    board.submit([work("b")])
    assert set(board.document()["issue_links"]) == {make.work_id("a")}
    assert refused(lambda: link(board, "b", HOME)).code == "issue_link_conflict"
