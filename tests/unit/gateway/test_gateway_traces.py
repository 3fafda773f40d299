"""Traces of requests: what is kept of them, what is usual, what is out of the ordinary; and shares of the last hour."""

import pytest

from services.gateway.hour_ratio import HourRatio
from services.gateway.traces.baseline import judge, usual
from services.gateway.traces.record import RequestTrace, StageTrace, from_bytes, length_class, to_bytes, trace_of
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2


def trace(*, attend_us: int = 10_000, tokenize_us: int = 2_000, tokens: int = 10, **fields: object) -> RequestTrace:
    stages = (
        StageTrace(stage="tokenize", status="ok", duration_us=tokenize_us),
        StageTrace(stage="attend", status="ok", duration_us=attend_us),
    )
    return RequestTrace(
        **{
            "request_id": "r",
            "at_s": 1.0,
            "route": "chat",
            "length_class": "0-128",
            "outcome": "complete",
            "reason": "",
            "total_us": 50_000,
            "ttft_us": 5_000,
            "prompt_tokens": 20,
            "completion_tokens": tokens,
            "stages": stages,
            **fields,
        }  # type: ignore[arg-type]
    )


BASELINE = usual([trace() for _ in range(9)])


def reasons(judged: RequestTrace) -> dict[str, str]:
    return {each.stage.stage: each.abnormal for each in judge(judged, BASELINE) if each.abnormal}


@pytest.mark.parametrize(
    ("tokens", "name"), [(0, "0-128"), (128, "0-128"), (129, "128-1024"), (8_192, "1024-8192"), (8_193, "above 8192")]
)
def test_the_length_class_is_that_of_the_prompt(tokens: int, name: str) -> None:
    assert length_class(tokens) == name


def test_a_trace_has_the_stages_that_ran_and_no_text() -> None:
    final = gateway_pb2.Final(request_id="r", outcome=common_pb2.OUTCOME_DEGRADED, total_us=7)
    final.choices.add(text="a secret")
    final.stages.add(stage=common_pb2.STAGE_CACHE, status=common_pb2.STAGE_STATUS_DEGRADED, reason="CACHE_TOO_SLOW")
    final.stages.add(stage=common_pb2.STAGE_CORRECT, status=common_pb2.STAGE_STATUS_SKIPPED)
    made = trace_of("chat", final)
    assert [(stage.stage, stage.status, stage.reason) for stage in made.stages] == [
        ("cache", "degraded", "CACHE_TOO_SLOW")
    ]
    assert b"secret" not in to_bytes(made)
    assert from_bytes(to_bytes(made)) == made


@pytest.mark.parametrize("stored", [b"", b"[]", b"{}", b'{"stages": 3}', b'{"stages": [], "other": 1}', b"\xff"])
def test_what_another_version_wrote_is_passed_over(stored: bytes) -> None:
    assert from_bytes(stored) is None


def test_a_request_like_the_others_is_not_marked() -> None:
    assert reasons(trace()) == {}


def test_a_stage_that_took_much_longer_than_usual_is_marked() -> None:
    assert reasons(trace(tokenize_us=60_000)) == {"tokenize": "30.0 times the usual time"}


def test_a_few_milliseconds_more_are_no_mark() -> None:
    assert reasons(trace(tokenize_us=6_900)) == {}


def test_a_long_answer_makes_its_stages_long_and_is_not_marked_for_it() -> None:
    assert reasons(trace(attend_us=200_000, tokens=200)) == {}
    assert set(reasons(trace(attend_us=200_000, tokens=10))) == {"attend"}


def test_fallbacks_failures_and_repeats_are_marked_without_any_baseline() -> None:
    stages = (
        StageTrace(stage="cache", status="degraded", duration_us=1, reason="CACHE_UNAVAILABLE"),
        StageTrace(stage="tokenize", status="ok", duration_us=1, attempts=2),
    )
    judged = judge(trace(stages=stages), usual([]))
    assert [each.abnormal for each in judged] == ["degraded: CACHE_UNAVAILABLE", "2 attempts"]
    assert [each.usual_us for each in judged] == [None, None]


def test_failed_requests_are_no_part_of_the_baseline() -> None:
    slow = [trace(tokenize_us=10**6, outcome="degraded") for _ in range(50)]
    baseline = usual([*slow, *(trace() for _ in range(5))])
    assert (baseline.samples, baseline.stages_us["tokenize"]) == (5, 2_000)


def test_few_requests_are_no_baseline() -> None:
    assert all(each.usual_us is None for each in judge(trace(), usual([trace()] * 4)))


def test_a_share_counts_the_last_hour_and_forgets_what_is_older() -> None:
    now_s = 0.0
    ratio = HourRatio(lambda: now_s)
    assert ratio.value() == 0.0
    for _ in range(3):
        ratio.add(True)
    now_s = 1_800.0
    ratio.add(False)
    assert ratio.value() == 0.75
    now_s = 3_600.0
    assert ratio.value() == 0.0
    ratio.add(True)
    assert ratio.value() == 0.5


def test_a_share_keeps_at_most_sixty_buckets() -> None:
    now_s = 0.0
    ratio = HourRatio(lambda: now_s)
    for _ in range(500):
        ratio.add(True)
        now_s += 60
    assert len(ratio._buckets) <= 60
