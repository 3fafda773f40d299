"""What a stored page is worth, and who is expected back."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagemesh.runtime.kv_value import (
    Belief,
    Gaps,
    LearnerLimits,
    Region,
    ReturnLearner,
    SeenPrompts,
    Visit,
    cost_s,
    features,
    horizon_s,
    touched,
)
from stagemesh.runtime.kv_value.visit import PRIOR
from stagemesh.runtime.kv_value.worth import MAX_COST_RATIO, REFERENCE_S_PER_BYTE

CHANCES = st.floats(0.0, 1.0)
SECONDS = st.floats(0.0, 1e9)
HORIZONS = st.floats(-5e3, 5e3)
TAUS = st.floats(1.0, 1e6)
FIRST = Visit(prompt_tokens=1_000)


@st.composite
def visits(draw: st.DrawFn) -> Visit:
    prompt = draw(st.integers(0, 200_000))
    return Visit(
        prompt_tokens=prompt,
        known_tokens=draw(st.integers(0, prompt)),
        turn=draw(st.integers(1, 10_000)),
        remembered_tokens=draw(st.integers(0, 200_000)),
        idle_s=draw(st.floats(0, 1e7)),
    )


@given(CHANCES, TAUS)
def test_every_horizon_is_finite(chance: float, tau_s: float) -> None:
    assert math.isfinite(horizon_s(chance, tau_s))


@given(st.floats(), st.floats(), TAUS)
def test_every_cost_is_finite_and_bounded_whatever_was_measured(page_s: float, num_bytes: float, tau_s: float) -> None:
    assert abs(cost_s(page_s, num_bytes, tau_s)) <= tau_s * math.log(MAX_COST_RATIO) * (1 + 1e-9)


@pytest.mark.parametrize("unknown", [(0.0, 1e5, 60.0), (0.01, 0.0, 60.0), (0.01, 1e5, 0.0)])
def test_a_page_whose_cost_is_unknown_counts_as_an_ordinary_one(unknown: tuple[float, float, float]) -> None:
    page_s, num_bytes, tau_s = unknown
    assert cost_s(page_s, num_bytes, tau_s) == 0.0
    assert cost_s(REFERENCE_S_PER_BYTE * 1e5, 1e5, 60.0) == pytest.approx(0.0, abs=1e-9)


@given(CHANCES, CHANCES, TAUS)
def test_a_page_more_likely_to_return_is_worth_no_less(one: float, other: float, tau_s: float) -> None:
    low, high = sorted((one, other))
    assert horizon_s(low, tau_s) <= horizon_s(high, tau_s)


@given(TAUS, st.floats(1.1, 100), st.floats(1e4, 1e7))
def test_cost_of_computing_raises_worth_and_size_lowers_it(tau_s: float, factor: float, num_bytes: float) -> None:
    page_s = REFERENCE_S_PER_BYTE * num_bytes
    plain = cost_s(page_s, num_bytes, tau_s)
    assert cost_s(factor * page_s, num_bytes, tau_s) > plain > cost_s(page_s, factor * num_bytes, tau_s)


@given(*[st.tuples(st.floats(0.01, 0.99), st.floats(1e-3, 0.1), st.floats(1e5, 1e6))] * 2, SECONDS, TAUS)
def test_pages_are_ordered_by_chance_times_cost_over_bytes_(
    one: tuple[float, float, float], other: tuple[float, float, float], used_s: float, tau_s: float
) -> None:
    scores = [used_s + horizon_s(chance, tau_s) + cost_s(page_s, size, tau_s) for chance, page_s, size in (one, other)]
    values = [chance * page_s / size for chance, page_s, size in (one, other)]
    apart_s = tau_s * math.log(values[0] / values[1])
    assert scores[0] - scores[1] == pytest.approx(apart_s, rel=1e-6, abs=1e-5)


@given(SECONDS, SECONDS, HORIZONS, TAUS)
def test_a_use_never_lowers_the_worth(score_s: float, now_s: float, horizon: float, tau_s: float) -> None:
    after = touched(score_s, now_s, horizon, tau_s)
    assert max(score_s, now_s + horizon) <= after <= max(score_s, now_s + horizon) + tau_s * math.log(2) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 5_000), HORIZONS), min_size=1, max_size=20), st.floats(5_000, 20_000), TAUS)
def test_the_score_is_the_logarithm_of_a_decaying_sum_over_all_uses(
    uses: list[tuple[float, float]], later_s: float, tau_s: float
) -> None:
    """So the order of two pages is that of these sums, at whatever time they are compared."""
    score_s = uses[0][0] + uses[0][1]
    for at_s, horizon in uses[1:]:
        score_s = touched(score_s, at_s, horizon, tau_s)
    exponents = [(at_s + horizon - later_s) / tau_s for at_s, horizon in uses]
    expected = max(exponents) + math.log(sum(math.exp(value - max(exponents)) for value in exponents))
    assert (score_s - later_s) / tau_s == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(visits(), st.sampled_from(Region))
def test_every_visit_has_finite_features_one_for_each_weight(visit: Visit, region: Region) -> None:
    row = features(visit, region)
    assert len(row) == len(PRIOR)
    assert all(math.isfinite(value) for value in row)


@given(visits())
def test_before_anything_is_learned_every_visit_has_horizons(visit: Visit) -> None:
    horizons = ReturnLearner(LearnerLimits()).horizons(visit)
    assert math.isfinite(horizons.known_s)
    assert math.isfinite(horizons.new_s)


@given(st.lists(st.tuples(st.integers(0, 5), visits(), st.integers(0, 5)), max_size=40), st.integers(1, 8))
def test_the_learner_stays_bounded_and_finite_whatever_comes(
    steps: list[tuple[int, Visit, int]], max_visits: int
) -> None:
    learner = ReturnLearner(LearnerLimits(max_visits=max_visits))
    for now_s, (key, visit, previous) in enumerate(steps):
        learner.visited(key, visit, float(now_s), previous)
        assert learner.num_pending <= max_visits
    learner.refit(float(len(steps)))
    assert np.isfinite(learner.belief.weights).all()


def rounds(learner: ReturnLearner, *, returns: bool, start_s: float, visit: Visit = FIRST, count: int = 200) -> float:
    """Visits of which all, or none, are followed by another within the time of a chat. Gives when they ended."""
    for at in range(count):
        now_s = start_s + 10.0 * at
        learner.visited(("conversation", start_s, at), visit, now_s)
        if returns:
            again = replace(visit, known_tokens=visit.prompt_tokens, turn=2, prompt_tokens=visit.prompt_tokens + 100)
            learner.visited(("second", start_s, at), again, now_s + 60.0, ("conversation", start_s, at))
    return start_s + 10.0 * count


def test_conversations_that_go_on_raise_the_worth_of_the_next_and_those_that_end_lower_it() -> None:
    lively, dead = ReturnLearner(LearnerLimits()), ReturnLearner(LearnerLimits())
    before = lively.horizons(FIRST).new_s
    lively.refit(rounds(lively, returns=True, start_s=0.0))
    dead.refit(rounds(dead, returns=False, start_s=0.0) + 100_000.0)
    assert dead.horizons(FIRST).new_s < before - 50.0
    assert lively.horizons(FIRST).new_s > before + 50.0


def test_a_visit_that_is_only_late_does_not_count_as_gone() -> None:
    young, old = ReturnLearner(LearnerLimits()), ReturnLearner(LearnerLimits())
    end_s = max(rounds(learner, returns=False, start_s=0.0, count=50) for learner in (young, old))
    young.refit(end_s - 10.0 * 50)  # at once
    old.refit(end_s + 100_000.0)
    assert young.horizons(FIRST).new_s > old.horizons(FIRST).new_s + 50.0


def test_what_was_learned_is_carried_on_into_another_process_and_its_first_fit() -> None:
    one, other, anew = (ReturnLearner(LearnerLimits()) for _ in range(3))
    one.refit(rounds(one, returns=True, start_s=0.0))
    other.carry_on(Belief.decode(one.belief.encode()))
    assert other.horizons(FIRST) == one.horizons(FIRST)
    for learner in (other, anew):
        learner.visited("only", FIRST, 0.0)
        learner.refit(10_000.0)
    assert one.horizons(FIRST).new_s > other.horizons(FIRST).new_s > anew.horizons(FIRST).new_s + 50.0


def test_what_was_carried_on_gives_way_to_what_is_seen_now() -> None:
    one, other = ReturnLearner(LearnerLimits()), ReturnLearner(LearnerLimits())
    before = one.horizons(FIRST).new_s
    one.refit(rounds(one, returns=True, start_s=0.0))
    other.carry_on(one.belief)
    other.refit(rounds(other, returns=False, start_s=0.0, count=800) + 100_000.0)
    assert other.horizons(FIRST).new_s < before


def test_over_many_restarts_belief_grows_no_surer_than_by_twice_what_one_process_sees() -> None:
    belief = Belief.at_first(0.5)
    precisions = []
    for _ in range(12):
        learner = ReturnLearner(LearnerLimits())
        learner.carry_on(belief)
        learner.refit(rounds(learner, returns=True, start_s=0.0))
        belief = learner.belief
        precisions.append(float(np.trace(belief.precision)))
    assert precisions[-1] < 2.5 * precisions[0]


SIZE = len(PRIOR)
AT_FIRST = Belief.at_first(0.5)


@pytest.mark.parametrize(
    "strange",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        Belief(np.zeros(3), np.eye(3)).encode(),
        Belief(np.full(SIZE, np.nan), np.eye(SIZE)).encode(),
        Belief(np.full(SIZE, 1e3), np.eye(SIZE)).encode(),
        Belief(np.zeros(SIZE), -np.eye(SIZE)).encode(),
        Belief(np.zeros(SIZE), np.triu(np.ones((SIZE, SIZE)))).encode(),
        AT_FIRST.encode().replace(b"turns", b"phase of the moon"),
        AT_FIRST.encode().replace(b"0.7", b'"0.7x"'),
        AT_FIRST.encode().replace(b"0.7", b"[0.7]"),
    ],
)
def test_strange_weights_are_refused(strange: bytes) -> None:
    with pytest.raises(ValueError, match=r"weights|could not|inhomogeneous|Expecting|decode"):
        Belief.decode(strange)


PAGE_TOKENS = 16


def test_a_prompt_that_holds_all_of_an_earlier_one_is_its_next_turn() -> None:
    seen = SeenPrompts(100)
    first = seen.add(["s", "a", "b"], PAGE_TOKENS, 0.0)
    other = seen.add(["s", "x"], PAGE_TOKENS, 1.0)
    second = seen.add(["s", "a", "b", "c", "d"], PAGE_TOKENS, 60.0)
    third = seen.add(["s", "a", "b", "c", "d", "e"], PAGE_TOKENS, 90.0)
    assert [found.previous for found in (first, other, second, third)] == [None, None, "b", "d"]
    assert (second.visit.turn, second.visit.known_tokens, second.visit.idle_s) == (2, 48, 60.0)
    assert (third.visit.turn, third.visit.known_tokens, third.visit.idle_s) == (3, 80, 30.0)


def test_the_same_prompt_again_is_no_later_turn() -> None:
    seen = SeenPrompts(100)
    visits = [seen.add(["a", "b"], PAGE_TOKENS, float(at)).visit for at in range(5)]
    assert [visit.turn for visit in visits] == [1] * 5
    assert [visit.new_tokens for visit in visits] == [32, 0, 0, 0, 0]


def test_what_many_prompts_begin_with_is_an_opening_and_no_conversation() -> None:
    seen = SeenPrompts(1_000)
    seen.add(["system"], PAGE_TOKENS, 0.0)
    found = [seen.add(["system", f"user {number}"], PAGE_TOKENS, float(number)) for number in range(1, 20)]
    assert [one.previous for one in found[2:]] == [None] * 17
    assert {one.visit.turn for one in found[2:]} == {1}
    assert {one.visit.known_tokens for one in found} == {16}, "its pages were seen all the same"
    again = seen.add(["system", "user 7", "more"], PAGE_TOKENS, 99.0)
    assert (again.previous, again.visit.turn) == ("user 7", 2)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=40), st.integers(1, 5))
def test_seen_prompts_stay_bounded_and_every_visit_is_sound(prompts: list[list[int]], max_prompts: int) -> None:
    seen = SeenPrompts(max_prompts)
    for at, prompt in enumerate(prompts):
        pages = [tuple(prompt[: number + 1]) for number in range(len(prompt))]
        found = seen.add(pages, PAGE_TOKENS, float(at))
        assert 0 <= found.visit.known_tokens <= found.visit.prompt_tokens
        assert found.previous is None or found.previous in pages
        assert seen.num_prompts <= max_prompts


def test_the_share_of_gaps_that_have_passed_grows_from_none_to_all() -> None:
    gaps = Gaps(median_s=120.0, spread=0.9)
    shares = gaps.reached(np.array([0.0, 30.0, 120.0, 1_000.0, 1e9]))
    assert np.all(np.diff(shares) >= 0)
    assert shares[2] == pytest.approx(0.5, abs=1e-6)
    assert shares[0] == pytest.approx(0.0, abs=1e-6)
    assert shares[-1] == pytest.approx(1.0, abs=1e-6)
