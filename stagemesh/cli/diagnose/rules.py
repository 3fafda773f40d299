"""From the evidence to causes: the root first, what follows from it after it. Pure functions, one a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from stagemesh.cli.diagnose.causes import CAUSES, Cause
from stagemesh.cli.diagnose.evidence import Evidence, ProcessEvidence

MAX_SKEW_S = 5.0
"""Deadlines and leases are given in seconds: from here on they go wrong."""
MAX_DELAY_MS = 20.0
"""Of a reply of Redis; a ledger call has 250 ms, and a request makes several."""
MIN_FREE_BYTES = 64 * 1024 * 1024
SLOW_FACTOR, SLOW_AT_LEAST_MS = 3.0, 300.0
"""A replica is slow from so many times the time of the fastest on, when it also takes so much longer."""
FLOOD_AT_LEAST = 16
HOT_C = 83.0
MEMORY_REASONS = frozenset({"ENGINE_OUT_OF_MEMORY", "OUT_OF_MEMORY"})
NUMBER_REASONS = frozenset({"NON_FINITE_LOGITS", "NON_FINITE"})
TIME_REASONS = frozenset({"DEADLINE_EXCEEDED"})
AWAY_REASONS = frozenset({"UNAVAILABLE", "ENGINE_NOT_READY", "ENGINE_STOPPING"})
PORT_WORDS = ("cannot listen", "address already in use", "is taken", "address is in use", "failed to bind")
DISK_WORDS = ("no space left", "disk quota", "file too large")


@dataclass(frozen=True)
class Verdict:
    cause: Cause
    subject: str
    """Of what: a process, a host, a server."""
    evidence: str


Rule = Callable[[Evidence], Iterator[Verdict]]


def judge(evidence: Evidence) -> list[Verdict]:
    """Every cause that the evidence speaks for, the root first; empty when nothing is wrong."""
    verdicts = [verdict for rule in RULES for verdict in rule(evidence)]
    return [verdict for i, verdict in enumerate(verdicts) if _key(verdict) not in map(_key, verdicts[:i])]


def _key(verdict: Verdict) -> tuple[str, str]:
    return verdict.cause.name, verdict.subject


def _found(name: str, subject: str, evidence: str) -> Verdict:
    return Verdict(CAUSES[name], subject, evidence)


def bad_config(seen: Evidence) -> Iterator[Verdict]:
    if seen.config_error:
        yield _found("bad_config", "stagemesh.yaml", seen.config_error)
    for process in seen.processes:
        if seen.broken_weights and process.name.startswith("engine"):
            continue  # it refused the model, as nan_weights says
        if process.state == "failed" and not _speaks(process, (*PORT_WORDS, *DISK_WORDS)):
            yield _found("bad_config", process.name, process.reason)


def dns_missing(seen: Evidence) -> Iterator[Verdict]:
    for name in seen.missing_names:
        yield _found("dns_missing", name, f"{name} does not resolve")


def port_clash(seen: Evidence) -> Iterator[Verdict]:
    for address in seen.taken_ports:
        yield _found("port_clash", address, f"something else listens on {address}")
    for process in seen.processes:
        if process.state != "ready" and _speaks(process, PORT_WORDS):
            yield _found("port_clash", process.name, process.reason)


def disk_full(seen: Evidence) -> Iterator[Verdict]:
    if seen.disk_error:
        yield _found("disk_full", "state folder", seen.disk_error)
    elif seen.free_bytes is not None and seen.free_bytes < MIN_FREE_BYTES:
        yield _found("disk_full", "state folder", f"{seen.free_bytes / 1e6:.0f} MB free")
    for server in seen.redis:
        if server.write_error:
            yield _found("disk_full", server.name, server.write_error)


def clock_skew(seen: Evidence) -> Iterator[Verdict]:
    for server in seen.redis:
        if abs(server.skew_s) > MAX_SKEW_S:
            side = "ahead of" if server.skew_s > 0 else "behind"
            yield _found("clock_skew", server.name, f"its clock is {abs(server.skew_s):.0f} s {side} this machine's")


def redis(seen: Evidence) -> Iterator[Verdict]:
    for server in seen.redis:
        if not server.reachable:
            yield _found("redis_down", server.name, "it does not answer")
        elif server.delay_ms > MAX_DELAY_MS:
            yield _found("redis_slow", server.name, f"a reply takes {server.delay_ms:.0f} ms")


def broker_down(seen: Evidence) -> Iterator[Verdict]:
    if seen.broker_error:
        yield _found("broker_down", "broker", seen.broker_error)


def engine_oom(seen: Evidence) -> Iterator[Verdict]:
    for engine in seen.engines:
        for reason in {engine.error, *engine.reasons} & MEMORY_REASONS:
            yield _found("engine_oom", engine.instance, f"a probe met {reason}")
    for process in seen.processes:
        if process.name.startswith("engine") and process.state != "ready" and process.last_words:
            yield _found("engine_oom", process.name, process.last_words)


def nan_weights(seen: Evidence) -> Iterator[Verdict]:
    for model, tensors in _by_model(seen.broken_weights).items():
        yield _found("nan_weights", model, f"numbers that are not finite in {', '.join(tensors[:5])}")
    for engine in seen.engines:
        for reason in {engine.error, *engine.reasons} & NUMBER_REASONS:
            yield _found("nan_weights", engine.model or engine.instance, f"{engine.instance}: a probe met {reason}")


def hangs(seen: Evidence) -> Iterator[Verdict]:
    for process in seen.processes:
        if process.stopped and not process.answers:
            yield _found("process_hang", process.name, "the system says that the process is stopped")
        elif process.alive and not process.answers and process.state in {"ready", "not ready"}:
            yield _found("process_hang", process.name, "it runs, and its health does not answer")
        elif "health had not answered" in process.reason:
            yield _found("process_hang", process.name, process.reason)
    if seen.tokenizer_error and all(process.answers for process in _named(seen, "tokenizer")):
        yield _found(
            "stage_hang", "tokenizer", f"its health answers, a prompt does not come back: {seen.tokenizer_error}"
        )


def down(seen: Evidence) -> Iterator[Verdict]:
    for process in seen.processes:
        if process.state in {"backing off", "stopped"} or not process.alive:
            yield _found("process_down", process.name, process.reason or process.state)


def queue_flood(seen: Evidence) -> Iterator[Verdict]:
    waiting = seen.gateway_waiting + sum(engine.waiting for engine in seen.engines)
    if _is_flooded(seen):
        yield _found("queue_flood", "gateway", f"{waiting} requests wait")


def replica_slow(seen: Evidence) -> Iterator[Verdict]:
    if _is_flooded(seen):
        return  # whoever has more of the flood is slower
    for engine in seen.engines:
        peers = [peer for peer in seen.engines if peer.model == engine.model and peer is not engine]
        times_ms = [peer.probe_ms for peer in peers if not peer.error]
        if not times_ms:
            continue
        usual_ms = median(times_ms)
        if engine.error in TIME_REASONS:
            yield _found("replica_slow", engine.instance, f"a probe took too long; elsewhere {usual_ms:.0f} ms")
        elif not engine.error and engine.probe_ms > max(SLOW_FACTOR * usual_ms, usual_ms + SLOW_AT_LEAST_MS):
            yield _found(
                "replica_slow", engine.instance, f"a probe takes {engine.probe_ms:.0f} ms; elsewhere {usual_ms:.0f} ms"
            )


def device_hot(seen: Evidence) -> Iterator[Verdict]:
    for engine in seen.engines:
        if engine.celsius is not None and engine.celsius >= HOT_C:
            yield _found("device_hot", engine.instance, f"{engine.celsius:.0f} °C")


def model_wrong(seen: Evidence) -> Iterator[Verdict]:
    known = {"", *MEMORY_REASONS, *NUMBER_REASONS, *TIME_REASONS, *AWAY_REASONS}
    for engine in seen.engines:
        for reason in {engine.error, *engine.reasons} - known:
            yield _found("model_wrong", engine.instance, f"a probe met {reason}")


RULES: tuple[Rule, ...] = (
    *(bad_config, dns_missing, port_clash, disk_full, clock_skew, redis, broker_down),
    *(engine_oom, nan_weights, hangs, down, queue_flood, replica_slow, device_hot, model_wrong),
)
"""In the order of roots: what stands first explains what follows."""


def _by_model(broken: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for model, _, tensor in (each.partition(": ") for each in broken):
        found.setdefault(model, []).append(tensor)
    return found


def _is_flooded(seen: Evidence) -> bool:
    waiting = seen.gateway_waiting + sum(engine.waiting for engine in seen.engines)
    return waiting >= max(FLOOD_AT_LEAST, *(engine.max_running for engine in seen.engines), 0)


def _named(seen: Evidence, name: str) -> list[ProcessEvidence]:
    return [process for process in seen.processes if process.name.startswith(name)]


def _speaks(process: ProcessEvidence, words: tuple[str, ...]) -> bool:
    return any(word in process.reason.lower() for word in words)
