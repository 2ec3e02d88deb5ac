"""What the processes of a board tell of themselves, and that it changes nothing for the board."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.telemetry.vocabulary import METRICS, PREFIX, Facts, Labels
from tests.system.world import BOTH, WORKER, World, make_world, recipe
from tests.waiting import until

EXPORTERS = str(Path(__file__).resolve().parent / "exporters")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
INBOUND = f"00-{TRACE}-{PARENT}-01"
EVENT = re.compile(r"\d\d:\d\d:\d\d  \w+ +task\Z")
SECRET = "hunter2-hunter2"


def call(world: World, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line on that board, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "callboard", *words],
        cwd=world.path,
        env={
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(world.folders.config),
            "CALLBOARD_STATE_DIR": str(world.folders.state),
            "TELLING": str(world.file("told")),
            "PYTHONPATH": EXPORTERS,
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(world: World, kind: str) -> list[Any]:
    path = world.file("told")
    found = path.read_text().splitlines() if path.exists() else []
    return [document[kind] for line in found if kind in (document := json.loads(line))]


def facts(span: dict[str, Any]) -> dict[str, Any]:
    """What a span says, by the names that the code has for it."""
    return {name.removeprefix(PREFIX): value for name, value in span["attributes"].items()}


def named(spans: list[Any], name: str) -> list[Any]:
    return [one for one in spans if one["name"] == f"work-queue.{name}"]


def span_id(span: dict[str, Any]) -> str:
    return str(span["context"]["span_id"]).removeprefix("0x")


def parent_id(span: dict[str, Any]) -> str:
    return str(span["parent_id"]).removeprefix("0x")


@pytest.fixture
def batched(tmp_path: Path) -> Any:
    """A board whose runs take two nodes each, and note the trace that they are offered."""
    root = tmp_path / "world"
    noting = f'printf %s "$TRACEPARENT" > {root}/offered; env > {root}/seen; exec "$@"'
    worker = recipe(["sh", "-c", noting, "sh", *WORKER], max_claims=2, setup=["true"])
    world = make_world(root, recipes={"default": worker})
    yield world
    world.end()


def test_a_run_is_told_as_one_trace_by_the_ids_of_the_ledger(batched: World) -> None:
    world = batched
    keys = ["secret-node-a", "secret-node-b"]
    world.submit(*[{"key": key, "contract": BOTH, "payload": {"x": SECRET}} for key in keys])
    done = call(
        world, "run", "--until-idle", TRACEPARENT=INBOUND, OTEL_TRACES_EXPORTER="lines",
        OTEL_METRICS_EXPORTER="lines", OTEL_EXPORTER_OTLP_HEADERS=f"authorization={SECRET}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    world.check_settled()
    until(lambda: named(lines(world, "span"), "run.run"))
    spans = lines(world, "span")
    assert {one["context"]["trace_id"] for one in spans} == {f"0x{TRACE}"}
    _check_tree(world, spans)
    _check_publications(world, spans)
    _check_metrics(world)
    _check_silence(world, keys)


def _check_tree(world: World, spans: list[Any]) -> None:
    """One run for both Claims, each part inside the one that began it, across processes."""
    (dispatch,) = world.history().projection.dispatches.values()
    (schedule,), (launch,) = named(spans, "schedule.run"), named(spans, "launch.run")
    (run,), (setup,) = named(spans, "run.run"), named(spans, "run.setup")
    (worker,), (wrap_up,) = named(spans, "run.worker"), named(spans, "run.wrap-up")
    verified = named(spans, "run.verify")
    assert parent_id(schedule) == PARENT
    assert parent_id(launch) == span_id(schedule)
    assert parent_id(run) == span_id(launch)
    assert {parent_id(one) for one in (setup, worker, wrap_up)} == {span_id(run)}
    assert {parent_id(one) for one in verified} == {span_id(wrap_up)}
    assert world.file("offered").read_text().startswith(f"00-{TRACE}-{span_id(worker)}-")
    claims = [one.claim_id for one in dispatch.assignment.claims]
    assert len(claims) == 2
    assert facts(launch)["claim_refs"] == facts(run)["claim_refs"] == claims
    assert sorted(facts(one)["claim_refs"][0] for one in verified) == sorted(claims)
    assert {facts(one)["result"] for one in verified} == {"verified"}
    for one in (launch, run):
        assert facts(one)["dispatch_id"] == dispatch.assignment.dispatch_id
        assert dispatch.run is not None
        assert facts(one)["run_id"] == dispatch.run.run_id
    assert named(spans, "reconcile.run")


def _check_publications(world: World, spans: list[Any]) -> None:
    """Each commit after the submission has its span, and names it."""
    history = world.history()
    published = {
        facts(one)["commit_id"]: one
        for one in named(spans, "publish.run")
        if facts(one)["result"] == "accepted"
    }
    commits = [history.commit(ordinal) for ordinal in range(history.projection.ordinal)]
    submitted = [one for one in commits if one.id not in published]
    assert [one.request.__struct_config__.tag for one in submitted] == ["submit"]
    for commit in commits[1:]:
        told = facts(published[commit.id])
        assert told["previous"] == commit.previous
        assert told["request_id"] == commit.request.id
        assert told["policy_epoch"] == commit.policy_epoch
        assert len(told["observed_git_sha"]) == 40
        assert isinstance(commit.trace, wire.Trace)
        assert commit.trace.trace_id == TRACE
        assert commit.trace.span_id == span_id(published[commit.id])
        assert commit.trace.publisher_attempt == told["attempt"]


def _points(world: World) -> list[tuple[str, dict[str, Any], Any]]:
    """The last export of each process, point by point."""
    last = {}
    for line in world.file("told").read_text().splitlines():
        document = json.loads(line)
        if "metrics" in document:
            last[document["pid"]] = document["metrics"]
    return [
        (metric["name"].removeprefix(PREFIX), point["attributes"], point.get("value"))
        for document in last.values()
        for resource in document["resource_metrics"]
        for scope in resource["scope_metrics"]
        if scope["scope"]["name"] == "callboard"
        for metric in scope["metrics"]
        for point in metric["data"]["data_points"]
    ]


def _check_metrics(world: World) -> None:
    """Each decision is counted once, under names of which there are few."""
    totals: Counter[str] = Counter()
    for name, labels, value in _points(world):
        assert name in METRICS
        assert {one.removeprefix(PREFIX) for one in labels} <= set(Labels.__annotations__)
        totals[name] += value or 0
    recorded = Counter(type(one) for one in world.operations())
    assert totals["grants"] == recorded[ops.Claim] == 2
    assert totals["claims.finished"] == recorded[ops.Completion] == 2
    assert totals["deliveries"] == recorded[ops.Result] == 2
    assert totals["releases"] == recorded[ops.Release] == 1
    assert totals["launches"] == 1


def _check_silence(world: World, keys: list[str]) -> None:
    """Nothing that somebody wrote, and no place of theirs, is told; nor is a secret passed on."""
    told = world.file("told").read_text()
    assert [one for one in (SECRET, *keys, str(world.root), "hunter2") if one in told] == []
    known = {PREFIX + name for name in Facts.__annotations__}
    for span in lines(world, "span"):
        assert set(span["attributes"]) <= known
        assert span["events"] == []
    seen = world.file("seen").read_text()
    assert "OTEL_" not in seen
    assert SECRET not in seen


@pytest.mark.parametrize("exporter", ["raising", "hanging", "nowhere", "otlp"])
def test_an_exporter_that_fails_is_no_affair_of_the_board(world: World, exporter: str) -> None:
    world.submit({"key": "task", "contract": BOTH})
    done = call(world, "run", "--until-idle", OTEL_TRACES_EXPORTER=exporter)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not EVENT.match(line)] == []
    world.check_settled()
    assert world.works()["task"].barrier == "verified"
    assert world.file("told").exists() is (exporter == "hanging")


@pytest.mark.parametrize("missing", ["opentelemetry/sdk", "opentelemetry"])
def test_a_board_without_the_sdk_does_its_work_and_hands_on_the_trace(
    batched: World, tmp_path: Path, missing: str
) -> None:
    blocked = tmp_path / "blocked" / missing
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text('raise ImportError("not installed")\n')
    world = batched
    world.submit({"key": "task", "contract": BOTH})
    done = call(
        world, "run", "--until-idle", TRACEPARENT=INBOUND, OTEL_TRACES_EXPORTER="lines",
        PYTHONPATH=f"{tmp_path / 'blocked'}{os.pathsep}{EXPORTERS}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not EVENT.match(line)] == []
    world.check_settled()
    assert not world.file("told").exists()
    assert world.file("offered").read_text() == INBOUND
    assert b'"trace":' not in world.ledger()


def test_trace_and_receipt_say_whether_a_trace_was_recorded(world: World) -> None:
    world.submit({"key": "first"}, request_id="by-hand")
    assert call(world, "explain", "--request", "by-hand").returncode == 0
    paused = call(
        world, "pause", "grants", "--reason", "rest", "--request-id", "watched", "--json",
        OTEL_TRACES_EXPORTER="lines",
    )  # fmt: skip
    assert paused.returncode == 0, paused.stderr
    (span,) = lines(world, "span")
    told = json.loads(call(world, "explain", "--request", "watched", "--json").stdout)
    assert (told["trace"], told["span_id"]) == ("recorded", span_id(span))
    assert told["commit_id"] == facts(span)["commit_id"]
    told = json.loads(call(world, "explain", "--request", "by-hand", "--json").stdout)
    assert told["trace"] == "absent"
    assert "trace_id" not in told
    assert "spans recorded" not in call(world, "trace", "first").stdout
