"""How far each node has come, what is behind it and what to type: on the command line."""

from __future__ import annotations

import shlex

import click
import psutil
import pytest

from callboard.board.board import Board, Folders
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.surfaces.cli.main import root
from callboard.surfaces.cli.stage_words import STAGES
from callboard.surfaces.cli.verbs import VERBS
from tests.board.reading.staged_board import START_MS, StagedBoard, node
from tests.surfaces.cli.conftest import Person, shell, supervisors
from tests.waiting import until

# Verbs that hints name before they are there.
AWAITED = {"reconcile", "replace"} - set(VERBS)


def put(person: Person, board: StagedBoard) -> None:
    """Make a staged board the board of a person's repository."""
    with Repository.discover(person.folder) as repository:
        store = GitStore(repository)
        assert isinstance(store.append(store.read(), board.data, message="staged"), Appended)


def launch_of(board: StagedBoard, key: str) -> str:
    projection = board.view().projection
    claim_id = str(projection.works[board.work_id(key)].claim_id)
    return projection.claims[claim_id].claim.dispatch_id


@pytest.fixture
def told(person: Person) -> Person:
    """A board with a node at every stage that a ledger can tell."""
    board = StagedBoard("[work_queue]\nconcurrency = 16\n[work_queue.retry]\nmax_attempts = 1\n")
    board.submit(*[node(key) for key in ("v", "f", "c", "p", "b", "un", "uc", "s", "x", "g")])
    board.do("v")
    claims = dict(zip(("f", "c", "p", "b", "un", "uc", "s", "x"), board.grant(8, 8), strict=True))
    for key in ("f", "p", "b"):
        board.launch(claims[key])
    for key in ("un", "uc", "s", "x"):
        board.start(launch_of(board, key))
    for key in ("un", "uc"):
        board.doubt(launch_of(board, key), "uncertain", "sender_unknown_here", looks=2)
    board.doubt(launch_of(board, "un"), "unresolved", "sender_unknown_here", looks=5)
    board.doubt(launch_of(board, "x"), "uncertain", "run_binding_conflict")
    board.cancel("c")
    for key in ("f", "p"):
        board.finish(claims[key], "completed")
    board.release(launch_of(board, "f"), "failure")
    board.fail_delivery("f")
    board.grant()
    board.submit(node("r"), node("w", "r"), node("e"))
    board.clock.advance(300_001)
    board.submit(node("late"))
    put(person, board)
    return person


EXPECTED = {
    "v": "verified",
    "f": "failed",
    "c": "cancelled",
    "p": "completed_pending",
    "b": "bound",
    "un": "unresolved",
    "uc": "uncertain",
    "s": "started",
    "x": "uncertain",
    "g": "granted",
    "r": "ready",
    "w": "waiting",
}


def test_every_stage_is_told_apart_by_every_verb(told: Person) -> None:
    columns = told.ask("status", "--limit", "50")["columns"]
    listed = {one["name"]: one for column in columns.values() for one in column["works"]}
    assert {key: listed[key]["stage"] for key in EXPECTED} == EXPECTED
    assert {*EXPECTED.values(), "terminal", "released"} == set(STAGES)
    for key, stage in EXPECTED.items():
        for verb in ("show", "explain"):
            assert told.ask(verb, key)["stage"] == stage, (verb, key)
            said = told.done(verb, key).stdout
            assert STAGES[stage] in said or (verb == "explain" and f" is {stage}" in said)
        assert told.ask("trace", key)["commits"][-1]["stage"] == stage
        rows = told.done("trace", key).stdout.splitlines()
        after = next(at for at, row in enumerate(rows) if row.startswith("its attempts and logs:"))
        assert stage in rows[after - 1].split()
    assert len(set(STAGES.values())) == len(STAGES)


def test_status_tells_them_apart_in_words(told: Person) -> None:
    text = told.done("status", "--limit", "50").stdout
    for key, words in {
        "f": "its delivery failed: output_missing",
        "p": "completed, and not verified for too long",
        "un": "it could not be found out whether its run started",
        "uc": "it is not known whether its run started",
        "s": "its launch has begun, and for too long no run has shown itself",
        "x": "another run than the one ordered, or several, claim its launch",
        "g": "granted, and for too long nobody has begun its launch",
    }.items():
        assert f"\n{key}: {words}\n" in text
    lines = text.splitlines()
    for key in ("un", "uc"):
        evidence = lines[lines.index(next(one for one in lines if one.startswith(f"{key}: "))) + 1]
        assert evidence.startswith(
            "  the machine that looked has no record of its launch; sent by run 99 of principal 7, "
            "of which no record is here; recorded 2023-11-14 22:13:20 by reconciler 7, after "
        )
    assert "after 5 looks, q_" in text
    assert "after 2 looks, q_" in text
    for key, words in {"b": "under way", "r": "nothing in its way", "w": "waits for r"}.items():
        (row,) = [line for line in lines if line.split()[:1] == [key]]
        assert words in row


def test_every_next_step_is_a_command_line(told: Person) -> None:
    columns = told.ask("status", "--limit", "50")["columns"]
    steps = {one["name"]: one["next"] for one in columns["stuck"]["works"]}
    assert set(steps) == {"f", "p", "un", "uc", "s", "x", "g"}
    told.done("pause", "grants", "--reason", "lunch")
    paused = told.ask("explain", "g")
    assert paused["reason"] == "grants_paused"
    for step in {*steps.values(), paused["next"]}:
        parse(step)
    told.done(*shlex.split(paused["next"])[1:])
    assert told.ask("status")["paused"]["grants"] is False
    told.done(*shlex.split(steps["x"])[1:])


def parse(step: str) -> None:
    """Refuse a step that the command line would not understand."""
    program, verb, *words = shlex.split(step)
    assert program == "callboard"
    if verb in AWAITED:
        return
    command = root.get_command(click.Context(root), verb)
    assert command is not None, step
    command.make_context(verb, words)


def test_a_worker_that_was_withdrawn_comes_back_by_the_step_shown(person: Person) -> None:
    person.submit()
    person.done("deploy", "default", "--withdraw", "--reason", "broken")
    found = person.ask("explain", "inspect")
    assert (found["column"], found["stage"], found["reason"]) == (
        "stuck",
        "waiting",
        "worker_unavailable",
    )
    assert found["next"] == "callboard policy check"
    said = person.done("policy", "check").stdout
    assert "worker default of pool default is withdrawn at " in said
    step = said.splitlines()[-1].removeprefix("next: ")
    parse(step)
    person.done(*shlex.split(step)[1:])
    assert person.ask("explain", "inspect")["stage"] == "ready"


def test_a_run_that_has_ended_here_is_terminal_by_this_machines_word_alone(
    person: Person,
) -> None:
    """The host's record says that it ended; the board does not, and is not made to."""
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(
        'command = ["sleep", "600"]\n'
    )
    person.configure("")
    person.submit('{"graph":"g","nodes":[{"key":"a","payload":{}}]}')
    assert shell(person, "dispatch").status == 0
    (supervisor,) = until(lambda: supervisors(person))
    until(lambda: person.ask("explain", "a")["stage"] == "bound")
    found = person.ask("show", "a")
    assert "host" not in found
    run_id = found["claims"][0]["run_id"]
    with Board.open(person.folder, Folders(person.config, person.state)) as board:
        registry = board.site.registry
        row = registry.by_run(run_id)
        assert row is not None
        workers = [psutil.Process(one.pid) for one in row.workers]
        supervisor.kill()
        for worker in workers:
            worker.kill()
        psutil.wait_procs([supervisor, *workers], timeout=30)
        registry.finish(
            run_id, conclusion="success", exit_code=0, signal=None, survivors=[], now_ms=START_MS
        )
    found = person.ask("explain", "a")
    assert (found["stage"], found["board_stage"]) == ("terminal", "bound")
    assert found["host"] == {
        "provenance": "this_machine",
        "run_id": run_id,
        "standing": "ended",
        "conclusion": "success",
    }
    assert "supervisor" not in found
    assert found["next"] == "callboard reconcile"
    said = "its run has ended on this machine, and its place is not free yet"
    assert said in person.done("status").stdout
    assert STAGES["terminal"] in person.done("explain", "a").stdout
    person_elsewhere = Person(person.folder, person.config, person.state / "another")
    assert person_elsewhere.ask("explain", "a")["stage"] == "bound"
