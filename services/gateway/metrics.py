"""What `/metrics` of a gateway shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from services.gateway.admission import RouteQueue
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2

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
ADDITIONS = Counter(
    "stagemesh_additions_total", "Requests that asked for passages or preferences, by what they got", ["kind", "result"]
)
DEFERRED = Counter("stagemesh_deferred_total", "Requests that were taken for later", ["route"])
DEFERRED_ENDED = Counter("stagemesh_deferred_ended_total", "Deferred requests by final outcome", ["outcome"])
DEFERRED_WAITING = Gauge("stagemesh_deferred_waiting", "Deferred requests without an outcome, those that run included")
DEFERRAL_LAG = Gauge("stagemesh_deferral_lag_seconds", "Age of the oldest deferred request without an outcome")
EVENTS_LOST = Counter("stagemesh_resumable_events_lost_total", "Events of resumable requests that could not be kept")

KV_TOKENS = Counter("stagemesh_kv_tokens_total", "Prompt tokens by where their KV came from", ["source"])
KV_MISSES = Counter("stagemesh_kv_misses_total", "Requests whose stored KV was not used, by cause", ["cause"])
KV_LOAD = Histogram(
    "stagemesh_kv_load_seconds",
    "Time that an engine took to load stored KV",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
)
ENGINE_KV = Gauge(
    "stagemesh_engine_kv", "An engine's KV pages beyond its pool: places and sums", ["instance", "name", "label"]
)
KV_REPORTS = Counter("stagemesh_kv_reports_total", "Reports on the use of the cache by fate", ["fate"])
CACHE_REQUESTS = Counter("stagemesh_cache_requests_total", "Requests by whether any KV was reused", ["scope", "result"])
CACHE_HIT_RATIO_SESSION = Gauge(
    "stagemesh_cache_hit_ratio_session", "Share of the last 1,000 turns that continue a session and reused KV"
)
_session_turns: deque[bool] = deque(maxlen=1_000)


def count_kv(kv: common_pb2.KvReport, *, is_session: bool) -> None:
    """Count where the KV of one request's prompt came from."""
    for source in ("pool", "host", "store", "computed"):
        KV_TOKENS.labels(source).inc(getattr(kv, f"{source}_tokens"))
    if kv.miss_cause:
        KV_MISSES.labels(kv.miss_cause).inc()
    if kv.load_us:
        KV_LOAD.observe(kv.load_us / 1e6)
    hit = kv.pool_tokens + kv.host_tokens + kv.store_tokens > 0
    CACHE_REQUESTS.labels("session" if is_session else "other", "hit" if hit else "miss").inc()
    if is_session:
        _session_turns.append(hit)
        CACHE_HIT_RATIO_SESSION.set(sum(_session_turns) / len(_session_turns))


def show_engine(load: engine_pb2.WatchLoadResponse) -> None:
    """Show what an engine says of the KV pages that it keeps beyond its pool."""
    if not load.HasField("kv"):
        return
    for name in ("host_pages", "host_bytes", "queued_pages"):
        ENGINE_KV.labels(load.instance, name, "").set(getattr(load.kv, name))
    for key, value in load.kv.sums.items():
        name, _, label = key.partition("/")
        ENGINE_KV.labels(load.instance, name, label).set(value)


def watch_queues(queues: Mapping[str, RouteQueue]) -> None:
    """Have the gauges read the queues of the route classes whenever somebody looks."""
    for route, queue in queues.items():
        RUNNING.labels(route).set_function(lambda queue=queue: queue.num_running)  # type: ignore[misc]
        WAITING.labels(route).set_function(lambda queue=queue: queue.num_waiting)  # type: ignore[misc]
