"""Exporters for the tests of what processes tell: to a file that all of them append to, and two
that misbehave. Found by name, as any installed exporter is; `TELLING` names the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


def _append(kind: str, document: str) -> None:
    line = f'{{"pid":{os.getpid()},"{kind}":{document}}}\n'
    target = Path(os.environ["TELLING"])
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as stream:
        stream.write(line.encode())


class SpanLines(SpanExporter):
    """One line a span."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            _append("span", span.to_json(indent=None))
        return SpanExportResult.SUCCESS


class MetricLines(MetricExporter):
    """One line an export."""

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_more: Any
    ) -> MetricExportResult:
        _append("metrics", metrics_data.to_json(indent=None))
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_more: Any) -> None:
        return None


class Raising(SpanExporter):
    """Cannot do anything without complaint."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError(f"{len(spans)} spans are not wanted")

    def shutdown(self) -> None:
        raise RuntimeError("not yet")


class Hanging(SpanExporter):
    """Never comes back."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        Path(os.environ["TELLING"]).touch()
        threading.Event().wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        threading.Event().wait()
