"""The server as a process: its pipes, its end, what it starts with, and what it never loads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from callboard.board.outputs.context import write_context
from callboard.surfaces.mcp.answers import MAX_LINE_BYTES
from callboard.surfaces.mcp.wire import MAX_REQUEST_BYTES, Requests, TooLong, write_all
from tests.ambient import ROOT
from tests.board.outputs import scene
from tests.board.outputs.test_context import context
from tests.board.reading.staged_board import StagedBoard, node
from tests.repositories import git
from tests.surfaces.cli.conftest import Person, environment, person
from tests.surfaces.mcp.agents import READERS, SERVER, Desk, talk
from tests.waiting import until

__all__ = ["person"]

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int | str, tool: str = "work_queue_read", /, **arguments: Any) -> dict[str, Any]:
    """A request of a tool."""
    parameters = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}


def lines(*messages: Any) -> bytes:
    return b"".join(
        one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in messages
    )


def start(*words: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [*SERVER, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(env or {})},
        **{**streams, **more},
    )


def exchange(process: subprocess.Popen[bytes], data: bytes) -> tuple[list[Any], str]:
    """What the server said until its end; every line of it is JSON-RPC."""
    out, err = process.communicate(data, timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in answers)
    assert all(len(line) <= MAX_LINE_BYTES for line in out.splitlines())
    return answers, err.decode()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    board = StagedBoard()
    board.submit(*(node(f"n{number}", payload={"text": "x" * 2_000}) for number in range(100)))
    return Desk(tmp_path / "desk").worker(board.view(), scene.assignment(scene.BOTH))


# --- nothing but JSON-RPC ------------------------------------------------------------------------


def test_every_line_is_json_rpc_however_noisy_the_process_is(person: Person) -> None:
    person.submit()
    noisy = {
        **environment(person),
        "PYTHONWARNINGS": "always",
        "PYTHONDEVMODE": "1",
        "PYTHONASYNCIODEBUG": "1",
        "PYTHONVERBOSE": "1",
        "CALLBOARD_DEBUG": "1",
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_METRICS_EXPORTER": "console",
        "GIT_TRACE": "1",
    }
    answers, err = exchange(
        start(env=noisy, cwd=person.folder), lines(HELLO, READY, call(2), call(3, "nonsense"))
    )
    assert [one["id"] for one in answers] == [1, 2, 3]
    assert answers[1]["result"]["structuredContent"]["count"] == 3
    assert answers[2]["result"]["isError"] is True
    assert "import" in err


def test_prints_children_and_warnings_miss_the_wire(tmp_path: Path) -> None:
    program = (
        "import logging, os, subprocess, sys, warnings\n"
        "from callboard.surfaces.mcp.wire import take_standard_streams, write_all\n"
        "reading, writing = take_standard_streams()\n"
        "print('printed', flush=True)\n"
        "os.write(1, b'written\\n')\n"
        "sys.__stdout__.write('kept\\n'); sys.__stdout__.flush()\n"
        "warnings.warn('warned')\n"
        "logging.basicConfig(stream=sys.stdout, level=0); logging.debug('logged')\n"
        "subprocess.run(['sh', '-c', 'echo child; cat'], check=True)\n"
        "subprocess.run(['git', 'no-such-command'])\n"
        "write_all(writing, b'{}\\n')\n"
        "assert os.read(reading, 10) == b'asked\\n'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input=b"asked\n",
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"{}\n"
    for word in (b"printed", b"written", b"kept", b"warned", b"logged", b"child", b"git"):
        assert word in done.stderr


# --- its end -------------------------------------------------------------------------------------


def test_it_ends_at_once_where_nobody_asks_anything(person: Person, desk: Desk) -> None:
    for words, options in (([], {"cwd": person.folder}), (desk.words, {})):
        begun = time.monotonic()
        process = start(*words, env=environment(person), stdin=subprocess.DEVNULL, **options)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")
        assert time.monotonic() - begun < 2


def test_it_ends_with_the_pipe_of_its_client(desk: Desk) -> None:
    process = start(*desk.words)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(HELLO, READY, call(2)))
    process.stdin.flush()
    assert [json.loads(process.stdout.readline())["id"] for _answer in range(2)] == [1, 2]
    process.stdin.write(b'{"jsonrpc":"2.0","id":3,"meth')
    begun = time.monotonic()
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 0
    assert time.monotonic() - begun < 2


CLIENT = """
import json, subprocess, sys
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(bytes.fromhex(sys.argv[1]))
server.stdin.flush()
print(server.pid, flush=True)
server.stdout.readline()
print("answered", flush=True)
server.wait()
"""


@contextlib.contextmanager
def killed(pid: int) -> Iterator[None]:
    """Whatever happens, nothing of the test is left."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_it_is_gone_soon_after_its_client_is_killed_during_calls(desk: Desk) -> None:
    # The client reads one answer of hundreds, so that the server is held up while it writes.
    many = lines(HELLO, READY, *(call(number, bodies=True) for number in range(2, 400)))
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, many.hex(), *SERVER, *desk.words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
    )
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    with killed(pid):
        server = psutil.Process(pid)
        assert client.stdout.readline() == b"answered\n"
        client.kill()
        client.communicate(timeout=30)
        begun = time.monotonic()
        until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
        assert time.monotonic() - begun < 5
    # It has left no lock and no half of anything behind.
    assert {one.name for one in desk.staging.iterdir()} == {"terms.json"}


def test_a_signal_ends_it(desk: Desk) -> None:
    process = start(*desk.words)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(HELLO))
    process.stdin.flush()
    process.stdout.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode != 0


# --- what comes in -------------------------------------------------------------------------------


def test_a_request_that_is_too_long_is_answered_and_the_next_one_too(desk: Desk) -> None:
    long = call(7, "work_queue_output", type="artifact", name="x", text="x" * MAX_REQUEST_BYTES)
    unnamed = {"jsonrpc": "2.0", "params": "x" * MAX_REQUEST_BYTES, "id": 8}
    answers, err = exchange(
        start(*desk.words),
        lines(HELLO, READY, long, unnamed, b"\xff\xfe\n", b"[]\n", b"{" * 5_000 + b"\n", call(9)),
    )
    assert [one["id"] for one in answers] == [1, 7, None, None, None, None, 9]
    codes = [one["error"]["code"] for one in answers[1:-1]]
    assert codes == [-32600, -32600, -32700, -32700, -32700]
    assert str(MAX_REQUEST_BYTES) in answers[1]["error"]["message"]
    assert answers[-1]["result"]["structuredContent"]["count"] == 100
    assert "x" * 100 not in err
    assert {one.name for one in desk.staging.iterdir()} == {"terms.json"}


def test_requests_that_are_none_are_answered_by_the_engine(desk: Desk) -> None:
    answers, _err = exchange(
        start(*desk.words),
        lines(
            HELLO,
            READY,
            b"\n",
            {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {}},
            {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": 5}},
            {"jsonrpc": "2.0", "id": 5, "method": "resources/list"},
            call(6),
        ),
    )
    by_id = {one["id"]: one for one in answers}
    assert set(by_id) == {1, 2, 3, 4, 5, 6}
    assert all("error" in by_id[number] for number in (2, 3, 4, 5))
    assert "result" in by_id[6]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","name":"y"}}',
            "name",
        ),
        (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}', "id"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":{"\\u0062":1,"b":2}}}', "b"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}', "NaN"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
         "nested"),
    ],
)  # fmt: skip
def test_what_two_readers_could_take_differently_is_refused(
    desk: Desk, line: bytes, found: str
) -> None:
    process = start(*desk.words)
    out, _err = process.communicate(lines(HELLO) + line + b"\n", timeout=30)
    answers = [json.loads(one) for one in out.splitlines()]
    (refusal,) = [one for one in answers if "error" in one]
    assert (refusal["id"], refusal["error"]["code"]) == (7, -32700)
    assert found in refusal["error"]["message"]


@pytest.mark.parametrize("number", ["null", "1.5", "1.0", "true", "{}", "[]"])
def test_a_request_that_cannot_be_answered_by_its_id_is_refused(desk: Desk, number: str) -> None:
    """JSON-RPC 2.0: an invalid request is -32600, and its answer has the id null."""
    line = f'{{"jsonrpc":"2.0","id":{number},"method":"ping"}}\n'.encode()
    process = start(*desk.words)
    out, _err = process.communicate(lines(HELLO) + line + lines(call(9)), timeout=30)
    answers = [json.loads(one) for one in out.splitlines()]
    (refusal,) = [one for one in answers if "error" in one]
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert [one["id"] for one in answers if "result" in one] == [HELLO["id"], 9]


def test_a_run_is_told_by_its_folder_too(person: Person, tmp_path: Path) -> None:
    """A client that hands on no environment, with a server that is not the run's own."""
    clone = tmp_path / "clone"
    git("clone", "-q", str(person.folder), str(clone), cwd=tmp_path)
    git("update-ref", "refs/callboard/base", "HEAD", cwd=clone)
    (clone / "deep").mkdir()
    for folder in (clone, clone / "deep"):
        assert refused(env=environment(person), cwd=folder) == "context_required"


def test_lines_are_taken_whole_however_they_arrive() -> None:
    reading, writing = os.pipe()
    requests = Requests(reading)
    write_all(writing, b"one\ntwo\nthr")
    assert (requests.next(), requests.next()) == (b"one", b"two")
    write_all(writing, b"ee\n\n")
    assert (requests.next(), requests.next()) == (b"three", b"")
    write_all(writing, b"half")
    os.close(writing)
    assert requests.next() is None
    assert requests.next() is None
    os.close(reading)


def test_a_long_line_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "in"
    head = b'{"jsonrpc":"2.0","id":"a","method":"x","params":"'
    exact = b"y" * MAX_REQUEST_BYTES
    path.write_bytes(head + b"z" * (8 * MAX_REQUEST_BYTES) + b"\n" + exact + b"\n" + exact + b"y\n")
    with path.open("rb") as stream:
        requests = Requests(stream.fileno())
        found = requests.next()
        assert isinstance(found, TooLong)
        assert len(found.head) < 1_000
        assert found.request_id == "a"
        assert requests.next() == exact
        assert isinstance(requests.next(), TooLong)
        assert requests.next() is None


@pytest.mark.parametrize(
    ("head", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":12,"method"', 12),
        (b'{"method":"tools/call","jsonrpc":"2.0","id":"n-1",', "n-1"),
        (b' { "id" : 3 , ', 3),
        (b'{"params":{"id":4,', None),
        (b'{"jsonrpc":"2.0","id":1.5,', None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 400, None),
        (b'{"jsonrpc":"2.0","id":"' + b"a" * 400, None),
        (b"", None),
    ],
)
def test_the_id_of_what_was_too_long_is_told_only_where_it_is_plain(
    head: bytes, request_id: int | str | None
) -> None:
    assert TooLong(head).request_id == request_id


# --- what it starts with -------------------------------------------------------------------------


def refused(*words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """The code with which the server refuses to start, having said nothing to its client."""
    process = start(*words, env=env, cwd=cwd)
    out, err = process.communicate(lines(HELLO), timeout=30)
    assert (process.returncode, out) == (1, b"")
    return err.decode().strip().rsplit("code: ", 1)[1]


def test_no_fault_of_its_files_makes_it_an_observer(person: Person, desk: Desk) -> None:
    person.submit()
    here: Any = {"env": environment(person), "cwd": person.folder}
    missing = str(desk.root / "none.json")
    assert refused("--context", missing, **here) == "context_invalid"
    assert refused("--context", "", **here) == "context_invalid"
    in_environment = {**environment(person), "CALLBOARD_CONTEXT": missing}
    assert refused(env=in_environment, cwd=person.folder) == "context_invalid"
    in_environment["CALLBOARD_CONTEXT"] = ""
    assert refused(env=in_environment, cwd=person.folder) == "context_required"
    sound = desk.assignment.read_bytes()
    for data in (b"", b"{}", b"[]", sound.replace(b'"version":3', b'"version":4'), sound[:-1]):
        desk.assignment.write_bytes(data)
        assert refused(*desk.words, **here) == "assignment_invalid"
    desk.assignment.unlink()
    assert refused(*desk.words, **here) == "assignment_invalid"
    write_context(desk.files.context, context("worker", assignment=None))
    assert refused(*desk.words, **here) == "assignment_invalid"


def test_a_snapshot_and_a_staging_folder_have_to_be_there(desk: Desk) -> None:
    whole = desk.files.snapshot.read_bytes()
    desk.files.snapshot.write_bytes(whole[:-1])
    assert refused(*desk.words) == "snapshot_invalid"
    desk.files.snapshot.unlink()
    assert refused(*desk.words) == "snapshot_invalid"
    desk.files.snapshot.write_bytes(whole)
    desk.staging.rename(desk.root / "moved")
    assert refused(*desk.words) == "staging_invalid"


def test_no_role_is_had_for_the_asking(person: Person, desk: Desk) -> None:
    here: Any = {"env": environment(person), "cwd": person.folder}
    for role in ("producer", "dispatcher", "worker"):
        assert refused("--role", role, **here) == "context_required"
    assert refused(*desk.words, "--role", "observer") == "role_forbidden"
    inside = {**environment(person), "CALLBOARD_ASSIGNMENT": str(desk.assignment)}
    assert refused(env=inside, cwd=person.folder) == "context_required"


def test_the_context_may_stand_in_the_environment(desk: Desk) -> None:
    env = {"CALLBOARD_CONTEXT": str(desk.files.context)}
    answers, _err = exchange(start("--role", "worker", env=env), lines(HELLO, READY, call(2)))
    assert answers[1]["result"]["structuredContent"]["role"] == "worker"


def test_the_role_in_the_snapshot_is_for_display_alone(desk: Desk) -> None:
    data = desk.files.snapshot.read_bytes().replace(b'"role":"worker"', b'"role":"dispatcher"')
    desk.files.snapshot.write_bytes(data)
    answers, _err = exchange(start(*desk.words), lines(HELLO, READY, call(2)))
    assert answers[1]["result"]["structuredContent"]["role"] == "worker"


def test_an_absent_board_is_an_empty_one(person: Person) -> None:
    answers, _err = exchange(
        start(env=environment(person), cwd=person.folder), lines(HELLO, READY, call(2))
    )
    found = answers[1]["result"]["structuredContent"]
    assert (found["tip"], found["nodes"], found["pools"]) == (None, [], [])


def test_a_damaged_ledger_is_no_absent_one(person: Person) -> None:
    person.submit()
    ledger = person.ledger
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=person.folder, input=ledger[:-20] + b"\n", capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    tree = subprocess.run(
        ["git", "mktree"], cwd=person.folder, capture_output=True, check=True,
        input=f"100644 blob {blob}\twork-queue.jsonl\n".encode(),
    ).stdout.decode().strip()  # fmt: skip
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", tree,
         "-p", "work-queue", "-m", "damage"],
        cwd=person.folder, capture_output=True, check=True,
    )  # fmt: skip
    revision = done.stdout.decode().strip()
    subprocess.run(
        ["git", "update-ref", "refs/heads/work-queue", revision], cwd=person.folder, check=True
    )
    code = refused(env=environment(person), cwd=person.folder)
    assert code in ("ledger_invalid", "history_rewritten", "branch_rewritten"), code


# --- what it loads -------------------------------------------------------------------------------


def loaded(words: list[str], env: dict[str, str] | None = None, stdin: bytes = b"") -> set[str]:
    """The modules that a call has loaded by its end."""
    program = (
        "import os, sys\n"
        "end = os._exit\n"
        "def tell(status):\n"
        "    sys.stderr.write('\\n' + ' '.join(sys.modules))\n"
        "    sys.stderr.flush()\n"
        "    end(status)\n"
        "os._exit = tell\n"
        "from callboard.surfaces.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(env or {})},
        input=stdin,
        capture_output=True,
        check=False,
    )
    return set(done.stderr.decode().rsplit("\n", 1)[1].split())


def test_other_verbs_do_not_load_the_engine(person: Person) -> None:
    person.submit()
    for words in (["--version"], ["status"], ["worker", "--help"], ["mcp", "board", "--help"]):
        found = loaded(words, environment(person))
        assert "callboard.surfaces.cli.main" in found
        assert not {"mcp", "mcp_types", "pydantic", "starlette", "anyio"} & found, words


def test_the_server_of_a_context_knows_no_repository_and_no_ledger(desk: Desk) -> None:
    stdin = lines(HELLO, READY, call(2), call(3, "work_queue_claim_finish", outcome="completed"))
    found = loaded(["mcp", "board", *desk.words], stdin=stdin)
    assert {"mcp", "callboard.surfaces.mcp.server"} <= found
    board = "callboard.board"
    strange = (
        "dulwich", f"{board}.storage", f"{board}.board", f"{board}.publishing.publisher",
        f"{board}.execution.hosts",
    )  # fmt: skip
    assert [name for name in found if name.startswith(strange)] == []


def test_a_client_of_the_newer_protocol_is_served_too(desk: Desk) -> None:
    program, *words = SERVER
    parameters = StdioServerParameters(
        command=program, args=[*words, *desk.words], env={"PYTHONPATH": str(ROOT / "src")}
    )

    async def play() -> None:
        async with Client(stdio_client(parameters)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[:2] == READERS
            answer = await client.call_tool("work_queue_read", {"limit": 1})
            assert not answer.is_error
            assert answer.structured_content["count"] == 100

    talk(play)
