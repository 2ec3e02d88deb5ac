"""The host's run registry, also under many processes at once."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.board.execution.hosts.local.registry import RunRegistry, new_run_id
from callboard.board.execution.hosts.local.registry_file import FILE_NAME
from callboard.errors import CallboardError
from callboard.processes.identity import current
from tests.board.execution.hosts.local import racer
from tests.board.execution.hosts.local.racer import prepare

PROCESSES = 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "callboard"


@pytest.fixture
def registry(folder: Path) -> Iterator[RunRegistry]:
    registry = RunRegistry(folder)
    yield registry
    registry.close()


@pytest.fixture
def sender(registry: RunRegistry) -> str:
    return registry.register_dispatcher(current(), now_ms=1)


def finish(registry: RunRegistry, run_id: str, conclusion: str = "success") -> str:
    return registry.finish(
        run_id, conclusion=conclusion, exit_code=0, signal=None, survivors=[], now_ms=30
    )


def raw(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / FILE_NAME, isolation_level=None)


def test_run_ids_are_decimals_of_128_random_bits() -> None:
    numbers = [new_run_id() for _ in range(1_000)]
    assert len(set(numbers)) == 1_000
    assert all(text == str(int(text)) and 0 < int(text) < 2**128 for text in numbers)
    # Half of them have the highest bit; 300 or fewer would be a wonder.
    assert sum(int(text) >= 2**127 for text in numbers) > 300


def test_the_file_is_private_durable_and_survives(folder: Path, registry: RunRegistry) -> None:
    run_id = registry.register_dispatcher(current(), now_ms=7)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # While the connection is open, the write-ahead log lies beside the file.
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {FILE_NAME: 0o600, f"{FILE_NAME}-wal": 0o600, f"{FILE_NAME}-shm": 0o600}
    registry.close()
    found = RunRegistry(folder).dispatcher(run_id)
    assert found is not None
    assert (found.run_id, found.identity, found.registered_ms) == (run_id, current(), 7)
    assert registry.dispatcher("12") is None


def test_loose_permissions_are_tightened(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    (folder / FILE_NAME).touch(mode=0o644)
    registry = RunRegistry(folder)
    registry.register_dispatcher(current(), now_ms=1)
    registry.close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600


def test_a_run_from_prepared_to_ended(registry: RunRegistry, sender: str) -> None:
    run = prepare(registry, sender)
    assert (run.state, run.sender_run_id, run.workspace) == ("prepared", sender, Path("/runs/1"))
    assert registry.find("r", "d_1") == run
    assert registry.by_run(run.run_id) == run
    assert registry.list_open() == [run]

    supervisor = current()
    assert registry.claim_running(run.run_id, "d_1", supervisor, now_ms=11)
    assert not registry.claim_running(run.run_id, "d_1", supervisor, now_ms=12)
    setup = dataclasses.replace(supervisor, pid=4)
    command = dataclasses.replace(supervisor, pid=5)
    registry.record_worker(run.run_id, setup)
    registry.record_worker(run.run_id, command)
    running = registry.by_run(run.run_id)
    assert running is not None
    assert (running.state, running.supervisor, running.running_ms) == ("running", supervisor, 11)
    assert running.workers == (setup, command)
    assert running.worker == command

    survivors = [{"pid": 9, "started": 8, "command": "sleep 600"}]
    answer = registry.finish(
        run.run_id, conclusion="failure", exit_code=None, signal=9, survivors=survivors, now_ms=20
    )
    assert answer == "ended"
    ended = registry.by_run(run.run_id)
    assert ended is not None
    assert (ended.state, ended.ended_ms, ended.conclusion) == ("ended", 20, "failure")
    assert (ended.exit_code, ended.signal, list(ended.survivors)) == (None, 9, survivors)
    assert registry.list_open() == []

    assert finish(registry, run.run_id, "success") == "already_ended"
    assert registry.by_run(run.run_id) == ended


def test_a_dispatch_has_one_run_and_other_repositories_their_own(
    registry: RunRegistry, sender: str
) -> None:
    run = prepare(registry, sender)
    with pytest.raises(CallboardError) as refused:
        prepare(registry, sender)
    assert refused.value.code == "run_exists"
    assert refused.value.details["run_id"] == run.run_id
    assert registry.find("other", "d_1") is None
    assert registry.void("other", "d_1", sender, now_ms=5) == "voided"
    assert registry.list_open("r") == [run]
    assert registry.list_open("other") == []


def test_only_a_registered_dispatcher_may_prepare(registry: RunRegistry) -> None:
    with pytest.raises(CallboardError, match="sender_unknown"):
        prepare(registry, "12345")


def test_void_of_a_prepared_run_keeps_it_from_ever_running(
    registry: RunRegistry, sender: str
) -> None:
    run = prepare(registry, sender)
    assert registry.void("r", "d_1", sender, now_ms=11) == "voided"
    assert registry.void("r", "d_1", sender, now_ms=12) == "already_void"
    assert not registry.claim_running(run.run_id, "d_1", current(), now_ms=13)
    found = registry.by_run(run.run_id)
    assert found is not None
    assert (found.state, found.void_ms) == ("void", 11)
    for call in (finish, lambda on, run_id: on.record_worker(run_id, current())):
        with pytest.raises(CallboardError, match="run_not_running"):
            call(registry, run.run_id)


def test_void_without_a_run_is_a_fence_for_a_sender_of_this_host(
    registry: RunRegistry, sender: str
) -> None:
    assert registry.void("r", "d_1", sender, now_ms=11) == "voided"
    with pytest.raises(CallboardError) as refused:
        prepare(registry, sender)
    assert refused.value.code == "run_exists"
    assert refused.value.details["state"] == "void"


def test_void_proves_nothing_about_senders_of_other_hosts(
    registry: RunRegistry, sender: str
) -> None:
    assert registry.void("r", "d_1", "98765", now_ms=11) == "unknown"
    assert registry.find("r", "d_1") is None
    run = prepare(registry, sender)
    other = registry.register_dispatcher(current(), now_ms=2)
    assert registry.void("r", "d_1", other, now_ms=11) == "unknown"
    assert registry.by_run(run.run_id) == run


def test_void_leaves_what_runs_or_ran(registry: RunRegistry, sender: str) -> None:
    run = prepare(registry, sender)
    registry.claim_running(run.run_id, "d_1", current(), now_ms=11)
    assert registry.void("r", "d_1", sender, now_ms=12) == "running"
    finish(registry, run.run_id)
    assert registry.void("r", "d_1", sender, now_ms=13) == "ended"


def test_a_claim_matches_run_and_dispatch(registry: RunRegistry, sender: str) -> None:
    run = prepare(registry, sender)
    assert not registry.claim_running(run.run_id, "d_2", current(), now_ms=11)
    assert not registry.claim_running("1", "d_1", current(), now_ms=11)
    assert registry.claim_running(run.run_id, "d_1", current(), now_ms=11)


def test_an_unknown_run_is_named(registry: RunRegistry) -> None:
    assert registry.by_run("1") is None
    with pytest.raises(CallboardError, match="run_missing"):
        finish(registry, "1")
    with pytest.raises(CallboardError, match="run_missing"):
        registry.note("1", "x", now_ms=1)


def test_notes_are_kept_in_order_and_within_bounds(registry: RunRegistry, sender: str) -> None:
    run = prepare(registry, sender)
    for number in range(102):
        registry.note(run.run_id, f"{number} " + "x" * 2_000, now_ms=number)
    found = registry.by_run(run.run_id)
    assert found is not None
    assert len(found.notes) == 100
    assert found.notes[3]["at_ms"] == 3
    assert len(str(found.notes[3]["text"])) == 1_000


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM worker_run",
        "DELETE FROM dispatcher_run",
        "UPDATE dispatcher_run SET registered_ms = 0",
        "UPDATE worker_run SET state = 'prepared', void_ms = NULL",
        "UPDATE worker_run SET state = 'running', supervisor = '{}'",
        "UPDATE worker_run SET dispatch_id = 'd_9'",
        "UPDATE worker_run SET state = 'lost'",
    ],
)
def test_the_tables_themselves_refuse_to_lose_evidence(
    folder: Path, registry: RunRegistry, sender: str, statement: str
) -> None:
    prepare(registry, sender)
    registry.void("r", "d_1", sender, now_ms=2)
    before = registry.find("r", "d_1")
    database = raw(folder)
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(statement)
    database.close()
    assert registry.find("r", "d_1") == before


def test_a_busy_registry_is_refused_and_nothing_written(folder: Path, sender: str) -> None:
    database = raw(folder)
    database.execute("BEGIN IMMEDIATE")
    hurried = RunRegistry(folder, busy_timeout_s=0.05)
    assert hurried.find("r", "d_1") is None
    with pytest.raises(CallboardError, match="registry_busy"):
        prepare(hurried, sender)
    database.execute("ROLLBACK")
    database.close()
    assert prepare(hurried, sender).state == "prepared"
    hurried.close()


def test_a_damaged_file_is_refused_and_left_as_it_is(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / FILE_NAME).write_bytes(b"not a database" * 1_000)
    with pytest.raises(CallboardError, match="registry_invalid"):
        RunRegistry(folder).list_open()
    assert (folder / FILE_NAME).read_bytes() == b"not a database" * 1_000


def test_a_newer_or_foreign_file_is_refused(folder: Path, registry: RunRegistry) -> None:
    registry.list_open()
    registry.close()
    database = raw(folder)
    database.execute("PRAGMA user_version = 2")
    with pytest.raises(CallboardError, match="registry_newer"):
        registry.list_open()
    database.execute("PRAGMA application_id = 1")
    with pytest.raises(CallboardError, match="registry_invalid"):
        registry.list_open()
    database.close()


def test_a_link_in_place_of_folder_or_file_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CallboardError, match="registry_unusable"):
        RunRegistry(tmp_path / "link").list_open()
    folder.mkdir(parents=True)
    (folder / FILE_NAME).symlink_to(tmp_path / "elsewhere" / "file")
    with pytest.raises(CallboardError, match="registry_unusable"):
        RunRegistry(folder).list_open()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_threads_may_share_one_registry(registry: RunRegistry, sender: str) -> None:
    answers: list[str] = []

    def attempt(number: int) -> None:
        try:
            answers.append(prepare(registry, sender, f"d_{number % 5}").state)
        except CallboardError as error:
            answers.append(error.code)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(answers) == {"prepared": 5, "run_exists": 15}


def race(folder: Path, moves: list[list[list[str]]], sender: str) -> list[list[object]]:
    """Let one process each make its moves, all from the same moment; their answers."""
    started = []
    for own in moves:
        process = subprocess.Popen(
            [sys.executable, racer.__file__, str(folder), sender, json.dumps(own)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    answers = []
    for process in started:
        with process:
            assert process.stdout is not None
            answers.append(json.loads(process.stdout.read()))
        assert process.returncode == 0
    return answers


def test_eight_processes_make_the_registry_at_once(folder: Path) -> None:
    answers = race(folder, [[["void", "d_1", ""]]] * PROCESSES, "1")
    assert answers == [["unknown"]] * PROCESSES


def test_of_eight_processes_one_prepares(folder: Path, registry: RunRegistry, sender: str) -> None:
    dispatches = [f"d_{number}" for number in range(20)]
    # Each process comes with run ids of its own, so the winner can be told.
    moves = [
        [["prepare", dispatch, f"{process + 1}{at:03}"] for at, dispatch in enumerate(dispatches)]
        for process in range(PROCESSES)
    ]
    answers = race(folder, moves, sender)
    for at, dispatch in enumerate(dispatches):
        said = [answer[at] for answer in answers]
        winners = [text for text in said if text != "run_exists"]
        found = registry.find("r", dispatch)
        assert found is not None
        assert winners == [found.run_id]
    assert len(registry.list_open()) == len(dispatches)


def test_of_eight_processes_one_runs_or_one_voids(
    folder: Path, registry: RunRegistry, sender: str
) -> None:
    runs = [prepare(registry, sender, f"d_{number}") for number in range(20)]
    claims = [["claim", run.dispatch_id, run.run_id] for run in runs]
    voids = [["void", run.dispatch_id, run.run_id] for run in runs]
    answers = race(folder, [claims, voids] * (PROCESSES // 2), sender)
    for at, run in enumerate(runs):
        said = Counter(str(answer[at]) for answer in answers)
        found = registry.by_run(run.run_id)
        assert found is not None
        if found.state == "running":
            assert said == {"True": 1, "False": 3, "running": 4}
        else:
            assert found.state == "void"
            assert said == {"False": 4, "voided": 1, "already_void": 3}


def test_of_eight_processes_one_prepares_or_one_fences(
    folder: Path, registry: RunRegistry, sender: str
) -> None:
    dispatches = [f"d_{number}" for number in range(20)]
    prepares = [["prepare", dispatch, f"9{at:03}"] for at, dispatch in enumerate(dispatches)]
    voids = [["void", dispatch, ""] for dispatch in dispatches]
    answers = race(folder, [prepares, voids] * (PROCESSES // 2), sender)
    for at, dispatch in enumerate(dispatches):
        said = Counter(str(answer[at]) for answer in answers)
        found = registry.find("r", dispatch)
        assert found is not None
        # Voided in the end either way: before the launch was prepared, or after.
        assert found.state == "void"
        assert (said["voided"], said["already_void"]) == (1, 3)
        assert said[f"9{at:03}"] + said["run_exists"] == 4
        assert said[f"9{at:03}"] == (1 if found.run_id == f"9{at:03}" else 0)


def test_of_eight_processes_one_finishes(folder: Path, registry: RunRegistry, sender: str) -> None:
    runs = [prepare(registry, sender, f"d_{number}") for number in range(10)]
    for run in runs:
        registry.claim_running(run.run_id, run.dispatch_id, current(), now_ms=2)
    moves = [["finish", run.dispatch_id, run.run_id] for run in runs]
    answers = race(folder, [moves] * PROCESSES, sender)
    for at in range(len(runs)):
        said = Counter(answer[at] for answer in answers)
        assert said == {"ended": 1, "already_ended": PROCESSES - 1}


def test_a_killed_writer_leaves_the_registry_whole(
    folder: Path, registry: RunRegistry, sender: str
) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from callboard.board.execution.hosts.local.registry import RunRegistry\n"
        "registry = RunRegistry(Path(sys.argv[1]))\n"
        "with registry._writing() as database:\n"
        "    database.execute(\"UPDATE worker_run SET state = 'void', void_ms = 1\")\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = prepare(registry, sender)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], env=environment, check=False
    )
    assert done.returncode == -9
    assert registry.by_run(run.run_id) == run
    assert registry.claim_running(run.run_id, "d_1", current(), now_ms=2)


def test_a_forked_child_opens_a_connection_of_its_own(
    folder: Path, registry: RunRegistry, sender: str
) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from callboard.processes.identity import current\n"
        "from callboard.board.execution.hosts.local.registry import RunRegistry\n"
        "registry = RunRegistry(Path(sys.argv[1]))\n"
        "registry.register_dispatcher(current(), now_ms=1)\n"
        "child = os.fork()\n"
        "registry.register_dispatcher(current(), now_ms=2)\n"
        "if child:\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(folder)], env=environment, check=True)
    registry.close()
    database = raw(folder)
    count = database.execute("SELECT count(*) FROM dispatcher_run").fetchone()[0]
    assert (count, database.execute("PRAGMA integrity_check").fetchone()[0]) == (4, "ok")
    database.close()
