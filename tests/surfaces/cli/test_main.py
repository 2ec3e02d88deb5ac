"""The frame: options before and after the verb, ends and their statuses, nothing that leaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from callboard import __version__
from callboard.errors import CallboardError
from callboard.surfaces.cli import render
from callboard.surfaces.cli.endings import FAULT
from callboard.surfaces.cli.main import root
from callboard.surfaces.cli.verbs import VERBS
from tests.ambient import ROOT
from tests.surfaces.cli.conftest import PLAN, Person

PROGRAM = [sys.executable, "-m", "callboard"]


def start(person: Person, *words: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=person.folder,
        env={**os.environ, **person.environment, "PYTHONPATH": str(ROOT / "src")},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_the_version_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from callboard.surfaces.cli.main import root\n"
        "sys.argv = ['callboard', '--version']\n"
        "try:\n    root.main()\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'msgspec', 'rich', 'dulwich', 'psutil', 'sqlite3', 'ruamel', 'asyncio',\n"
        "         'mcp', 'mcp_types', 'pydantic', 'starlette', 'anyio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"callboard {__version__}", "[]"]


def leaves(command: click.Command) -> list[click.Command]:
    """All commands at or below one."""
    if not isinstance(command, click.Group):
        return [command]
    return [leaf for one in command.commands.values() for leaf in leaves(one)]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_and_takes_json(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.help
    for one in leaves(command):
        assert one.help, one.name
        assert "--json" in {option for parameter in one.params for option in parameter.opts}


def test_options_stand_before_the_verb_or_after_it(person: Person) -> None:
    person.submit()
    before = person.call("--json", "status")
    after = person.call("status", "--json")
    assert before.json["tip"] == after.json["tip"]
    elsewhere = Person(Path("/"), person.folder.parent / "config", person.folder.parent / "state")
    assert elsewhere.ask("status", "--repo", str(person.folder))["tip"] == after.json["tip"]
    assert person.ask("status", "--branch", "another")["tip"] is None


def test_the_environment_gives_way_to_what_is_typed(person: Person) -> None:
    person.submit()
    assert person.ask("status", CALLBOARD_BRANCH="another")["tip"] is None
    typed = person.ask("status", "--branch", "work-queue", CALLBOARD_BRANCH="another")
    assert typed["tip"] is not None


def test_misuse_ends_with_2_and_says_so_in_json_too(person: Person) -> None:
    for words in (["statsu"], ["status", "--lim"], ["explain"], ["pause", "all"], ["submit"]):
        answer = person.call(*words)
        assert (answer.status, answer.stdout) == (2, "")
        assert "--help" in answer.stderr
        said = person.call(*words, "--json")
        assert said.status == 2
        assert said.json["error"]["code"] == "usage"
    assert "Did you mean 'status'?" in person.call("statsu").stderr


def test_misuse_quotes_what_was_typed_without_acting_on_the_terminal(person: Person) -> None:
    answer = person.call("show", "a", "\x1b[31m\u202e\nnext: rm")
    assert (answer.status, answer.stdout) == (2, "")
    assert answer.stderr.splitlines() == [
        "Usage: root show [OPTIONS] NODE",
        "Try 'root show --help' for help.",
        "",
        "Error: Got unexpected extra argument (\\x1b[31m\\u202e\\nnext: rm)",
    ]
    assert "\n    grants" in person.call("pause", "--reason", "x").stderr


@pytest.mark.parametrize("option", ["--repo", "--branch"])
def test_an_empty_option_is_not_taken_for_none(person: Person, option: str) -> None:
    for words in ([option, "", "status", "--json"], ["status", option, "", "--json"]):
        answer = person.call(*words)
        assert answer.status == 2
        assert answer.json["error"]["message"] == (
            f"Invalid value for '{option}': '' is empty; leave the option out for the default"
        )


def test_a_branch_is_named_by_its_short_name(person: Person) -> None:
    person.submit()
    full = "refs/heads/work-queue"
    typed = person.call("status", "--branch", full, "--json").error
    told = person.call("status", "--json", CALLBOARD_BRANCH=full).error
    person.configure(f'[board]\nbranch = "{full}"\n')
    settled = person.call("status", "--json").error
    for error in (typed, told, settled):
        assert error["code"] == "queue_branch_refused"
        assert error["message"] == f"{full!r} is the full name of a ref, not that of a branch"
        assert error["hint"] == "use the short name: --branch work-queue"
    other = person.call("status", "--branch", "refs/heads/refs/x", "--json").error
    assert other["hint"] == "name a branch, such as 'work-queue'"
    assert person.ask("status", "--branch", "work-queue")["tip"] is not None


def test_an_interrupted_program_still_gets_its_document(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("callboard.surfaces.cli.chosen.Chosen.open_board", stopped)
    answer = person.call("status", "--json")
    assert answer.status == 130
    assert list(answer.json) == ["error"]
    assert set(answer.json["error"]) == {"code", "message", "hint", "details"}
    assert answer.json["error"]["code"] == "interrupted"
    spoken = person.call("status")
    assert (spoken.status, spoken.stdout, spoken.stderr.strip()) == (130, "", "")


def test_an_interrupt_after_the_answer_adds_no_second_one(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(document: dict[str, Any]) -> None:
        write_json(document)
        if "error" not in document:
            raise KeyboardInterrupt

    write_json = render.write_json
    monkeypatch.setattr(render, "write_json", late)
    answer = person.call("status", "--json")
    assert answer.status == 130
    assert answer.json["tip"] is None


def test_a_refusal_names_what_was_found_and_what_to_do(person: Person) -> None:
    person.submit()
    answer = person.call("show", "inspekt")
    assert (answer.status, answer.stdout) == (1, "")
    assert answer.stderr.splitlines()[0] == (
        "refused: the board has no node 'inspekt'; did you mean 'inspect'?"
    )
    assert "next: " in answer.stderr
    assert "code: work_unknown" in answer.stderr
    assert person.call("show", "inspekt", "--json").error["code"] == "work_unknown"


def test_outside_a_repository(tmp_path: Path) -> None:
    nowhere = Person(tmp_path, tmp_path / "config", tmp_path / "state")
    assert nowhere.call("status", "--json").error["code"] == "repository_missing"
    assert nowhere.ask("whoami")["repository"] is None


def test_a_fault_of_ours_ends_with_70_and_tells_no_secret(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object) -> None:
        raise KeyError("s3cret")

    monkeypatch.setattr("callboard.surfaces.cli.chosen.Chosen.open_board", broken)
    for words in (["status"], ["status", "--json"]):
        answer = person.call(*words)
        assert answer.status == FAULT
        assert "s3cret" not in answer.stdout + answer.stderr
        assert "KeyError" in answer.stdout + answer.stderr
    assert json.loads(answer.stdout)["error"]["code"] == "internal_fault"


def test_a_reader_that_goes_away_is_no_error(person: Person) -> None:
    nodes = "\n".join(f"- {{key: n{n}, payload: {{}}}}" for n in range(250))
    person.submit(f"graph: g\nnodes:\n{nodes}\n")
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [*PROGRAM, "status", "--limit", "250"],
        cwd=person.folder,
        env={**os.environ, **person.environment, "PYTHONPATH": str(ROOT / "src")},
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    _out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_said_so(person: Person, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*PROGRAM, *words],
            cwd=person.folder,
            env={**os.environ, **person.environment, "PYTHONPATH": str(ROOT / "src")},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 1
    if "--json" not in words:
        assert b"No space left on device" in ended.stderr
        assert b"code: system_refused" in ended.stderr


@pytest.mark.parametrize(("closed", "words", "status"), [(1, "--help", 0), (2, "statsu", 2)])
def test_a_stream_closed_from_the_start_is_no_fault(
    person: Person, closed: int, words: str, status: int
) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *PROGRAM, words],
        cwd=person.folder,
        env={**os.environ, **person.environment, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, b"", b"")


@pytest.mark.parametrize("words", [["submit", "-"], ["ledger", "verify", "-"]])
@pytest.mark.parametrize(
    ("stdin", "found"),
    [("<&-", "standard input is closed"), ("0>/dev/null", "standard input cannot be read")],
)
def test_a_standard_input_that_cannot_be_read_is_refused(
    person: Person, words: list[str], stdin: str, found: str
) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {stdin}', "sh", *PROGRAM, *words, "--json"],
        cwd=person.folder,
        env={**os.environ, **person.environment, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    error = json.loads(ended.stdout)["error"]
    assert error["code"] == "file_unreadable"
    assert error["message"].startswith(found)


def test_real_processes_agree_with_the_runner(person: Person) -> None:
    process = start(person, "submit", "-", "--json", stdin=subprocess.PIPE)
    out, err = process.communicate(PLAN.encode(), timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["status"] == "submitted"
    process = start(person, "show", "nobody", "--json")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")
    assert json.loads(out)["error"]["code"] == "work_unknown"


@pytest.mark.parametrize(
    ("code", "status"), [("contention", 4), ("registry_busy", 4), ("ref_locked", 1)]
)
def test_losing_every_race_has_a_status_of_its_own(
    person: Person, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    def busy(_self: object) -> None:
        raise CallboardError(code, "others were faster", "try again")

    monkeypatch.setattr("callboard.surfaces.cli.chosen.Chosen.open_board", busy)
    answer = person.call("status", "--json")
    assert answer.status == status
    assert answer.json["error"]["code"] == code
