"""One attempt, carried out by real runners: what the harness gets, and what is said of its end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from callboard.git import Git
from callboard.layers.awaiting import carry_out
from callboard.layers.records.attempt import AttemptResult, Leftover
from callboard.layers.records.state import Usage
from callboard.processes.identity import ProcessIdentity
from tests import repositories
from tests.board.building import refused
from tests.ended import ending
from tests.layers import trees
from tests.layers.attempting import Attempt
from tests.waiting import until

__all__ = ["ending"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


def carried_out(attempt: Attempt, *, stop: Event | None = None, **around: Any) -> AttemptResult:
    surroundings = attempt.around(**around)
    result = carry_out(attempt.layer, attempt.contract, attempt.task, surroundings, stop or Event())
    assert result is not None, "nobody asked to leave"
    return result


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


# --- what the harness gets ------------------------------------------------------------------------


def test_the_prompt_arrives_to_the_byte_and_arguments_are_replaced(
    root: Path, tmp_path: Path
) -> None:
    prompt = ("\"quoted\" 'single' `back` $HOME \\ ünï\r\n\t{prompt_file}\n" * 6000)[:200_000]
    code = (
        "import sys, json, os, pathlib; data = sys.stdin.buffer.read();"
        f"pathlib.Path({str(tmp_path / 'stdin')!r}).write_bytes(data);"
        f"pathlib.Path({str(tmp_path / 'facts')!r}).write_text(json.dumps("
        "[sys.argv[1:], os.getcwd(), dict(os.environ)]))"
    )
    attempt = Attempt(
        root, *python(code), "a {prompt_file} b", "--assignment={assignment}", "{other} {{}",
        "`x` $(y) 'z'", "", prompt=prompt, environment=("ALLOWED", "UNSET"),
    )  # fmt: skip
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/home/ada", "ALLOWED": "yes", "SECRET": "no"
    }  # fmt: skip
    result = carried_out(attempt, environment=environment)
    assert (result.classification, result.exit_code) == ("success", 0), result
    assert (tmp_path / "stdin").read_bytes() == prompt.encode()
    arguments, folder, found = json.loads((tmp_path / "facts").read_bytes())
    assert arguments == [
        f"a {attempt.path('prompt.md')} b", f"--assignment={attempt.path('assignment.json')}",
        "{other} {{}", "`x` $(y) 'z'", "",
    ]  # fmt: skip
    assert folder == str(root)
    mark = json.loads(attempt.path("process.json").read_bytes())["run_mark"]
    assert found.pop("CALLBOARD_RUN_ID") == mark
    found.pop("LC_CTYPE", None)
    assert found == {"PATH": os.environ["PATH"], "ALLOWED": "yes"}


def test_the_home_folder_is_given_where_it_is_listed(root: Path) -> None:
    attempt = Attempt(root, "sh", "-c", 'test "$HOME" = /home/ada', environment=("HOME",))
    result = carried_out(attempt, environment={**os.environ, "HOME": "/home/ada"})
    assert result.classification == "success"


def test_nothing_executes_before_its_process_is_on_record(root: Path) -> None:
    attempt = Attempt(root, "sh", "-c", 'test -f "${0%/*}/process.json"', "{prompt_file}")
    result = carried_out(attempt)
    assert result.classification == "success"
    found = json.loads(attempt.path("process.json").read_bytes())
    assert found["leader"]["pid"] != found["runner"]["pid"]


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "classification", "exit_code", "signal_number", "detail"),
    [
        (("true",), "success", 0, None, None),
        (("sh", "-c", "exit 1"), "deterministic", 1, None, None),
        (("sh", "-c", "exit 75"), "deterministic", 75, None, None),
        (("sh", "-c", "exit 9"), "transient", 9, None, None),
        (("sh", "-c", "kill -SEGV $$"), "crash", None, 11, None),
        (("no-such-program",), "deterministic", None, None, "ENOENT"),
        (("/etc/passwd",), "deterministic", None, None, "EACCES"),
    ],
)
def test_an_end_is_classified_mechanically(
    root: Path,
    command: tuple[str, ...],
    classification: str,
    exit_code: int | None,
    signal_number: int | None,
    detail: str | None,
) -> None:
    result = carried_out(Attempt(root, *command, transient_exit_codes=(9,)))
    found = (result.classification, result.exit_code, result.signal, result.detail)
    assert found == (classification, exit_code, signal_number, detail)


def test_a_harness_that_takes_too_long_is_ended(root: Path) -> None:
    attempt = Attempt(root, "sh", "-c", "trap '' TERM; while :; do sleep 60; done", timeout_s=1)
    result = carried_out(attempt)
    assert (result.classification, result.detail, result.signal) == ("crash", "timed_out", 9)
    assert result.survivors == ()
    # A second of its time, and one of grace.
    assert 2000 <= result.duration_ms < 30_000


def test_output_beyond_the_limit_is_drained_and_dropped(root: Path) -> None:
    code = "import sys; [sys.stdout.buffer.write(b'x' * 1_000_000) for _ in range(100)]"
    result = carried_out(Attempt(root, *python(code), log_limit_bytes=65_536))
    assert result.classification == "success"
    assert result.stdout is not None
    assert (result.stdout.kept_bytes, result.stdout.dropped_bytes) == (65_536, 99_934_464)


def test_what_is_printed_is_in_the_trace(root: Path) -> None:
    attempt = Attempt(root, "sh", "-c", "echo out; echo err >&2; exit 3")
    result = carried_out(attempt)
    assert attempt.traced("stdout.log").read_bytes() == b"out\n"
    assert attempt.traced("stderr.log").read_bytes() == b"err\n"
    assert result.stdout is not None
    assert (result.stdout.kept_bytes, result.stdout.dropped_bytes) == (4, 0)


def test_what_a_harness_forked_into_its_group_is_gone(root: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    attempt = Attempt(root, "sh", "-c", "trap '' TERM; sleep 600 & echo $! >\"$0\"", str(pid))
    result = carried_out(attempt)
    assert (result.classification, result.survivors) == ("success", ())
    assert not Path(f"/proc/{int(pid.read_text())}").exists()


def test_what_moved_to_a_session_of_its_own_is_named(
    root: Path, tmp_path: Path, ending: Callable[[int], ProcessIdentity]
) -> None:
    pid = tmp_path / "pid"
    code = (
        "import os, subprocess, pathlib;"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True, env={});"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))"
    )
    attempt = Attempt(root, *python(code))
    result = carried_out(attempt)
    ending(int(pid.read_text()))
    assert result.classification == "success"
    assert result.survivors == (Leftover(pid=int(pid.read_text()), name="sleep 600"),)


# --- what it used ---------------------------------------------------------------------------------


def reporting(root: Path, text: str, blanks: str = "0") -> AttemptResult:
    script = 'printf "%s%*s" "$1" "$2" "" >"${0%/*}/usage.json"'
    return carried_out(Attempt(root, "sh", "-c", script, "{prompt_file}", text, blanks))


def test_a_usage_report_is_taken_in(root: Path) -> None:
    result = reporting(root, '{"schema_version":1,"input_tokens":7,"cost_microusd":9}')
    assert result.usage == Usage(
        attempts=1, duration_ms=result.duration_ms, input_tokens=7, cost_microusd=9
    )
    assert result.notes == ()


@pytest.mark.parametrize(
    ("text", "blanks"),
    [
        ("", "0"),
        ("{", "0"),
        ('{"schema_version":1,"cost":1}', "0"),
        ('{"schema_version":1,"input_tokens":-1}', "0"),
        ('{"schema_version":1}', "70000"),
    ],
)
def test_a_usage_report_of_no_use_is_noted_and_ignored(root: Path, text: str, blanks: str) -> None:
    result = reporting(root, text, blanks)
    assert result.classification == "success"
    assert result.usage == Usage(attempts=1, duration_ms=result.duration_ms)
    assert len(result.notes) == 1
    assert result.notes[0].startswith("the usage report was no use: ")


def test_the_repository_is_told_before_and_after(root: Path) -> None:
    root.rmdir()
    repositories.repository(root)
    head = repositories.head(root)
    attempt = Attempt(root, "sh", "-c", "echo new >new")
    result = carried_out(attempt, git=Git(os.environ["PATH"]))
    assert result.git_before is not None
    assert result.git_after is not None
    assert (result.git_before.head, result.git_before.dirty) == (head, None)
    assert result.git_after.head == head
    assert result.git_after.dirty is not None
    assert json.loads(attempt.traced("git_before.json").read_bytes()) == {
        "head": head, "dirty": None
    }  # fmt: skip
    after = json.loads(attempt.traced("git_after.json").read_bytes())
    assert after["dirty"] == result.git_after.dirty


# --- nothing but what was frozen ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "assignment.json",
        "prompt.md",
        "workflow_snapshot/config.yaml",
        "workflow_snapshot/prompt.md",
    ],
)
def test_an_edited_attempt_executes_nothing(root: Path, tmp_path: Path, name: str) -> None:
    attempt = Attempt(root, "touch", str(tmp_path / "executed"))
    with attempt.path(name).open("ab") as stream:
        stream.write(b" ")
    result = carried_out(attempt)
    assert (result.classification, result.detail) == ("deterministic", "attempt_changed")
    assert result.notes[0].startswith(name)
    assert not (tmp_path / "executed").exists()


def test_a_runner_without_a_task_executes_nothing(root: Path, tmp_path: Path) -> None:
    attempt = Attempt(root, "touch", str(tmp_path / "executed"))
    trees.change(attempt.disk, attempt.layer, task=None)
    error = refused(carried_out, attempt)
    assert error.code == "runner_failed"
    assert "attempt_not_current" in error.message
    assert not (tmp_path / "executed").exists()
    assert not attempt.path("process.json").exists()


def test_a_runner_that_does_not_exist_is_refused(root: Path) -> None:
    attempt = Attempt(root, "true")
    assert refused(carried_out, attempt, runner=("/no/such",)).code == "runner_failed"
    assert refused(carried_out, attempt, runner=("true",)).code == "runner_failed"


def test_a_result_that_the_harness_wrote_itself_is_none(root: Path) -> None:
    forged = {
        "schema_version": 1, "attempt_id": "0001_planner", "classification": "success",
        "exit_code": 0, "signal": None, "detail": None, "duration_ms": 5, "stdout": None,
        "stderr": None, "survivors": [], "usage": {}, "git_before": None, "git_after": None,
        "ended_at_ms": 1,
    }  # fmt: skip
    script = 'printf %s "$1" >"${0%/*}/result.json"; mkdir "$2"; exit 4'
    attempt = Attempt(
        root, "sh", "-c", script, "{prompt_file}", json.dumps(forged),
        str(root / ".callboard/layers/traces/R/sessions/R/attempts/0001_planner/manifest.json"),
    )  # fmt: skip
    result = carried_out(attempt)
    assert (result.classification, result.exit_code) == ("deterministic", 4)
    assert carried_out(attempt) == result
    assert attempt.traced("manifest.json").is_file()


# --- stopping -------------------------------------------------------------------------------------


def test_a_stop_ends_the_harness_and_is_told(root: Path, tmp_path: Path) -> None:
    began = tmp_path / "began"
    attempt = Attempt(root, "sh", "-c", 'echo >"$0"; sleep 600', str(began))
    stop = Event()
    results: list[AttemptResult] = []
    waiter = Thread(target=lambda: results.append(carried_out(attempt, stop=stop)))
    waiter.start()
    until(began.exists)
    stop.set()
    waiter.join(30)
    assert (results[0].classification, results[0].detail) == ("crash", "stopped")
    assert results[0].signal == signal.SIGTERM


def test_a_stop_that_came_first_executes_nothing(root: Path, tmp_path: Path) -> None:
    attempt = Attempt(root, "touch", str(tmp_path / "executed"))
    stop = Event()
    stop.set()
    assert refused(carried_out, attempt, stop=stop).code == "attempt_interrupted"
    assert not attempt.path("process.json").exists()
    assert carried_out(attempt).classification == "success"
    assert (tmp_path / "executed").exists()


def test_a_command_that_nobody_finds_says_where_it_stands(root: Path) -> None:
    result = carried_out(Attempt(root, "no-such-program"))
    assert result.detail == "ENOENT"
    [note] = result.notes
    assert note.startswith("'no-such-program' cannot be started (ENOENT): put harness.command")
