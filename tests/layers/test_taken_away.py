"""What a harness takes away of its own attempt changes nothing about how, or how often, it ran."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from callboard.errors import CallboardError
from callboard.layers import tree, user_stop
from callboard.layers.awaiting import carry_out
from callboard.layers.records.attempt import AttemptResult
from callboard.processes import members
from callboard.processes.identity import of, state
from tests.ambient import ROOT
from tests.board.building import refused
from tests.layers.attempting import Attempt
from tests.waiting import until

OWN = 'D=${0%/*}; echo ran >>"$1"; '


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


@pytest.fixture
def made(root: Path, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    (tmp_path / "go").touch()
    for process in processes:
        process.kill()
        process.communicate()
    for facts in members.living(members.everyone()):
        if str(root) in members.words_of(facts):
            members.send(facts, signal.SIGKILL)


def acting(root: Path, tmp_path: Path, script: str) -> Attempt:
    """An attempt whose harness notes that it runs, and does `script` with its folder in $D."""
    words = ("{prompt_file}", str(tmp_path / "ran"), str(tmp_path / "go"))
    return Attempt(root, "sh", "-c", OWN + script, *words)


def carried_out(attempt: Attempt, stop: Event | None = None) -> AttemptResult:
    around = attempt.around(environment={**os.environ, "PYTHONPATH": str(ROOT)})
    result = carry_out(attempt.layer, attempt.contract, attempt.task, around, stop or Event())
    assert result is not None, "nobody asked to leave"
    return result


def executions(tmp_path: Path) -> int:
    ran = tmp_path / "ran"
    return ran.read_text().count("ran\n") if ran.exists() else 0


@pytest.mark.parametrize(
    "script",
    [
        'rm -r "$D"',
        'rm -r "${D%/*}"',
        'rm "$D/process.json"',
        'echo "{}" >"$D/process.json"',
        'rm "$D/process.json"; mkdir "$D/process.json"',
        'mv "$D" "$1.moved"; ln -s "$1.moved" "$D"',
        'rm -r "$D"; echo >"$D"',
    ],
)
def test_the_result_and_its_record_are_where_they_belong(
    root: Path, tmp_path: Path, script: str
) -> None:
    attempt = acting(root, tmp_path, script)
    result = carried_out(attempt)
    assert (result.classification, result.exit_code) == ("success", 0)
    assert "its process.json was changed or taken away while it ran, and is put back" in (
        result.notes
    )
    assert json.loads(attempt.path("process.json").read_bytes())["attempt_id"] == "0001_planner"
    assert not attempt.path("result.json").parent.is_symlink()
    assert carried_out(attempt) == result
    assert executions(tmp_path) == 1


@pytest.mark.parametrize("name", ["assignment.json", "prompt.md", "workflow_snapshot/config.yaml"])
def test_what_a_harness_did_to_what_it_was_given_is_noted(
    root: Path, tmp_path: Path, name: str
) -> None:
    result = carried_out(acting(root, tmp_path, f'echo >>"$D/{name}"'))
    assert result.classification == "success"
    [note] = result.notes
    assert note.startswith(f"while it ran, {name} of the attempt 0001_planner is not as it was")


def test_folders_of_the_layer_that_are_gone_keep_no_trace_from_being_sealed(
    root: Path, tmp_path: Path
) -> None:
    attempt = acting(root, tmp_path, 'rm -r "${D%/*/*}/trace_seals"')
    assert carried_out(attempt).notes == ()
    assert attempt.disk.names(attempt.layer.file("trace_seals")) == ["0001_planner.json"]


def test_a_layer_that_was_taken_away_is_missing_and_not_made_up(root: Path, tmp_path: Path) -> None:
    attempt = acting(root, tmp_path, 'rm -r "${D%/*/*}"')
    assert refused(carried_out, attempt).code == "layer_missing"
    assert executions(tmp_path) == 1
    assert not attempt.disk.path(attempt.layer.place).exists()


def waiting(root: Path, tmp_path: Path, script: str) -> Attempt:
    return acting(
        root, tmp_path, f'{script}; echo $PPID >"$1.pid"; until [ -e "$2" ]; do sleep 0.02; done'
    )


def at_work(tmp_path: Path) -> int:
    """The runner of a harness that is at work."""
    told = tmp_path / "ran.pid"
    until(lambda: told.exists() and told.read_text().endswith("\n"))
    return int(told.read_text())


def coordinated(attempt: Attempt) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.layers.coordinator", str(attempt.disk.root)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    "script", ['rm -r "$D"', 'rm "$D/process.json"', 'echo >"$D/process.json"']
)
def test_a_runner_without_a_record_is_awaited_by_the_next_coordinator(
    root: Path, tmp_path: Path, script: str, made: list[subprocess.Popen[bytes]]
) -> None:
    attempt = waiting(root, tmp_path, script)
    made.append(coordinated(attempt))
    runner = of(at_work(tmp_path))
    assert runner is not None
    made[0].kill()
    made[0].wait()
    made.append(coordinated(attempt))
    with pytest.raises(subprocess.TimeoutExpired):
        made[1].wait(1.5)
    assert state(runner) == "alive"
    (tmp_path / "go").touch()
    assert made[1].communicate(timeout=30)[0] == b"success\n"
    assert executions(tmp_path) == 1


@pytest.mark.parametrize("script", ['rm -r "$D"', 'rm "$D/process.json"'])
def test_without_runner_and_record_nothing_is_executed_once_more(
    root: Path, tmp_path: Path, script: str, made: list[subprocess.Popen[bytes]]
) -> None:
    attempt = waiting(root, tmp_path, script)
    made.append(coordinated(attempt))
    runner = at_work(tmp_path)
    for pid in (made[0].pid, runner):
        os.kill(pid, signal.SIGKILL)
    made[0].wait()
    until(lambda: state_of(runner) in ("", "Z"))
    result = carried_out(attempt)
    assert (result.classification, result.detail) == ("unknown", "runner_died")
    assert result.notes == ("it had begun, and its process.json was taken away",)
    assert carried_out(attempt) == result
    assert executions(tmp_path) == 1


def state_of(pid: int) -> str:
    """What the kernel calls it; empty for a process that is no more."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_who_is_sure_that_an_attempt_is_over_takes_its_record_away(
    root: Path, tmp_path: Path, made: list[subprocess.Popen[bytes]]
) -> None:
    """The way out of `attempt_undecided`, as its hint names it."""
    attempt = waiting(root, tmp_path, ":")
    made.append(coordinated(attempt))
    runner = at_work(tmp_path)
    record = attempt.path("process.json")
    process = json.loads(record.read_bytes())
    for pid in (made[0].pid, runner):
        os.kill(pid, signal.SIGKILL)
    process["runner"]["host"] = "elsewhere"
    record.write_text(json.dumps(process))
    undecided = refused(carried_out, attempt)
    assert undecided.code == "attempt_undecided"
    assert f"remove {attempt.place}/process.json" in undecided.hint
    record.unlink()
    assert carried_out(attempt).classification == "unknown"
    assert executions(tmp_path) == 1


def test_a_runner_that_stands_still_hears_of_a_stop(root: Path, tmp_path: Path) -> None:
    attempt = acting(root, tmp_path, "kill -STOP $PPID; sleep 600")

    class Later(Event):
        """Set once the runner stands still."""

        def is_set(self) -> bool:
            found = attempt.path("process.json")
            if found.exists() and executions(tmp_path):
                pid = json.loads(found.read_bytes())["runner"]["pid"]
                if state_of(pid) == "T":
                    self.set()
            return super().is_set()

    result = carried_out(attempt, Later())
    assert (result.classification, result.detail) == ("crash", "stopped")


@pytest.mark.parametrize("at_once", [False, True])
def test_in_a_tree_that_is_to_end_nothing_is_begun(
    root: Path, tmp_path: Path, at_once: bool
) -> None:
    attempt = acting(root, tmp_path, ":")
    user_stop.ask(attempt.around(), tree.root(attempt.disk), "enough", at_once=at_once)
    result = carried_out(attempt)
    assert (result.classification, result.detail) == ("crash", "stopped")
    assert result.notes == ("nothing of it was executed, as the tree was asked to end: enough",)
    assert executions(tmp_path) == 0


def test_no_room_for_temporary_files_is_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    error = refused(carried_out, acting(root, tmp_path, ":"))
    assert (error.code, executions(tmp_path)) == ("storage_failed", 0)
    assert "$TMPDIR" in error.hint


def test_a_lost_attempts_folder_is_no_place_for_a_link(root: Path, tmp_path: Path) -> None:
    attempt = acting(root, tmp_path, ":")
    folder = attempt.path("prompt.md").parent.parent
    shutil.move(folder, tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(CallboardError) as found:
        carried_out(attempt)
    assert found.value.code == "path_invalid"
    assert executions(tmp_path) == 0
