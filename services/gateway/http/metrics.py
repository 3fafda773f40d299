"""Counts of the HTTP front, in Prometheus' default registry."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from starlette.routing import Route
from starlette.types import Scope

REQUESTS = Counter("stagemesh_http_requests_total", "HTTP requests by route and status", ("route", "method", "status"))
SECONDS = Histogram(
    "stagemesh_http_request_seconds",
    "Time from the head of a request to the end of its reply",
    ("route",),
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
STREAMS = Gauge("stagemesh_http_open_streams", "Server-sent event streams that are open")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def observe(scope: Scope, status: int, duration_s: float) -> None:
    """Labels come from fixed sets, so that callers cannot make new time series."""
    route = scope.get("route")
    label = route.path if isinstance(route, Route) else "unknown"
    method = scope["method"] if scope["method"] in METHODS else "other"
    REQUESTS.labels(label, method, str(status)).inc()
    SECONDS.labels(label).observe(duration_s)
