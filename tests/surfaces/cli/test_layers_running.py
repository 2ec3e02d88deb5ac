"""`callboard layers run` and `events`: pausing, one coordinator at a time, following, readers that
go away. Each is a process of its own, as is the agent."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.cli.layered import WAITS, Layered, end
from tests.waiting import until


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Layered]:
    made = Layered.make(tmp_path / "repository", WAITS, turns=1)
    yield made
    # Whatever became of the test, its agent comes to its end.
    (made.folder / "go").touch()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pause_leaves_the_agent_at_work_and_the_next_run_takes_up_its_result(
    here: Layered, number: int
) -> None:
    session = here.begin()
    running = here.process("run")
    until((here.folder / "begun").exists)
    paused = end(running, signal_number=number)
    assert paused.status == 3
    assert paused.stdout.splitlines() == [
        f"paused at 0001_worker of layer {session}",
        "An agent that is at work there goes on; nothing else is begun.",
        "to take up what it did, and go on: callboard layers run",
    ]
    (one,) = here.ask("status")["layers"]
    assert (one["phase"], one["state"]["task"]["attempt_id"]) == ("executing", "0001_worker")

    (here.folder / "begun").unlink()
    (here.folder / "go").touch()
    ran = here.call("run", "--json")
    assert (ran.status, ran.json["step"]["detail"]) == (1, "max_turns")
    # It was not executed again: nothing said that it began.
    assert not (here.folder / "begun").exists()
    attempt = here.layer(session) / "attempts" / "0001_worker"
    assert json.loads((attempt / "result.json").read_bytes())["classification"] == "success"


def test_what_to_type_after_a_pause_names_the_tree_that_was_named(here: Layered) -> None:
    here.begin("another")
    session = here.begin()
    running = here.process("run", "--session", session)
    until((here.folder / "begun").exists)
    paused = end(running, signal_number=signal.SIGINT)
    assert paused.stdout.endswith(f" go on: callboard layers run --session {session}\n")


def test_a_pause_in_json_is_one_document(here: Layered) -> None:
    session = here.begin()
    running = here.process("run", "--json")
    until((here.folder / "begun").exists)
    paused = end(running, signal_number=signal.SIGINT)
    assert (paused.status, paused.stderr) == (3, "")
    assert paused.json == {
        "step": {"did": "paused", "session_id": session, "detail": "0001_worker", "refused": 0}
    }


def test_a_second_run_ends_with_4_and_changes_nothing(here: Layered) -> None:
    session = here.begin()
    running = here.process("run")
    until((here.folder / "begun").exists)
    state = (here.layer(session) / "state.json").read_bytes()
    below = here.folder / "below"
    below.mkdir()
    second = end(here.process("run", "--json", cwd=below))
    assert (second.status, second.stderr) == (4, "")
    error = second.json["error"]
    assert (error["code"], error["details"]["pid"]) == ("coordinator_busy", running.pid)
    in_words = end(here.process("run"))
    assert (in_words.status, in_words.stdout) == (4, "")
    assert f"process {running.pid} " in in_words.stderr
    assert (here.layer(session) / "state.json").read_bytes() == state
    (here.folder / "go").touch()
    assert end(running).status == 1


def _line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def test_events_are_followed_until_ctrl_c(here: Layered) -> None:
    session = here.begin()
    following = here.process("events", "--follow")
    here.ask("run", "--once")
    began = _line(following)
    assert (began["kind"], began["session_id"]) == ("attempt_began", session)
    (here.folder / "go").touch()
    here.call("run")
    assert _line(following)["kind"] == "attempt_ended"
    assert _line(following)["kind"] == "layer_ended"
    ended = end(following, signal_number=signal.SIGINT)
    # The line break ends the terminal's own line with its ^C.
    assert (ended.status, ended.stdout, ended.stderr) == (130, "", "\n")


def test_a_follower_ends_when_its_reader_goes_away_though_nothing_happens(here: Layered) -> None:
    here.begin()
    here.ask("run", "--once")
    following = here.process("events", "--follow")
    assert _line(following)["kind"] == "attempt_began"
    assert following.stdout is not None
    following.stdout.close()
    assert following.wait(timeout=30) == 141
    assert following.stderr is not None
    with following.stderr as said:
        assert said.read() == b""


def test_events_into_a_file_are_followed_too(here: Layered, tmp_path: Path) -> None:
    here.begin()
    here.ask("run", "--once")
    kept = tmp_path / "events"
    with kept.open("wb") as stream:
        following = here.process("events", "--follow", stdout=stream)
        until(lambda: kept.read_bytes().endswith(b"\n"))
        ended = end(following, signal_number=signal.SIGINT)
    assert (ended.status, ended.stderr) == (130, "\n")
    assert json.loads(kept.read_bytes())["kind"] == "attempt_began"


def test_strange_lines_among_the_events_are_left_out(here: Layered) -> None:
    session = here.begin()
    here.ask("run", "--once")
    journal = here.layer(session) / "events.jsonl"
    journal.write_bytes(b'[]\n{"at":1.5}\nnothing\n' + journal.read_bytes() + b'{"torn":')
    assert [one["kind"] for one in here.ask("events")["events"]] == ["attempt_began"]
    (line,) = here.call("events").stdout.splitlines()
    assert json.loads(line)["kind"] == "attempt_began"


def test_follow_has_no_one_document(here: Layered) -> None:
    here.begin()
    answer = here.call("events", "--follow", "--json")
    assert (answer.status, answer.json["error"]["code"]) == (2, "usage")


def ran(folder: Path, *command: str) -> tuple[str, str]:
    """The id of a tree of one attempt, and how that ended."""
    here = Layered.make(folder, command, turns=1)
    session = here.begin()
    lines = here.call("run").stderr.splitlines()
    assert lines[0] == f"{session}  began 0001_worker"
    return session, lines[1].removeprefix(f"{session}  0001_worker: ")


def test_how_an_attempt_failed_is_told_with_where_to_look(tmp_path: Path) -> None:
    assert ran(tmp_path / "exit", "sh", "-c", "exit 3")[1] == "deterministic (exit 3)"
    assert ran(tmp_path / "signal", "sh", "-c", "kill -9 $$")[1] == "crash (signal 9)"
    found = ran(tmp_path / "missing", "no-such-program")[1]
    said = "ENOENT: no such program is found; see harness.command of its role"
    assert found == f"deterministic ({said})"
    session, found = ran(tmp_path / "printed", "sh", "-c", "echo hello >&2; exit 1")
    trace = f".callboard/layers/traces/{session}/sessions/{session}/attempts/0001_worker"
    assert found == f"deterministic (exit 1); what it printed is in {trace}"
    assert (tmp_path / "printed" / trace / "stderr.log").read_text() == "hello\n"


def test_requests_that_are_put_away_are_told(tmp_path: Path) -> None:
    code = (
        "import json, pathlib, sys; paths = json.load(open(sys.argv[1]))['paths'];"
        "pathlib.Path(paths['child_requests'], 'junk.json').write_text('{')"
    )
    here = Layered.make(
        tmp_path / "repository", (sys.executable, "-c", code, "{assignment}"), turns=1
    )
    session = here.begin()
    lines = here.call("run").stderr.splitlines()
    assert f"{session}  put 1 child request away; callboard layers requests says why" in lines
    assert "junk.json" in here.call("requests").stdout


def test_one_step_is_told_once(here: Layered) -> None:
    session = here.begin()
    answer = here.call("run", "--once")
    assert (answer.status, answer.stderr) == (0, "")
    assert answer.stdout == f"{session}  began 0001_worker\n"
