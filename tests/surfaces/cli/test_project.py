"""`callboard project …`: how it is asked, for which project, in whose name, and how it ends."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest

from callboard.project.operations_table import OPERATIONS
from callboard.surfaces.cli.project.commands import project as group
from scripts.project_reference import method_of
from tests.ambient import ROOT
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.project.shared import Shared


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


# --- ends ------------------------------------------------------------------------------------


def test_a_refusal_is_one_document_and_status_1(shared: Shared) -> None:
    answer = shared.call("work", "show", "Z", "--json")
    assert answer.error["code"] == "not_found"
    words = shared.call("work", "show", "Z")
    assert (words.status, words.stdout) == (1, "")
    assert "code: not_found" in words.stderr


def test_misuse_is_status_2(shared: Shared) -> None:
    for words in (
        ("work", "show"),
        ("session", "start", "--nonsense", "x"),
        ("claim", "renew", "--session", "s", "--ttl-ms", "soon"),
        ("doctor", "repair", "expire-claim", "c", "--reason", "r"),
        ("source", "patch"),
        ("event", "list", "--limit", "ten"),
    ):
        answer = shared.call(*words, "--json")
        assert answer.status == 2, answer
        assert answer.json["error"]["code"] == "usage"


def test_nothing_ready_is_status_3(shared: Shared) -> None:
    shared.session("A")
    shared.session("B")
    answer = shared.call("ready", "--json")
    assert (answer.status, answer.json["ready"]) == (3, [])
    answer = shared.call("session", "next", "--agent", "a", "--json")
    assert (answer.status, answer.json["session"], answer.json["claim"]) == (3, None, None)
    answer = shared.call("session", "next", "--agent", "a")
    assert answer.status == 3
    assert answer.stdout == (
        "nothing is ready on branch main\n"
        "how each piece of work stands: callboard project work list\n"
    )


def test_status_and_list_say_whose_lease_lapsed(shared: Shared) -> None:
    lapsed, live = shared.session("A", ttl_ms=1), shared.session("B", agent="kim")
    bare = shared.ask("session", "start", "--work", "C", "--agent", "lin")["session"]["id"]
    shown = [line.split() for line in shared.call("status").stdout.splitlines()]
    assert ["work", "agent", "on", "claim"] in shown
    assert ["A", "codex", "main", "lease", "lapsed", "at"] in [line[:6] for line in shown]
    assert ["B", "kim", "main", "live,", "without", "an", "end"] in shown
    listed = {line.split()[0]: line.split()[4:] for line in _lines(shared, "session", "list")}
    assert listed == {
        "session": ["state", "claim"],
        lapsed: ["active", "lease", "lapsed"],
        live: ["active", "live"],
        bare: ["active", "-"],
    }
    found = shared.ask("status")["claims"]
    assert [(one["work"], one["state"]) for one in found] == [("A", "expired"), ("B", "active")]
    of_one = shared.ask("session", "list", "--agent", "kim")
    assert [one["session"] for one in of_one["claims"]] == [live]


def test_who_holds_nothing_is_told_what_to_do(shared: Shared) -> None:
    held = shared.session("A")
    shared.ask("session", "interrupt", "--session", held)
    *_said, hint = _lines(shared, "session", "resume", "--from", held, "--agent", "kim")
    found = shared.ask("session", "show", "--agent", "kim")
    assert found["claim"] is None
    assert hint == (
        "it holds nothing; to hold its work: callboard project claim acquire "
        f"--session {found['session']['id']}"
    )
    assert shared.call(*hint.split("callboard project ")[1].split()).status == 0


def _lines(shared: Shared, *words: str) -> list[str]:
    return shared.call(*words).stdout.splitlines()


def test_faults_of_a_work_file_are_status_3_and_have_their_places(shared: Shared) -> None:
    (shared.folder / "work.yaml").write_text("work_items:\n  - id: A\n    titel: x\n")
    answer = shared.call("source", "scan", "--json")
    assert (answer.status, answer.json["fault_count"]) == (3, 2)
    assert "work.yaml:3:5 /work_items/0/titel" in shared.call("source", "scan").stdout
    assert shared.refused("source", "index") == "source_invalid"


def test_a_damaged_project_is_status_3_of_the_doctor(shared: Shared) -> None:
    (shared.folder / ".callboard" / "project.db").write_bytes(b"no database" * 1000)
    answer = shared.call("doctor", "--json")
    assert (answer.status, answer.json["healthy"]) == (3, False)
    assert shared.refused("status") == "project_corrupt"


def test_a_busy_database_is_status_4(shared: Shared) -> None:
    session = shared.session("A")
    holder = sqlite3.connect(shared.folder / ".callboard" / "project.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    # What keeps a claim waits a sixth of its time only.
    keep = ("claim", "keep", "--session", session, "--json", "--ttl-ms", "600")
    answer = shared.call(*keep, "--", "true")
    holder.close()
    assert (answer.status, answer.json["error"]["code"]) == (4, "busy")


def test_repeating_a_request_gives_the_first_answer(shared: Shared) -> None:
    words = ("session", "next", "--agent", "a", "--request-id", "r-1")
    first = shared.ask(*words)
    assert shared.ask(*words) == first
    assert shared.ask("status")["project_revision"] == first["project_revision"]


# --- in whose name ---------------------------------------------------------------------------


def test_a_flag_goes_before_the_environment(shared: Shared) -> None:
    words = ("session", "start", "--work", "A")
    assert shared.refused(*words) == "agent_undeclared"
    by_environment = shared.ask(*words, CALLBOARD_AGENT="env")
    assert by_environment["session"]["agent"] == "env"
    by_flag = shared.ask(*words, "--agent", "flag", CALLBOARD_AGENT="env")
    assert by_flag["session"]["agent"] == "flag"
    # Who goes on after a handoff is never meant by who asks.
    session = by_flag["session"]["id"]
    assert shared.call("session", "handoff", "--session", session).status == 2


def test_a_checkpoint_says_who_declared_it(shared: Shared) -> None:
    session = shared.session("A", "codex")
    words = ("session", "checkpoint", "--session", session, "--digest", "d", "--next-action", "n")
    assert shared.ask(*words)["checkpoint"]["agent"] == "undeclared"
    assert shared.ask(*words, CALLBOARD_AGENT="codex")["checkpoint"]["agent"] == "codex"
    assert shared.refused(*words, "--agent", "claude") == "session_mismatch"


def test_help_says_that_nobody_is_authenticated(shared: Shared) -> None:
    assert "nobody is authenticated" in " ".join(shared.call("--help").stdout.split())


# --- for which project -----------------------------------------------------------------------


def test_a_folder_below_finds_the_project(shared: Shared) -> None:
    below = shared.folder / "src" / "deep"
    below.mkdir(parents=True)
    process = shared.start("status", "--json", cwd=below)
    out, _err = process.communicate(timeout=60)
    assert json.loads(out)["project"]["key"] == "demo"
    # Another repository has its own.
    (below / ".git").mkdir()
    process = shared.start("status", "--json", cwd=below)
    out, _err = process.communicate(timeout=60)
    assert json.loads(out)["error"]["code"] == "project_missing"


def test_the_options_of_a_board_are_refused_and_not_ignored(shared: Shared) -> None:
    for words in (("--branch", "side"), ("--remote", "origin"), ("--offline",)):
        done = subprocess.run(
            [sys.executable, "-m", "callboard", *words, "project", "status"],
            cwd=shared.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "chooses a board" in done.stderr


def test_no_repository_and_no_identity_is_needed(tmp_path: Path) -> None:
    alone = Shared(tmp_path / "plain")
    assert alone.refused("status") == "project_missing"
    proposal = alone.ask("init")
    assert [one["action"] for one in proposal["files"]] == ["create", "create"]
    assert list(alone.folder.iterdir()) == []
    alone.ask("init", "--accept")
    assert alone.ask("status")["counts"]["work"] == {"open": 1}


# --- what is typed ---------------------------------------------------------------------------


def test_single_fields_are_set_without_json(shared: Shared) -> None:
    patch = ("source", "patch", "--set", "A", "title", "Do A: well", "--set", "A", "priority", "2")
    shown = shared.call(*patch)
    assert shown.status == 0
    assert '+    title: "Do A: well"' in shown.stdout
    assert "to write it:" in shown.stdout
    assert shared.refused(*patch, "--set", "B", "title", "null", "--accept") == "value_invalid"
    shared.ask(*patch, "--accept")
    found = shared.ask("work", "show", "A")["work"]
    assert (found["title"], found["priority"]) == ("Do A: well", 2)


def test_a_body_may_be_piped_in(shared: Shared) -> None:
    words = ("event", "append", "--type", "note.taken", "--body")
    assert shared.ask(*words, "-", stdin='{"a": 1}')["event"]["body"] == {"a": 1}
    assert shared.refused(*words, "{") == "invalid_json"
    assert shared.refused(*words, '{"a":1,"a":2}') == "duplicate_key"


def test_json_has_foreign_text_as_it_is(shared: Shared) -> None:
    body = {"hint": "callboard status", "next": "callboard run", "e": "\x1b[31m"}
    shared.ask("event", "append", "--type", "note.taken", "--body", json.dumps(body))
    assert shared.events("--type", "note.taken")[0]["body"] == body


def test_words_show_nothing_that_acts_on_a_terminal(shared: Shared) -> None:
    session = shared.session("A")
    shared.ask(
        "session", "checkpoint", "--session", session, "--digest", "a\nb", "--next-action", "x\ty"
    )
    shared.ask("event", "append", "--type", "note.taken", "--body", '{"a":"\\u001b[2J\\u202e"}')
    for words in (("session", "show"), ("event", "list")):
        shown = shared.call(*words).stdout
        assert not {char for char in shown if ord(char) < 32 and char != "\n"}
        assert "\u202e" not in shown


def test_a_lapsed_claim_is_called_so(shared: Shared) -> None:
    shared.session("A", ttl_ms=1)
    assert "lapsed at" in shared.call("claim", "show", "--work", "A").stdout
    assert shared.ask("claim", "show", "--work", "A")["claim"]["state"] == "expired"


# --- the table -------------------------------------------------------------------------------


def test_every_operation_has_its_command_and_nothing_else_has_one() -> None:
    found = set()

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                found.add(words)
            for name, one in command.commands.items():
                walk(one, (*words, name))
        else:
            found.add(words)

    walk(group, ())
    assert found == {one.words for one in OPERATIONS} | {("claim", "keep"), ("guide",)}


def test_every_operation_offers_all_that_the_facade_takes() -> None:
    for one in OPERATIONS:
        with_own_words = {"path", "actor", "busy_ms", "self", "cls"}
        takes = set(inspect.signature(method_of(one)).parameters) - with_own_words
        facade = [name for name in one.parameters if not name.is_actor_alone]
        assert {name.keyword or name.name for name in facade} == takes, one


def test_every_change_takes_a_revision_and_a_request() -> None:
    for one in OPERATIONS:
        names = {parameter.name for parameter in one.parameters}
        assert ({"expected_revision", "request_id"} <= names) == one.changes, one
    claim = group.commands["claim"]
    assert isinstance(claim, click.Group)
    keeping = {parameter.name for parameter in claim.commands["keep"].params}
    assert {"expected_revision", "request_id"} <= keeping


def test_the_database_library_is_loaded_only_when_it_is_used(tmp_path: Path) -> None:
    for words in (["project", "--help"], ["project", "guide"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "callboard", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "sqlalchemy" not in done.stderr
        assert "alembic" not in done.stderr


def test_the_guide_writes_nothing(tmp_path: Path) -> None:
    alone = Shared(tmp_path / "plain")
    shown = alone.call("guide")
    assert (shown.status, os.listdir(alone.folder)) == (0, [])
    assert alone.ask("guide")["guide"] == shown.stdout
    for word in ("session next", "claim keep", "checkpoint", "handoff", "session end"):
        assert word in shown.stdout


def test_each_command_of_the_guide_can_be_typed(tmp_path: Path) -> None:
    text = Shared(tmp_path / "plain").ask("guide")["guide"].replace("\\\n", " ")
    lines = re.findall(r"callboard project [a-z][^`\n]*", text)
    seen = 0
    for line in lines:
        words = shlex.split(line.split(", then")[0].rstrip("."))[2:]
        command: click.Command = group
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        options = {name for one in command.params for name in one.opts}
        typed = {word for word in words if word.startswith("--") and word != "--"}
        assert typed <= options, line
        seen += 1
    assert seen >= 10


def test_taking_time_back_is_told_in_words(shared: Shared) -> None:
    shared.session("A", ttl_ms=600_000)
    connection = sqlite3.connect(shared.folder / ".callboard" / "project.db")
    with connection:
        connection.execute("UPDATE projects SET clock_ms = clock_ms + 86400000")
    connection.close()
    told = shared.call("doctor").stdout
    assert "clock_behind" in told
    revision = shared.ask("status")["project_revision"]
    command = f"doctor repair clock --expected-revision {revision} --reason"
    assert f"callboard project {command} TEXT" in " ".join(told.split())
    answer = shared.call(*command.split(), "the battery was empty")
    assert answer.status == 0
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("the project's time was ")
    assert lines[1] == "1 claim got another end by that"
    assert lines[2].endswith(": project.clock_repaired")
    assert lines[3] == f"revision {revision + 1}"
    assert "clock_behind" not in shared.call("doctor").stdout
    assert shared.refused(*command.split(), "again") == "revision_conflict"


# --- where, who and how much ----------------------------------------------------------------------


def test_a_folder_that_is_gone_is_told_as_such(shared: Shared, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD"; exec "$@"'
    for words in (("status",), ("init",), ("doctor",)):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["sh", "-c", script, "sh", *PROGRAM, "project", *words, "--json"],
            cwd=gone,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1, done
        assert json.loads(done.stdout)["error"]["code"] == "project_unreadable"


@pytest.mark.parametrize("agent", [" lead", "a\x1b", "x" * 201])
def test_a_variable_that_names_no_agent_is_named(shared: Shared, agent: str) -> None:
    error = shared.call("session", "next", "--json", CALLBOARD_AGENT=agent).error
    assert error["code"] == "name_invalid"
    assert "CALLBOARD_AGENT" in error["message"]


@pytest.mark.parametrize(
    "count", ["1_000", "\u0661\u0660", "\uff11", "nan", "inf", "0x10", " 1", ""]
)
def test_numbers_are_typed_in_plain_digits(shared: Shared, count: str) -> None:
    answer = shared.call("session", "next", "--agent", "a", "--ttl-ms", count, "--json")
    assert answer.status == 2
    assert "is no number" in answer.json["error"]["message"]


@pytest.mark.parametrize("version", ["", "None", "0000", "1", "00010", "abcd", None])
def test_a_schema_that_is_none_is_damage(shared: Shared, version: str | None) -> None:
    database = sqlite3.connect(shared.folder / ".callboard" / "project.db")
    with database:
        database.execute("DELETE FROM alembic_version")
        if version is not None:
            database.execute("INSERT INTO alembic_version VALUES (?)", (version,))
    database.close()
    assert shared.refused("status") == "project_corrupt"
    found = json.loads(shared.call("doctor", "--json").stdout)
    assert [one["code"] for one in found["findings"]] == ["project_corrupt"]
