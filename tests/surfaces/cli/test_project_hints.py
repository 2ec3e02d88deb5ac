"""What refusals of a project say to do can be done; and what they say is for people.

Every command that is written anywhere in the wing is looked at, and those that a walk of refusals
gives are typed.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from callboard.surfaces.cli.project.commands import project as group
from tests.ambient import ROOT
from tests.surfaces.project.shared import Shared

SOURCE = ROOT / "src" / "callboard"
MODULES = [*(SOURCE / "project").rglob("*.py"), *(SOURCE / "surfaces/cli/project").rglob("*.py")]
COMMAND = re.compile(r"`callboard project ([^`]+)`")


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


def texts(tree: ast.AST) -> Iterator[str]:
    """All texts of a module, with X for what is put into them."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # What documents the module for its readers.
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inner |= {id(one) for one in node.values}
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def is_typed(words: list[str]) -> None:
    """That the command line takes these words, as far as they are given."""
    command: click.Command = group
    while isinstance(command, click.Group) and words:
        assert words[0] in command.commands, words
        command = command.commands[words.pop(0)]
    # A placeholder stands for a number where one is needed.
    words = ["1" if word in ("N", "X") else word for word in words]
    command.make_context("x", words, resilient_parsing=False).close()


def test_every_command_that_a_hint_names_can_be_typed() -> None:
    seen = set()
    for module in MODULES:
        for text in texts(ast.parse(module.read_text("utf-8"))):
            for found in COMMAND.findall(text):
                if found == "…":
                    continue
                words = shlex.split(re.sub(r"\{\w+\}", "X", found))
                is_typed(words)
                seen.add(found)
    assert len(seen) >= 20


def test_every_command_in_a_hint_is_quoted() -> None:
    """So that those who have tools are given calls instead."""
    for module in (SOURCE / "project").rglob("*.py"):
        for text in texts(ast.parse(module.read_text("utf-8"))):
            if "\n" not in text:
                assert "callboard project" not in COMMAND.sub("", text), (module, text)


def test_no_message_has_a_raw_time() -> None:
    """Times in messages are told in UTC; those in milliseconds stand in the details."""
    spans = {
        "found",
        "patience_ms",
        "ttl_ms",
        "MIN_TTL_MS",
        "MAX_SAFE_INTEGER - now_ms",
        "names.USUAL_TTL_MS",
    }
    raw = {}
    for module in (SOURCE / "project").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.FormattedValue):
                put_in = ast.unparse(node.value)
                if re.search(r"_ms\b|_MS\b", put_in) and "utc_text" not in put_in:
                    raw[put_in] = module.name
    assert raw.keys() - spans == set(), raw


# --- a walk of refusals, each hint of which is followed -------------------------------------------


def hint_of(shared: Shared, *words: str, code: str, **more: str) -> str:
    """The hint of a refusal."""
    error = shared.call(*words, "--json", **more).error
    assert error["code"] == code, error
    assert re.search(r"\b1[0-9]{12}\b", error["message"] + error["hint"]) is None, error
    return str(error["hint"])


def follow(shared: Shared, hint: str, status: int = 0) -> None:
    """Type what the hint quotes, with names for its placeholders."""
    commands = COMMAND.findall(hint)
    assert commands, hint
    for command in commands:
        words = [
            {"NAME": "kim", "TEXT": "it is so"}.get(word, word) for word in shlex.split(command)
        ]
        answer = shared.call(*words)
        assert answer.status == status, (command, answer)


def test_what_one_holds_is_renewed_as_the_hint_says(shared: Shared) -> None:
    session = shared.session("A", ttl_ms=600_000)
    follow(shared, hint_of(shared, "claim", "acquire", "--session", session, code="claim_held"))


def test_what_lapsed_is_acquired_and_never_released(shared: Shared) -> None:
    session = shared.session("A", ttl_ms=1)
    hint = hint_of(shared, "claim", "release", "--session", session, code="claim_not_holder")
    assert "acquire" not in hint
    renew = ("claim", "renew", "--session", session, "--ttl-ms", "5000")
    follow(shared, hint_of(shared, *renew, code="claim_not_holder"))


def test_a_live_claim_is_released_and_an_ended_one_is_not(shared: Shared) -> None:
    session = shared.session("A")
    claim = shared.ask("claim", "show", "--work", "A")["claim"]["id"]

    def repair() -> str:
        revision = str(shared.ask("status")["project_revision"])
        words = ("doctor", "repair", "expire-claim", claim, "--reason", "r")
        return hint_of(shared, *words, "--expected-revision", revision, code="claim_not_expired")

    follow(shared, repair())
    assert shared.ask("session", "show", session)["claim"]["state"] == "released"
    hint = repair()
    assert "release" not in hint
    follow(shared, hint)


def test_uncovered_criteria_are_covered_as_the_hint_says(shared: Shared) -> None:
    session = shared.session("A")
    words = ("work", "complete", "A", "--session", session)
    follow(shared, hint_of(shared, *words, code="acceptance_uncovered"))
    assert shared.call(*words).status == 0


def test_work_without_criteria_says_what_counts(tmp_path: Path) -> None:
    shared = Shared(tmp_path / "demo").begin(
        "work_items:\n  - {id: W, title: Do it, depends_on: ['other-repo:17']}\n"
    )
    session = shared.session("W")
    confirm = ("--kind", "t", "--summary", "s", "--covers", "other-repo:17")
    shared.ask("evidence", "add", "--session", session, *confirm)
    words = ("work", "complete", "W", "--session", session)
    answer = shared.call(*words)
    assert "no evidence" not in answer.stderr
    assert "only confirms what is elsewhere" in answer.stderr
    follow(shared, hint_of(shared, *words, code="acceptance_uncovered"))
    assert shared.call(*words).status == 0


def test_sessions_that_are_over(shared: Shared) -> None:
    first = shared.session("A")
    shared.ask("session", "interrupt", "--session", first)
    again = ("session", "interrupt", "--session", first)
    follow(shared, hint_of(shared, *again, code="session_not_active"))
    # Somebody goes on with it now, and holds the work: that is not to be taken from them.
    follower = shared.ask("session", "show", "--work", "A")["session"]["id"]
    hint = hint_of(
        shared, "session", "resume", "--from", first, "--agent", "z", code="successor_exists"
    )
    assert COMMAND.findall(hint) == [f"session show {follower}"]
    assert "resume" not in hint
    assert "hand" not in hint
    hint = hint_of(shared, *again, code="session_not_active")
    assert hint.startswith("stop, and change nothing in its name")
    shared.ask("session", "end", "--session", follower)
    hint = hint_of(shared, "session", "end", "--session", follower, code="session_not_active")
    assert "resume" not in hint
    follow(shared, hint)


def test_a_handed_off_session_is_told_in_words(shared: Shared) -> None:
    first = shared.session("A")
    shared.ask("session", "handoff", "--session", first, "--agent", "kim")
    answer = shared.call("session", "interrupt", "--session", first)
    assert "was handed off\n" in answer.stderr
    assert (
        f"session {first}: codex at A on main, handed off"
        in shared.call("session", "show", first).stdout
    )


def test_a_mismatch_names_what_would_fit(shared: Shared) -> None:
    session = shared.session("A")
    hint = hint_of(shared, "work", "complete", "B", "--session", session, code="session_mismatch")
    assert hint == "name the session's own work, 'A', or another session"
    checkpoint = ("session", "checkpoint", "--session", session, "--digest", "d")
    words = (*checkpoint, "--next-action", "n")
    hint = hint_of(shared, *words, code="session_mismatch", CALLBOARD_AGENT="kim")
    assert hint == "name the session's own agent, 'codex', or another session"
    assert shared.call(*words, "--agent", "codex", CALLBOARD_AGENT="kim").status == 0


def test_closing_the_selected_branch_is_told_and_the_way_out_works(shared: Shared) -> None:
    shared.ask("branch", "create", "side")
    shared.ask("branch", "select", "side")
    closed = shared.call("branch", "close", "side").stdout
    assert "still the selected one" in closed
    follow(shared, hint_of(shared, "session", "next", "--agent", "a", code="branch_closed"))
    assert shared.call("session", "next", "--agent", "a").status == 0


def test_a_branch_that_is_not_current_is_selected_as_the_hint_says(shared: Shared) -> None:
    session = shared.session("A")
    shared.ask("branch", "create", "a side")
    shared.ask("branch", "select", "a side")
    resume = ("session", "resume", "--from", session, "--agent", "kim")
    follow(shared, hint_of(shared, *resume, code="branch_not_current"))
    assert shared.call(*resume).status == 0


def test_the_doctor_sends_nobody_to_the_doctor(shared: Shared) -> None:
    (shared.folder / ".callboard" / "project.db").write_bytes(b"no database" * 1000)
    (found,) = shared.call("doctor", "--json").json["findings"]
    assert found["code"] == "project_corrupt"
    assert "doctor" not in found["hint"]


def test_articles_and_lists_read_well(shared: Shared) -> None:
    answer = shared.call("session", "start", "--work", "A", "--agent", " x")
    assert "next: give an a" in answer.stderr
    answer = shared.call("session", "show", "--agent", "nobody")
    assert "there is no active session of 'nobody' on branch 'main'" in answer.stderr
    answer = shared.call("work", "list", "--after", "x")
    assert "the given cursor is not one that a page has given" in answer.stderr


def test_several_sessions_that_fit_are_listed(shared: Shared) -> None:
    ids = {shared.session("A"), shared.session("B", agent="kim")}
    answer = shared.call("session", "show")
    assert (answer.status, answer.stdout) == (1, "")
    listed = {line.split()[0]: line.split()[1:] for line in answer.stderr.splitlines()[1:3]}
    assert listed.keys() == ids
    assert sorted(listed.values()) == [
        ["codex", "at", "A", "on", "main"],
        ["kim", "at", "B", "on", "main"],
    ]
    assert "code: session_ambiguous" in answer.stderr
