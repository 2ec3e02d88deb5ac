"""What the project's commands tell a person: who asked, what lapsed, what to look at."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from callboard.project import surroundings
from tests.surfaces.project.shared import WORK, Shared


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


# --- in whose name a request is kept --------------------------------------------------------------


def test_the_agent_of_a_command_is_its_actor(shared: Shared) -> None:
    next_ = ("session", "next", "--request-id", "R1")
    taken = shared.ask(*next_, "--agent", "a2")
    receipt = shared.ask("receipt", "show", "R1", CALLBOARD_AGENT="a2")["receipt"]
    assert (receipt["actor"], receipt["operation"]) == ("a2", "session next")
    assert shared.ask("receipt", "show", "R1", "--agent", "a2")["receipt"] == receipt
    # It is the same request, however the same agent is declared.
    assert shared.ask(*next_, CALLBOARD_AGENT="a2") == taken
    assert shared.ask(*next_, "--agent", "a2", CALLBOARD_AGENT="other") == taken
    answer = shared.call("receipt", "show", "R1", "--json", CALLBOARD_AGENT="other")
    assert answer.error["code"] == "not_found"
    assert "nothing was done" not in answer.error["hint"]
    assert "'other'" in answer.error["hint"]


def test_who_acts_for_another_session_is_kept(shared: Shared) -> None:
    session = shared.session("A", agent="p")
    shared.ask("claim", "renew", "--session", session, "--ttl-ms", "9000", CALLBOARD_AGENT="z2")
    shared.ask("event", "append", "--type", "a.b", "--body", '{"by":1}', CALLBOARD_AGENT="z2")
    told = {one["type"]: one["body"] for one in shared.events()}
    assert told["claim.renewed"]["by"] == "z2"
    assert "by" not in told["claim.acquired"]
    assert told["a.b"] == {"by": 1}


# --- what lapsed, what is complete ----------------------------------------------------------------


def test_the_status_counts_what_lapsed_apart_and_what_is_complete(shared: Shared) -> None:
    session = shared.session("B")
    shared.ask("evidence", "add", "--session", session, "--kind", "t", "--summary", "s")
    shared.ask("work", "complete", "B", "--session", session)
    shared.session("A", ttl_ms=1)
    lines = shared.call("status").stdout.splitlines()
    assert "claims so far: 1 active, 1 lapsed" in lines
    assert "completed on branch main: 1" in lines
    shared.ask("branch", "create", "side")
    assert "completed on branch side: 0" in shared.call("status", "--branch", "side").stdout
    shared.session("A")
    assert "claims so far: 2 active, 1 expired" in shared.call("status").stdout


def test_a_status_that_nothing_has_and_one_that_there_is_not(shared: Shared) -> None:
    assert shared.call("work", "list", "--status", "done").stdout == "no work has the status done\n"
    answer = shared.call("work", "list", "--status", "foo")
    assert "code: value_invalid" in answer.stderr
    (shared.folder / "work.yaml").write_text("work_items: []\n")
    shared.ask("source", "index")
    assert shared.call("work", "list").stdout == "no work is indexed\n"


# --- notes ------------------------------------------------------------------------------------


def test_taking_work_that_is_not_ready_is_noted(shared: Shared) -> None:
    words = ("session", "start", "--work", "C", "--agent", "a", "--claim")
    assert "note: the work is not ready: 'A' is open, not done\n" in shared.call(*words).stdout


def test_a_second_project_in_a_folder_below_is_noted(shared: Shared) -> None:
    below = Shared(shared.folder / "src")
    (below.folder / "work.yaml").write_text(WORK)
    for words in (("init",), ("init", "--accept")):
        told = below.call(*words).stdout
        assert f"note: there is a project in {str(shared.folder)!r} already" in told
    assert "there is a project in" not in below.call("init").stdout
    assert shared.ask("init")["remarks"] == []


def test_a_goal_that_is_not_written_is_noted(shared: Shared) -> None:
    assert "note: the goal is not written" in shared.call("init", "--goal", "a goal").stdout


def test_a_database_that_git_would_take_is_noted_and_found(tmp_path: Path) -> None:
    alone = Shared(tmp_path / "plain")
    (alone.folder / ".callboard").mkdir(mode=0o700)
    ignore = alone.folder / ".callboard" / ".gitignore"
    ignore.write_text("# mine\n/workers\n")
    told = alone.call("init", "--accept").stdout
    assert "note: .callboard/.gitignore is there, and no line of it keeps project.db" in told
    assert "database_not_ignored" not in alone.call("doctor").stdout
    subprocess.run(["git", "init", "-q", str(alone.folder)], check=True)
    codes = [one["code"] for one in alone.ask("doctor")["findings"]]
    assert codes == ["database_not_ignored"]
    # What the hint says to add is enough, for Git too.
    with ignore.open("a") as file:
        file.write("/project.db*\n")
    assert alone.ask("doctor")["findings"] == []
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=alone.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "project.db" not in listed


@pytest.mark.parametrize(
    ("above", "own"),
    [
        (".callboard/\n", ""),
        (".callboard\n", ""),
        ("*.db*\n", ""),
        ("/.callboard/project.db*\n", ""),
        ("**/project.db*\n", ""),
        ("", "*\n"),
        ("", "/project.db\n/project.db-*\n"),
        ("", "project.db\n"),
        ("", "/project.db*\n!project.db-wal\n"),
        ("", "project.db*/\n"),
        ("callboard\n", "# project.db*\n"),
        ("/project.db*\n", ""),
    ],
)
def test_ignore_files_are_read_as_git_reads_them(tmp_path: Path, above: str, own: str) -> None:
    folder = tmp_path / "demo"
    (folder / ".callboard").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".gitignore").write_text(above)
    (folder / ".callboard" / ".gitignore").write_text(own)
    names = ("project.db", "project.db-wal", "project.db-shm")
    for name in names:
        (folder / ".callboard" / name).write_text("")
    ignored = subprocess.run(
        ["git", "check-ignore", *(f".callboard/{name}" for name in names)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    found = surroundings.not_ignored(folder)
    assert set(found) == set(names) - {Path(one).name for one in ignored}


# --- more of what is kept ---------------------------------------------------------------------


def test_a_session_is_shown_with_all_that_it_left(shared: Shared) -> None:
    session = shared.session("A")
    sha = "ab" * 32
    words = ("session", "checkpoint", "--session", session, "--next-action", "n")
    shared.ask(*words, "--digest", "one\ntwo", "--artifact", "notes.md", sha)
    shared.ask("session", "end", "--session", session, "--outcome", "it went well")
    lines = shared.call("session", "show", session).stdout.splitlines()
    assert "outcome: it went well" in lines
    assert lines[lines.index("  one") + 1] == "  two"
    assert f"  artifact: notes.md, sha256 {sha}" in lines
    assert shared.ask("session", "show", session)["session"]["outcome"] == "it went well"


def test_evidence_is_listed_with_what_it_covers(shared: Shared) -> None:
    shared.ask("evidence", "add", "--work", "A", "--kind", "t", "--summary", "s",
               "--covers", "it runs", "--covers", "it is told of")  # fmt: skip
    header, row = shared.call("evidence", "list").stdout.splitlines()
    assert header.split()[-1] == "covers"
    assert row.endswith("it runs; it is told of")


def test_a_claim_on_another_branch_is_said_so(shared: Shared) -> None:
    shared.ask("branch", "create", "side")
    shared.ask("session", "start", "--work", "A", "--agent", "a", "--branch", "side", "--claim")
    shown = shared.call("work", "show", "A").stdout
    assert "held by a, without an end, on branch side\n" in shown


def test_what_is_cut_is_said_so(shared: Shared) -> None:
    body = json.dumps({"text": "x" * 200})
    assert "--json has all of it" not in shared.call("event", "list", "--limit", "1").stdout
    shared.ask("event", "append", "--type", "note.taken", "--body", body)
    told = shared.call("event", "list", "--type", "note.taken").stdout
    assert "--json has all of it" in told


def test_help_says_what_may_be_repeated_and_how_short_a_lease_may_be(shared: Shared) -> None:
    def told(*words: str) -> str:
        return " ".join(shared.call(*words, "--help").stdout.split())

    assert "May be given several times" in told("evidence", "add")
    assert "1 at least" in told("session", "next")
    assert "250 at least" in told("claim", "keep")
    assert "(never)" not in told("claim", "acquire")
