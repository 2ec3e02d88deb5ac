"""Several Claims in one run: what they share, and members that had ended before it began."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.protocol import operations as ops
from tests.repositories import git
from tests.system.world import WORKER, World, make_world, recipe
from tests.waiting import until

CLAIM_RUNNING = "callboard.board.execution.hosts.local.registry:RunRegistry.claim_running"
SETUP = ["callboard", "worker", "assignment", "--open", "--json"]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[World]:
    """A board whose worker takes three Claims in a run, and looks at its open ones first."""
    recipes = {"default": recipe(WORKER, max_claims=3, setup=SETUP)}
    made = make_world(tmp_path / "world", recipes=recipes)
    yield made
    made.end()


def folder_of(world: World) -> RunFolder:
    """The folder of the one run, once its supervisor is gone."""
    until(lambda: not world.supervisors())
    (row,) = world.rows()
    return RunFolder.of(world.folders.state, row.run_id)


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def submit(world: World) -> None:
    world.submit(*({"key": key, "contract": {"artifact": 1}} for key in ("a", "b", "c")))


def test_a_member_that_ended_before_the_run_began_delivers_nothing(shared: World) -> None:
    submit(shared)
    fault = shared.fault(CLAIM_RUNNING, "before", role="supervisor")
    process = shared.start(fault={**fault, "action": "hold", "until": str(shared.file("confirm"))})
    shared.wait_for(shared.file("killed"))
    closed = shared.works()["b"]
    with shared.open() as board:
        board.cancel([closed.work.work_id], reason="not_needed", request_id="no")
    shared.file("confirm").touch()
    shared.finish(process)
    folder = folder_of(shared)
    shared.check_settled()
    works = shared.works()
    assert {key: (one.state, one.barrier) for key, one in works.items()} == {
        "a": ("completed", "verified"),
        "b": ("cancelled", "none"),
        "c": ("completed", "verified"),
    }
    # The worker knew nothing of it and delivered for all three; what exists is of the other two.
    assert len(shared.journal) == 3
    claims = shared.history().projection.claims
    ended = next(one for one in claims.values() if one.claim.work_id == closed.work.work_id)
    refs = git("for-each-ref", "--format=%(refname)", cwd=shared.path)
    assert ended.claim.claim_id not in refs
    assert refs.count("refs/callboard/prepared/") == refs.count("refs/callboard/artifacts/") == 2
    results = [one.work_id for one in shared.operations() if isinstance(one, ops.Result)]
    assert sorted(results) == sorted(works[key].work.work_id for key in ("a", "c"))
    told = {
        "handle": ended.claim.handle,
        "claim_id": ended.claim.claim_id,
        "work_id": closed.work.work_id,
        "state": "cancelled",
        "reason": "not_needed",
    }
    assert read(folder.claims) == {"closed": [told]}
    assert len(read(folder.assignment)["claims"]) == 3
    open_part = read(folder.log("setup", "stdout"))["claims"]
    assert [one["handle"] for one in open_part] == ["h1", "h3"]
    remark = "h2 was cancelled before this run began (not_needed)"
    assert folder.log("setup", "stderr").read_text() == remark + "\n"
    report = read(folder.report)
    (entry,) = [one for one in report["claims"] if one["claim_handle"] == "h2"]
    assert (entry["reason"], entry["detail"], entry["published"]) == (
        "claim_closed", remark, "closed"
    )  # fmt: skip
    assert (entry["outputs"], len(entry["suppressed"])) == ([], 1)
    assert (report["shared_by"], len(report["waits"])) == (2, 2)
    summary = read(folder.summary.with_suffix(".json"))
    assert summary["status"] == "completed_with_cancellations"
    assert (summary["granted"], summary["verified"], summary["cancelled"]) == (3, 2, 1)


def test_a_run_leaves_its_times_and_its_summary(shared: World) -> None:
    submit(shared)
    assert shared.run()["reason"] == "idle"
    folder = folder_of(shared)
    assert read(folder.claims) == {"closed": []}
    report = read(folder.report)
    setup, worker = report["commands"]
    assert (setup["command"], worker["command"]) == ("setup", "worker")
    assert setup["began_ms"] <= worker["began_ms"]
    assert report["setup_ms"] == setup["duration_ms"]
    assert report["worker_ms"] == worker["duration_ms"]
    assert report["shared_by"] == 3
    granted = {one.claim.claim_id: one.at for one in shared.history().projection.claims.values()}
    assert {one["claim_id"]: one["waited_ms"] for one in report["waits"]} == {
        claim_id: worker["began_ms"] - at for claim_id, at in granted.items()
    }
    document = read(folder.summary.with_suffix(".json"))
    assert document["tip"] == shared.history().projection.tip
    assert (document["status"], document["verified"]) == ("completed", 3)
    (launch,) = document["launches"]
    assert (launch["status"], launch["conclusion"]) == ("released", "success")
    assert launch["timing"] == {
        "shared_by": 3, "setup_ms": report["setup_ms"], "worker_ms": report["worker_ms"]
    }  # fmt: skip
    page = folder.summary.read_text()
    assert page.startswith(f"## Run `{report['run_id']}`: completed\n")
    assert ", shared by 3 claims; work " in page
    assert page.count("| `artifact` `out` |") == 3
    assert {path.stat().st_mode & 0o777 for path in folder.root.glob("summary.*")} == {0o600}


def test_a_summary_that_cannot_be_written_changes_nothing(shared: World) -> None:
    fault = shared.fault(CLAIM_RUNNING, "before", role="supervisor")
    submit(shared)
    process = shared.start(fault={**fault, "action": "hold", "until": str(shared.file("confirm"))})
    shared.wait_for(shared.file("killed"))
    (row,) = shared.rows()
    folder = RunFolder.of(shared.folders.state, row.run_id)
    (folder.summary.with_suffix(".json") / "in the way").mkdir(parents=True)
    shared.file("confirm").touch()
    shared.finish(process)
    assert folder_of(shared) == folder
    shared.check_settled()
    assert {one.barrier for one in shared.works().values()} == {"verified"}
    (row,) = shared.rows()
    assert row.conclusion == "success"
    said = [str(one["text"]) for one in row.notes]
    assert said[0].startswith("the summary could not be written: ")
    # What comes after it is done all the same: the clone holds a file that is nowhere else.
    assert said[1].startswith(f"the work tree {str(folder.work)!r} is kept")
    assert not folder.summary.exists()
