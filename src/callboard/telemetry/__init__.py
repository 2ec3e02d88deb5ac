"""Spans and metrics for whoever watches boards with OpenTelemetry: what was done, by queue ids.

Source: specification 1, §7.13. It works through the API package and does nothing unless this
process records spans, or its environment asks for an exporter; nothing is imported before the
first span. What is told is derived: it decides nothing, it never raises, hangs or writes into the
work, and it never carries payloads, plans, secrets, paths or texts that somebody submitted.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, NamedTuple, Unpack

from callboard.errors import CallboardError
from callboard.telemetry.vocabulary import (
    METRICS,
    PREFIX,
    Facts,
    Labels,
    MetricName,
    SpanName,
    attributes,
)

__all__ = [
    "Facts", "Labels", "Span", "SpanIds", "SpanName", "begin", "end", "is_on", "measure",
    "outgoing", "recorded", "span", "tell", "told_to",
]  # fmt: skip

SCOPE = "callboard"
TRACEPARENT = "TRACEPARENT"
# How long the end of a process waits for what it has told to be sent.
LAST_WORDS_S = 3.0

# Compiled at first use, as starting up should not pay for it.
_PARENT = r"\A00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class SpanIds(NamedTuple):
    """Which recorded span something was done in, as 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str


class _Process:
    """What this process knows of telemetry. `environment` is None until `begin`."""

    def __init__(self) -> None:
        self.environment: Mapping[str, str] | None = None
        self.is_set_up = False
        self.tracers: Any = None
        self.meters: Any = None
        self.instruments: dict[str, Any] = {}
        self.own: list[Any] = []


_process = _Process()
_innermost: ContextVar[_Live | None] = ContextVar("callboard_span", default=None)


class Span:
    """Something that is told; this one keeps it to itself."""

    def set(self, **facts: Unpack[Facts]) -> None:
        """Add what has become known."""

    def keep(self) -> None:
        """Tell of it although it is quiet."""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        return None


_SILENT = Span()


class _Live(Span):
    """A span of the API. A quiet one is dropped unless it, or one inside it, was kept."""

    def __init__(self, tracer: Any, name: str, quiet: bool, facts: Mapping[str, Any]) -> None:
        self._tracer = tracer
        self._name = name
        self._is_kept = not quiet
        self._facts = facts
        self._span: Any = None
        self._scope: Any = None
        self._outer: _Live | None = None
        self._token: Token[_Live | None] | None = None

    def set(self, **facts: Unpack[Facts]) -> None:
        with suppress(Exception):
            if self._span is not None:
                self._span.set_attributes(attributes(facts, Facts.__annotations__))

    def keep(self) -> None:
        self._is_kept = True

    def __enter__(self) -> Span:
        with suppress(Exception):
            from opentelemetry import trace

            self._span = self._tracer.start_span(
                self._name,
                context=_inbound(),
                attributes=attributes(self._facts, Facts.__annotations__),
                record_exception=False,
                set_status_on_exception=False,
            )
            scope = trace.use_span(
                self._span, record_exception=False, set_status_on_exception=False
            )
            scope.__enter__()
            self._scope = scope
            self._outer = _innermost.get()
            self._token = _innermost.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            if error is not None:
                self._fail(error)
        with suppress(Exception):
            if self._token is not None:
                _innermost.reset(self._token)
            if self._scope is not None:
                self._scope.__exit__(None, None, None)
        with suppress(Exception):
            if self._is_kept and self._span is not None:
                if self._outer is not None:
                    self._outer.keep()
                self._span.end()

    def _fail(self, error: BaseException) -> None:
        """The code alone: a message may hold paths and what somebody typed."""
        from opentelemetry.trace import Status, StatusCode

        self.keep()
        code = error.code if isinstance(error, CallboardError) else type(error).__name__
        self.set(result=code)
        self._span.set_status(Status(StatusCode.ERROR))


# --- telling ------------------------------------------------------------------------------------


def span(name: SpanName, *, quiet: bool = False, **facts: Unpack[Facts]) -> Span:
    """A span around a block. A `quiet` one is told of only where something came of it."""
    tracer = _tracer()
    return _SILENT if tracer is None else _Live(tracer, name, quiet, facts)


def tell(**facts: Unpack[Facts]) -> None:
    """Add to the innermost span what has become known."""
    innermost = _innermost.get()
    if innermost is not None:
        innermost.set(**facts)


def measure(name: MetricName, value: float = 1, **labels: Unpack[Labels]) -> None:
    """Count, record or set one metric, in the unit that `METRICS` gives it."""
    with suppress(Exception):
        instrument = _instrument(name)
        if instrument is None:
            return
        told = attributes(labels, Labels.__annotations__)
        maker, _unit, _meaning = METRICS[name]
        if maker == "create_counter":
            instrument.add(value, told)
        elif maker == "create_gauge":
            instrument.set(value, told)
        else:
            instrument.record(value, told)


def is_on() -> bool:
    """Whether anything that is told could reach anybody; to save the work of finding it out."""
    return _tracer() is not None


def recorded() -> SpanIds | None:
    """The span that this is done in, where one is recorded and will be sent."""
    if _innermost.get() is None:
        return None
    with suppress(Exception):
        from opentelemetry import trace

        current = trace.get_current_span()
        context = current.get_span_context()
        if current.is_recording() and context.is_valid and context.trace_flags.sampled:
            return SpanIds(
                trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)
            )
    return None


def outgoing(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that lets a child process go on with the present trace.

    Without a span that is the well-formed one of `environment`; nothing else is passed on.
    """
    with suppress(Exception):
        trace = sys.modules.get("opentelemetry.trace")
        if trace is not None:
            context = trace.get_current_span().get_span_context()
            if context.is_valid:
                ids = f"{context.trace_id:032x}-{context.span_id:016x}"
                return {TRACEPARENT: f"00-{ids}-{int(context.trace_flags):02x}"}
    given = environment.get(TRACEPARENT, "")
    return {TRACEPARENT: given} if re.match(_PARENT, given) else {}


# --- a process ----------------------------------------------------------------------------------


def begin(environment: Mapping[str, str]) -> None:
    """Let this process, which is Callboard's own, tell as `environment` asks (`OTEL_*`).

    Costs nothing yet. Inside somebody else's process theirs is the word, and this is not called.
    """
    _process.environment = environment


def end() -> None:
    """Send what was told, for at most `LAST_WORDS_S`, however the exporter behaves."""
    own, _process.own = _process.own, []
    if not own:
        return
    deadline = time.monotonic() + LAST_WORDS_S
    senders = [threading.Thread(target=_shut, args=(one,), daemon=True) for one in own]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def told_to(tracers: Any, meters: Any = None) -> Iterator[None]:
    """Tell these providers of OpenTelemetry instead of the global ones, for the block."""
    before = (_process.tracers, _process.meters, _process.instruments)
    _process.tracers, _process.meters, _process.instruments = tracers, meters, {}
    try:
        yield
    finally:
        _process.tracers, _process.meters, _process.instruments = before


def _shut(provider: Any) -> None:
    with suppress(Exception):
        provider.shutdown()


def _tracer() -> Any:
    with suppress(Exception):
        if not _is_there():
            return None
        from opentelemetry import trace

        return trace.get_tracer(SCOPE, tracer_provider=_process.tracers)
    return None


def _instrument(name: MetricName) -> Any:
    if not _is_there():
        return None
    if name not in _process.instruments:
        from opentelemetry import metrics

        meter = metrics.get_meter(SCOPE, meter_provider=_process.meters)
        maker, unit, meaning = METRICS[name]
        make = getattr(meter, maker)
        _process.instruments[name] = make(PREFIX + name, unit=unit, description=meaning)
    return _process.instruments[name]


def _is_there() -> bool:
    """Whether somebody uses OpenTelemetry in this process, or this process is asked to."""
    if not _process.is_set_up and _process.environment is not None:
        _process.is_set_up = True
        wanted = {signal: _exporters(signal, _process.environment) for signal in _SIGNALS}
        if any(wanted.values()):
            with suppress(Exception):
                from callboard.telemetry import providers

                _process.own = providers.set_up(wanted, _process.environment)
    return _process.tracers is not None or "opentelemetry.trace" in sys.modules


_SIGNALS = ("TRACES", "METRICS")


def _exporters(signal: str, environment: Mapping[str, str]) -> list[str]:
    """The exporters that the standard variables ask for; none unless one is asked for."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    endpoint = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    asked = environment.get(f"OTEL_{signal}_EXPORTER", "")
    if not asked and (environment.get(_ENDPOINT) or environment.get(endpoint)):
        asked = "otlp"
    return [name for part in asked.split(",") if (name := part.strip()) not in ("", "none")]


def _inbound() -> Any:
    """The context of a new span: the present one, at the outside that of who started us."""
    from opentelemetry import context, trace

    here = context.get_current()
    environment = _process.environment
    if environment is None or trace.get_current_span(here).get_span_context().is_valid:
        return here
    given = environment.get(TRACEPARENT, "")
    if not re.match(_PARENT, given):
        return here
    _version, trace_id, span_id, flags = given.split("-")
    parent = trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16))
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), here)
