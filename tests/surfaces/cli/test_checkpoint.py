"""`callboard ledger checkpoint`: planned, printed, written; and all other verbs behind it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from tests.board.reading.staged_board import REPOSITORY, StagedBoard, node
from tests.repositories import git
from tests.surfaces.cli.conftest import Person

SHA = "ab" * 20
ACTOR = {"principal": "7", "repository": REPOSITORY, "role": "administrator"}


def test_a_plan_shows_sizes_digests_and_what_is_gained(person: Person) -> None:
    person.submit()
    tip, data = person.tip, person.ledger
    document = person.ask("ledger", "checkpoint")
    assert person.tip == tip
    assert document["applied"] is False
    assert document["before"] == {"bytes": len(data), "commits": 1}
    assert document["prior_git_sha"] == tip
    assert document["history_sha256"] == hashlib.sha256(data).hexdigest()
    assert document["gained_bytes"] == len(data) - document["after"]["bytes"]
    spoken = person.done("ledger", "checkpoint").stdout
    assert f"would replace 1 commit of {len(data)} bytes" in spoken
    assert "callboard ledger checkpoint --apply" in spoken


def test_applying_puts_one_line_in_the_place_of_the_log(person: Person) -> None:
    person.submit()
    before = person.tip
    state = person.ask("ledger", "replay")
    document = person.ask("ledger", "checkpoint", "--apply")
    assert document["applied"] is True
    assert git("rev-parse", "work-queue^", cwd=person.folder) == before
    line = person.ledger
    assert line.count(b"\n") == 1
    assert document["after"]["bytes"] == len(line)
    operation = canonical.decode(line[:-1])["operations"][0]
    assert operation["state"] == state
    assert person.ask("ledger", "replay", "--at", state["tip"]) == state
    again = person.done("ledger", "checkpoint", "--apply").stdout
    assert f"replaced 1 commit of {len(line)} bytes" in again
    verified = person.ask("ledger", "verify")
    assert verified["before_checkpoint"]["unchecked_commits"] == 0
    assert [one["commits"] for one in verified["before_checkpoint"]["checked"]] == [1, 1]


def test_every_verb_works_behind_a_checkpoint(person: Person) -> None:
    person.submit()
    person.done("run", "--until-idle")
    person.done("pause", "grants", "--reason", "maintenance", "--request-id", "P")
    reads: list[list[str]] = [
        ["show", "code"], ["explain", "code"], ["trace", "code"],
        ["explain", "--before-claim", str(claim(person))], ["explain", "--request", "P"],
        ["policy", "check"], ["whoami"], ["diff"],
    ]  # fmt: skip

    def answers() -> list[Any]:
        found = []
        for words in reads:
            answer = person.call(*words, "--json")
            document = answer.json if answer.stdout else answer.stderr
            if isinstance(document, dict):
                document = {**document, "tip": None, "evaluated_at_ms": None}
                # How a run ended is not kept in a state; the host still knows.
                for one in document.get("claims", []):
                    one.pop("conclusion", None)
            found.append((words, answer.status, document))
        return found

    before = answers()
    person.done("ledger", "checkpoint", "--apply")
    assert answers() == before
    assert "grants paused: maintenance" in person.done("status").stdout
    log = person.ask("ledger", "log", "--limit", "100")
    assert log["count"] == len(log["commits"])
    assert [one["ordinal"] for one in log["commits"]] == list(range(log["count"]))
    assert {one.get("held_by") for one in log["commits"][:-1]} == {
        git("rev-parse", "work-queue^", cwd=person.folder)
    }
    assert log["commits"][-1]["kind"] == "checkpoint"
    assert person.ask("pause", "grants", "--reason", "maintenance", "--request-id", "P")["replayed"]
    person.done("resume", "grants", "--reason", "maintenance_over")
    person.submit('{"graph": "more", "nodes": [{"key": "x", "payload": {}}]}')
    person.done("run", "--until-idle")
    assert "done" in person.done("show", "x").stdout


def claim(person: Person) -> str:
    state = person.ask("ledger", "replay")
    return str(next(iter(state["claims"])))


def test_a_board_that_nobody_posted_to_has_no_checkpoint(person: Person) -> None:
    for words in ((), ("--apply",)):
        answer = person.call("ledger", "checkpoint", *words, "--json")
        assert answer.error["code"] == "queue_missing"


# --- printing ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    board = StagedBoard()
    board.submit(node("a"), node("b", after=["a"]))
    board.grant()
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(board.data)
    return path


def printing(sha: str = SHA, at_ms: str = "1800000000000", actor: Any = ACTOR) -> list[str]:
    text = actor if isinstance(actor, str) else json.dumps(actor)
    return [
        "ledger",
        "checkpoint",
        "--print",
        "--prior-sha",
        sha,
        "--at-ms",
        at_ms,
        "--actor",
        text,
    ]


def test_printing_is_deterministic_and_writes_nothing(
    person: Person, file: Path, tmp_path: Path
) -> None:
    line = person.done(*printing(), file).stdout
    assert person.done(*printing(), file).stdout == line
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    outside = {"CALLBOARD_REPO": str(nowhere)}
    assert person.done(*printing(), "-", stdin=file.read_bytes(), **outside).stdout == line
    assert person.done(*printing(), "--json", file).stdout == line
    record = canonical.decode(line.encode()[:-1])
    assert canonical.encode(record).decode() + "\n" == line
    assert (record["at"], record["actor"], record["previous"]) == (1_800_000_000_000, ACTOR, None)
    parameters = record["request"]["parameters"]
    assert parameters["prior_git_sha"] == SHA
    assert parameters["history_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    again = person.done(*printing(sha="cd" * 32), "-", stdin=line.encode()).stdout
    verified = person.ask("ledger", "verify", "-", stdin=again.encode())
    assert verified["before_checkpoint"]["unchecked_in"] == "cd" * 32
    assert "3 not checked" in person.done("ledger", "verify", "-", stdin=again.encode()).stdout


def test_printing_the_boards_own(person: Person) -> None:
    person.submit()
    actor = canonical.decode(person.ledger[:-1])["actor"] | {"role": "administrator"}
    tip = person.tip
    assert tip is not None
    line = person.done(*printing(sha=tip, actor=actor)).stdout
    assert person.tip == tip
    assert canonical.decode(line.encode()[:-1])["actor"] == actor


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"sha": "HEAD"}, "record_invalid"),
        ({"sha": "AB" * 20}, "record_invalid"),
        ({"actor": "{"}, "invalid_json"),
        ({"actor": "7"}, "record_invalid"),
        ({"actor": {**ACTOR, "extra": 1}}, "record_invalid"),
        ({"actor": {**ACTOR, "principal": "x"}}, "record_invalid"),
        ({"actor": {**ACTOR, "run_id": "1"}}, "actor_invalid"),
        ({"actor": {**ACTOR, "role": "producer"}}, "ledger_invalid"),
        ({"actor": {**ACTOR, "repository": "other/board"}}, "ledger_invalid"),
    ],
)
def test_arguments_that_make_no_checkpoint_are_refused(
    person: Person, file: Path, given: dict[str, Any], code: str
) -> None:
    answer = person.call(*printing(**given), file, "--json")
    assert answer.error["code"] == code


def test_a_damaged_file_is_refused(person: Person, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-2])
    assert person.call(*printing(), file, "--json").error["code"] == "ledger_invalid"


@pytest.mark.parametrize(
    "words",
    [
        ["--print"],
        ["--print", "--prior-sha", SHA, "--at-ms", "1"],
        ["--print", "--prior-sha", SHA, "--at-ms", "-1", "--actor", "{}"],
        ["--print", "--prior-sha", SHA, "--at-ms", "9007199254740992", "--actor", "{}"],
        ["--print", "--apply", "--prior-sha", SHA, "--at-ms", "1", "--actor", "{}"],
        ["--prior-sha", SHA],
        ["--apply", "--at-ms", "1"],
        ["--apply", "file.jsonl"],
    ],
)
def test_options_that_do_not_go_together_are_misuse(person: Person, words: list[str]) -> None:
    answer = person.call("ledger", "checkpoint", *words)
    assert answer.status == 2


# --- a run does it by itself ---------------------------------------------------------------------


def large_plan(nodes: int) -> str:
    """Nodes whose payloads stand twice in the log, and once in the state."""
    payload = {"text": "x" * 12_000}
    listed = [{"key": f"n{number}", "payload": payload} for number in range(nodes)]
    return json.dumps({"graph": "large", "nodes": listed})


def kinds(person: Person) -> list[str]:
    log = person.ask("ledger", "log", "--limit", "100")
    return [str(one["kind"]) for one in log["commits"]]


def test_a_run_makes_a_checkpoint_when_the_log_has_grown_and_not_again_at_once(
    person: Person,
) -> None:
    person.configure("[board]\ncheckpoint_percent = 1\n")
    person.submit(large_plan(70))
    person.done("pause", "grants", "--reason", "maintenance")
    before = len(person.ledger)
    answer = person.done("run", "--until-idle", "--json")
    assert "checkpointed   " in answer.stderr
    assert answer.json["counts"] == {"checkpointed": 1}
    assert kinds(person) == ["submit", "control", "checkpoint"]
    assert 1.5 * len(person.ledger) < before
    tip = person.tip
    # It still uses more than its share, and there is nothing to gain.
    assert person.ask("run", "--until-idle")["counts"] == {}
    assert person.tip == tip


@pytest.mark.parametrize("settings", ["checkpoint_percent = 0\n", "checkpoint_percent = 3\n", ""])
def test_below_its_share_or_where_it_is_off_a_run_makes_none(person: Person, settings: str) -> None:
    person.configure(f"[board]\n{settings}")
    person.submit(large_plan(70))
    person.done("pause", "grants", "--reason", "maintenance")
    person.done("run", "--until-idle")
    assert kinds(person) == ["submit", "control"]
    assert person.ask("ledger", "checkpoint", "--apply")["applied"] is True


@pytest.mark.parametrize("value", ["-1", "101", '"half"', "1.5", "true"])
def test_a_share_is_a_percentage(person: Person, value: str) -> None:
    person.configure(f"[board]\ncheckpoint_percent = {value}\n")
    assert person.call("status", "--json").error["code"] == "config_invalid"
