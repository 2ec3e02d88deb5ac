"""OpenTelemetry's SDK for a process of Callboard's own: providers and the exporters asked for.

Imported only where an exporter is asked for and never by other code than `telemetry`, since the
SDK is an extra. Sending is left to threads that the work never waits for. Where another provider
is set already, as by an instrumented start, that one stays.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from callboard import __version__

_SERVICE = "callboard"
# What the specification of OpenTelemetry calls `otlp` is this package's HTTP exporter here.
_NAMES = {"otlp": ("otlp_proto_http", "otlp")}


def set_up(wanted: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> list[Any]:
    """Install providers for the signals `TRACES` and `METRICS`, each with the exporters named.

    Answers those that are the process's own, to be shut down at its end. An exporter that is not
    installed, or cannot be made, is left out.
    """
    if "CALLBOARD_DEBUG" not in environment:
        # An exporter that cannot send is no affair of whoever reads this process's own words.
        quiet = logging.getLogger("opentelemetry")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
    resource = _resource(environment)
    own: list[Any] = []
    exporters = _made("opentelemetry_traces_exporter", wanted["TRACES"])
    if exporters and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in exporters:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
        own.append(tracers)
    exporters = _made("opentelemetry_metrics_exporter", wanted["METRICS"])
    if exporters:
        readers: list[MetricReader] = [PeriodicExportingMetricReader(one) for one in exporters]
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        own.append(meters)
    return own


def _resource(environment: Mapping[str, str]) -> Resource:
    """Who tells: what the standard variables say, and else that it is Callboard."""
    named = {"service.version": __version__}
    stated = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if "OTEL_SERVICE_NAME" not in environment and "service.name=" not in stated:
        named["service.name"] = _SERVICE
    return Resource.create(named)


def _made(group: str, names: Sequence[str]) -> list[Any]:
    made: list[Any] = []
    for name in names:
        for candidate in _NAMES.get(name, (name,)):
            found = tuple(entry_points(group=group, name=candidate))
            if found:
                with suppress(Exception):
                    made.append(found[0].load()())
                break
    return made
