"""From objects with prose to tokens: the prose, then questions and values side by side; only the values are learnt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tokenizers import Tokenizer

from services.corrector.content.questions import NOTHING, answer, opening, question
from services.corrector.training.prose.composed import matter
from services.corrector.training.prose.kinds import KINDS
from services.corrector.training.prose.objects import instance, said, schema

SENSITIVE = frozenset("0123456789%$¥€£.-@")


@dataclass(frozen=True)
class Told:
    """An object that a prose source says."""

    source: str
    value: dict[str, Any]
    titles: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)
    """Field → its value as the source writes it; where that is not known, the value itself."""


@dataclass(frozen=True)
class Example:
    token_ids: list[int]
    branches: list[int]
    """For each token: 0 for the source, else the number of its question; questions do not see each other."""
    targets: list[int]
    """Positions whose token is learnt; predicted from the position before."""
    sensitive: list[bool]
    """For each target."""
    deciding: list[bool]
    """For each target: whether other values of the object begin like this one up to before it."""


def made_up(seed: int, part: str) -> Iterator[Told]:
    """Objects of the kinds of one part, without end."""
    rng = Random(f"train {seed} {part}")
    kinds = [kind for kind in KINDS if kind.part == part]
    while True:
        kind = rng.choice(kinds)
        value = instance(rng, kind)
        properties = schema(kind)["properties"]
        source, words = said(rng, kind, value)
        yield Told(source, value, {name: str(properties[name].get("title", "")) for name in value}, words)


def composed(seed: int) -> Iterator[Told]:
    """Matters of any roles, without end; some are asked for what they do not tell."""
    rng = Random(f"composed {seed}")
    while True:
        drawn = matter(rng)
        words = {name: word or NOTHING for name, word in drawn.asked.items()}
        yield Told(drawn.source, dict(words), drawn.titles, words)


def told_of(source: str, value: dict[str, Any], schema: dict[str, Any]) -> Told:
    """A collected case."""
    parts = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    titles = {name: part.get("title") for name, part in (parts or {}).items() if isinstance(part, dict)}
    return Told(source, value, {name: title for name, title in titles.items() if isinstance(title, str)})


def scalars(told: Told) -> list[tuple[str, Any]]:
    """Fields with single values, as the source writes them where that is known."""
    return [
        (name, told.words.get(name, value))
        for name, value in told.value.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]


def example_of(told: Told, tokenizer: Tokenizer, rng: Random, max_tokens: int) -> Example | None:
    """All scalars of an object after one source, in an order drawn anew; None where it is too long."""
    token_ids = tokenizer.encode(opening(told.source), add_special_tokens=False).ids
    branches = [0] * len(token_ids)
    example = Example(token_ids, branches, [], [], [])
    asked = scalars(told)
    rng.shuffle(asked)
    answers = [tokenizer.encode(answer(value), add_special_tokens=False) for _, value in asked]
    for branch, ((name, value), encoded) in enumerate(zip(asked, answers, strict=True), start=1):
        token_ids += tokenizer.encode(question(name, told.titles.get(name, "")), add_special_tokens=False).ids
        example.targets.extend(range(len(token_ids), len(token_ids) + len(encoded.ids)))
        example.sensitive.extend(bool(SENSITIVE & set(answer(value)[start:end])) for start, end in encoded.offsets)
        num_deciding = deciding(encoded.ids, [other.ids for other in answers if other is not encoded])
        example.deciding.extend(index < num_deciding for index in range(len(encoded.ids)))
        token_ids += encoded.ids
        branches += [branch] * (len(token_ids) - len(branches))
    return example if len(token_ids) <= max_tokens and example.targets else None


def deciding(ids: Sequence[int], others: Sequence[Sequence[int]]) -> int:
    """How many tokens of a value it takes to tell it from all others."""
    shared = 0
    for other in others:
        equal = 0
        while equal < min(len(ids), len(other)) and ids[equal] == other[equal]:
            equal += 1
        shared = max(shared, equal)
    return min(len(ids), shared + 1)
