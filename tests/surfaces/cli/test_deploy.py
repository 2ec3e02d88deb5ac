"""Changing a board that is in use: workers, priorities, credentials and the policy, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.repositories import git
from tests.surfaces.cli.conftest import RECIPE, Person

OTHER_CONTRACT = RECIPE + 'env = ["LANG"]\n'
WIDER = RECIPE + "max_claims = 4\n"


def plan(*keys: str, graph: str = "g", **fields: Any) -> str:
    return json.dumps(
        {"graph": graph, "nodes": [{"key": k, "payload": {}, **fields} for k in keys]}
    )


def commit(person: Person, **files: str) -> str:
    """Commit recipes; answers HEAD."""
    folder = person.folder / ".callboard" / "workers"
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    git("add", "-A", cwd=person.folder)
    git("commit", "-q", "--allow-empty", "-m", "more", cwd=person.folder)
    return head(person)


def head(person: Person) -> str:
    return git("rev-parse", "HEAD", cwd=person.folder)


def ref_of(person: Person, worker: str = "default") -> str:
    found = person.ask("policy", "show")["workers"]
    return str(next(one["ref"] for one in found if one["worker"] == worker))


def kinds(person: Person) -> list[str]:
    return [json.loads(line)["request"]["kind"] for line in person.ledger.splitlines()]


def reason(person: Person, node: str) -> str:
    return str(person.ask("explain", node)["reason"])


# --- following HEAD ------------------------------------------------------------------------------


def test_workers_follow_head_before_something_new_and_once(person: Person) -> None:
    person.submit(plan("a"))
    first = ref_of(person)
    second = commit(person, default=RECIPE + "# better\n")
    assert ref_of(person) == first
    person.submit(plan("b"))
    assert ref_of(person) == second
    person.ask("dispatch")
    third = commit(person)
    granted = person.ask("dispatch")
    assert ref_of(person) == third
    trace = person.ask("trace", "--dispatch", granted["dispatches"][0]["dispatch_id"])
    assert trace["commits"]
    assert kinds(person).count("deployment") == 2


def test_a_repeated_request_deploys_nothing(person: Person) -> None:
    person.submit(plan("a"), "--request-id", "r")
    commit(person)
    person.submit(plan("a"), "--request-id", "r")
    assert "deployment" not in kinds(person)


def test_an_older_or_another_line_of_work_takes_nobody_back(person: Person) -> None:
    person.submit(plan("a"))
    first = head(person)
    second = commit(person)
    person.submit(plan("b"))
    git("checkout", "-q", "-b", "aside", first, cwd=person.folder)
    person.submit(plan("c"))
    commit(person, default=RECIPE + "# aside\n")
    person.submit(plan("d"))
    assert ref_of(person) == second


def test_a_board_that_does_not_follow_waits_for_a_person(person: Person) -> None:
    person.configure("[board]\nfollow_head = false\n")
    person.submit(plan("a"))
    first = ref_of(person)
    second = commit(person)
    person.submit(plan("b"))
    assert ref_of(person) == first
    receipt = person.ask("deploy", "--reason", "by_hand", "--request-id", "d")
    assert [(one["ref"], one["from"], one["activated"]) for one in receipt["deployments"]] == [
        (second, first, True)
    ]
    assert ref_of(person) == second
    again = person.ask("deploy", "--reason", "by_hand", "--request-id", "d")
    assert (again["replayed"], again["commit_id"]) == (True, receipt["commit_id"])
    assert person.ask("deploy", "--reason", "by_hand")["status"] == "already_deployed"


def test_another_contract_is_kept_back_while_nodes_were_promised_this_one(person: Person) -> None:
    person.submit(plan("a"))
    first = ref_of(person)
    second = commit(person, default=OTHER_CONTRACT)
    receipt = person.submit(plan("b"))
    assert receipt["kept_back"] == [
        {
            "pool": "default",
            "worker": "default",
            "standing": "contract_differs",
            "ref": first,
            "available": True,
            "changes": [],
            "promised": 2,
        }
    ]
    spoken = person.done("submit", "-", stdin=plan("c")).stdout
    assert "worker default stays as it is: HEAD has another contract, and 3 open nodes" in spoken
    person.done("deploy", "--reason", "moved")
    assert ref_of(person) == second
    assert reason(person, "a") == "worker_incompatible"
    shown = person.done("status").stdout
    assert "its worker has another contract now" in shown
    assert f"callboard deploy default --at {first[:12]} --reason keep_promise" in shown
    assert person.call("dispatch").status == 3
    person.done("deploy", "default", "--at", first[:12], "--reason", "back")
    assert reason(person, "a") == "ready"


def test_another_contract_follows_where_nobody_was_promised_anything(person: Person) -> None:
    person.submit(plan("a"))
    person.done("cancel", "a", "--reason", "not_needed")
    second = commit(person, default=OTHER_CONTRACT)
    receipt = person.submit(plan("b"))
    assert "kept_back" not in receipt
    assert ref_of(person) == second


def test_what_a_policy_fixes_is_kept_back_and_refused_by_name(person: Person) -> None:
    person.submit(plan("a"))
    commit(person, default=WIDER)
    kept = person.submit(plan("b"))["kept_back"]
    assert [(one["standing"], one["changes"]) for one in kept] == [("needs_policy", ["max_claims"])]
    error = person.call("deploy", "default", "--reason", "x", "--json").error
    assert error["code"] == "deployment_boundary"
    assert error["details"]["fields"] == ["max_claims"]


def test_a_worker_without_recipe_waits_until_a_later_commit_has_it(person: Person) -> None:
    person.submit(plan("a"))
    (person.folder / ".callboard" / "workers" / "default.toml").unlink()
    commit(person, other=RECIPE)
    person.submit(plan("b"))
    assert reason(person, "a") == "worker_unavailable"
    error = person.call("deploy", "default", "--reason", "x", "--json").error
    assert error["code"] == "worker_unavailable"
    commit(person, default=RECIPE)
    person.submit(plan("c"))
    assert reason(person, "a") == "ready"


def test_a_pinned_node_stays_with_its_commit(person: Person) -> None:
    person.submit(plan("a"))
    first = head(person)
    commit(person)
    person.submit(plan("b", execution_ref=first))
    granted = person.ask("dispatch", "--max-claims", "9", "--max-dispatches", "9")
    trace = [person.ask("show", name)["claims"][0]["dispatch_id"] for name in ("g:a", "g:b")]
    assert len(set(trace)) == granted["reserved_dispatches"] == 2
    error = person.call("submit", "-", "--json", stdin=plan("c", execution_ref="f" * 40)).error
    assert error["code"] == "profile_mismatch"


# --- by hand -------------------------------------------------------------------------------------


def test_a_commit_is_withdrawn_and_restored_where_the_worker_is(person: Person) -> None:
    person.submit(plan("a"))
    person.done("deploy", "default", "--withdraw", "--reason", "broken")
    assert reason(person, "a") == "worker_unavailable"
    assert "withdrawn" in person.done("policy", "show").stdout
    commit_id = head(person)
    again = ("deploy", "default", "--withdraw", "--at", commit_id, "--reason", "broken")
    assert person.ask(*again)["status"] == "already_deployed"
    restored = person.done("deploy", "default", "--restore", "--reason", "repaired").stdout
    assert "as it was" in restored
    assert reason(person, "a") == "ready"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nobody"], "profile_unknown"),
        (["default", "--at", "nowhere"], "revision_unknown"),
        (["default", "--at", "f" * 40], "revision_unknown"),
        (["default", "--withdraw", "--at", "HEAD~0"], "revision_unknown"),
        (["default", "--reason", "not a code"], "reason_invalid"),
    ],
)
def test_a_deployment_names_what_there_is(person: Person, words: list[str], code: str) -> None:
    person.submit(plan("a"))
    more = [] if "--reason" in words else ["--reason", "x"]
    assert person.call("deploy", *words, *more, "--json").error["code"] == code


def test_availability_is_only_of_what_was_deployed(person: Person) -> None:
    person.submit(plan("a"))
    later = commit(person)
    words = ("deploy", "default", "--withdraw", "--at", later, "--reason", "x")
    assert person.call(*words, "--json").error["code"] == "deployment_unregistered"


@pytest.mark.parametrize("words", [["--withdraw"], ["--restore"], ["a", "--withdraw", "--restore"]])
def test_a_withdrawal_names_workers_and_one_direction(person: Person, words: list[str]) -> None:
    assert person.call("deploy", *words, "--reason", "x").status == 2


def test_only_the_named_workers_are_launched(person: Person) -> None:
    commit(person, other=RECIPE)
    person.submit(plan("a"))
    person.submit(plan("b", profile="other"))
    granted = person.ask("dispatch", "--max-claims", "9", "--only", "other")
    assert [claim["node_key"] for claim in granted["claims"]] == ["b"]
    parameters = json.loads(person.ledger.splitlines()[2])["request"]["parameters"]
    assert parameters["worker_profiles"] == ["other"]
    assert person.call("dispatch", "--only", "other").status == 3
    assert person.call("dispatch", "--only", "no", "--json").error["code"] == "profile_unknown"
    assert person.call("run", "--only", "no", "--json").error["code"] == "profile_unknown"


def test_a_priority_is_changed_and_said(person: Person) -> None:
    person.submit(plan("a", "b"))
    said = person.done("priority", "b", "1", "--reason", "urgent").stdout
    assert said == "b: priority 1, urgent\n"
    assert person.ask("status")["columns"]["ready"]["works"][1]["priority"] == 1
    assert person.ask("priority", "b", "1", "--reason", "urgent")["status"] == "already_set"
    assert person.call("priority", "b", "6", "--reason", "urgent").status == 2
    person.done("cancel", "a", "--reason", "x")
    error = person.call("priority", "a", "1", "--reason", "urgent", "--json").error
    assert error["code"] == "work_closed"


def test_a_repeated_priority_tells_what_stands(person: Person) -> None:
    person.submit(plan("a"))
    words = ("priority", "a", "2", "--reason", "urgent", "--request-id", "p")
    first = person.ask(*words)
    again = person.ask(*words)
    assert (again["replayed"], again["commit_id"]) == (True, first["commit_id"])
    other = ("priority", "a", "4", "--reason", "urgent", "--request-id", "p", "--json")
    assert person.call(*other).error["code"] == "request_conflict"


def test_credentials_are_rotated_under_a_new_name(person: Person) -> None:
    person.submit(plan("a"))
    said = person.done("rotate-credentials", "2027", "--reason", "yearly").stdout
    assert said == "credentials: generation 2027, yearly\n"
    assert person.ask("rotate-credentials", "2027", "--reason", "x")["status"] == "already_set"
    words = ("rotate-credentials", "initial", "--reason", "x", "--json")
    assert person.call(*words).error["code"] == "credential_generation_reused"
    words = ("rotate-credentials", "a b ", "--reason", "x", "--json")
    assert person.call(*words).error["code"] == "generation_invalid"


def test_a_node_is_cancelled_only_while_that_claim_holds_it(person: Person) -> None:
    person.submit(plan("a", "b"))
    words = ("cancel", "a", "--claim", "c_other", "--reason", "x")
    assert person.call(*words, "--json").error["code"] == "claim_mismatch"
    assert person.call("cancel", "a", "b", "--claim", "c", "--reason", "x").status == 2


# --- the policy ----------------------------------------------------------------------------------


def test_a_policy_is_installed_on_a_board_at_rest_only(person: Person) -> None:
    person.submit(plan(*(f"n{number}" for number in range(30))))
    before = person.ask("policy", "show")["policy_epoch"]
    commit(person, default=WIDER, other=RECIPE)
    error = person.call("policy", "install", "--from-config", "--json").error
    assert error["code"] == "policy_not_quiescent"
    assert len(error["details"]["unsettled"]) == 20
    assert len(person.ask("policy", "check")["unsettled"]) == 20
    person.done("cancel", *(f"n{number}" for number in range(30)), "--reason", "x")
    differences = person.ask("policy", "diff")["differences"]
    assert "/pools/default/profiles/other" in [one["pointer"] for one in differences]
    receipt = person.ask("policy", "install", "--from-config", "--request-id", "p2")
    assert receipt["policy_epoch"] != before
    shown = person.ask("policy", "show")
    assert shown["policy_epoch"] == receipt["policy_epoch"]
    assert set(shown["policy"]["pools"]["default"]["profiles"]) == {"default", "other"}
    again = person.ask("policy", "install", "--from-config", "--request-id", "p2")
    assert (again["replayed"], again["commit_id"]) == (True, receipt["commit_id"])
    assert person.ask("policy", "install", "--from-config")["status"] == "already_installed"
    assert person.ask("policy", "diff")["differences"] == []


def test_installing_says_where_from_and_needs_a_board(person: Person) -> None:
    assert person.call("policy", "install").status == 2
    words = ("policy", "install", "--from-config", "--json")
    assert person.call(*words).error["code"] == "queue_missing"
    assert person.call("policy", "diff", "--from-config", "--json").error["code"] == "queue_missing"
    assert person.tip is None


def test_a_deployment_is_no_difference_of_the_policy(person: Person, tmp_path: Path) -> None:
    person.submit(plan("a"))
    commit(person)
    person.submit(plan("b"))
    assert person.ask("policy", "diff")["differences"] == []
    person.done("cancel", "g:a", "g:b", "--reason", "x")
    # Installed anew, the policy has the worker as it is now.
    receipt = person.ask("policy", "install", "--from-config")
    assert receipt["status"] == "committed"
    assert [one["deployed"] for one in person.ask("policy", "show")["workers"]] == [False]


# --- an old plan posted again --------------------------------------------------------------------


def test_an_older_plan_changes_nothing_of_what_stands_and_says_so(person: Person) -> None:
    person.submit(plan("a", "b"))
    person.done("cancel", "b", "--reason", "not_needed")
    receipt = person.submit(plan("a", "b", "c"))
    assert {node["node_key"]: node["stood_before"] for node in receipt["nodes"]} == {
        "a": True,
        "b": True,
        "c": False,
    }
    assert person.ask("show", "b")["work"]["state"] == "cancelled"
    said = person.done("submit", "-", stdin=plan("a", "b", "d")).stdout
    assert "2 of them stood already and stay as they are: a (ready), b (done)" in said
    again = person.ask("submit", "-", stdin=plan("a", "b"))
    assert again["status"] == "already_submitted"
    assert all(node["stood_before"] for node in again["nodes"])


def test_a_plan_posted_again_means_what_it_meant_under_an_older_policy(person: Person) -> None:
    first = person.submit(plan("a"), "--request-id", "r")
    person.done("cancel", "a", "--reason", "not_needed")
    commit(person, other=RECIPE)
    config = '[work_queue.pools.one]\nworkers = ["other"]\n[work_queue.pools.two]\n'
    person.configure(config)
    person.done("policy", "install", "--from-config")
    again = person.submit(plan("a"), "--request-id", "r")
    assert (again["replayed"], again["commit_id"]) == (True, first["commit_id"])
    assert person.submit(plan("a"))["status"] == "already_submitted"
    error = person.call("submit", "-", "--json", stdin=plan("b")).error
    assert error["code"] == "plan_invalid"


# --- what a person decided stands ----------------------------------------------------------------


def test_workers_do_not_follow_back_to_what_was_withdrawn_or_left(person: Person) -> None:
    person.submit(plan("a"))
    first = head(person)
    second = commit(person, default=RECIPE + "# bad\n")
    person.submit(plan("b"))
    assert ref_of(person) == second
    person.done("deploy", "default", "--withdraw", "--reason", "bad_commit")
    person.done("deploy", "default", "--at", first, "--reason", "rollback")
    person.submit(plan("c"))
    person.done("dispatch")
    assert ref_of(person) == first
    third = commit(person, default=RECIPE + "# good\n")
    person.submit(plan("d"))
    assert ref_of(person) == third


def test_what_would_be_withdrawn_again_is_not_restored(person: Person) -> None:
    person.submit(plan("a"))
    commit(person, default="x")
    person.submit(plan("b"))
    words = ("deploy", "default", "--restore", "--reason", "x", "--json")
    assert person.call(*words).error["code"] == "worker_unavailable"
    said = person.call("policy", "check").stderr
    assert "not valid TOML" in said


def test_a_repeated_deployment_or_installation_is_known_after_head_has_moved_on(
    person: Person,
) -> None:
    person.configure("[board]\nfollow_head = false\n")
    person.submit(plan("a"))
    commit(person)
    first = person.ask("deploy", "--reason", "x", "--request-id", "d")
    named = person.ask("deploy", "--at", "HEAD", "--reason", "x", "--request-id", "e")
    assert named["status"] == "already_deployed"
    person.done("cancel", "a", "--reason", "x")
    installed = person.ask("policy", "install", "--from-config", "--request-id", "p")
    commit(person)
    again = person.ask("deploy", "--reason", "x", "--request-id", "d")
    assert (again["replayed"], again["commit_id"]) == (True, first["commit_id"])
    again = person.ask("policy", "install", "--from-config", "--request-id", "p")
    assert (again["replayed"], again["commit_id"]) == (True, installed["commit_id"])
    for words in (["--reason", "y"], ["--at", "HEAD", "--reason", "x"]):
        error = person.call("deploy", *words, "--request-id", "d", "--json").error
        assert error["code"] == "request_conflict", words
