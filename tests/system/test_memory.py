"""What workers remember, in whole runs: one file, one commit, one branch a Claim; kills, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repositories import git
from tests.system.machines import Machines
from tests.system.world import CONFIG, WORKER, World, make_world, recipe
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"
SET_REF = "callboard.board.storage.repository:Repository.set_ref"
APPLY = "callboard.board.outputs.handlers.memory:MemoryHandler.apply"
VERIFY = "callboard.board.outputs.handlers.memory:MemoryHandler.verify"
TABLE = """
[memory]
path = "memory/facts.json"
branch = "facts"
[memory.schema]
type = "object"
required = ["fact"]
[memory.schema.properties]
fact = { type = "string", maxLength = 40 }
work_id = { type = "string" }
"""
ONE = {"memory": 1}


def remembering(**settings: Any) -> str:
    return recipe(WORKER, outputs=["memory"], **settings) + TABLE


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path / "world", recipes={"default": remembering(max_claims=2)})
    yield made
    made.end()


def node(key: str, *steps: str, **extra: Any) -> dict[str, Any]:
    return {"key": key, "payload": {"first": list(steps)}, "contract": ONE, **extra}


def remember(**fields: Any) -> str:
    return "remember " + json.dumps(fields)


def entry(world: World, key: str) -> dict[str, Any]:
    result = world.works()[key].result
    assert result is not None
    (only,) = dict(result)["outputs"]
    found: dict[str, Any] = only
    return found


def test_each_claim_of_a_run_remembers_on_a_branch_of_its_own(world: World) -> None:
    world.submit(
        node("a", remember(fact="of a"), "completed"),
        node("b", remember(fact="of b"), "completed"),
        node("c", "completed", after=["a", "b"]),
    )
    head = git("rev-parse", "HEAD", cwd=world.path)
    world.run()
    for key in ("a", "b"):
        found = entry(world, key)
        work = world.works()[key].work.work_id
        assert found["branch"] == f"callboard/memory/facts/{work[:12]}-1"
        assert found["parent"] == head
        text = git("show", f"{found['branch']}:memory/facts.json", cwd=world.path)
        assert json.loads(text) == {"fact": f"of {key}"}
        changed = git("diff", "--name-only", head, found["branch"], cwd=world.path)
        assert changed == "memory/facts.json"
    # The third remembers nothing, which its contract does not put up with.
    assert world.works()["c"].state == "cancelled"
    (begun,) = [line for line in world.journal if line["result_refs"] == 2][:1]
    assert begun["work_id"] == world.works()["c"].work.work_id
    world.check_settled()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"fact": 3}, "memory_invalid"),
        ({"fact": "x", "work_id": "another"}, "memory_foreign"),
    ],
)
def test_what_the_schema_does_not_have_is_told_to_the_worker(
    world: World, fields: dict[str, Any], code: str
) -> None:
    steps = [remember(**fields), "completed"]
    world.submit({"key": "a", "contract": ONE, "payload": {"first": steps, "script": steps}})
    world.run()
    assert world.works()["a"].state == "cancelled"
    with world.open() as board:
        logs = board.site.folders.state / "runs" / world.rows()[0].run_id / "worker.stderr.log"
        assert code in logs.read_text()
    assert git("for-each-ref", "refs/heads/callboard", "refs/callboard", cwd=world.path) == ""


@pytest.mark.parametrize(
    ("target", "when", "match"),
    [
        (APPEND, "before", "Completion"),
        (APPEND, "after", "Completion"),
        (APPLY, "before", ""),
        (SET_REF, "before", "refs/heads/callboard/memory/"),
        (APPLY, "after", ""),
        (VERIFY, "after", ""),
        ("callboard.board.outputs.delivery:verify_delivery", "after", ""),
    ],
)
def test_a_kill_on_the_way_neither_loses_nor_doubles_a_memory(
    world: World, target: str, when: str, match: str
) -> None:
    steps = [remember(fact="kept"), "completed"]
    world.submit({"key": "a", "contract": ONE, "payload": {"first": steps, "script": steps}})
    world.run(fault=world.fault(target, when, role="supervisor", match=match))
    assert world.file("killed").exists()
    world.run()
    found = entry(world, "a")
    attempts = world.works()["a"].attempts
    assert attempts == (2 if (target, when) == (APPEND, "before") else 1)
    branches = git("branch", "--list", "--format=%(refname:short)", "callboard/*", cwd=world.path)
    assert branches.split() == [found["branch"]]
    assert found["branch"].endswith(f"-{attempts}")
    world.check_settled()


def test_a_fixed_base_stays_the_base_when_the_branch_moves_on(tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", recipes={"default": remembering()}, config=CONFIG)
    try:
        base = git("rev-parse", "HEAD", cwd=world.path)
        path = world.path / ".callboard" / "workers" / "default.toml"
        path.write_text(path.read_text().replace("[memory]\n", f'[memory]\nbase = "{base}"\n'))
        git("commit", "-qam", "a base", cwd=world.path)
        world.submit(node("a", remember(fact="x"), "completed"))
        world.run()
        assert entry(world, "a")["parent"] == base != git("rev-parse", "HEAD", cwd=world.path)
    finally:
        world.end()


def test_a_memory_travels_to_the_machine_that_needs_it(tmp_path: Path) -> None:
    machines = Machines(tmp_path, recipes={"default": remembering()})
    one, two = machines.all[0], machines.add("two")
    try:
        one.submit(
            node("a", remember(fact="x"), "completed"),
            {"key": "b", "after": ["a"], "payload": {"first": ["completed"]}},
        )
        one.finish(one.start("dispatch", workers=1, environment=one.environment))
        until(lambda: one.works()["a"].barrier == "verified")
        found = entry(one, "a")
        assert machines.refs()[f"refs/heads/{found['branch']}"] == found["commit"]
        two.finish(two.start(environment=two.environment))
        assert two.works()["b"].barrier == "verified"
        assert len(two.rows()) == 1
        text = git("show", f"{found['commit']}:memory/facts.json", cwd=two.path)
        assert json.loads(text) == {"fact": "x"}
        assert git("branch", "--format=%(refname:short)", cwd=two.path).split() == ["main"]
    finally:
        machines.end()


def test_a_memory_that_one_machine_sent_is_verified_on_another(tmp_path: Path) -> None:
    machines = Machines(tmp_path, recipes={"default": remembering()})
    one, two = machines.all[0], machines.add("two")
    try:
        one.submit(node("a", remember(fact="x"), "completed"))
        fault = one.fault(
            "callboard.board.publishing.lifecycle:deliver", "before", role="supervisor"
        )
        one.finish(one.start("dispatch", workers=1, fault=fault, environment=one.environment))
        one.wait_for(one.file("killed"))
        two.finish(two.start(environment=two.environment))
        assert two.works()["a"].barrier == "verified"
    finally:
        machines.end()
