"""What `stagemesh debug` shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagemesh.cli.client.traces import JudgedTrace


def as_json(judged: JudgedTrace) -> dict[str, Any]:
    trace, baseline = judged.trace, judged.baseline
    return {
        "request_id": trace.request_id,
        "at_s": trace.at_s,
        "route": trace.route,
        "length_class": trace.length_class,
        "outcome": trace.outcome,
        "reason": trace.reason or None,
        "abnormal": judged.abnormal,
        "total_ms": trace.total_us / 1000,
        "usual_total_ms": _ms(baseline.total_us if baseline.samples else None),
        "ttft_ms": trace.ttft_us / 1000,
        "usual_ttft_ms": _ms(baseline.ttft_us if baseline.samples else None),
        "prompt_tokens": trace.prompt_tokens,
        "completion_tokens": trace.completion_tokens,
        "baseline_samples": baseline.samples,
        "stages": [
            {
                "name": each.stage.stage,
                "status": each.stage.status,
                "duration_ms": each.stage.duration_us / 1000,
                "usual_ms": _ms(each.usual_us),
                "attempts": each.stage.attempts,
                "instance": each.stage.instance or None,
                "fallback": each.stage.fallback or None,
                "reason": each.stage.reason or None,
                "detail": each.stage.detail or None,
                "abnormal": each.abnormal or None,
            }
            for each in judged.stages
        ],
    }


def lines(judged: JudgedTrace) -> Iterator[str]:
    """One request: its head, then a line for each stage that ran; `!` marks what is out of the ordinary."""
    trace, baseline = judged.trace, judged.baseline
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(trace.at_s))
    outcome = trace.outcome + (f" ({trace.reason})" if trace.reason else "")
    yield (
        f"{'!' if judged.abnormal else ' '} {trace.request_id}  {when}  {outcome}  {trace.total_us / 1000:.0f} ms, "
        f"first token {trace.ttft_us / 1000:.0f} ms, {trace.prompt_tokens} + {trace.completion_tokens} tokens"
    )
    yield (
        f"    against {baseline.samples} complete {trace.route} requests of {trace.length_class} prompt tokens: "
        f"median {baseline.total_us / 1000:.0f} ms, first token {baseline.ttft_us / 1000:.0f} ms"
    )
    for each in judged.stages:
        stage = each.stage
        usual = "" if each.usual_us is None else f"usually {each.usual_us / 1000:.1f} ms"
        words = ", ".join(filter(None, (stage.instance, stage.fallback, each.abnormal)))
        mark = "!" if each.abnormal else " "
        yield f"  {mark} {stage.stage:<11}{stage.duration_us / 1000:>9.1f} ms  {usual:<20} {words}".rstrip()


def _ms(us: float | None) -> float | None:
    return None if us is None else round(us / 1000, 3)
