"""What follows from the likelihoods: values that are confirmed, put elsewhere, or told as doubtful."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.corrector.proposals import Findings, Proposal
from services.corrector.ranking.assignment import FLOOR, Contender, shared_out
from services.corrector.ranking.calibration import Calibration
from services.corrector.ranking.question import Candidate, Question, key_of

SURE, TOLD = 0.85, 0.4
REASON = "the likeliest value of the source for it, by a model's judgement"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """One field: its likeliest value, and how likely that is once all fields of its sort are looked at together."""

    question: Question
    best: Candidate
    probability: float
    is_present: bool


def rank(questions: Sequence[Question], likely: Sequence[Mapping[str, float]]) -> list[Ranking]:
    """`likely`: for each question, value → probability, each on its own."""
    ranked: list[Ranking] = []
    for sort in dict.fromkeys(question.sort for question in questions):
        at = [number for number, question in enumerate(questions) if question.sort == sort]
        num_places: dict[str, int] = {}
        for number in at:
            for one in questions[number].candidates:
                num_places[key_of(one.value)] = max(one.num_places, num_places.get(key_of(one.value), 0))
        alone = [Contender(probabilities=weighed(questions[number], likely[number])) for number in at]
        together = shared_out(alone, num_places)
        ranked += [_ranking(questions[number], each) for number, each in zip(at, together, strict=True)]
    return ranked


def weighed(question: Question, likely: Mapping[str, float]) -> dict[str, float]:
    """Between how likely each value is at all, and among the candidates: the geometric mean of both.

    The first alone is low where a model is unsure of the wording, the second alone is high where the truth is none of
    the candidates.
    """
    free = {key_of(one.value) for one in question.candidates if not one.is_barred}
    sum_of_free = sum(likely[key] for key in free)
    return {key: value / math.sqrt(max(sum_of_free, FLOOR)) if key in free else 0.0 for key, value in likely.items()}


def _ranking(question: Question, by_value: Mapping[str, float]) -> Ranking:
    best = max(range(len(question.candidates)), key=lambda at: by_value[key_of(question.candidates[at].value)])
    one = question.candidates[best]
    return Ranking(
        question=question, best=one, probability=by_value[key_of(one.value)], is_present=best == question.present
    )


def decide(ranked: Sequence[Ranking], calibration: Calibration) -> Findings:
    confirmed: list[str] = []
    proposals: list[Proposal] = []
    for one in ranked:
        pointer = one.question.pointer
        if one.is_present:
            if one.probability >= calibration.confirm and not one.best.is_barred:
                confirmed.append(pointer)
            continue
        is_sure = one.probability >= calibration.change and one.question.may_change and not one.best.is_barred
        if is_sure:
            confirmed.append(pointer)
        if is_sure or one.probability >= calibration.tell:
            proposals.append(_proposal(pointer, one.best.value, SURE if is_sure else TOLD))
    return Findings(proposals=tuple(proposals), confirmed=tuple(confirmed))


def _proposal(pointer: str, value: Any, confidence: float) -> Proposal:
    return Proposal(pointer=pointer, value=value, reason=REASON, confidence=confidence, step="ranking")
