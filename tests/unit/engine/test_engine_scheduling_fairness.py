"""Who is next: tenants by what they were served, buckets by how late they are, deadlines by what can be reached."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.scheduling.latency_feedback import MIN_FACTOR, LatencyFeedback
from services.engine.scheduling.length_bucket import LONG
from services.engine.scheduling.page_watermark import PageWatermark
from services.engine.scheduling.policy import Policy, PolicyLimits
from services.engine.scheduling.preemption import PageSeconds, Way, cheaper_way
from services.engine.scheduling.token_counters import TokenCounters
from services.engine.sequence import Sequence


@given(st.lists(st.integers(0, 2), min_size=1, max_size=200), st.integers(1, 500))
def test_backlogged_tenants_are_served_alike(order: list[int], chunk: int) -> None:
    """The paper's bound: whoever has the lowest counter is served, so that counters differ by one serving at most."""
    counters = TokenCounters()
    tenants = ["a", "b", "c"]
    for tenant in tenants:
        counters.arrived(tenant)
    for number in order:
        least = min(tenants, key=counters.counter)
        counters.served(least, prompt_tokens=1 + (chunk * (number + 1)) % 500, output_tokens=1)
    served = [counters.counter(tenant) for tenant in tenants]
    assert max(served) - min(served) <= 500 + 2


def test_nobody_saves_up_service_by_staying_away() -> None:
    counters = TokenCounters()
    counters.arrived("busy")
    counters.served("busy", prompt_tokens=10_000)
    counters.arrived("late")
    assert counters.counter("late") == 10_000
    counters.served("late", output_tokens=5)
    assert counters.counter("late") == 10_010, "an output token counts twice"


def test_a_tenant_that_got_much_more_stands_behind_the_others_until_they_have_caught_up() -> None:
    counters = TokenCounters(slack_tokens=100)
    for tenant in ("greedy", "modest"):
        counters.arrived(tenant)
    counters.served("greedy", prompt_tokens=100)
    assert not counters.is_ahead("greedy")
    counters.served("greedy", prompt_tokens=1)
    assert counters.is_ahead("greedy")
    assert not counters.is_ahead("modest")
    counters.left("modest")
    assert not counters.is_ahead("greedy"), "alone there is nobody to stand behind"


def test_what_was_served_is_forgotten_when_nobody_waits() -> None:
    counters = TokenCounters()
    counters.arrived("t")
    counters.served("t", prompt_tokens=100)
    counters.left("t")
    assert counters.counter("t") == 0


def test_late_first_tokens_shrink_the_factor_and_prompt_ones_let_it_grow_again() -> None:
    feedback, now_s = LatencyFeedback(), 0.0
    for _ in range(20):
        now_s += 1
        feedback.took(now_s, 2.0, 1.0)
        feedback.look(now_s)
    assert feedback.factor == MIN_FACTOR
    for _ in range(60):
        now_s += 1
        feedback.took(now_s, 0.1, 1.0)
        feedback.look(now_s)
    assert feedback.factor == 1.0, "the late ones have left the window"


def test_one_late_token_in_a_hundred_changes_nothing() -> None:
    feedback = LatencyFeedback()
    for number in range(100):
        feedback.took(number / 10, 9.0 if number == 50 else 0.5, 1.0)
        feedback.look(number / 10)
    assert feedback.factor > 0.9 or feedback.lateness() < 1


@settings(max_examples=50)
@given(st.integers(1, 5000), st.integers(1, 64), st.integers(0, 3), st.integers(0, 64))
def test_admission_leaves_pages_to_those_that_run_and_a_way_in_for_short_ones(
    num_pages: int, max_running: int, bucket: int, num_admitted: int
) -> None:
    watermark = PageWatermark(num_pages, max_running)
    left = watermark.pages_to_leave(bucket, num_admitted)
    assert left == 0 if not num_admitted else left >= num_admitted
    assert watermark.pages_to_leave(LONG, num_admitted) >= watermark.pages_to_leave(0, num_admitted)
    assert 1 <= watermark.places(LONG) <= watermark.places(0) == max_running


@pytest.mark.parametrize(
    ("num_copied", "copy_s", "compute_s", "way"),
    [
        (0, 0.001, 0.010, Way.HOST),
        (0, 0.006, 0.010, Way.RECOMPUTE),
        (10, 0.006, 0.010, Way.HOST),
        (0, 0.001, 0.0, Way.RECOMPUTE),
        (0, float("inf"), 0.010, Way.RECOMPUTE),
    ],
)
def test_pages_come_back_by_the_cheaper_way(num_copied: int, copy_s: float, compute_s: float, way: Way) -> None:
    assert cheaper_way(10, num_copied, PageSeconds(compute_s=compute_s, copy_s=copy_s)) is way


def test_the_oldest_prompt_gets_on_where_late_first_tokens_thin_out_its_kind() -> None:
    policy = Policy(PolicyLimits(), PageWatermark(1000, 32, 0.92), lambda: 0.0)
    for feedback in policy.feedback:
        feedback.factor = MIN_FACTOR
    prompts = [prompt("oldest", 60), *(prompt(str(number), 40) for number in range(3))]
    for sequence in prompts:
        policy.arrived(sequence, 0)
    computed = {sequence.sequence_id for sequence, _ in policy.shares(prompts, 0, 512)}
    assert computed == {"0", "oldest"}


def prompt(name: str, num_tokens: int) -> Sequence:
    return Sequence(
        sequence_id=name,
        owner=Owner("t", b""),
        tokens=[1] * num_tokens,
        num_prompt=num_tokens,
        num_delivered=0,
        params=SamplingParams(temperature=0.0),
        max_total_tokens=num_tokens + 1,
    )
