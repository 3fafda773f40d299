"""When a candidate counts as better than the present adapter, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.corrector.adapters.judged import Judged
from services.corrector.adapters.tally import Tally, tally_of

BETTER = Judged(
    fields=120, candidate_right=100, present_right=80, only_candidate=25, only_present=5,
    candidate_sure=30, candidate_sure_right=30, present_sure=10, present_sure_right=10,
)  # fmt: skip
STOOD = Tally(
    compared=60, candidate_answered=25, candidate_valid=20, present_answered=100, present_valid=80,
)  # fmt: skip


def test_a_candidate_that_is_clearly_better_has_no_problems() -> None:
    assert BETTER.problems(100) == []
    assert BETTER.chance < 0.001
    assert STOOD.problems(50, 20) == []


def test_a_lead_that_chance_explains_is_no_lead() -> None:
    (problem,) = replace(BETTER, only_candidate=6, only_present=5).problems(100)
    assert "6 fields are right with the candidate alone and 5 with the present one alone" in problem
    assert replace(BETTER, only_candidate=0, only_present=0).chance == 1.0
    assert replace(BETTER, only_candidate=5, only_present=0).chance == pytest.approx(1 / 32)


def test_few_cases_are_refused_with_their_number() -> None:
    assert BETTER.problems(200) == ["120 fields were held out, 200 are needed"]


def test_a_candidate_that_is_wrong_where_it_is_sure_is_refused() -> None:
    (problem,) = replace(BETTER, candidate_sure_right=29).problems(100)
    assert problem == "where it is sure it is right in 29 of 30, the present one in 10 of 10"


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (replace(STOOD, compared=49), "compared on 49 live corrections, 50 are needed"),
        (replace(STOOD, candidate_answered=0, candidate_valid=0), "answered 0 live corrections, 20 are needed"),
        (replace(STOOD, candidate_failed=20), "failed 20 times, the present one 0 times"),
        (replace(STOOD, candidate_valid=5), "5 of 25 corrections were valid with it, 80 of 100 with the present one"),
    ],
)
def test_a_candidate_that_did_worse_on_live_corrections_is_refused(tally: Tally, said: str) -> None:
    (problem,) = tally.problems(50, 20)
    assert said in problem


def test_counts_of_another_version_are_left_out() -> None:
    assert tally_of({b"compared": b"7", b"unheard_of": b"1"}) == Tally(compared=7)
