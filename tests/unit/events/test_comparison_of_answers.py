"""Similarity, divergence, percentiles and budgets: the differ's and the worker's arithmetic."""

from __future__ import annotations

import pytest

from services.differ.comparison import first_divergence, similarity
from services.differ.report import percentile
from services.worker.waiting import WaitBudget


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1, 2, 3], 2), ([], [7], 0), ([9], [7], 0)],
)
def test_the_first_divergence_is_the_first_different_position(
    left: list[int], right: list[int], expected: int | None
) -> None:
    assert first_divergence(left, right) == expected
    assert first_divergence(right, left) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"), [("", "", 1.0), ("abc", "abc", 1.0), ("abc", "xyz", 0.0), ("应当", "可以", 0.0)]
)
def test_similarity_is_1_for_equal_and_0_for_disjoint_texts(left: str, right: str, expected: float) -> None:
    assert similarity(left, right) == expected


@pytest.mark.parametrize(("percent", "expected"), [(10, 1.0), (50, 5.0), (90, 9.0), (100, 10.0)])
def test_percentiles_are_values_that_occur(percent: int, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 11)], percent) == expected
    assert percentile([3.0], percent) == 3.0


def test_a_budget_of_waiting_begins_with_the_first_refusal_and_ends_with_the_request() -> None:
    now_s = 0.0
    budget = WaitBudget(10.0, clock=lambda: now_s)
    assert budget.can_wait("t", "a")
    now_s = 9.0
    assert budget.can_wait("t", "a")
    assert budget.can_wait("t", "b")
    now_s = 10.0
    assert not budget.can_wait("t", "a")
    assert budget.can_wait("t", "b")
    budget.forget("t", "a")
    assert budget.can_wait("t", "a")
    budget.forget("t", "a")
    budget.forget("t", "b")
    assert len(budget) == 0
