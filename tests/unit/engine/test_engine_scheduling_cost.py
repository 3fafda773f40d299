"""What a step is estimated to take, and how its time is shared among prompts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.engine.scheduling.decayed_fit import MAX_SURPRISE, DecayedFit
from services.engine.scheduling.length_bucket import bucket_of
from services.engine.scheduling.prompt_shares import GRAIN, MAX_OWED_S, MIN_CHUNK, OLDEST_SHARE, Bounds, Need, share
from services.engine.scheduling.step_cost import StepCost, StepWork

TOKEN_S, DEPTH_S = 0.001, 0.0005
"""Seconds of a token, and on top for each 1,024 positions before it."""


def chunk_s(num_tokens: int, depth: int) -> float:
    return num_tokens * (TOKEN_S + DEPTH_S * (depth + num_tokens / 2) / 1024)


def learnt() -> StepCost:
    cost = StepCost()
    for depth in range(0, 8192, 512):
        cost.measured(chunk_s(64, depth), StepWork(0, 64, 64 * (depth + 32)))
    return cost


def needs(*lengths: int, depth: int = 0) -> list[Need]:
    """The first is the oldest."""
    return [Need(length, depth, is_oldest=index == 0) for index, length in enumerate(lengths)]


def test_the_cost_of_a_token_is_learnt_with_its_depth() -> None:
    cost = learnt()
    for depth in (0, 1000, 8000):
        assert abs(cost.prompt_s(128, depth) / chunk_s(128, depth) - 1) < 0.02


@given(st.floats(0.005, 1.0), st.integers(0, 30_000))
def test_as_many_tokens_as_fit_the_time_at_their_depth(seconds: float, depth: int) -> None:
    cost = learnt()
    fitting = cost.tokens_within(seconds, depth)
    assert cost.prompt_s(fitting, depth) <= seconds * 1.001
    assert cost.prompt_s(fitting + 1, depth) >= seconds * 0.999


def test_what_decodes_is_told_apart_from_what_a_prompt_takes() -> None:
    cost = StepCost()
    for rows in (1, 8, 1, 8, 1, 8):
        cost.measured(0.004 + 0.001 * rows, StepWork(rows, 0, 0))
    assert abs(cost.decode_s(16) - 0.020) < 0.001
    assert cost.decode_s(0) == 0
    for _ in range(3):
        cost.measured(0.012 + chunk_s(64, 0), StepWork(8, 64, 64 * 32))
    assert abs(cost.prompt_s(64, 0) / chunk_s(64, 0) - 1) < 0.05


def test_noise_of_shallow_prompts_is_not_taken_for_a_cost_of_depth() -> None:
    cost = StepCost()
    for number in range(40):
        noise = 1.5 if number % 2 else 0.7
        tokens = 40 + 20 * (number % 5)
        cost.measured(noise * chunk_s(tokens, 0), StepWork(0, tokens, tokens * tokens / 2))
    assert cost.prompt_s(6000, 0) < 3 * chunk_s(6000, 0)
    assert cost.least_prompt_s(6000, 0) < 2 * 6000 * TOKEN_S, "nothing deep was measured"


def test_a_pause_of_the_machine_is_no_cost() -> None:
    fit = DecayedFit(0.1)
    for _ in range(20):
        fit.measured(1.0, 1.0, 0.0)
    fit.measured(1000.0, 1.0, 0.0)
    assert fit(1.0, 0.0) < 1 + MAX_SURPRISE / 10


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 100), st.floats(0, 100)), max_size=30))
def test_a_cost_is_never_negative(measured: list[tuple[float, float, float]]) -> None:
    fit = DecayedFit(0.1)
    for values in measured:
        fit.measured(*values)
        assert fit.p >= 0
        assert fit.q >= 0


lengths = st.lists(st.integers(2, 9000), min_size=1, max_size=12)


@given(lengths, st.integers(16, 1024), st.floats(0.01, 0.5), st.floats(0, MAX_OWED_S), st.integers(0, 8000))
def test_a_step_keeps_to_its_bounds_and_always_gets_on(
    prompts: list[int], max_tokens: int, seconds: float, owed_s: float, depth: int
) -> None:
    cost = learnt()
    asked = needs(*prompts, depth=depth)
    shares = share(asked, Bounds(max_tokens, seconds), cost, owed_s)
    assert 0 < sum(shares) <= max_tokens
    assert all(0 <= taken <= need.num_uncomputed for taken, need in zip(shares, asked, strict=True))
    least_s = cost.prompt_s(MIN_CHUNK, depth)  # what is taken in any case
    assert sum(cost.prompt_s(taken, depth) for taken in shares) <= max(seconds, 2 * least_s) + least_s


@given(lengths, st.integers(16, 1024))
def test_without_a_bound_in_time_tokens_bound_the_step(prompts: list[int], max_tokens: int) -> None:
    shares = share(needs(*prompts), Bounds(max_tokens, float("inf")), StepCost())
    shortest_ends = any(taken == length <= 128 for taken, length in zip(shares, prompts, strict=True))
    assert shortest_ends or sum(shares) == min(sum(prompts), max_tokens)


def test_a_long_prompt_waits_while_a_short_one_is_completed() -> None:
    assert share([Need(100, 0), Need(6000, 0)], Bounds(512, 1.0), learnt()) == [100, 0]
    first, second = share([Need(500, 0), Need(6000, 0)], Bounds(2048, 1.0), learnt())
    assert first == 500, "nobody's first token is a matter of milliseconds"
    assert second > 0
    assert second % GRAIN == 0


def test_a_lone_prompt_takes_a_small_rest_along_where_nobody_waits_for_the_step() -> None:
    cost = learnt()
    within = cost.tokens_within(0.06, 0) // GRAIN * GRAIN
    prompt = within + within // 2
    bounds = Bounds(512, 0.06, is_alone=True)
    assert share(needs(prompt), bounds, cost) == [prompt]
    assert share(needs(prompt + 1), bounds, cost) == [within]
    assert share(needs(prompt), Bounds(512, 0.06), cost) == [within]
    assert share(needs(prompt), Bounds(within + 1, 0.06, is_alone=True), cost) == [within + 1]


def test_the_oldest_takes_its_share_when_it_is_owed() -> None:
    prompts = [Need(100, 0), Need(6000, 0, is_oldest=True)]
    tokens = share(prompts, Bounds(512, 0.1), learnt(), MAX_OWED_S)
    assert MIN_CHUNK <= tokens[1] <= 512 * OLDEST_SHARE
    assert tokens[0] > tokens[1]


def test_nothing_is_guessed_before_it_was_measured() -> None:
    assert share(needs(6000, 6000), Bounds(512, 0.1), StepCost()) == [MIN_CHUNK, 0]


def test_buckets_hold_their_upper_bound() -> None:
    assert [bucket_of(length) for length in (1, 128, 129, 1024, 1025, 8192, 8193)] == [0, 0, 1, 1, 2, 2, 3]
