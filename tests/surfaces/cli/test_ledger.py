"""`callboard ledger`: of the board and of files, sound and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.reading import lines
from tests.board.reading.staged_board import StagedBoard, node
from tests.repositories import git
from tests.surfaces.cli.conftest import Person


@pytest.fixture
def ledger(tmp_path: Path) -> tuple[Path, StagedBoard]:
    """A file with a ledger in which something happened."""
    board = StagedBoard("[work_queue]\naccounting_weights = {a = 1, b = 1}\n")
    board.submit(node("a0", fairness_key="a"), node("b0", fairness_key="b"))
    board.submit(*[node(f"a{number}", fairness_key="a") for number in range(1, 6)])
    board.do("a0")
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(board.data)
    return path, board


def test_replay_prints_the_state(person: Person, ledger: tuple[Path, StagedBoard]) -> None:
    path, board = ledger
    answer = person.done("ledger", "replay", "--json", path)
    state = state_document(board.view().projection)
    assert answer.stdout.encode() == canonical.encode(state) + b"\n"
    assert person.done("ledger", "replay", "--json", "-", stdin=board.data).stdout == answer.stdout
    assert person.done("ledger", "replay", path).stdout.startswith("valid: 8 commits")


def test_replay_goes_back_to_any_commit(person: Person, ledger: tuple[Path, StagedBoard]) -> None:
    path, board = ledger
    lines = board.data.splitlines(keepends=True)
    for count in (1, 4, len(lines)):
        commit_id = json.loads(lines[count - 1])["id"]
        state = person.ask("ledger", "replay", path, "--at", commit_id)
        assert state == state_document(History.read(b"".join(lines[:count])).projection)
    error = person.call("ledger", "replay", path, "--at", "q_none", "--json").error
    assert error["code"] == "commit_unknown"


def test_replay_of_the_board_is_that_of_its_bytes(person: Person) -> None:
    person.submit()
    assert person.ask("ledger", "replay") == person.ask(
        "ledger", "replay", "-", stdin=person.ledger
    )


def test_plan_names_the_next_and_a_whole_batch(
    person: Person, ledger: tuple[Path, StagedBoard]
) -> None:
    path, board = ledger
    at = ["--pool", "default", "--at-ms", str(board.clock.now_ms())]
    found = person.ask("ledger", "plan", *at, path)
    assert found == {
        "class_pass": found["class_pass"],
        "key_pass": found["key_pass"],
        "node_key": "b0",
        "observations": [],
        "reason": "selected",
        "work_id": board.work_id("b0"),
    }
    assert int(found["class_pass"])
    assert int(found["key_pass"])
    batch = person.ask(
        "ledger", "plan", *at, "--max-claims", "3", "--max-dispatches", "2", "--request-id", "R",
        path,
    )  # fmt: skip
    assert batch["reason"] == "dispatch_budget_blocked"
    assert [one["kind"] for one in batch["operations"]] == ["Claim", "Claim"]
    claims = board.grant(3, 2, request_id="R")
    assert [one["claim_id"] for one in batch["operations"]] == claims
    assert person.done("ledger", "plan", *at, path).stdout.startswith("b0  (next by share)\n")
    error = person.call("ledger", "plan", "--pool", "x", "--at-ms", "0", path, "--json").error
    assert error["code"] == "pool_unknown"


def test_plan_says_why_nobody_is_next(person: Person, tmp_path: Path) -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 1\n")
    board.submit(node("a"), node("b"))
    board.grant()
    at = ["--pool", "default", "--at-ms", str(board.clock.now_ms())]
    answer = person.call("ledger", "plan", *at, "-", "--json", stdin=board.data)
    assert answer.status == 3
    assert (answer.json["work_id"], answer.json["reason"]) == (None, "capacity_blocked")
    batch = person.call("ledger", "plan", *at, "--max-claims", "2", "-", "--json", stdin=board.data)
    assert batch.status == 3
    assert batch.json == {"assignments": [], "operations": [], "reason": "capacity_blocked"}
    spoken = person.call("ledger", "plan", *at, "-", stdin=board.data)
    assert (spoken.status, spoken.stdout) == (3, "nobody: every place for Claims is taken\n")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (b' {"b" : 1, "a":[true,null,"\\u00e9\\/"]} ', '{"a":[true,null,"é/"],"b":1}\n'),
        (b"3", "3\n"),
        (b'"x"', '"x"\n'),
    ],
)
def test_canonical_prints_the_bytes(person: Person, text: bytes, printed: str) -> None:
    assert person.done("ledger", "canonical", stdin=text).stdout == printed
    assert person.done("ledger", "canonical", "-", "--json", stdin=text).stdout == printed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b"1.5", "noncanonical_number"),
        (b'"\xff"', "invalid_unicode"),
        (b"{", "invalid_json"),
        (b"", "invalid_json"),
        (b"[" * 70 + b"]" * 70, "resource_limit"),
    ],
)
def test_canonical_refuses_with_the_codecs_codes(person: Person, text: bytes, code: str) -> None:
    assert person.call("ledger", "canonical", "--json", stdin=text).error["code"] == code


def test_verify_counts_a_sound_ledger(person: Person, ledger: tuple[Path, StagedBoard]) -> None:
    path, board = ledger
    document = person.ask("ledger", "verify", path)
    assert (document["valid"], document["commits"], document["works"]) == (True, 8, 7)
    assert document["provenance"] == "snapshot"
    assert document["bytes"] == len(board.data)


def damaged(data: bytes) -> bytes:
    lines = data.splitlines()
    lines[3] = b'{"a":'
    return b"\n".join(lines) + b"\n"


DAMAGES = {
    "bad line": (damaged, 4, 7),
    "duplicate key": (lambda data: data.replace(b'{"actor":', b'{"id":"x","actor":', 1), 1, 7),
    "torn end": (lambda data: data[:-9], 8, 7),
    "blank line": (lambda data: data.replace(b"\n", b"\n\n", 1), 2, 8),
    "missing line": (lambda data: b"".join(data.splitlines(keepends=True)[1:]), 1, 7),
    "empty": (lambda _data: b"", 1, 0),
    "zeros": (lambda data: b"\0" * len(data), 1, 0),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_verify_names_the_fault_and_lists_what_can_be_read(
    person: Person, ledger: tuple[Path, StagedBoard], name: str
) -> None:
    make, line, readable = DAMAGES[name]
    path, board = ledger
    path.write_bytes(make(board.data))
    answer = person.call("ledger", "verify", path, "--json")
    assert (answer.status, answer.stderr) == (1, "")
    document = answer.json
    assert document["error"]["code"] == "ledger_invalid"
    assert document["error"]["details"]["line"] == line
    assert isinstance(document["error"]["details"]["byte"], int)
    assert document["diagnosis"]["readable_lines"] == readable
    assert document["valid"] is False
    spoken = person.call("ledger", "verify", path)
    assert spoken.status == 1
    assert f"line {line}" in spoken.stdout
    for verb in (["replay"], ["log"], ["plan", "--pool", "default", "--at-ms", "0"]):
        error = person.call("ledger", *verb, path, "--json").error
        assert (error["code"], error["details"]["line"]) == ("ledger_invalid", line)


def test_verify_of_what_is_no_ledger_says_what_it_did_not_look_at(
    person: Person, ledger: tuple[Path, StagedBoard]
) -> None:
    path, _board = ledger
    path.write_bytes(b"{}\n" * (lines.MAX_LISTED + 5))
    answer = person.call("ledger", "verify", path)
    assert answer.status == 1
    assert "the last 5 were not looked at after so many faults" in answer.stdout


def test_a_damaged_branch_decides_nothing_and_is_left_alone(person: Person) -> None:
    person.submit()
    for number in range(4):
        person.ask("pause", "grants", "--reason", f"r{number}")
        person.ask("resume", "grants", "--reason", f"r{number}")
    data = damaged(person.ledger)
    _damage(person, data)
    before = person.tip
    for words in (
        ["status"],
        ["show", "code"],
        ["explain", "code"],
        ["dispatch"],
        ["cancel", "code", "--reason", "x"],
        ["ledger", "log"],
        ["submit", "-"],
    ):
        plan = "graph: h\nnodes:\n- {key: x, payload: {}}\n"
        error = person.call(*words, "--json", stdin=plan).error
        assert (error["code"], error["details"]["line"]) == ("ledger_invalid", 4), words
    diagnosis = person.call("ledger", "verify", "--json").json["diagnosis"]
    assert (diagnosis["lines"], diagnosis["readable_lines"]) == (9, 8)
    assert person.tip == before


def _damage(person: Person, data: bytes) -> None:
    """Put a commit on the board's branch whose ledger is `data`."""
    folder = person.folder.parent / "clone"
    git("clone", "-q", "--branch", "work-queue", str(person.folder), str(folder), cwd=person.folder)
    (folder / "work-queue.jsonl").write_bytes(data)
    git("commit", "-q", "-a", "-m", "damage", cwd=folder)
    git("fetch", "-q", str(folder), "work-queue:work-queue", cwd=person.folder)


def test_the_log_lists_the_latest(person: Person, ledger: tuple[Path, StagedBoard]) -> None:
    path, _board = ledger
    document = person.ask("ledger", "log", path, "--limit", "2")
    assert (document["count"], len(document["commits"])) == (8, 2)
    text = person.done("ledger", "log", path, "--limit", "2").stdout
    assert text.splitlines()[-1] == "6 earlier ones (--limit)"


def test_files_are_bounded_before_they_are_read(person: Person, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as stream:
        stream.truncate(80 * 1024 * 1024 + 1)
    for verb in ("verify", "replay", "canonical"):
        assert person.call("ledger", verb, large, "--json").error["code"] == "resource_limit"
