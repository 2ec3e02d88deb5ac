"""Telemetry by itself: what is told, what is kept back, and that it never gets in the way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callboard import telemetry
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol import commit as wire
from callboard.board.protocol.envelope import read_line
from callboard.canonical import encode
from callboard.errors import CallboardError
from callboard.telemetry.vocabulary import PREFIX, SpanName
from tests.board.publishing.test_publisher import Racing, ask
from tests.board.reading.staged_board import StagedBoard, node

IDS = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


class Listener:
    """Who is told, in this process."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and facts of each span that ended, in order."""
        return [
            (
                one.name,
                {name.removeprefix(PREFIX): it for name, it in (one.attributes or {}).items()},
            )
            for one in self.exporter.get_finished_spans()
        ]

    def totals(self) -> dict[str, Any]:
        """The sum of each metric's points."""
        found: dict[str, Any] = {}
        data: Any = self.reader.get_metrics_data()
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            points = metric.data.data_points
            name = metric.name.removeprefix(PREFIX)
            found[name] = sum(getattr(one, "value", getattr(one, "sum", 0)) for one in points)
        return found


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    with telemetry.told_to(made.tracers, made.meters):
        yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def test_nothing_of_opentelemetry_is_imported_before_somebody_listens() -> None:
    program = (
        "import sys\n"
        "from callboard import telemetry\n"
        "from callboard.board import board\n"
        "from callboard.board.execution import runner\n"
        "from callboard.board.execution.hosts.local import supervisor\n"
        "telemetry.begin({'OTEL_TRACES_EXPORTER': 'none', 'TRACEPARENT': 'x'})\n"
        "with telemetry.span('work-queue.publish.run'):\n"
        "    telemetry.measure('grants')\n"
        "telemetry.end()\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_quiet_span_is_told_only_where_something_came_of_it(listener: Listener) -> None:
    outer: SpanName = "work-queue.reconcile.run"
    inner: SpanName = "work-queue.publish.run"
    with telemetry.span(outer, quiet=True), telemetry.span(inner, quiet=True):
        pass
    assert listener.spans() == []
    with telemetry.span(outer, quiet=True), telemetry.span(inner, quiet=True) as span:
        span.keep()
    assert [name for name, _facts in listener.spans()] == [inner, outer]


def test_an_error_is_told_by_its_code_alone(listener: Listener) -> None:
    refusal = CallboardError("plan_invalid", "at /home/somebody/plan", "write another")
    quiet = telemetry.span("work-queue.publish.run", quiet=True)
    with pytest.raises(CallboardError, match="somebody"), quiet:
        raise refusal
    ((_name, facts),) = listener.spans()
    assert facts == {"result": "plan_invalid"}
    (span,) = listener.exporter.get_finished_spans()
    assert (span.events, span.status.description, span.status.is_ok) == ((), None, False)


@pytest.mark.parametrize("text", ["please do this", "a/b", "../up", "x" * 129, "", "naïve\n"])
def test_a_text_that_is_no_id_is_told_by_its_digest(listener: Listener, text: str) -> None:
    with telemetry.span("work-queue.publish.run", request_id=text, work_refs=[text, "w_1"]):
        pass
    ((_name, facts),) = listener.spans()
    assert facts["request_id"].startswith("sha256:")
    assert facts["work_refs"] == (facts["request_id"], "w_1")


def test_what_has_no_name_is_not_told(listener: Listener) -> None:
    more: Any = {"payload": "secret"}
    with telemetry.span("work-queue.publish.run", request_id="r", **more) as span:
        span.set(**more)
    assert listener.spans() == [("work-queue.publish.run", {"request_id": "r"})]


class Hostile:
    """A provider that refuses whatever is asked of it, at the step it is told."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __getattr__(self, name: str) -> Any:
        def answer(*_positional: Any, **_named: Any) -> Any:
            if name == self._step:
                raise RuntimeError(name)
            return self

        return answer


@pytest.mark.parametrize(
    "step",
    [
        "get_tracer", "start_span", "set_attributes", "end", "set_status", "get_span_context",
        "is_recording", "get_meter", "create_counter", "create_histogram", "add", "record",
    ],
)  # fmt: skip
def test_a_provider_that_raises_does_not_reach_the_board(step: str) -> None:
    board = StagedBoard()
    with telemetry.told_to(Hostile(step), Hostile(step)):
        board.submit(node("a"), node("b"))
        board.ask(request_id="mine")
    assert board.view().projection.requests["mine"].claims


def test_a_publication_says_how_often_it_was_tried(listener: Listener) -> None:
    racing = Racing(times=2)
    ask(racing.board, racing.publisher(), "mine")
    (told,) = [facts for _name, facts in listener.spans() if facts.get("request_id") == "mine"]
    assert (told["attempt"], told["result"], told["replayed"]) == (3, "accepted", False)
    assert (told["mode"], told["priorities"], told["pool"]) == (
        "weighted-priority",
        ("3",),
        "default",
    )
    totals = listener.totals()
    assert totals["publication.conflicts"] == 2
    assert totals["grants"] == 3
    history = racing.board.publisher.refresh()
    commit = history.commit(history.projection.commit_ids[told["commit_id"]])
    assert isinstance(commit.trace, wire.Trace)
    assert commit.trace.publisher_attempt == 3


def test_a_repetition_is_told_as_one_and_counts_no_grant(listener: Listener) -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    board.ask(request_id="mine")
    board.ask(request_id="mine")
    told = [facts for _name, facts in listener.spans() if facts["request_id"] == "mine"]
    assert [one["result"] for one in told] == ["accepted", "replayed"]
    assert told[0]["commit_id"] == told[1]["commit_id"]
    assert listener.totals()["grants"] == 1


def test_a_trace_in_the_ledger_decides_nothing(listener: Listener) -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    board.ask(request_id="mine")
    with telemetry.told_to(None):
        plain = StagedBoard()
        plain.submit(node("a"), node("b"))
        plain.ask(request_id="mine")
    stripped = b""
    for line in board.data.splitlines():
        document = read_line(line).commit
        assert isinstance(document.trace, wire.Trace)
        stripped += _without_trace(line) + b"\n"
    assert stripped == plain.data
    told, other = (_state(one) for one in (board.data, plain.data))
    assert told == other


def _without_trace(line: bytes) -> bytes:
    document = json.loads(line)
    del document["trace"]
    return encode(document)


def _state(data: bytes) -> Any:
    """The whole state, save how long the ledger is."""
    document: Any = state_document(History.read(data).projection)
    return {name: value for name, value in document.items() if name != "ledger_bytes"}


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (f"00-{IDS}-01", True),
        (f"00-{IDS}-00", True),
        (f"ff-{IDS}-01", False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        (f"00-{IDS}-01; rm", False),
        (f"00-{IDS.upper()}-01", False),
        ("", False),
    ],
)
def test_only_a_well_formed_trace_is_handed_on(given: str, passed: bool) -> None:
    environment = {"TRACEPARENT": given, "TRACESTATE": "a=b", "BAGGAGE": "user=me"}
    assert telemetry.outgoing(environment) == ({"TRACEPARENT": given} if passed else {})


def test_a_child_goes_on_with_the_present_span(listener: Listener) -> None:
    with telemetry.span("work-queue.launch.run"):
        ids = telemetry.recorded()
        assert ids is not None
        told = telemetry.outgoing({"TRACEPARENT": f"00-{IDS}-01"})
    version, *passed, flags = told["TRACEPARENT"].split("-")
    assert (version, tuple(passed), int(flags, 16) & 1) == ("00", ids, 1)
    assert telemetry.recorded() is None
