"""What `/metrics` of a gateway shows."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from services.gateway.admission import RouteQueue

REQUESTS = Counter("stagemesh_requests_total", "Requests by final outcome", ["route", "outcome"])
REFUSED = Counter("stagemesh_requests_refused_total", "Requests that were not accepted, by reason", ["reason"])
TTFT = Histogram(
    "stagemesh_ttft_seconds",
    "Time from acceptance to the first delta",
    ["route"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
DURATION = Histogram(
    "stagemesh_request_seconds",
    "Time from acceptance to the final event",
    ["route"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
TOKENS = Counter("stagemesh_tokens_total", "Tokens by kind", ["kind"])
STAGES = Counter("stagemesh_stages_total", "Stage runs by status", ["stage", "status"])
RUNNING = Gauge("stagemesh_requests_running", "Requests in work", ["route"])
WAITING = Gauge("stagemesh_requests_waiting", "Requests that wait for a slot", ["route"])
SHADOW_EVENTS = Counter("stagemesh_shadow_events_total", "Shadow events by fate", ["fate"])
LEDGER_LATE = Counter("stagemesh_ledger_late_finishes_total", "Outcomes written after the ledger was away", ["fate"])
COMMITS = Counter("stagemesh_session_commits_total", "Session commits by fate", ["fate"])
EVENTS_LOST = Counter("stagemesh_resumable_events_lost_total", "Events of resumable requests that could not be kept")


def watch_queues(queues: Mapping[str, RouteQueue]) -> None:
    """Have the gauges read the queues of the route classes whenever somebody looks."""
    for route, queue in queues.items():
        RUNNING.labels(route).set_function(lambda queue=queue: queue.num_running)  # type: ignore[misc]
        WAITING.labels(route).set_function(lambda queue=queue: queue.num_waiting)  # type: ignore[misc]
