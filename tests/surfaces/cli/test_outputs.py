"""`callboard outputs`: the gate's answers, in any folder, for a question on a file or a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from callboard.board.outputs.decision import MAX_QUESTION_BYTES
from tests.surfaces.cli.conftest import PROGRAM, Answer, Person

ISSUE = {
    "kind": "issue", "host": "github.com", "repository": "o/n", "repository_id": "1",
    "resource_id": "2", "number": "3",
}  # fmt: skip
TARGET = {"repository": "o/n", "ref": "refs/heads/x"}
ALLOWED = {"allowed": True, "code": None}


def denied(code: str) -> dict[str, Any]:
    return {"allowed": False, "code": code}


def question(**changes: Any) -> dict[str, Any]:
    return {"effect_scope": "o/n", "run_id": "77", "payload": {}, "target": TARGET} | changes


def scope(*selectors: Any) -> dict[str, Any]:
    return {"resource_scope": {"version": 1, "resources": list(selectors)}, "task": "any"}


@pytest.fixture
def nobody(tmp_path: Path) -> Person:
    """Somebody without an identity, in an empty folder that is no repository."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return Person(folder, tmp_path / "config", tmp_path / "state")


def decide(nobody: Person, asked: Any, *words: str) -> Answer:
    return nobody.call("outputs", "decide", *words, stdin=json.dumps(asked))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (question(), ALLOWED),
        (question(target=TARGET | {"host": "github.com"}), ALLOWED),
        (question(host="git.example", target=TARGET | {"host": "git.example"}), ALLOWED),
        (question(target={"repository": "o/n", "run_id": "77"}), ALLOWED),
        (question(subject=ISSUE), ALLOWED),
        (question(subject=ISSUE, target=ISSUE), ALLOWED),
        (question(payload=scope({"repository": "o/n"})), ALLOWED),
        (question(effect_scope="o/m"), denied("effect_scope_denied")),
        (question(payload=scope()), denied("effect_scope_denied")),
        (question(payload=scope(ISSUE)), denied("effect_scope_denied")),
        (question(subject=ISSUE, target={"repository": "o/n"}), denied("effect_scope_denied")),
        (question(target={"repository": "o/n", "run_id": "7"}), denied("effect_scope_denied")),
        (question(payload={"resource_scope": None}), denied("scope_invalid")),
        (question(payload=scope({"repository": "o"})), denied("scope_invalid")),
        (question(target=None), denied("target_invalid")),
        (question(target=[TARGET]), denied("target_invalid")),
        (question(target=TARGET | {"path": "../a"}), denied("target_invalid")),
        (question(target=TARGET | {"host": "git.example"}), denied("target_invalid")),
        (question(target=TARGET | {"number": 3}), denied("target_invalid")),
    ],
)
def test_a_decision_is_a_normal_answer(
    nobody: Person, asked: dict[str, Any], answer: dict[str, Any]
) -> None:
    file = nobody.folder / "question.json"
    file.write_text(json.dumps(asked, indent=2), "utf-8")
    for said in (
        decide(nobody, asked, "--json"),
        decide(nobody, asked, "--json", "-"),
        nobody.call("outputs", "decide", "--json", file),
    ):
        assert (said.status, said.stderr) == (0, "")
        assert said.stdout == json.dumps(answer, separators=(",", ":"), sort_keys=True) + "\n"
    text = decide(nobody, asked)
    assert (text.status, text.stderr) == (0, "")
    if answer["allowed"]:
        assert text.stdout == "allowed: run 77 may touch it\n"
    else:
        first, hint, code = text.stdout.splitlines()
        assert first.startswith("denied: ")
        assert hint.startswith("next: ")
        assert code == f"code: {answer['code']}"


@pytest.mark.parametrize(
    "asked",
    [
        None, [], "o/n", {}, question(also=1), question(effect_scope=None),
        question(effect_scope=""), question(effect_scope="o\n"), question(run_id=77),
        question(run_id="077"), question(run_id=""), question(payload=None), question(payload=[]),
        question(subject=None), question(subject={}), question(subject=ISSUE | {"number": "03"}),
        question(subject=ISSUE | {"title": "x"}), question(host=None), question(host=""),
        {name: value for name, value in question().items() if name != "target"},
        {name: value for name, value in question().items() if name != "run_id"},
    ],
)  # fmt: skip
def test_a_document_that_asks_nothing_is_refused(nobody: Person, asked: Any) -> None:
    error = decide(nobody, asked, "--json").error
    assert error["code"] == "decision_invalid"
    assert error["details"]["faults"]
    text = decide(nobody, asked)
    assert (text.status, text.stdout) == (1, "")
    assert "code: decision_invalid" in text.stderr


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"\xff", "invalid_unicode"),
        (b'{"run_id":"\\ud800"}', "invalid_unicode"),
        (b'{"target":{"ref":"a","ref":"b"}}', "duplicate_key"),
        (b'{"target":{"ref":"a","r\\u0065f":"b"}}', "duplicate_key"),
        (b'{"run_id":7.5}', "noncanonical_number"),
        (b'{"run_id":-0}', "noncanonical_number"),
        (b"[" * 70 + b"]" * 70, "resource_limit"),
        (b" " * (MAX_QUESTION_BYTES + 1), "resource_limit"),
    ],
)
def test_both_read_strictly_and_within_a_bound(
    nobody: Person, tmp_path: Path, data: bytes, code: str
) -> None:
    file = tmp_path / "document.json"
    file.write_bytes(data)
    for verb in ("decide", "contract"):
        assert nobody.call("outputs", verb, "--json", stdin=data).error["code"] == code
        assert nobody.call("outputs", verb, "--json", file).error["code"] == code


def test_files_are_read_as_they_are_named(nobody: Person, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "document.json")
    (tmp_path / "folder").mkdir()
    for name, code in (
        ("none", "file_missing"), ("link", "file_not_regular"), ("folder", "file_not_regular"),
    ):  # fmt: skip
        for verb in ("decide", "contract"):
            error = nobody.call("outputs", verb, tmp_path / name, "--json").error
            assert error["code"] == code


def test_hostile_text_is_never_printed_as_it_is(nobody: Person) -> None:
    for target in (
        {"repository": "o/n", "path": "\x1b[2J\u202eevil"},
        {"repository": "o/n", "path": "\u202eevil"},
        {"repository": "o/n", "\x1b]0;x\x07": "x"},
    ):
        text = decide(nobody, question(target=target, payload=scope()))
        assert text.status == 0
        assert text.stdout.replace("\n", "").isprintable()
        assert "\u202e" not in text.stdout


@pytest.mark.parametrize(
    ("contract", "pointers"),
    [
        ({"kind": "none"}, []),
        ({"version": 1, "outputs": [], "no_writes": True}, []),
        ({"version": 1, "outputs": [{"type": "any_type", "min": 0, "max": 128}]}, []),
        ({"version": 1, "outputs": []}, ["/no_writes"]),
        ({"kind": "none", "verified": True}, [""]),
        (None, [""]),
        (7, [""]),
        ({"version": 2, "outputs": [], "no_writes": True}, ["/version"]),
        (
            {"version": 1, "outputs": [{"type": "a", "min": 2, "max": 1}] * 2},
            ["/outputs/0/min", "/outputs/1/min", "/outputs/1/type"],
        ),
    ],
)
def test_a_contract_is_judged_with_all_its_faults(
    nobody: Person, contract: Any, pointers: list[str]
) -> None:
    said = nobody.call("outputs", "contract", "--json", stdin=json.dumps(contract))
    assert (said.status, said.stderr) == (0, "")
    assert set(said.json) == {"valid", "code", "faults"}
    assert said.json["valid"] is (pointers == [])
    assert said.json["code"] == ("contract_invalid" if pointers else None)
    assert [fault["pointer"] for fault in said.json["faults"]] == pointers
    assert all(set(fault) == {"pointer", "message"} for fault in said.json["faults"])
    text = nobody.call("outputs", "contract", stdin=json.dumps(contract))
    assert text.status == 0
    if not pointers:
        assert text.stdout == "valid\n"
        return
    assert text.stdout.startswith(f"not valid: {len(pointers)} fault")
    assert text.stdout.endswith("\ncode: contract_invalid\n")
    assert all((pointer or "/") in text.stdout for pointer in pointers)


def test_the_contract_vectors_hold(nobody: Person, vectors: Path | None) -> None:
    found = (
        [] if vectors is None else json.loads((vectors / "effect-contract.json").read_text("utf-8"))
    )
    for case in found:
        text = json.dumps(case["contract"])
        said = nobody.ask("outputs", "contract", stdin=text)
        assert said["valid"] is case["valid"], case["name"]
    assert vectors is None or len(found) > 10


def test_they_work_anywhere_and_leave_nothing_behind(nobody: Person, tmp_path: Path) -> None:
    """Neither a repository nor a home folder is looked for, whatever the environment names."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "CALLBOARD_REPO": "/does/not/exist",
        "CALLBOARD_BRANCH": "none",
        "CALLBOARD_REMOTE": "none",
    }
    for words, text, answer in (
        (["decide"], json.dumps(question()), ALLOWED),
        (["contract"], '{"kind":"none"}', {"code": None, "faults": [], "valid": True}),
        (["decide", "--repo", "/nowhere", "--branch", "b"], json.dumps(question()), ALLOWED),
    ):
        done = subprocess.run(
            [*PROGRAM, "outputs", *words, "--json"],
            cwd=nobody.folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert json.loads(done.stdout) == answer
        assert done.stderr == ""
    assert list(nobody.folder.iterdir()) == []
    assert list(home.iterdir()) == []
    assert not nobody.config.exists()
    assert not nobody.state.exists()


def test_the_help_offers_no_board(nobody: Person) -> None:
    for verb in ("decide", "contract"):
        said = nobody.done("outputs", verb, "--help").stdout
        assert "--json" in said
        for option in ("--repo", "--branch", "--remote", "--offline"):
            assert option not in said
