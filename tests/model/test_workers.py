"""How workers evolve, on cases worked out by hand."""

import pytest

from .canon import Doc, Refused
from .cases import ADMIN, PLAIN, STATED, A, B, C, X, Y, board, deployment, granted, own, standing
from .desk import Desk, plain_policy
from .writing import evidence, person, run, running, work

# Deployments


def test_without_a_contract_work_stays_with_the_revision_it_was_admitted_under() -> None:
    desk, policy, ids = board(PLAIN, "old")
    desk.operate("deployment", deployment(policy, (A, ""), ref=B))
    fresh = [work(policy, "g", name, "default", 0) for name in ("new", "newer")]
    desk.submit(*fresh)
    ids.update({node["node_key"]: node["work_id"] for node in fresh})
    assert standing(desk, ids) == {"old": "eligible", "new": "eligible", "newer": "eligible"}
    assert granted(desk, ids) == ([["old"], ["new", "newer"]], "no_work")
    assert granted(desk, ids, max_dispatches=1) == ([["old"]], "dispatch_budget_blocked")
    found = desk.grant(1000, max_claims=9, max_dispatches=9)
    refs = [
        desk.board.tables()["dispatches"][each["dispatch_id"]]["profile"]["ref"]
        for each in found["assignments"]
    ]
    assert refs == [A, B]


def test_with_a_contract_waiting_work_follows_to_a_compatible_revision() -> None:
    desk, policy, ids = board(STATED, "old")
    desk.operate("deployment", deployment(policy, (A, X), ref=B))
    fresh = work(policy, "g", "new", "default", 0, logical_contract=X)
    desk.submit(fresh)
    ids["new"] = fresh["work_id"]
    assert granted(desk, ids) == ([["old", "new"]], "no_work")
    found = desk.grant(1000, max_claims=9, max_dispatches=9)
    name = found["assignments"][0]["dispatch_id"]
    assert desk.board.tables()["dispatches"][name]["profile"] == {**own(policy), "ref": B}


def test_an_incompatible_revision_pauses_only_what_it_cannot_execute() -> None:
    desk, policy, ids = board(STATED, "old")
    desk.operate("deployment", deployment(policy, (A, X), ref=B, contract=Y))
    fresh = work(policy, "g", "new", "default", 0)
    desk.submit(fresh)
    ids["new"] = fresh["work_id"]
    assert standing(desk, ids) == {"old": "worker_incompatible", "new": "eligible"}
    assert granted(desk, ids) == ([["new"]], "no_eligible_work")
    desk.operate("deployment", deployment(policy, (B, Y), ref=A, contract=X, reason="rollback"))
    assert standing(desk, ids) == {"old": "eligible", "new": "worker_incompatible"}


def test_a_contract_that_is_gone_or_new_is_another_one() -> None:
    desk, policy, ids = board(STATED, "old")
    op = deployment(policy, (A, X), ref=B)
    del op["profile"]["logical_contract"]
    desk.operate("deployment", op)
    assert standing(desk, ids) == {"old": "worker_incompatible"}
    assert desk.refusal("deployment", ADMIN, deployment(policy, (B, X), ref=C)) == (
        "deployment_conflict"
    )
    assert desk.refusal("deployment", ADMIN, deployment(policy, (B, ""), ref=C)) is None


def test_a_pin_keeps_its_revision_whatever_the_route_does() -> None:
    desk, policy, ids = board(STATED, "free")
    pinned = work(policy, "g", "pinned", "default", 0, execution_ref=A, logical_contract=X)
    desk.submit(pinned)
    ids["pinned"] = pinned["work_id"]
    desk.operate("deployment", deployment(policy, (A, X), ref=B, available=False))
    assert standing(desk, ids) == {"free": "worker_unavailable", "pinned": "eligible"}
    away = deployment(policy, (B, X), ref=A, available=False, activate=False)
    desk.operate("deployment", away)
    assert standing(desk, ids) == {"free": "worker_unavailable", "pinned": "worker_unavailable"}
    assert granted(desk, ids) == ([], "no_eligible_work")
    back = deployment(policy, (B, X), ref=B, activate=False)
    desk.operate("deployment", back)
    assert standing(desk, ids) == {"free": "eligible", "pinned": "worker_unavailable"}
    late = work(policy, "g", "late", "default", 0, execution_ref=A)
    desk.submit(late)
    assert desk.board.explain_work(late["work_id"], 1000) == "worker_unavailable"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"execution_ref": C}, "profile_mismatch"),
        ({"execution_ref": A, "logical_contract": Y}, "profile_mismatch"),
        ({"logical_contract": X}, "profile_mismatch"),
        ({"execution_ref": A, "logical_contract": X}, None),
        ({"logical_contract": Y}, None),
        ({"execution_ref": B}, None),
        ({"execution_ref": A}, None),
    ],
)
def test_admission_resolves_the_pin_first_and_then_the_contract(fields: Doc, code: str) -> None:
    desk, policy, _ = board(STATED, "old")
    desk.operate("deployment", deployment(policy, (A, X), ref=B, contract=Y, available=False))
    node = work(policy, "g", "new", "default", 0, **fields)
    found = None
    try:
        desk.submit(node)
    except Refused as refusal:
        found = refusal.reason
    assert found == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"pool": "nowhere"}, "pool_unknown"),
        ({"worker_profile": "nobody"}, "profile_unknown"),
        ({"expected_ref": A}, "deployment_conflict"),
        ({"expected_contract": ""}, "deployment_conflict"),
        ({"expected_contract": Y}, "deployment_conflict"),
        ({"workflow": ".callboard/workers/other.toml"}, "deployment_boundary"),
        ({"principal": "5"}, "deployment_boundary"),
        ({"trust_domain": "wider"}, "deployment_boundary"),
        ({"credential_scope": "all"}, "deployment_boundary"),
        ({"effect_scope": "else/where"}, "deployment_boundary"),
        ({"max_claims": 5}, "deployment_boundary"),
        ({"share_keys": True}, "deployment_boundary"),
        ({"ref": A, "contract": Y}, "deployment_conflict"),
        ({"ref": B, "contract": Y, "activate": False}, "deployment_conflict"),
        ({"ref": C, "activate": False}, "deployment_unregistered"),
        ({"ref": C, "activate": True}, None),
        ({"ref": C, "contract": Y}, None),
        ({"ref": A}, None),
        ({"ref": A, "activate": False, "available": False}, None),
        ({"ref": B}, None),
    ],
)
def test_what_a_deployment_may_say(fields: Doc, code: str | None) -> None:
    desk, policy, _ = board(STATED, "old")
    desk.operate("deployment", deployment(policy, (A, X), ref=B))
    of_profile = {name: value for name, value in fields.items() if name in own(policy)}
    of_profile["principal"] = fields.get("principal")
    outer = {name: value for name, value in fields.items() if name not in of_profile}
    op = deployment(policy, (B, X), **{"ref": fields.get("ref", B), **outer})
    op["profile"].update({k: v for k, v in of_profile.items() if v is not None and k != "ref"})
    before = desk.board.state()
    assert desk.refusal("deployment", ADMIN, op) == code
    assert desk.board.state() == before


def test_a_conflict_comes_before_a_boundary_and_a_boundary_before_a_changed_revision() -> None:
    desk, policy, _ = board(STATED, "old")
    op = deployment(policy, (B, X), contract=Y)
    op["profile"]["max_claims"] = 9
    assert desk.refusal("deployment", ADMIN, op) == "deployment_conflict"
    op["expected_ref"] = A
    assert desk.refusal("deployment", ADMIN, op) == "deployment_boundary"
    op["profile"]["max_claims"] = 4
    assert desk.refusal("deployment", ADMIN, op) == "deployment_conflict"


def test_who_may_deploy() -> None:
    desk, policy, _ = board(PLAIN, "old")
    op = deployment(policy, (A, ""), ref=B)
    for role in ("administrator", "producer", "dispatcher"):
        assert desk.refusal("deployment", person(role, "12"), op) is None
    for role in ("reconciler", "projector"):
        assert desk.refusal("deployment", person(role, "12"), op) == "role_not_allowed"


def test_an_absent_worker_is_not_charged_and_does_not_compete() -> None:
    """Q is 8: a step costs class 1 one tick and class 3 four."""
    policy = plain_policy({"default": {}, "other": {}})
    urgent = work(policy, "g", "urgent", "default", 0, priority=1)
    calm = [work(policy, "g", f"c{n}", "default", 0, worker_profile="other") for n in range(3)]
    desk = Desk(policy, [urgent, *calm])
    gone = deployment(policy, (A, ""), available=False, activate=False)
    desk.operate("deployment", gone)
    desk.grant(1000)
    classes = desk.board.state()["clocks"]["default"]["classes"]
    assert classes == {"v": "4", "pass": {"3": "8"}, "active": {"3": True}}
    node = desk.board.tables()["works"][urgent["work_id"]]
    assert (node["attempts"], node["retry_not_before"], node["state"]) == (0, 0, "available")
    desk.operate("deployment", {**gone, "available": True})
    assert desk.grant(1000)["operations"][0]["work_id"] == urgent["work_id"]
    classes = desk.board.state()["clocks"]["default"]["classes"]
    assert classes == {"v": "5", "pass": {"1": "6", "3": "8"}, "active": {"1": True, "3": True}}


def test_a_worker_the_caller_may_not_launch_is_absent_for_this_request_only() -> None:
    desk, _, ids = board(PLAIN, "old")
    found = desk.board.plan("default", 1000, 9, 9, 49152, "r", worker_profiles=[])
    assert found["reason"] == "no_eligible_work"
    assert standing(desk, ids) == {"old": "eligible"}


def test_worker_reasons_stand_behind_dependencies_and_retries_and_before_capacity() -> None:
    policy = plain_policy(logical_limit=1)
    top = work(policy, "g", "top", "default", 0)
    edge = [{"kind": "work", "work_id": top["work_id"]}]
    nodes = [top, work(policy, "g", "low", "default", 0, depends_on=edge)]
    nodes.append(work(policy, "g", "free", "default", 0))
    desk = Desk(policy, nodes)
    ids = {node["node_key"]: node["work_id"] for node in nodes}
    claim = desk.grant(1000)["operations"][0]
    assert standing(desk, ids)["free"] == "capacity_blocked"
    desk.operate("deployment", deployment(policy, (A, ""), available=False))
    assert standing(desk, ids) == {
        "top": "ownership_claimed",
        "low": "dependency_wait",
        "free": "worker_unavailable",
    }
    op = {
        "kind": "ClaimCancellation",
        "work_id": top["work_id"],
        "claim_id": claim["claim_id"],
        "reason": "superseded",
        "retry_not_before": 31000,
    }
    desk.write("cancel_claim", person("reconciler", "301"), [op], 1000)
    assert standing(desk, ids)["top"] == "retry_delayed"
    assert desk.board.explain_work(top["work_id"], 31000) == "worker_unavailable"


def test_a_group_is_brought_to_its_end_with_the_profile_it_was_granted() -> None:
    desk, policy, _ = board(STATED, "old")
    claim = desk.grant(1000)["operations"][0]
    name = claim["dispatch_id"]
    desk.operate("deployment", deployment(policy, (A, X), ref=B, contract=Y))
    desk.operate("deployment", deployment(policy, (B, Y), contract=X, available=False, ref=C))
    sender = running("dispatcher", "201", "42", ".callboard/dispatch")
    start = {"kind": "Dispatch", "dispatch_id": name, "state": "started", "sender": sender}
    desk.write("dispatch", sender, [{**start, "credential_principal": "7"}], 1000)
    dispatch = desk.board.tables()["dispatches"][name]
    bound = {"kind": "Dispatch", "dispatch_id": name, "state": "bound"}
    ran = run(dispatch, "7", "501")
    for ref in (B, C):
        op = {**bound, "run": {**ran, "ref": ref}}
        assert desk.refusal("dispatch", person("reconciler", "301"), op) == "run_binding_conflict"
    desk.write("dispatch", person("reconciler", "301"), [{**bound, "run": ran}], 1000)
    completion = desk.complete(claim, ran, 1000)
    ids = {"work_id": claim["work_id"], "claim_id": claim["claim_id"], "completion_id": completion}
    proof = evidence(dispatch, "delivery", "7", 1000, run_id="501", run_attempt=1)
    result = {"kind": "Result", **ids, "descriptor": {}, "evidence": {**proof, "ref": C}}
    found = desk.refusal("result", person("reconciler", "301"), result)
    assert found == "evidence_invalid"
    desk.deliver(ids, 1000)
    assert desk.board.state()["works"][claim["work_id"]]["barrier"] == "verified"


def test_the_document_shows_routes_that_are_not_the_policys_own() -> None:
    desk, policy, _ = board(STATED, "old")
    assert "deployments" not in desk.board.state()
    off = deployment(policy, (A, X), available=False, activate=False)
    desk.operate("deployment", off)
    entry = {"profile": own(policy), "available": False}
    shown = {"default": {"default": {"current": A, "revisions": {A: entry}}}}
    assert desk.board.state()["deployments"] == shown
    desk.operate("deployment", {**off, "available": True})
    assert "deployments" not in desk.board.state()
    desk.operate("deployment", deployment(policy, (A, X), ref=B))
    route = desk.board.state()["deployments"]["default"]["default"]
    assert route == {
        "current": B,
        "revisions": {
            A: {"profile": own(policy), "available": True},
            B: {"profile": {**own(policy), "ref": B}, "available": True},
        },
    }


@pytest.mark.parametrize(
    ("policys", "deployed", "shown"),
    [
        (None, None, {"admission_ref": B}),
        (None, X, {"admission_contract": X}),
        (X, None, {"admission_ref": B}),
        (X, X, {}),
        (X, Y, {"admission_contract": Y}),
    ],
)
def test_the_document_shows_what_admission_froze_where_the_policy_says_otherwise(
    policys: str | None, deployed: str | None, shown: Doc
) -> None:
    desk, policy, _ = board({"logical_contract": policys} if policys else {}, "old")
    op = deployment(policy, (A, policys or ""), ref=B)
    op["profile"].pop("logical_contract", None)
    if deployed:
        op["profile"]["logical_contract"] = deployed
    desk.operate("deployment", op)
    node = work(policy, "g", "new", "default", 0)
    desk.submit(node)
    names = ("admission_contract", "admission_ref")

    def visible(work_id: str) -> Doc:
        entry = desk.board.state()["works"][work_id]
        return {name: entry[name] for name in names if name in entry}

    assert visible(node["work_id"]) == shown
    end = {"kind": "WorkCancellation", "work_id": node["work_id"], "reason": "obsolete"}
    desk.operate("cancel_work", end)
    assert visible(node["work_id"]) == {}


def test_a_new_policy_starts_its_routes_anew() -> None:
    desk, policy, ids = board(PLAIN, "old")
    desk.operate("deployment", deployment(policy, (A, ""), ref=B))
    end = {"kind": "WorkCancellation", "work_id": ids["old"], "reason": "obsolete"}
    desk.operate("cancel_work", end)
    desk.operate("policy", {"kind": "Policy", "epoch": "p2", "policy": policy})
    assert "deployments" not in desk.board.state()
    node = work(policy, "g", "new", "default", 0, execution_ref=B)
    with pytest.raises(Refused, match="profile_mismatch"):
        desk.submit(node)
    assert desk.refusal("deployment", ADMIN, deployment(policy, (B, ""))) == "deployment_conflict"
