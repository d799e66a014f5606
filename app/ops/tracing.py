"""OpenTelemetry, where the extra `phonechain[otel]` is installed and an OTLP endpoint is set; else nothing at all.

The standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...) are read by the
OpenTelemetry packages themselves. A request is one span, named and described after the semantic conventions for HTTP,
and continues the trace of the header `traceparent`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
MISSING = "{name} is set, but the packages for it are not there: pip install 'phonechain[otel]'; no traces are sent"

log = logging.getLogger(__name__)


class Tracing:
    """Spans of one application. Without a provider every method does nothing."""

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider
        self.enabled = provider is not None
        self._tracer: Any = None
        if provider is not None:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            self._trace = trace
            self._tracer = provider.get_tracer("phonechain")
            self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Tracing:
        """On where an endpoint is set. Without the packages a line in the log says so, and the service runs."""
        name = next((name for name in VARIABLES if environ.get(name)), None)
        if name is None or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return cls()
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            log.warning(MISSING.format(name=name))
            return cls()
        from phonechain.app.version import version

        about = {"service.version": version()}
        if "OTEL_SERVICE_NAME" not in environ:
            about["service.name"] = "phonechain"
        provider = TracerProvider(resource=Resource.create(about))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Any]:
        """The span around a request; None where tracing is off."""
        if self._tracer is None:
            yield None
            return
        carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "url.scheme": scope.get("scheme", "http")}
        with self._tracer.start_as_current_span(
            scope["method"],
            context=self._propagator.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes=attributes,
        ) as span:
            yield span

    def end(self, span: Any, method: str, route: str, status: int) -> None:
        """What is known of a request when it has been answered."""
        if span is None:
            return
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    def trace_id(self, span: Any) -> str:
        """For the log; empty where tracing is off."""
        return "" if span is None else format(span.get_span_context().trace_id, "032x")

    def close(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()
