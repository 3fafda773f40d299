"""What `/metrics` of a gateway shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from services.gateway.admission import RouteQueue
from services.gateway.hour_ratio import HourRatio
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.breaker import Breaker, State

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
CORRECTION_EVENTS = Counter("stagemesh_correction_events_total", "Corrections offered for training, by fate", ["fate"])
LEDGER_LATE = Counter("stagemesh_ledger_late_finishes_total", "Outcomes written after the ledger was away", ["fate"])
COMMITS = Counter("stagemesh_session_commits_total", "Session commits by fate", ["fate"])
ADDITIONS = Counter(
    "stagemesh_additions_total", "Requests that asked for passages or preferences, by what they got", ["kind", "result"]
)
DEFERRED = Counter("stagemesh_deferred_total", "Requests that were taken for later", ["route"])
DEFERRED_ENDED = Counter("stagemesh_deferred_ended_total", "Deferred requests by final outcome", ["outcome"])
DEFERRED_WAITING = Gauge("stagemesh_deferred_waiting", "Deferred requests without an outcome, those that run included")
DEFERRAL_LAG = Gauge("stagemesh_deferral_lag_seconds", "Age of the oldest deferred request without an outcome")
TRACES_LOST = Counter("stagemesh_traces_lost_total", "Traces of ended requests that could not be kept")
EVENTS_LOST = Counter("stagemesh_resumable_events_lost_total", "Events of resumable requests that could not be kept")

MODES_BY_RULE = Counter("stagemesh_modes_by_rule_total", "Requests whose mode a rule chose", ["mode"])
MODES_LIMITED = Counter("stagemesh_precise_limited_total", "Requests for precise that ran in standard by the limit")
HINTS = Counter("stagemesh_hints_total", "Prompts sent ahead of their requests, by fate", ["fate"])
ALERTS = Counter("stagemesh_alerts_total", "Alerts by fate", ["name", "fate"])
COST_UNITS = Counter("stagemesh_cost_units_total", "Cost units spent", ["mode"])
EFFECTIVE_TOKENS = Counter(
    "stagemesh_effective_tokens_total",
    "Output tokens of complete answers; by stagemesh_cost_units_total: effective throughput per cost",
    ["mode"],
)
USAGE_LOST = Counter("stagemesh_usage_lost_total", "Sums of usage that a stopping gateway could not store")

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
ENGINE_THREADS = Gauge("stagemesh_engine_threads", "Threads that an engine computes with", ["instance"])
ENGINE_IDLE = Gauge("stagemesh_engine_idle", "Whether an engine is in idle mode", ["instance"])
KV_REPORTS = Counter("stagemesh_kv_reports_total", "Reports on the use of the cache by fate", ["fate"])
CACHE_REQUESTS = Counter("stagemesh_cache_requests_total", "Requests by whether any KV was reused", ["scope", "result"])
CACHE_HIT_RATIO_SESSION = Gauge(
    "stagemesh_cache_hit_ratio_session", "Share of the last 1,000 turns that continue a session and reused KV"
)
BREAKER_STATE = Gauge(
    "stagemesh_breaker_state", "Breakers by the part that they watch: 0 closed, 1 half-open, 2 open", ["part"]
)
DEVICE_TEMPERATURE = Gauge(
    "stagemesh_device_temperature_celsius", "Hottest device of an engine, where it has a sensor", ["instance_name"]
)
ENGINE_UTILIZATION = Gauge(
    "stagemesh_engine_utilization",
    "Sequences in an engine for each that it can run at once, over a minute",
    ["instance_name"],
)
ENGINE_WORK_SHARE = Gauge(
    "stagemesh_engine_work_share",
    "Of its usual work, what an engine gets: less while its device is hot",
    ["instance_name"],
)
DEGRADED_RATIO = Gauge("stagemesh_degraded_ratio", "Share of degraded ones among the answers of the last hour")
STAGE_FAILURE_RATE = Gauge(
    "stagemesh_stage_failure_rate",
    "Share of runs of a stage in the last hour that failed or took a fallback",
    ["stage"],
)
_answers = HourRatio()
_stages = {
    name.removeprefix("STAGE_").lower(): HourRatio() for name in list(common_pb2.Stage.DESCRIPTOR.values_by_name)[1:]
}
DEGRADED_RATIO.set_function(_answers.value)
for _name, _ratio in _stages.items():
    STAGE_FAILURE_RATE.labels(_name).set_function(_ratio.value)
_session_turns: deque[bool] = deque(maxlen=1_000)


MOVES = Counter("stagemesh_sequence_moves_total", "Sequences that went on at another engine, by why", ["why"])
MOVE_PAUSE = Histogram(
    "stagemesh_sequence_move_seconds",
    "Time from the loss of an engine to the next tokens from another",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
)

HEDGES = Counter("stagemesh_hedged_calls_total", "Calls that were sent once more, since no answer came", ["stage"])
STAGES_SILENT = Counter("stagemesh_stages_silent_total", "Times that a stage was found to answer nobody", ["stage"])

_BREAKER_VALUES = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}


def watch_breaker(part: str, breaker: Breaker) -> None:
    """Have the gauge read the state of a breaker whenever somebody looks."""
    BREAKER_STATE.labels(part).set_function(lambda: _BREAKER_VALUES[breaker.state])


def count_outcome(final: gateway_pb2.Final) -> None:
    """Count an ended request in the shares of the last hour: of degraded answers, and of failures by stage."""
    if final.outcome in (common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED):
        _answers.add(final.outcome == common_pb2.OUTCOME_DEGRADED)
    for report in final.stages:
        stage = common_pb2.Stage.Name(report.stage).removeprefix("STAGE_").lower()
        status = common_pb2.StageStatus.Name(report.status).removeprefix("STAGE_STATUS_").lower()
        STAGES.labels(stage, status).inc()
        if report.status != common_pb2.STAGE_STATUS_SKIPPED:
            _stages[stage].add(report.status in (common_pb2.STAGE_STATUS_DEGRADED, common_pb2.STAGE_STATUS_FAILED))


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
    """Show how many threads an engine computes with, and what it says of the KV pages beyond its pool."""
    ENGINE_THREADS.labels(load.instance).set(load.threads)
    ENGINE_IDLE.labels(load.instance).set(load.idle)
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
