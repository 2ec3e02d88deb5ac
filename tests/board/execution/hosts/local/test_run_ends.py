"""How a run ends whose worker, or whose host, made it hard to."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.hosts.local.run_folder import RunFolder
from tests.system.world import World, make_world, recipe

_ONCE = "[work_queue.retry]\nmax_attempts = 1\nbackoff_seconds = 1\n"
Make = Callable[[str], World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A board whose worker is a shell script; nothing of it runs on afterwards."""
    worlds: list[World] = []

    def made(script: str) -> World:
        recipes = {"default": recipe(["sh", "-c", script])}
        worlds.append(make_world(tmp_path / "world", recipes=recipes, config=_ONCE))
        return worlds[-1]

    yield made
    for world in worlds:
        world.end()


def run(world: World, contract: dict[str, Any]) -> RunFolder:
    world.submit({"key": "task", "payload": {"effect_contract": contract}})
    assert world.run()["reason"] == "idle"
    world.check_settled()
    (row,) = world.rows()
    return RunFolder.of(world.folders.state, row.run_id)


def report(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(folder.report.read_bytes())
    return found


def test_a_worker_that_shuts_its_run_folder_is_wrapped_up(make: Make) -> None:
    world = make(
        'callboard worker finish completed; chmod 000 "$CALLBOARD_STAGING" '
        '"$(dirname "$CALLBOARD_STAGING")"'
    )
    folder = run(world, {"kind": "none"})
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.staging.stat().st_mode) == 0o700
    assert folder.supervisor_log.read_bytes() == b""
    assert report(folder)["claims"][0]["published"] == "verified"
    assert world.works()["task"].barrier == "verified"
    assert not folder.work.exists()


def test_what_git_said_stands_in_the_report(make: Make) -> None:
    world = make(
        "printf '*.txt working-tree-encoding=UTF-16\\n' > .gitattributes; printf abc > a.txt; "
        "callboard worker patch; callboard worker finish completed"
    )
    rule = {"type": "patch", "min": 1, "max": 1}
    folder = run(world, {"version": 1, "outputs": [rule]})
    (claim,) = report(folder)["claims"]
    assert claim["reason"] == "output_failed"
    (refusal,) = claim["refusals"]
    assert (refusal["code"], refusal["details"]["command"]) == ("git_failed", "update-index")
    assert "a.txt" in refusal["details"]["stderr"]
    assert world.works()["task"].state == "cancelled"
    assert (folder.work / "a.txt").read_text() == "abc"


def test_rights_are_given_back_to_folders_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.make()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o500)
    folder.staging.symlink_to(elsewhere)
    folder.scratch.chmod(0)
    folder.root.chmod(0)
    folder.reclaim()
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.scratch.stat().st_mode) == 0o700
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o500


def test_a_run_folder_that_is_gone_is_nothing_to_reclaim(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").reclaim()
    assert list(tmp_path.iterdir()) == []
