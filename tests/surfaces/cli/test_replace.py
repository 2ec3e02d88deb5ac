"""`callboard replace` as a person meets it: words, options, what the other commands say then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.board.board import Board, Folders
from callboard.board.projection.entities import Effects
from tests.board.execution.failing import RECIPE, fail
from tests.repositories import git
from tests.surfaces.cli.conftest import Person

PLAN = """\
graph: g
nodes:
- {key: a, payload: {task: 1}, contract: {artifact: 1}}
- {key: b, payload: {task: 2}, after: [a]}
"""
VERIFIER = """\
command = ["sh", "-c", 'echo "{\\"disposition\\": \\"inspection\\", \\"receipt\\": \\"x\\"}"']
dispositions = ["inspection"]
"""
Failing = Callable[..., Person]


@pytest.fixture
def failing(person: Person) -> Failing:
    """Let node `a` of a small graph fail, with effects of a kind."""

    def make(effects: Effects = "unknown") -> Person:
        place = person.folder / ".callboard" / "workers" / "default.toml"
        place.write_text(RECIPE)
        git("commit", "-q", "-a", "-m", "outputs", cwd=person.folder)
        person.submit(PLAN)
        with Board.open(person.folder, Folders(person.config, person.state)) as board:
            fail(board, effects)
        return person

    return make


def register(person: Person, text: str = VERIFIER) -> None:
    folder = person.folder / ".callboard" / "verifiers"
    folder.mkdir(exist_ok=True)
    (folder / "look.toml").write_text(text)
    git("add", "-A", cwd=person.folder)
    git("commit", "-q", "-m", "a verifier", cwd=person.folder)


def test_it_says_what_it_posted_on_which_proof_and_what_stays_blocked(failing: Failing) -> None:
    person = failing()
    register(person)
    said = person.done("replace", "a", "--verifier", "look", "--request-id", "q1").stdout
    lines = said.splitlines()
    assert lines[0] == "posted a-r2 (ready)"
    assert lines[1].startswith(
        "replaces a, whose delivery failed (output_missing, effects unknown): inspection, by "
        "verifier look at "
    )
    assert lines[2] == "old edges stay, so these stay blocked: b"
    assert lines[-2:] == [
        "end those: callboard cancel b --reason replaced",
        "next: callboard run",
    ]
    again = person.ask("replace", "a", "--request-id", "q1")
    assert (again["status"], again["replayed"], "proof" in again) == ("submitted", True, False)
    assert [one["node_key"] for one in again["nodes"]] == ["a-r2"]
    assert again["replaces"]["disposition"] == "inspection"
    assert again["blocked_count"] == 1
    assert "this request stood already: a-r2" in person.done(
        "replace", "a", "--request-id", "q1"
    ).stdout  # fmt: skip


def test_show_explain_and_status_lead_on(failing: Failing) -> None:
    person = failing()
    assert "callboard replace a --verifier NAME" in person.done("status").stdout
    assert "next: callboard replace a --verifier NAME" in person.done("show", "a").stdout
    assert "blocked   b" in person.done("explain", "a").stdout
    register(person)
    person.done("replace", "a", "--verifier", "look")
    assert "replaced  by a-r2  (ready)" in person.done("show", "a").stdout
    assert "replaces  a, whose delivery failed" in person.done("explain", "a-r2").stdout
    blocked = person.done("explain", "b").stdout
    assert "waits for a, whose delivery failed; a-r2 replaces it, and this edge stays" in blocked
    assert "next: callboard cancel b --reason replaced" in blocked


def test_without_effects_the_failure_is_the_proof(failing: Failing) -> None:
    person = failing("none")
    assert "next: callboard replace a\n" in person.done("explain", "b").stdout
    said = person.done("replace", "a").stdout
    assert "idempotent, as its effects never began" in said


def test_the_payload_comes_from_a_file_or_a_pipe(failing: Failing, tmp_path: Path) -> None:
    person = failing("none")
    file = tmp_path / "payload.yaml"
    file.write_text("task: another\n")
    person.done("replace", "a", "--payload", file)
    payload = person.ask("show", "a-r2")["work"]["payload"]
    assert payload == {
        "task": "another",
        "effect_contract": {"version": 1, "outputs": [{"type": "artifact", "min": 1, "max": 1}]},
    }
    person.done("cancel", "a-r2", "--reason", "other")
    words = ("replace", "a", "--payload", "-", "--graph", "other", "--key", "fix")
    person.done(*words, stdin='{"task": "piped"}')
    assert person.ask("show", "other:fix")["work"]["payload"]["task"] == "piped"


@pytest.mark.parametrize(
    ("text", "code"),
    [("- a\n", "plan_invalid"), ("just text", "plan_invalid"), ("{", "invalid_json"),
     ("{'a': &x 1}", "invalid_json"), ("a: &x 1", "plan_invalid"),
     ('{"a":"' + "x" * 17_000_000 + '"}', "resource_limit"),
     ('{"a":"' + "x" * 20_000 + '"}', "payload_limit")],
)  # fmt: skip
def test_a_payload_that_is_none_is_refused(failing: Failing, text: str, code: str) -> None:
    person = failing("none")
    assert person.call("replace", "a", "--payload", "-", "--json", stdin=text).error["code"] == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nobody"], "work_unknown"),
        (["x"], "selector_ambiguous"),
        (["b"], "replacement_invalid"),
        (["a"], "remediation_verifier_required"),
        (["a", "--disposition", "compensated"], "remediation_verifier_required"),
        (["a", "--verifier", "gone"], "remediation_verifier_unknown"),
        (["a", "--verifier", "look", "--disposition", "idempotent"], "remediation_unproven"),
        (["a", "--verifier", "look", "--after", "nowhere"], "plan_invalid"),
        (["a", "--verifier", "look", "--request-id", " "], "request_id_invalid"),
    ],
)
def test_refusals_have_codes(failing: Failing, words: list[str], code: str) -> None:
    person = failing()
    register(person)
    for graph in ("h", "i"):
        person.submit(f"graph: {graph}\nnodes:\n- {{key: x, payload: {{}}}}\n")
    tip = person.tip
    assert person.call("replace", *words, "--json").error["code"] == code
    assert person.tip == tip


def test_before_there_is_a_board_there_is_nothing_to_replace(person: Person) -> None:
    assert person.call("replace", "a", "--json").error["code"] == "queue_missing"


@pytest.mark.parametrize("option", ["--key", "--graph", "--after", "--request-id"])
def test_bytes_that_are_no_text_are_refused_in_words(failing: Failing, option: str) -> None:
    person = failing("none")
    error = person.call("replace", "a", option, "\udcff", "--json").error
    assert error["code"] in ("plan_invalid", "request_id_invalid")
    assert person.call("show", "\udcff:a", "--json").error["code"] == "work_unknown"


def test_policy_check_reads_the_verifiers(failing: Failing) -> None:
    person = failing()
    register(person)
    assert "verifier look may attest inspection" in person.done("policy", "check").stdout
    assert person.ask("policy", "check")["verifiers"] == [
        {"name": "look", "dispositions": ["inspection"], "timeout_s": 300}
    ]
    register(person, "command = 1\n")
    error = person.call("policy", "check", "--json").error
    assert error["code"] == "verifier_invalid"
    assert [fault["pointer"] for fault in error["details"]["faults"]] == [
        "/command",
        "/dispositions",
    ]
    assert person.call("policy", "diff").status == 0
