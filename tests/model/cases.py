"""Small boards and records for cases worked out by hand: workers, overrides and mirrors."""

from typing import Any

from .canon import Doc
from .desk import Desk, plain_policy
from .writing import person, running, work

A, B, C = "1" * 40, "2" * 40, "3" * 40
X, Y = "a" * 64, "b" * 64
ADMIN = person("administrator", "900")
PLAIN: Doc = {}
STATED: Doc = {"logical_contract": X}


def own(policy: Doc, name: str = "default") -> Doc:
    """The profile a Policy gives a name."""
    profile: Doc = policy["pools"]["default"]["profiles"][name]
    return profile


def deployment(policy: Doc, expected: tuple[str, str], **fields: Any) -> Doc:
    """A Deployment of the default worker; profile fields go by `ref` and `contract`."""
    profile = {**own(policy), "ref": fields.pop("ref", A)}
    contract = fields.pop("contract", profile.get("logical_contract"))
    profile.pop("logical_contract", None)
    if contract:
        profile["logical_contract"] = contract
    op = {
        "kind": "Deployment",
        "pool": "default",
        "worker_profile": "default",
        "expected_ref": expected[0],
        "expected_contract": expected[1],
        "profile": profile,
        "available": True,
        "reason": "worker.updated",
    }
    return {**op, **fields}


def board(extra: Doc, *names: str, **fields: Any) -> tuple[Desk, Doc, dict[str, str]]:
    """A board of independent Work under one profile, with the ids by name."""
    policy = plain_policy({"default": {"max_claims": 4, **extra}}, **fields)
    nodes = [work(policy, "g", name, "default", 0) for name in names]
    return Desk(policy, nodes), policy, {node["node_key"]: node["work_id"] for node in nodes}


def standing(desk: Desk, ids: dict[str, str]) -> dict[str, str]:
    return {name: desk.board.explain_work(work_id, 1000) for name, work_id in ids.items()}


def granted(desk: Desk, ids: dict[str, str], **budget: Any) -> tuple[list[list[str]], str]:
    """The names in each group of a grant that is not written, and why it stops."""
    given: Doc = {"max_claims": 9, "max_dispatches": 9, "max_bytes": 49152, **budget}
    found = desk.board.plan("default", 1000, request_id="r", **given)
    names = {work_id: name for name, work_id in ids.items()}
    groups = [[names[one["work_id"]] for one in each["claims"]] for each in found["assignments"]]
    return groups, found["reason"]


def override(work_id: str, expected: int, level: int) -> Doc:
    return {
        "kind": "WorkPriority",
        "work_id": work_id,
        "priority": level,
        "expected_priority": expected,
        "reason": "operator.request",
    }


RULE: Doc = {
    "principal": "401",
    "workflow": ".callboard/project",
    "ref": "e" * 40,
    "pools": ["default"],
    "repositories": ["example/board", "example/library"],
}
PROJECTOR = running("projector", "401", "45", ".callboard/project")


def issue(number: int, repository: str = "example/board", **fields: str) -> Doc:
    made = {
        "kind": "issue",
        "host": "github.com",
        "repository": repository,
        "repository_id": "77",
        "resource_id": str(8000 + number),
        "number": str(number),
    }
    return {**made, **fields}


def link(work_id: str, resource: Doc, **fields: str) -> Doc:
    op = {"kind": "IssueLink", "work_id": work_id, "resource": resource}
    return {**op, "projector_ref": "e" * 40, **fields}


def comment(work_id: str, number: int, **fields: str) -> Doc:
    op = {"kind": "IssueComment", "work_id": work_id, "comment_id": str(number)}
    return {**op, "projector_ref": "e" * 40, **fields}


def mirrored(*names: str, rules: Any = None) -> tuple[Desk, dict[str, str]]:
    """A board whose Policy has these rules for mirrors."""
    policy = plain_policy({"default": {"max_claims": 4}})
    if rules is not None:
        policy["projectors"] = rules
    nodes = [work(policy, "g", name, "default", 0) for name in names]
    return Desk(policy, nodes), {node["node_key"]: node["work_id"] for node in nodes}
