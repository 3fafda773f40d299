"""How long stages usually take, and which of a request's stages took unusually long. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from services.gateway.traces.record import RequestTrace, StageTrace

PER_TOKEN = frozenset({"embed", "attend", "mlp", "norm", "sample", "detokenize"})
"""Stages whose time grows with the answer: compared for each output token."""
SLOW_FACTOR = 3.0
"""A stage is slow from so many times its median on …"""
SLOW_AT_LEAST_US = 5_000
"""… when it also took so much longer than usual: below, a busy processor explains it."""
MIN_SAMPLES = 5
"""Fewer requests are no baseline."""


@dataclass(frozen=True, kw_only=True)
class Usual:
    """Medians over requests of one route and length class."""

    samples: int
    stages_us: Mapping[str, float]
    """By stage; for each output token where the stage is of PER_TOKEN."""
    total_us: float
    ttft_us: float


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One stage of one request against the baseline."""

    stage: StageTrace
    usual_us: float | None
    """What this much work usually takes there; None without a baseline."""
    abnormal: str
    """Why it is out of the ordinary; empty when it is not."""


def usual(traces: Iterable[RequestTrace]) -> Usual:
    """The baseline from past requests; those that failed or were degraded say nothing of the usual time."""
    good = [trace for trace in traces if trace.outcome == "complete"]
    by_stage: dict[str, list[float]] = {}
    for trace in good:
        for stage in trace.stages:
            by_stage.setdefault(stage.stage, []).append(stage.duration_us / _units(stage.stage, trace))
    return Usual(
        samples=len(good),
        stages_us={name: median(durations) for name, durations in by_stage.items()},
        total_us=median([trace.total_us for trace in good]) if good else 0.0,
        ttft_us=median([trace.ttft_us for trace in good]) if good else 0.0,
    )


def judge(trace: RequestTrace, baseline: Usual) -> list[Judged]:
    """Each stage that ran, in order."""
    return [_judge_stage(stage, trace, baseline) for stage in trace.stages]


def _judge_stage(stage: StageTrace, trace: RequestTrace, baseline: Usual) -> Judged:
    per_unit_us = baseline.stages_us.get(stage.stage) if baseline.samples >= MIN_SAMPLES else None
    usual_us = None if per_unit_us is None else per_unit_us * _units(stage.stage, trace)
    return Judged(stage=stage, usual_us=usual_us, abnormal=_why(stage, usual_us))


def _why(stage: StageTrace, usual_us: float | None) -> str:
    if stage.status != "ok":
        return f"{stage.status}: {stage.reason or 'no reason given'}"
    if stage.attempts > 1:
        return f"{stage.attempts} attempts"
    if usual_us is not None and stage.duration_us > max(SLOW_FACTOR * usual_us, usual_us + SLOW_AT_LEAST_US):
        return f"{stage.duration_us / max(usual_us, 1.0):.1f} times the usual time"
    return ""


def _units(stage: str, trace: RequestTrace) -> int:
    return max(1, trace.completion_tokens) if stage in PER_TOKEN else 1
