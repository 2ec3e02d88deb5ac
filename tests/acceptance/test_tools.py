"""What agents ask for is on file until they have ended; then the board decides, and says so."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callboard.board.outputs import messages
from callboard.board.outputs.authority import Phase
from callboard.board.outputs.claims import (
    BatchOutput,
    BodyOutput,
    NoopOutput,
    PatchCommit,
    PatchOutput,
)
from callboard.board.outputs.estimates import estimate
from callboard.board.outputs.handlers import gate
from callboard.board.outputs.handlers.registry import HANDLERS
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.protocol import operations as ops
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.acceptance.batch import ALL_TYPES, Batch
from tests.board.outputs import scene
from tests.surfaces.cli.conftest import PROGRAM, Person, environment, shell
from tests.system.world import WORKER, World, make_world, recipe
from tests.waiting import until

CALLER = str(Path(__file__).resolve().parent / "tool_caller.py")


def agent(world: World, role: str, script: str) -> subprocess.Popen[str]:
    """Start an agent on a world's board; its answer is one JSON document."""
    return subprocess.Popen(
        [*PROGRAM, "agent", "run", "--json", "--role", role, "--", "sh", "-ec", script],
        cwd=world.path,
        env=environment(Person(world.path, world.folders.config, world.folders.state)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Any:
    """What became of all that an agent asked for."""
    output, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return json.loads(output)


def test_agentic_intent_status(tmp_path: Path) -> None:
    """Seen, staged, durable, granted, bound: each is said by its own word, and none for another."""
    batch = Batch(tmp_path)
    world = batch.world
    plan = json.dumps({"graph": "g", "nodes": [batch.node("child", [["finish", "completed"]])]})
    steps = [
        ["write", "plan.json", plan],
        ["submit", "plan.json"],
        ["dispatch-next"],
        ["finish", "completed"],
        ["say", str(world.file("begun"))],
        ["await", str(world.file("go"))],
    ]
    asks = {"submit": {"min": 0, "max": 1}, "dispatch_next": {"min": 0, "max": 1}}
    world.submit(batch.node("parent", steps, contract=asks))
    try:
        assert batch.call("show", "parent")["stage"] == "ready"
        batch.dispatch(1)
        world.wait_for(world.file("begun"))
        # All is staged: no Completion, no child, no further Claim, no launch.
        staged = [one["answer"] for one in batch.told if "words" in one]
        assert [one["status"] for one in staged] == ["staged"] * 3
        assert batch.call("show", "parent")["stage"] == "bound"
        assert list(world.works()) == ["parent"]
        assert len(world.history().projection.claims) == len(world.rows()) == 1
        world.file("go").touch()
        until(lambda: world.works()["parent"].barrier == "verified")
        until(lambda: not world.supervisors())
        # Durable now; the batch is granted and waits for somebody who launches it.
        assert batch.call("show", "parent")["stage"] == "verified"
        assert batch.call("show", "child")["stage"] == "granted"
        assert len(world.rows()) == 1
        batch.run()
        assert batch.call("show", "child")["stage"] == "verified"
        submits = [one.actor for one in world.history().projection.requests.values()
                   if one.kind in ("submit", "dispatch_next")]  # fmt: skip
        assert [one.role for one in submits] == ["producer", "dispatcher", "worker", "worker"]
        assert {one.claim_handle for one in submits[2:]} == {"h1"}
    finally:
        world.end()


def test_agentic_intent_status_of_agents(person: Person, tmp_path: Path) -> None:
    """A dispatcher's own tools: it sees a moment, stages, and is answered when it is over."""
    person.submit('{"graph": "g", "nodes": [{"key": "a", "payload": {"plan": "of a"}}]}')
    before = person.tip
    plan = {"graph": "g", "nodes": [{"key": "b", "payload": {}}]}
    seen = tmp_path / "seen"
    script = (
        f"printf '%s' {shlex.quote(json.dumps(plan))} | callboard agent submit - --json > {seen}\n"
        f"callboard agent dispatch-next --json >> {seen}\n"
        f"git -C {person.folder} rev-parse work-queue >> {seen}\n"
        f"{sys.executable} {CALLER} {shlex.quote(json.dumps([['work_queue_read', {}]]))} >> {seen}"
    )
    words = ("agent", "run", "--json", "--role", "dispatcher", "--", "sh", "-ec", script)
    answer = shell(person, *words)
    assert answer.status == 0, answer
    submitted, asked, tip, read = seen.read_text().splitlines()
    assert [json.loads(one)["status"] for one in (submitted, asked)] == ["staged", "staged"]
    assert tip == before
    page = json.loads(read)["answers"][0]
    assert page["provenance"] == "activation_snapshot"
    assert [one.get("node_key") for one in page["nodes"]] == ["a"]
    posted, granted = answer.json["intents"]
    assert (posted["status"], granted["status"]) == ("accepted", "accepted")
    assert [json.loads(one)["intent_id"] for one in (submitted, asked)] == [
        posted["intent_id"], granted["intent_id"]
    ]  # fmt: skip
    assert granted["receipt"]["granted_claims"] == 1
    assert [one["status"] for one in granted["launches"]] == ["launched"]
    until(lambda: person.ask("show", "a")["stage"] == "verified")


def test_late_binding_through_agents(tmp_path: Path) -> None:
    """An agent is shown that a is next, and asks. By the time that it is answered a is taken: b is
    launched, with the payload that was posted with b and nothing of a's."""
    world = make_world(tmp_path, recipes={"default": recipe(WORKER)})
    plans = {"a": {"text": "first"}, "b": {"text": "second"}}
    world.submit(*({"key": key, "payload": payload} for key, payload in plans.items()))
    said, ready, go = (world.file(name) for name in ("said", "ready", "go"))
    try:
        look: list[Any] = ["work_queue_read", {}]
        calls = [look, ["work_queue_dispatch_next", {}], look]
        given = shlex.quote(json.dumps(calls))
        process = agent(
            world, "dispatcher", f"{sys.executable} {CALLER} {given} {ready} {go} > {said}"
        )
        world.wait_for(ready)
        assert len(world.history().projection.claims) == 0
        with world.open() as board:
            board.grant(request_id="taken")
        go.touch()
        (answered,) = ended(process)["intents"]
        # It was shown the same moment before and after a was taken.
        first, staged, second = json.loads(said.read_text())["answers"]
        assert staged["status"] == "staged"
        assert [one["node_key"] for one in first["nodes"]] == ["a", "b"]
        assert {name: first[name] for name in ("nodes", "tip")} == {
            name: second[name] for name in ("nodes", "tip")
        }
        assert answered["receipt"]["granted_claims"] == 1
        until(lambda: world.works()["b"].barrier == "verified")
        (line,) = world.journal
        assert line["work_id"] == world.works()["b"].work.work_id
        claims = [one for one in world.operations() if isinstance(one, ops.Claim)]
        assert [one.work_id for one in claims] == [
            world.works()[key].work.work_id for key in ("a", "b")
        ]
        assert world.works()["b"].work.payload["text"] == "second"
        assert world.works()["a"].state == "claimed"
    finally:
        world.end()


# --- every kind goes through the one gate ---------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "finish": {"outcome": "completed"},
    "artifact": {"name": "x", "sha256": "0" * 64, "size_bytes": 0},
    "patch": {},
    "note": {"sha256": "0" * 64, "size_bytes": 0},
    "memory": {"sha256": "0" * 64, "size_bytes": 0},
    "submit": {"sha256": "0" * 64, "size_bytes": 0},
    "output": {"type": "acme.report", "sha256": "0" * 64, "size_bytes": 0},
    "dispatch_next": {},
    "noop": {"reason": "nothing to do"},
}
ABSENT = object()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """A repository that effects could land in."""
    folder = scene.make_repository(tmp_path / "user")
    with Repository.discover(folder) as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
def test_handler_coverage(tmp_path: Path, kind: str) -> None:
    """Whatever is wished, it is attributed first: a run with two Claims gets nothing for none of
    them, and a run with one nothing for another."""
    for claims, selector, code in (
        (2, ABSENT, "claim_scope_required"), (2, "h3", "claim_scope_invalid"),
        (2, None, "claim_scope_invalid"), (1, "", "claim_scope_invalid"),
        (1, "h2", "claim_scope_invalid"), (1, 1, "claim_scope_invalid"),
    ):  # fmt: skip
        root = tmp_path / f"{claims}-{id(selector)}-{selector}"
        root.mkdir()
        folder = scene.staging(root, Terms.of(dict.fromkeys(ALL_TYPES, (0, 1))))
        given = {} if selector is ABSENT else {"claim_handle": selector}
        scene.put(folder, 1, {"kind": kind, "intent_id": "i1", **KINDS[kind], **given})
        found = take(folder, scene.assignment(*[scene.BOTH] * claims), scene.TERMS)
        assert [one.code for one in found.unattributed] == [code], (claims, selector)
        assert {one.outcome for one in found.claims} == {"cancelled"}
        assert [one for claim in found.claims for one in claim.outputs] == []


def _one_of_each() -> dict[str, Any]:
    data = b'{"nodes":[{"payload":{}}]}'
    bodies = {
        kind: BodyOutput(f"i_{kind}", kind, 1, scene.sha(data), len(data), data)
        for kind in ("note", "memory", "submit")
    }
    return {
        "artifact": scene.output("x"),
        "patch": PatchOutput("i_patch", PatchCommit("1" * 40, "2" * 40, "3" * 40)),
        **bodies,
        "dispatch_next": BatchOutput("i_batch", 1, 1, 1),
        "noop": NoopOutput("i_noop", "nothing to do"),
    }


def test_handler_coverage_is_complete(repository: Repository) -> None:
    """No kind of message is left out above, and no handler has an effect without its Claim."""
    for kind in KINDS:
        with pytest.raises(CallboardError, match=r"message_invalid|record_invalid"):
            messages.read_message({"kind": kind, "surplus": 1})
    with pytest.raises(CallboardError) as caught:
        messages.read_message({"kind": "comment"})
    known = caught.value.hint.split(";")[0].removeprefix("known kinds: ")
    assert set(known.split(", ")) == set(KINDS)
    claim = scene.member(1, scene.outputs(**dict.fromkeys(ALL_TYPES, (0, 1))))
    wishes = _one_of_each()
    assert set(wishes) == set(HANDLERS) == set(ALL_TYPES)
    wishes["acme.ticket"] = replace(wishes["note"], type="acme.ticket")
    before = scene.git(repository.common_dir, "count-objects")
    phases: tuple[Phase, ...] = ("open", "completed", "closed")
    for phase in phases:
        context = scene.context(repository, claim, phase)
        for name, wish in wishes.items():
            if phase != "open":
                with pytest.raises(CallboardError, match="effects_unauthorized"):
                    gate.prepare(context, wish)
            if phase != "completed":
                entry = estimate(claim, "default", wish, scene.TERMS)
                assert gate.entry_type(entry) == name
                with pytest.raises(CallboardError, match="effects_unauthorized"):
                    gate.apply(context, entry)
    assert scene.git(repository.common_dir, "count-objects") == before
    assert scene.git(repository.common_dir, "for-each-ref", "refs/callboard") == ""
