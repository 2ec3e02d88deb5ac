"""One command from the gate to its end, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from callboard.errors import CallboardError
from callboard.processes import members
from callboard.processes.held import Command, Outcome, hold
from callboard.processes.identity import ProcessIdentity, look, of, state
from callboard.processes.members import RUN_MARK
from tests.processes import supervisor
from tests.waiting import until

Ending = Callable[[int], ProcessIdentity]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def command(place: Path, *argv: str) -> Command:
    return Command(
        argv=argv,
        env={"PATH": os.environ["PATH"]},
        cwd=place,
        stdout=place.parent / "stdout",
        stderr=place.parent / "stderr",
        timeout_s=60,
        grace_s=0.3,
    )


def shell(place: Path, script: str) -> Command:
    return command(place, "sh", "-c", script)


def escape(prefix: str = "") -> str:
    """A script that starts `sleep 601` in a session of its own and goes on once it is there."""
    inner = "echo $$ > escaped; exec sleep 601"
    return f"{prefix} setsid sh -c '{inner}' & while [ ! -s escaped ]; do sleep 0.01; done;"


def run(asked: Command, run_id: str, monotonic: Callable[[], float] = time.monotonic) -> Outcome:
    with hold(asked, run_id=run_id, monotonic=monotonic) as held:
        return held.run()


class LeapingClock:
    """A monotonic clock that leaps by a day, past any time limit, once a condition is true."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self._leapt_s = 0.0

    def __call__(self) -> float:
        if not self._leapt_s and self._condition():
            self._leapt_s = 86_400.0
        return time.monotonic() + self._leapt_s


def gone(pid: int) -> bool:
    facts = look(pid)
    return facts is None or facts.ended


def test_a_command_runs_with_its_own_environment_folder_and_input(place: Path, run_id: str) -> None:
    payload = place.parent / "assignment.json"
    # More than a pipe holds, with everything a shell would take for its own.
    payload.write_bytes(b"\"quotes\" 'and' `ticks` $(x)\n" * 7_500)
    asked = replace(
        shell(place, "pwd; env | sort; cat > copy; echo wrong >&2; exit 3"),
        env={"PATH": os.environ["PATH"], "MODE": "a b\nc"},
        stdin=payload,
    )
    outcome = run(asked, run_id)
    assert (outcome.ended, outcome.exit_code, outcome.signal) == ("exited", 3, None)
    assert (outcome.reason, outcome.survivors) == (None, ())
    lines = asked.stdout.read_text().splitlines()
    assert lines[0] == str(place)
    assert f"{RUN_MARK}={run_id}" in lines
    assert (place / "copy").read_bytes() == payload.read_bytes()
    own = {line.split("=")[0] for line in lines[1:] if "=" in line}
    assert own - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "MODE", RUN_MARK}
    assert asked.stderr.read_text() == "wrong\n"
    assert outcome.duration_ms >= 0
    json.dumps(outcome.document())


def test_without_input_it_finds_an_empty_one(place: Path, run_id: str) -> None:
    asked = command(place, "cat")
    assert run(asked, run_id).exit_code == 0
    assert asked.stdout.read_bytes() == b""


def test_a_command_has_a_session_and_default_signals(place: Path, run_id: str) -> None:
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        asked = command(place, "cat", "/proc/self/status", "/proc/self/stat")
        with hold(asked, run_id=run_id) as held:
            held.run()
            leader = held.identity.pid
    finally:
        signal.signal(signal.SIGTERM, previous)
    text = asked.stdout.read_text()
    status = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
    # The C library keeps signals 32 and 33 for itself; no program sets or reads them.
    settable = ~(1 << 31 | 1 << 32)
    assert int(status["SigIgn"], 16) & settable == 0
    assert int(status["SigBlk"], 16) & settable == 0
    group, session = text[text.rindex(")") :].split()[3:5]
    assert (int(group), int(session)) == (leader, leader)


def test_nothing_executes_before_the_word_to_go(place: Path, run_id: str) -> None:
    with hold(shell(place, "echo > ran"), run_id=run_id) as held:
        # It stands at the gate, asleep on the pipe: its identity is the one it will run under.
        until(lambda: psutil.Process(held.identity.pid).status() == psutil.STATUS_SLEEPING)
        assert state(held.identity) == "alive"
        assert held.identity == of(held.identity.pid)
        assert not (place / "ran").exists()
        assert held.run().exit_code == 0
    assert (place / "ran").exists()


def test_a_process_that_is_not_run_leaves_nothing(place: Path, run_id: str) -> None:
    with hold(shell(place, "echo > ran"), run_id=run_id) as held:
        identity = held.identity
    assert look(identity.pid) is None
    assert not (place / "ran").exists()
    with pytest.raises(CallboardError, match="process_start_failed"):
        held.run()
    held.request_stop()


def test_a_command_is_run_once(place: Path, run_id: str) -> None:
    with hold(shell(place, "echo >> ran"), run_id=run_id) as held:
        held.run()
        with pytest.raises(CallboardError, match="process_start_failed"):
            held.run()
    assert (place / "ran").read_text() == "\n"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-program",), "ENOENT"),
        (("./data",), "EACCES"),
        (("./bad",), "ENOEXEC"),
        ((), "invalid_argument"),
        (("echo", "a\0b"), "invalid_argument"),
    ],
)
def test_a_command_that_cannot_start_says_why(
    place: Path, run_id: str, argv: tuple[str, ...], reason: str
) -> None:
    (place / "data").write_text("x")
    (place / "bad").write_bytes(b"\x7fnot a program")
    (place / "bad").chmod(0o755)
    outcome = run(command(place, *argv), run_id)
    assert (outcome.ended, outcome.reason) == ("start_failed", reason)
    assert (outcome.exit_code, outcome.signal) == (None, None)


def test_a_missing_folder_or_used_log_is_refused(place: Path, run_id: str) -> None:
    with pytest.raises(CallboardError) as refused:
        hold(command(place / "missing", "true"), run_id=run_id)
    assert refused.value.code == "process_start_failed"
    assert refused.value.details == {"reason": "ENOENT"}
    (place / "log").touch()
    with pytest.raises(CallboardError) as refused:
        hold(replace(command(place, "true"), stderr=place / "log"), run_id=run_id)
    assert refused.value.details == {"reason": "EEXIST"}


def test_where_outcomes_of_children_are_discarded_nothing_is_started(
    place: Path, run_id: str
) -> None:
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(CallboardError, match="SIGCHLD"):
            hold(command(place, "true"), run_id=run_id)
    finally:
        signal.signal(signal.SIGCHLD, previous)


def test_a_program_in_the_folder_may_be_named_relatively(place: Path, run_id: str) -> None:
    (place / "tool").write_text("#!/bin/sh\necho here\n")
    (place / "tool").chmod(0o755)
    asked = command(place, "./tool")
    assert run(asked, run_id).exit_code == 0
    assert asked.stdout.read_text() == "here\n"


def test_a_command_killed_by_a_signal(place: Path, run_id: str) -> None:
    outcome = run(shell(place, "kill -SEGV $$"), run_id)
    assert (outcome.ended, outcome.exit_code, outcome.signal) == ("signalled", None, 11)


def test_output_is_capped_and_goes_on_being_drained(place: Path, run_id: str) -> None:
    asked = replace(shell(place, "yes | head -c 5000000; echo end >&2"), log_limit_bytes=100_000)
    outcome = run(asked, run_id)
    assert outcome.exit_code == 0
    assert (outcome.stdout.seen_bytes, outcome.stdout.kept_bytes) == (5_000_000, 100_000)
    assert (outcome.stdout.truncated, outcome.stderr.truncated) == (True, False)
    assert asked.stdout.stat().st_size == 100_000
    assert asked.stderr.read_text() == "end\n"


def test_the_time_limit_ends_group_and_tree(place: Path, run_id: str) -> None:
    # One in the group that obeys, one that does not, and one that moved to its own session.
    script = (
        "sleep 600 & echo $!; setsid sleep 600 & echo $!;(trap '' TERM; sleep 600) & echo $!; wait"
    )
    asked = shell(place, script)
    clock = LeapingClock(lambda: asked.stdout.read_text().count("\n") == 3)
    outcome = run(asked, run_id, clock)
    assert (outcome.ended, outcome.signal) == ("timed_out", 15)
    assert outcome.survivors == ()
    pids = [int(word) for word in asked.stdout.read_text().split()]
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)
    assert members.marked(run_id, members.everyone()) == []


def test_a_leader_that_ignores_term_is_killed_after_the_grace(place: Path, run_id: str) -> None:
    asked = shell(place, "trap '' TERM; echo up; while :; do read x; done")
    began = time.monotonic()
    outcome = run(asked, run_id, LeapingClock(lambda: asked.stdout.read_text() == "up\n"))
    assert (outcome.ended, outcome.signal) == ("timed_out", 9)
    assert time.monotonic() - began >= asked.grace_s


def test_a_leader_may_end_itself_in_the_grace_time(place: Path, run_id: str) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"
    asked = replace(shell(place, script), grace_s=60)
    outcome = run(asked, run_id, LeapingClock(lambda: asked.stdout.read_text() == "up\n"))
    assert (outcome.ended, outcome.exit_code) == ("timed_out", 7)
    assert asked.stdout.read_text() == "up\nbye\n"


def test_what_a_leader_leaves_behind_is_ended_or_named(
    place: Path, run_id: str, ending: Ending
) -> None:
    asked = shell(place, f"sleep 600 & echo $!; {escape()} exit 0")
    outcome = run(asked, run_id)
    assert (outcome.ended, outcome.exit_code) == ("exited", 0)
    assert gone(int(asked.stdout.read_text()))
    escaped = int((place / "escaped").read_text())
    ending(escaped)
    [survivor] = outcome.survivors
    assert survivor.pid == escaped
    assert "sleep 601" in survivor.command
    facts = look(escaped)
    assert facts is not None
    assert survivor.started == facts.started
    assert set(survivor.document()) == {"pid", "started", "command"}
    assert outcome.document()["survivors"] == [survivor.document()]


def test_what_a_leader_that_failed_leaves_behind_is_ended(place: Path, run_id: str) -> None:
    outcome = run(shell(place, f"{escape()} exit 3"), run_id)
    assert (outcome.ended, outcome.exit_code, outcome.survivors) == ("exited", 3, ())
    assert gone(int((place / "escaped").read_text()))


def test_a_stopped_member_of_the_group_does_not_outlive_it(place: Path, run_id: str) -> None:
    asked = shell(place, "sleep 600 & kill -STOP $!; echo $!; exit 0")
    assert run(asked, run_id).survivors == ()
    assert gone(int(asked.stdout.read_text()))


def test_a_survivor_that_goes_on_writing_does_not_hold_the_run(place: Path, run_id: str) -> None:
    outcome = run(shell(place, "setsid yes & exit 0"), run_id)
    assert outcome.exit_code == 0
    # Its pipe is closed now, so it has ended by itself or is named.
    assert {survivor.command for survivor in outcome.survivors} <= {"yes"}
    until(lambda: members.marked(run_id, members.everyone()) == [])


def test_a_run_can_be_stopped_from_a_thread(place: Path, run_id: str) -> None:
    asked = shell(place, "echo up; sleep 600")
    with hold(asked, run_id=run_id) as held:

        def stop() -> None:
            until(lambda: asked.stdout.read_text() == "up\n")
            held.request_stop()

        thread = threading.Thread(target=stop)
        thread.start()
        outcome = held.run()
        thread.join()
    assert (outcome.ended, outcome.signal) == ("stopped", 15)


def test_an_error_on_the_way_leaves_nothing_running(place: Path, run_id: str) -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    with hold(command(place, "sleep", "600"), run_id=run_id, monotonic=interrupted) as held:
        with pytest.raises(KeyboardInterrupt):
            held.run()
        assert look(held.identity.pid) is None


def test_descriptors_are_given_back(place: Path, run_id: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        asked = command(place, "true")
        run(replace(asked, stdout=place / f"out{number}", stderr=place / f"err{number}"), run_id)
        with hold(
            replace(asked, stdout=place / f"o{number}", stderr=place / f"e{number}"), run_id=run_id
        ):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


# --- supervisors that die, or are the first process of a namespace --------------------------------


@contextmanager
def supervised(
    folder: Path, run_id: str, mode: str, *argv: str, prefix: tuple[str, ...] = (), adopt: str = ""
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A supervisor process with its command at the gate, and the leader's pid as it sees it."""
    with subprocess.Popen(
        [*prefix, sys.executable, supervisor.__file__, str(folder), run_id, mode, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ADOPT": adopt},
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_a_supervisor_that_dies_before_the_word_leaves_nothing_executed(
    place: Path, run_id: str
) -> None:
    with supervised(place, run_id, "held", "sh", "-c", "echo > ran") as (process, leader):
        process.kill()
        process.wait()
        until(lambda: gone(leader))
    assert not (place / "ran").exists()


def test_the_leader_dies_with_its_supervisor(place: Path, run_id: str) -> None:
    with supervised(place, run_id, "running", "sh", "-c", "echo up; exec sleep 600") as (
        process,
        leader,
    ):
        go(process)
        until(lambda: (place / "stdout").read_text() == "up\n")
        assert not gone(leader)
        process.kill()
        process.wait()
        until(lambda: gone(leader))


def test_a_signal_handler_may_stop_the_run(place: Path, run_id: str) -> None:
    with supervised(place, run_id, "running", "sh", "-c", "echo up; exec sleep 600") as (
        process,
        _leader,
    ):
        go(process)
        until(lambda: (place / "stdout").read_text() == "up\n")
        process.terminate()
        assert process.stdout is not None
        outcome = json.loads(process.stdout.readline())
    assert (outcome["ended"], outcome["signal"]) == ("stopped", 15)


def test_an_adopting_supervisor_sees_also_what_wiped_its_environment(
    place: Path, run_id: str, ending: Ending
) -> None:
    script = f"{escape('env -i')} exit 0"
    with supervised(place, run_id, "running", "sh", "-c", script, adopt="1") as (process, _):
        go(process)
        assert process.stdout is not None
        outcome = json.loads(process.stdout.readline())
    escaped = int((place / "escaped").read_text())
    ending(escaped)
    assert [one["pid"] for one in outcome["survivors"]] == [escaped]


def new_pid_namespace() -> tuple[str, ...] | None:
    """A command prefix that makes the next program process 1 of a namespace, where allowed."""
    mounted = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    for prefix in (mounted, (*mounted, "--user", "--map-root-user")):
        try:
            done = subprocess.run([*prefix, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            return None
        if done.returncode == 0:
            return prefix
    return None


NAMESPACE = new_pid_namespace()


@pytest.mark.skipif(NAMESPACE is None, reason="this system lets nobody here make a pid namespace")
def test_the_first_process_of_a_namespace_supervises_and_leaves_no_zombies(
    place: Path, run_id: str
) -> None:
    assert NAMESPACE is not None
    # Members that end in the group come to process 1, which has to ask for their outcome.
    script = f"sleep 600 & (sleep 600 & sleep 600 & exit 0); {escape()} exit 0"
    with supervised(place, run_id, "running", "sh", "-c", script, prefix=NAMESPACE) as (
        process,
        leader,
    ):
        assert leader < 100
        go(process)
        assert process.stdout is not None
        outcome = json.loads(process.stdout.readline())
    assert (outcome["ended"], outcome["exit_code"]) == ("exited", 0)
    escaped = int((place / "escaped").read_text())
    assert [one["pid"] for one in outcome["survivors"]] == [escaped]
    assert outcome["zombies"] == []
