"""From questions to continuations of one prompt, and from their scores to probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.corrector.content.questions import answer, opening, question
from services.corrector.ranking.question import Question, key_of

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Continuation:
    token_ids: list[int]
    num_asking: int
    """The first so many say which field is meant; the rest is the value."""
    field: int
    value: str
    """By `question.key_of`."""


@dataclass(frozen=True)
class Prompt:
    """The source first, so that its keys and values serve all questions."""

    token_ids: list[int]
    continuations: list[Continuation]


def prompt_of(source: str, questions: Sequence[Question], encode: Encode) -> Prompt:
    """A value is asked for up to the token that tells it from the other candidates, or to its end where only that says
    which text is meant."""
    continuations = []
    for field, asked in enumerate(questions):
        asking = encode(question(asked.name, asked.title))
        wordings = [(one, encode(answer(words))) for one in asked.candidates for words in one.words]
        for at, (one, ids) in enumerate(wordings):
            others = [other for to, (_, other) in enumerate(wordings) if to != at]
            kept = len(ids) if one.is_open_ended else num_telling(ids, others)
            continuations.append(Continuation(asking + ids[:kept], len(asking), field, key_of(one.value)))
    return Prompt(encode(opening(source)), continuations)


def num_telling(ids: Sequence[int], others: Sequence[Sequence[int]]) -> int:
    """How many tokens of a value it takes to tell it from all others."""
    shared = 0
    for other in others:
        equal = 0
        while equal < min(len(ids), len(other)) and ids[equal] == other[equal]:
            equal += 1
        shared = max(shared, equal)
    return min(len(ids), shared + 1)


def probabilities(prompt: Prompt, num_fields: int, token_logprobs: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """For each field, how likely each value follows its question, in whichever of its wordings."""
    found: list[dict[str, float]] = [{} for _ in range(num_fields)]
    for one, logprobs in zip(prompt.continuations, token_logprobs, strict=True):
        own, likely = found[one.field], math.exp(sum(logprobs[one.num_asking :]))
        own[one.value] = min(1.0, own.get(one.value, 0.0) + likely)
    return found
