"""How Work is reprioritised and how issues mirror it, on cases worked out by hand."""

from typing import Any

import pytest

from .canon import Doc, Refused
from .cases import (
    ADMIN,
    PLAIN,
    PROJECTOR,
    RULE,
    A,
    B,
    board,
    comment,
    deployment,
    granted,
    issue,
    link,
    mirrored,
    override,
    own,
)
from .desk import Desk, plain_policy
from .writing import person, running, work

# Priorities


def test_an_override_counts_in_the_competition_and_nowhere_else() -> None:
    """Class 1 steps by one tick of 8; the place in line within it stays the admitted one."""
    desk, _, ids = board({"max_claims": 1}, "a", "b", "c")
    desk.operate("priority", override(ids["c"], 3, 1))
    desk.operate("priority", override(ids["b"], 3, 1))
    state = desk.board.state()
    entry = state["works"][ids["c"]]
    assert (entry["priority"], entry["effective_priority"]) == (3, 1)
    assert entry["position"] == {"commit": 0, "operation": 3}
    assert state["clocks"] == {}
    assert granted(desk, ids, max_claims=3) == ([["b"], ["c"], ["a"]], "claim_budget_reached")
    desk.grant(1000)
    assert desk.board.state()["clocks"]["default"]["classes"] == {
        "v": "1",
        "pass": {"1": "2", "3": "4"},
        "active": {"1": True, "3": True},
    }
    desk.operate("priority", override(ids["c"], 1, 3))
    assert "effective_priority" not in desk.board.state()["works"][ids["c"]]
    assert granted(desk, ids, max_claims=1) == ([["a"]], "claim_budget_reached")


def test_strict_order_follows_the_override() -> None:
    desk, _, ids = board({"max_claims": 1}, "a", "b", mode="strict-priority")
    desk.operate("priority", override(ids["a"], 3, 4))
    assert granted(desk, ids) == ([["b"], ["a"]], "no_work")


def test_only_waiting_work_is_reprioritised_and_only_by_an_administrator() -> None:
    desk, _, ids = board({"max_claims": 1}, "a", "b")
    assert desk.refusal("priority", ADMIN, override("0" * 64, 3, 1)) == "work_unknown"
    assert desk.refusal("priority", ADMIN, override(ids["a"], 2, 1)) == "priority_conflict"
    for role in ("producer", "dispatcher", "reconciler", "projector"):
        found = desk.refusal("priority", person(role, "9"), override(ids["a"], 3, 1))
        assert found == "role_not_allowed"
    desk.operate("priority", override(ids["a"], 3, 2))
    assert desk.refusal("priority", ADMIN, override(ids["a"], 3, 1)) == "priority_conflict"
    assert desk.refusal("priority", ADMIN, override(ids["a"], 2, 2)) is None
    claim = desk.grant(1000)["operations"][0]
    assert claim["work_id"] == ids["a"]
    assert desk.refusal("priority", ADMIN, override(ids["a"], 2, 1)) == "work_closed"
    op = {"kind": "ClaimCancellation", "work_id": ids["a"], "claim_id": claim["claim_id"]}
    op.update(reason="superseded", retry_not_before=31000)
    desk.write("cancel_claim", person("reconciler", "301"), [op], 1000)
    assert desk.board.state()["works"][ids["a"]]["effective_priority"] == 2
    assert desk.refusal("priority", ADMIN, override(ids["a"], 2, 1)) is None
    end = {"kind": "WorkCancellation", "work_id": ids["a"], "reason": "obsolete"}
    desk.operate("cancel_work", end)
    assert desk.refusal("priority", ADMIN, override(ids["a"], 2, 1)) == "work_closed"


@pytest.mark.parametrize(("now", "allowed"), [(1, [3, 4, 5]), (5, [3, 4, 5])])
def test_children_inherit_the_admitted_class(now: int, allowed: list[int]) -> None:
    desk, policy, ids = board({"max_claims": 1}, "a")
    desk.operate("priority", override(ids["a"], 3, now))
    claim = desk.grant(1000)["operations"][0]
    ran = desk.launch(claim["dispatch_id"], "501", 1000)
    desk.complete(claim, ran, 1000)
    actor = running("worker", "7", "501", own(policy)["workflow"])
    actor.update(dispatch_id=claim["dispatch_id"], claim_handle="h1")
    for level in (1, 2, 3, 4, 5):
        child = work(policy, "g", f"child{level}", "default", 0, priority=level)
        if level in allowed:
            desk.write("submit", actor, [child], 1000, {"nodes": [child]})
        else:
            with pytest.raises(Refused, match="inheritance_violated"):
                desk.write("submit", actor, [child], 1000, {"nodes": [child]})


# Mirrors


@pytest.mark.parametrize(
    ("rules", "actor", "repository", "ref", "code"),
    [
        (None, person("projector", "9"), "example/board", "d" * 40, None),
        (None, person("projector", "9"), "example/library", "d" * 40, "not_authorized"),
        ([], PROJECTOR, "example/board", "d" * 40, None),
        ({}, PROJECTOR, "example/library", "d" * 40, "not_authorized"),
        ([RULE], PROJECTOR, "example/board", "e" * 40, None),
        ({"mirror": RULE}, PROJECTOR, "example/library", "e" * 40, None),
        ([RULE], PROJECTOR, "else/where", "e" * 40, "not_authorized"),
        ([RULE], PROJECTOR, "example/board", "d" * 40, "not_authorized"),
        ([RULE], {**PROJECTOR, "principal": "402"}, "example/board", "e" * 40, "not_authorized"),
        ([RULE], {**PROJECTOR, "workflow": "other"}, "example/board", "e" * 40, "not_authorized"),
        ([RULE], person("projector", "401"), "example/board", "e" * 40, "not_authorized"),
        ([{**RULE, "pools": []}], PROJECTOR, "example/board", "e" * 40, "not_authorized"),
        ([{**RULE, "pools": []}, RULE], PROJECTOR, "example/board", "e" * 40, None),
        (
            [RULE],
            {**PROJECTOR, "role": "reconciler"},
            "example/board",
            "e" * 40,
            "role_not_allowed",
        ),
    ],
)
def test_who_may_mirror_what(
    rules: Any, actor: Doc, repository: str, ref: str, code: str | None
) -> None:
    desk, ids = mirrored("a", rules=rules)
    op = link(ids["a"], issue(1, repository), projector_ref=ref)
    assert desk.refusal("issue_link", actor, op) == code


def test_without_aw_and_without_rules_nobody_mirrors() -> None:
    policy = plain_policy({"default": {"principal": "7"}})
    del policy["authorization"]
    entry = {"pools": ["default"], "priorities": [3], "fairness_keys": [""]}
    policy["producers"] = {"101": entry}
    node = work(policy, "g", "a", "default", 0)
    desk = Desk(policy, [node])
    op = link(node["work_id"], issue(1))
    assert desk.refusal("issue_link", PROJECTOR, op) == "not_authorized"


def test_a_work_has_one_issue_and_an_issue_one_work() -> None:
    desk, ids = mirrored("a", "b")
    assert "issue_links" not in desk.board.state()
    first = link(ids["a"], issue(1))
    made = desk.write("issue_link", PROJECTOR, [first], 1000)
    shown = {
        ids["a"]: {"resource": issue(1), "projector_ref": "e" * 40, "commit_id": made["id"]},
    }
    assert desk.board.state()["issue_links"] == shown
    desk.write("issue_link", PROJECTOR, [first], 1000)
    assert desk.board.state()["issue_links"] == shown
    for op in (
        link(ids["a"], issue(2)),
        link(ids["b"], issue(1)),
        link(ids["b"], {**issue(1), "number": "9"}),
        link(ids["a"], issue(1), projector_ref="d" * 40),
    ):
        assert desk.refusal("issue_link", PROJECTOR, op) == "issue_link_conflict"
    for op in (link(ids["b"], issue(2)), link(ids["b"], issue(1, host="git.example"))):
        assert desk.refusal("issue_link", PROJECTOR, op) is None
    assert desk.refusal("issue_link", PROJECTOR, link("0" * 64, issue(3))) == "work_unknown"
    pull = issue(3, kind="pull_request")
    assert desk.refusal("issue_link", PROJECTOR, link(ids["b"], pull)) == "schema_invalid"


def test_a_work_that_names_its_issue_is_tied_to_that_one() -> None:
    policy = plain_policy()
    node = work(policy, "g", "a", "default", 0, backing_issue=issue(7))
    desk = Desk(policy, [node])
    for other in (issue(8), {**issue(7), "number": "8"}):
        found = desk.refusal("issue_link", PROJECTOR, link(node["work_id"], other))
        assert found == "issue_link_conflict"
    assert desk.refusal("issue_link", PROJECTOR, link(node["work_id"], issue(7))) is None


def test_claims_in_mirrors_belong_to_their_work() -> None:
    desk, ids = mirrored("a", "b")
    claims = desk.grant(1000, max_claims=2)["operations"]
    mine, other = claims[0]["claim_id"], claims[1]["claim_id"]
    assert claims[0]["work_id"] == ids["a"]
    resource = issue(1)
    for name, code in ((mine, None), (other, "claim_mismatch"), ("c_none", "claim_unknown")):
        op = link(ids["a"], resource, claim_id=name)
        assert desk.refusal("issue_link", PROJECTOR, op) == code
    desk.write("issue_link", PROJECTOR, [link(ids["a"], resource, claim_id=mine)], 1000)
    for field in ("claim_id", "authority_claim_id"):
        for name, code in ((mine, None), (other, "claim_mismatch"), ("c_none", "claim_unknown")):
            op = comment(ids["a"], 5, **{field: name})
            assert desk.refusal("issue_comment", PROJECTOR, op) == code


def test_a_comment_stands_once_for_a_work_and_once_for_each_of_its_claims() -> None:
    desk, ids = mirrored("a", "b")
    claim_id = desk.grant(1000)["operations"][0]["claim_id"]
    op = comment(ids["a"], 5)
    assert desk.refusal("issue_comment", PROJECTOR, op) == "issue_link_missing"
    for name in ("a", "b"):
        resource = issue(1 if name == "a" else 2)
        desk.write("issue_link", PROJECTOR, [link(ids[name], resource)], 1000)
    made = desk.write("issue_comment", PROJECTOR, [op], 1000)
    shown = {"5": {"work_id": ids["a"], "projector_ref": "e" * 40, "commit_id": made["id"]}}
    assert desk.board.state()["issue_comments"] == shown
    desk.write("issue_comment", PROJECTOR, [op], 1000)
    assert desk.board.state()["issue_comments"] == shown
    for again in (
        comment(ids["a"], 6),
        comment(ids["b"], 5),
        comment(ids["a"], 5, claim_id=claim_id),
        comment(ids["a"], 5, authority_claim_id=claim_id),
    ):
        assert desk.refusal("issue_comment", PROJECTOR, again) == "issue_comment_conflict"
    desk.write("issue_comment", PROJECTOR, [comment(ids["a"], 6, claim_id=claim_id)], 1000)
    for again in (comment(ids["a"], 7, claim_id=claim_id), comment(ids["b"], 6)):
        assert desk.refusal("issue_comment", PROJECTOR, again) == "issue_comment_conflict"
    assert desk.refusal("issue_comment", PROJECTOR, comment(ids["b"], 7)) is None
    assert set(desk.board.state()["issue_comments"]) == {"5", "6"}


def test_a_comment_is_judged_by_the_repository_of_the_link() -> None:
    narrow = {**RULE, "principal": "402", "repositories": ["example/board"]}
    desk, ids = mirrored("a", rules=[RULE, narrow])
    desk.write("issue_link", PROJECTOR, [link(ids["a"], issue(1, "example/library"))], 1000)
    other = {**PROJECTOR, "principal": "402"}
    assert desk.refusal("issue_comment", other, comment(ids["a"], 5)) == "not_authorized"
    assert desk.refusal("issue_comment", PROJECTOR, comment(ids["a"], 5)) is None


# Bytes


def test_none_of_them_is_an_admission_and_each_leaves_room_for_closing() -> None:
    """One open Work keeps 55,296 bytes; past the watermark only admissions stop."""
    desk, policy, ids = board(PLAIN, "a")
    written = desk.board.tables()["ledger_bytes"]
    requests: list[tuple[str, Doc, Doc]] = [
        ("deployment", ADMIN, deployment(policy, (A, ""), ref=B)),
        ("priority", ADMIN, override(ids["a"], 3, 1)),
        ("issue_link", PROJECTOR, link(ids["a"], issue(1))),
    ]
    for kind, actor, op in requests:
        for room, code in ((5_000, None), (500, "ledger_limit")):
            other = desk.board.copy()
            limits = {**policy["limits"], "ledger_bytes": written - 1}
            limits["recovery_bytes"] = 55_296 + 1 + room
            other.tables()["policy"] = {**policy, "limits": limits}
            trial = Desk.__new__(Desk)
            trial.board, trial.count, trial.epoch = other, desk.count, desk.epoch
            assert trial.refusal(kind, actor, op) == code, (kind, room)
            node = work(policy, "g", "more", "default", 0)
            with pytest.raises(Refused, match="ledger_limit"):
                trial.submit(node)
