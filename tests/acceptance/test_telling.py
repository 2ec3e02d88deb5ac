"""What a board tells of its decisions: by the ledger alone, and nothing of what nodes hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.board.outputs.intake import take
from callboard.board.protocol import operations as ops
from callboard.telemetry.vocabulary import PREFIX
from tests.ambient import ROOT
from tests.board.outputs import scene
from tests.surfaces.cli.conftest import PROGRAM, Person, environment
from tests.system.world import BOTH, WORKER, World, make_world, recipe
from tests.waiting import until

EXPORTERS = str(ROOT / "tests" / "system" / "exporters")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "hunter2-hunter2"


def dispatched(person: Person, told: Path | None, *words: str) -> Any:
    """The receipt of a batch by a process that is recorded in a file, or by one that is not."""
    telling = {
        "OTEL_TRACES_EXPORTER": "lines", "OTEL_METRICS_EXPORTER": "lines",
        "PYTHONPATH": f"{EXPORTERS}{os.pathsep}{ROOT / 'src'}",
    }  # fmt: skip
    outer = {} if told is None else {**telling, "TELLING": str(told)}
    done = subprocess.run(
        [*PROGRAM, "dispatch", *words, "--json"],
        cwd=person.folder, env={**environment(person), **outer},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("recorded", [False, True], ids=["unrecorded", "recorded"])
def test_explain_trace_parity(person: Person, tmp_path: Path, recorded: bool) -> None:
    """A batch of three: the receipt, the decision of each Claim and the trace of each node name
    the same commit and place in it, whether or not anybody recorded the deciding."""
    person.configure("[work_queue.accounting_weights]\na = 1\nb = 1\n")
    nodes = [
        {"key": f"{key}{n}", "payload": {}, "fairness_key": key} for n in range(2) for key in "ab"
    ]
    person.submit(json.dumps({"graph": "g", "nodes": nodes}))
    words = ["--max-claims", "3", "--max-dispatches", "3", "--request-id", "r"]
    told = tmp_path / "told"
    receipt = dispatched(person, told if recorded else None, *words)
    assert told.exists() is recorded
    decisions = [
        person.ask("explain", "--before-claim", one["claim_ref"]) for one in receipt["claims"]
    ]
    assert [one["winner"]["node_key"] for one in decisions] == ["a0", "b0", "a1"]
    # Equal weights: both begin at one; a's second turn is at two, as b's would be.
    assert [one["winner"]["key_pass"] for one in decisions] == ["1", "1", "2"]
    assert [one["decision"]["operation"] for one in decisions] == [0, 1, 2]
    assert {one["decision"]["commit_id"] for one in decisions} == {receipt["commit_id"]}
    assert [one["capacity"]["logical"]["before"] for one in decisions] == [0, 1, 2]
    found = person.ask("explain", "--request", "r")
    assert found["limiting_reason"] == receipt["limiting_reason"] == "claim_budget_reached"
    lines = [json.loads(line) for line in person.ledger.splitlines()]
    (line,) = [one for one in lines if one["id"] == receipt["commit_id"]]
    assert ("trace" in line) is recorded
    for number, key in enumerate(("a0", "b0", "a1")):
        commits = person.ask("trace", key)["commits"]
        (commit,) = [one for one in commits if one["commit_id"] == line["id"]]
        (claim,) = commit["operations"]
        assert claim["claim_id"] == line["operations"][number]["claim_id"]
    until(lambda: not person.ask("reconcile")["found"])


def test_trace_trust_privacy(tmp_path: Path) -> None:
    """What a run says of traces is not believed, what nodes hold is not told, and no id is among
    the names by which numbers are counted."""
    world = make_world(tmp_path / "world", recipes={"default": recipe(WORKER, max_claims=2)})
    told = world.file("told")
    override = {"trace": {"trace_id": "a" * 32, "span_id": "b" * 16}, "traceparent": "00-x"}
    try:
        world.submit(
            {"key": "secret-node", "contract": BOTH, "payload": {"x": SECRET, **override}},
            {"key": "secret-two", "contract": BOTH},
        )
        done = subprocess.run(
            [sys.executable, "-m", "callboard", "run", "--until-idle"],
            cwd=world.path, capture_output=True, text=True, timeout=120, check=False,
            env={
                **os.environ,
                "CALLBOARD_CONFIG_DIR": str(world.folders.config),
                "CALLBOARD_STATE_DIR": str(world.folders.state),
                "PYTHONPATH": EXPORTERS, "TELLING": str(told),
                "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
                "OTEL_TRACES_EXPORTER": "lines", "OTEL_METRICS_EXPORTER": "lines",
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}",
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        world.check_settled()
        _check_told(world, told.read_text())
    finally:
        world.end()


def _check_told(world: World, text: str) -> None:
    for word in (SECRET, "secret-node", "secret-two", str(world.root), "a" * 32):
        assert word not in text
    documents = [json.loads(line) for line in text.splitlines()]
    spans = [one["span"] for one in documents if "span" in one]
    assert {one["context"]["trace_id"] for one in spans} == {f"0x{TRACE}"}
    points = [
        point
        for one in documents if "metrics" in one
        for resource in one["metrics"]["resource_metrics"]
        for scope in resource["scope_metrics"] if scope["scope"]["name"] == "callboard"
        for metric in scope["metrics"]
        for point in metric["data"]["data_points"]
    ]  # fmt: skip
    labels = {name.removeprefix(PREFIX) for point in points for name in point["attributes"]}
    assert labels
    assert not [name for name in labels if name.endswith(("_id", "_ref", "_refs", "key"))], labels
    ids = {one.claim_id for one in world.operations() if isinstance(one, ops.Claim)}
    values = {str(value) for point in points for value in point["attributes"].values()}
    assert not values & ids
    # The commits of the run name the trace of who dispatched it, and no other.
    history = world.history()
    traces = [history.commit(n).trace for n in range(1, history.projection.ordinal)]
    assert {getattr(one, "trace_id", None) for one in traces} == {TRACE}


@pytest.mark.parametrize("field", ["trace", "traceparent", "span_id", "commit_id"])
def test_trace_trust_privacy_of_messages(tmp_path: Path, field: str) -> None:
    """A message that brings a provenance of its own is none, and its Claim stays as it was."""
    folder = scene.staging(tmp_path)
    scene.put(folder, 1, scene.finish(1, **{field: "4bf92f3577b34da6"}))
    found = take(folder, scene.assignment(scene.NO_WRITES), scene.TERMS)
    (claim,) = found.claims
    assert (claim.outcome, claim.reason) == ("cancelled", "no_finish")
    refusals = [*found.unattributed, *claim.refusals]
    assert [one.code for one in refusals] == ["message_invalid"]
