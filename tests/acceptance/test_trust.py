"""Who may do what: no way around the planner, no name by saying so, no power from within a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.board.ledger.history import History
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.errors import CallboardError
from tests.acceptance.installing import install
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import ADMINISTRATOR, refused, work, work_id
from tests.golden.expected import FOLDER as GOLDEN
from tests.repositories import git
from tests.surfaces.cli.conftest import Person, shell
from tests.system.world import World

SOUND = sorted(
    path.stem
    for path in GOLDEN.glob("*.json")
    if json.loads(path.read_text())["outcome"] == "valid"
)
# Requests whose parameters are their operations: each is asked to carry a Claim of its own.
CARRIERS = sorted(
    kind
    for kind, request in wire.REQUEST_TYPES.items()
    if request.__annotations__.get("parameters") == "OperationsParameters"
)


def cause_of(data: bytes) -> str:
    """Why a ledger is refused."""
    with pytest.raises(CallboardError) as caught:
        History.read(data)
    assert caught.value.code == "ledger_invalid"
    return str(caught.value.details["cause"])


@pytest.mark.parametrize("name", SOUND)
def test_writer_enforcement(name: str) -> None:
    """On every sound ledger there is on file: a writer of old, a Claim that nobody planned, and an
    administrator's own way to one are refused alike."""
    data = (GOLDEN / f"{name}.jsonl").read_bytes()
    projection = History.read(data).projection
    assert projection.repository is not None
    place = max(projection.by_place)
    target = projection.works[projection.by_place[place]].work
    actor = structs.replace(ADMINISTRATOR, repository=projection.repository)
    given: dict[str, Any] = {"epoch": str(projection.policy_epoch)}
    claim = ops.Claim(
        work_id=target.work_id, claim_id="c_mine_1", dispatch_id="d_mine_1", handle="h1",
        observations=[],
    )  # fmt: skip

    def line(kind: str, operations: list[Any], who: ops.Actor, **more: Any) -> bytes:
        made = make.commit(projection.tip, kind, "mine", operations, who, **given, **more)
        return make.line_of(made)

    assert len(CARRIERS) >= 12
    for kind in CARRIERS:
        cause = cause_of(data + line(kind, [claim], actor))
        assert cause in ("operation_forbidden", "role_forbidden", "record_invalid"), kind
    asked = wire.DispatchNextParameters(
        pool=target.pool, max_claims=1, max_dispatches=1, max_bytes=49_152
    )
    forced = line("dispatch_next", [claim], actor, parameters=asked)
    assert cause_of(data + forced) == "selection_mismatch"
    old = json.loads(forced) | {"version": 2}
    assert cause_of(data + json.dumps(old).encode() + b"\n") == "unsupported_protocol"


# --- what a run cannot do -------------------------------------------------------------------------


def at_work() -> tuple[Board, ops.Actor]:
    """A board whose one run has completed a, and waits for its delivery."""
    document = make.policy(accounting_weights={"": 1, "team": 5})
    board = Board([work("a", priority=3), work("z", priority=3)], document)
    board.grant()
    board.complete("a")
    return board, board.worker(board.group("a"))


def test_trust() -> None:
    board, agent = at_work()
    before, clocks = board.document(), board.projection.clocks
    for fields in ({"account": "mine"}, {"account": "team"}, {"priority": 1}):
        error = refused(board.submit, [work("b", **fields)], agent)
        assert error.code == "inheritance_violated", fields
    error = refused(board.submit, [work("b", account="mine")])
    assert error.code == "fairness_key_unknown"
    evidence = board.evidence(board.group("a"), "terminal_run")
    group = board.group("a").assignment.dispatch_id
    forged: dict[str, list[ops.Operation]] = {
        "policy": [ops.Policy(epoch="e2", policy=make.policy())],
        "control": [ops.Control(control="grants_paused", value=True, reason="mine")],
        "priority": [
            ops.WorkPriority(work_id=work_id("z"), priority=1, expected_priority=3, reason="mine")
        ],
        "release": [ops.Release(dispatch_id=group, evidence=evidence)],
        "result": [board.result("a")],
        "cancel_work": [ops.WorkCancellation(work_id=work_id("z"), reason="mine")],
    }
    for kind, operations in forged.items():
        epoch = "e2" if kind == "policy" else "e1"
        error = refused(board.say, kind, operations, agent, epoch=epoch)
        assert error.code == "role_forbidden", kind
    assert board.document() == before
    assert board.projection.clocks == clocks
    # What it may do: a child in its own place in the order of things.
    board.submit([work("b", priority=3)], agent)
    assert board.grant(9) == ["z", "b"]


def test_worker_safety() -> None:
    """A run that lost its binding, or whose launch was never let in, ends nothing as done."""
    board = Board([work("a"), work("b")])
    board.grant(2)
    group = board.start("a")
    stranger = structs.replace(board.run(group), run_id="4711")

    claim = board.projection.claims[str(board.work("a").claim_id)].claim

    def finish(run: ops.Run, attempt: int = 1) -> str:
        done = ops.Completion(
            work_id=claim.work_id, claim_id=claim.claim_id, dispatch_id=claim.dispatch_id,
            claim_handle="h1", run_id=run.run_id, run_attempt=1,
        )  # fmt: skip
        actor = structs.replace(board.worker(group, "h1"), run_id=run.run_id, run_attempt=attempt)
        asked = wire.FinishParameters(
            dispatch_id=claim.dispatch_id, claim_handle="h1", outcome="completed"
        )
        return refused(lambda: board.say("finish", [done], actor, parameters=asked)).code

    before = board.document()
    assert finish(board.run(group)) == "run_unbound"
    board.dispatch(group, "bound", run=board.run(group))
    assert finish(stranger) == "run_binding_conflict"
    assert finish(board.run(group), attempt=2) == "actor_invalid"
    error = refused(lambda: board.dispatch(group, "bound", run=stranger))
    assert error.code == "run_binding_conflict"
    assert board.work("a").state == "claimed"
    assert board.document()["works"] == before["works"]
    # Once its Claim is taken away, not even the bound run completes it.
    board.cancel_claim("a")
    assert finish(board.run(group)) == "claim_closed"


# --- who is who -----------------------------------------------------------------------------------


def test_writer_trust(person: Person) -> None:
    """A user's identity is the one in its own folder, not Git's author and no word in a plan."""
    person.submit("graph: g\nnodes: [{key: a, payload: {actor: {principal: '1'}}}]\n")
    principal = person.ask("whoami")["principal"]
    person.environment |= {"GIT_AUTHOR_NAME": "root", "GIT_COMMITTER_EMAIL": "root@example.org"}
    assert shell(person, "pause", "grants", "--reason", "x").status == 0
    actors = [json.loads(line)["actor"]["principal"] for line in person.ledger.splitlines()]
    assert actors == [principal, principal]
    assert "root" not in git("log", "--format=%an %ae %cn %ce", "work-queue", cwd=person.folder)
    for field in ("actor", "principal", "role"):
        text = json.dumps({"graph": "g", field: "1", "nodes": [{"key": "b", "payload": {}}]})
        error = person.call("submit", "-", "--json", stdin=text).error
        assert error["code"] == "plan_invalid"
    # A line by hand that is signed with another name than its commit carries is no history.
    lines = person.ledger.splitlines(keepends=True)
    forged = json.loads(lines[1])
    forged["actor"]["principal"] = "1"
    install(person.folder, lines[0] + json.dumps(forged).encode() + b"\n")
    for words in (["status"], ["submit", "-"]):
        text = '{"graph": "g", "nodes": [{"key": "b", "payload": {}}]}'
        error = person.call(*words, "--json", stdin=text).error
        assert error["code"] == "ledger_invalid", words


def test_writer_trust_of_runs(world: World) -> None:
    """The clone of a run has no remote and no board: what it writes there, it writes nowhere."""
    script = ["commit of-its-own", "deliver", "completed"]
    world.submit({"key": "task", "payload": {"first": ["write left", *script]}})
    world.run()
    (row,) = world.rows()
    clone = Path(str(row.workspace))
    assert (clone / "left").exists()
    assert git("remote", cwd=clone) == ""
    assert "work-queue" not in git("for-each-ref", cwd=clone)
    ledger = world.ledger()
    pushed = subprocess.run(
        ["git", "push", "-q", "origin", "HEAD:refs/heads/work-queue"],
        cwd=clone, capture_output=True, check=False,
    )  # fmt: skip
    assert pushed.returncode != 0
    assert world.ledger() == ledger
    world.check_settled()
