from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.draft_policy import Chance, StepCost, can_pay, draft_lengths


def linear(slope: float) -> Callable[[int], float]:
    return lambda num_rows: 1 + slope * (num_rows - 1)


def test_likely_guesses_are_taken_while_rows_are_nearly_free() -> None:
    assert draft_lengths([[0.9] * 8], 1, linear(0.05)) == [8]


def test_nothing_is_guessed_where_each_row_costs_as_much_as_a_step() -> None:
    assert draft_lengths([[0.95] * 8], 1, linear(1.0)) == [0]


def test_unlikely_guesses_are_left_out() -> None:
    assert draft_lengths([[0.05] * 8], 1, linear(0.1)) == [0]


def test_a_length_ends_where_the_next_row_costs_more_than_it_promises() -> None:
    def steep(num_rows: int) -> float:
        return 1 + 0.05 * (num_rows - 1) if num_rows <= 4 else 5.0

    assert draft_lengths([[0.9] * 8], 1, steep) == [3]


def test_rows_go_to_the_sequences_with_the_best_chances() -> None:
    def four_more(num_rows: int) -> float:
        return 1.0 if num_rows <= 6 else 9.0

    assert draft_lengths([[0.5, 0.5], [0.9, 0.9, 0.9]], 2, four_more) == [1, 3]


def test_a_full_batch_is_left_alone_when_it_is_bound_by_computing() -> None:
    assert draft_lengths([[0.9] * 4] * 16, 16, lambda num_rows: 0.27 * num_rows) == [0] * 16


def test_where_right_guesses_would_not_pay_none_are_looked_for() -> None:
    assert can_pay(1, 16, linear(0.3))
    assert can_pay(2, 1, lambda num_rows: 1.0 if num_rows <= 3 else 9.0)
    assert not can_pay(16, 16, lambda num_rows: 0.27 * num_rows)


@given(st.lists(st.lists(st.floats(0, 1), max_size=9), min_size=1, max_size=5), st.floats(0.01, 1.2))
def test_the_lengths_promise_more_tokens_for_the_cost_than_no_guess(chances: list[list[float]], slope: float) -> None:
    cost = linear(slope)
    lengths = draft_lengths(chances, len(chances), cost)
    expected = float(len(chances))
    for own, length in zip(chances, lengths, strict=True):
        assert length <= len(own)
        gain = 1.0
        for chance in own[:length]:
            gain *= chance
            expected += gain
    rows = len(chances) + sum(lengths)
    assert expected / cost(rows) >= len(chances) / cost(len(chances)) * (1.03 if sum(lengths) else 1) - 1e-9


def test_a_chance_follows_what_was_seen_lately() -> None:
    chance = Chance(0.5)
    for _ in range(40):
        chance.saw(True)
    assert chance.value > 0.9
    for _ in range(40):
        chance.saw(False)
    assert chance.value < 0.1


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_cost_of_rows_is_learned_whatever_the_machine_does_besides(noise: float) -> None:
    """A machine that becomes three times slower, and slows down at random, does not make rows look dear or cheap."""
    true = {1: 1.0, 3: 1.2, 6: 2.4}
    cost, dice = StepCost(), random.Random(1)
    for number in range(1500):
        rows = dice.choice(list(true))
        slowness = 3.0 if number > 700 else 1.0
        cost.measured(rows, 0.004 * slowness * true[rows] * (1 + noise * dice.random()))
    for rows, expected in true.items():
        assert cost.of(rows) / cost.of(1) == pytest.approx(expected, rel=0.15)


def test_a_number_of_rows_never_measured_is_judged_by_the_nearest() -> None:
    cost = StepCost()
    for _ in range(50):
        cost.measured(1, 0.004)
        cost.measured(4, 0.008)
    assert cost.of(5) / cost.of(1) > 1.7
    assert cost.of(40) > cost.of(20) > cost.of(8)


def test_more_rows_than_ever_measured_are_tried_where_rows_were_cheap_so_far() -> None:
    cost = StepCost()
    for _ in range(50):
        cost.measured(1, 0.004)
        cost.measured(5, 0.0044)
    assert cost.of(8) / cost.of(1) < 1.3
    assert 16 in draft_lengths([[0.99] * 16], 1, cost.of)
    for _ in range(50):
        cost.measured(1, 0.004)
        cost.measured(8, 0.009)
    assert cost.of(8) / cost.of(1) > 2, "what was tried was measured"
