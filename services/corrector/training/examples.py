"""From objects with prose to tokens: the prose, then questions and values; only the values are learnt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tokenizers import Tokenizer

from services.corrector.content.questions import answer, opening, question
from services.corrector.training.prose.kinds import KINDS
from services.corrector.training.prose.objects import instance, prose, schema

SENSITIVE = frozenset("0123456789%$¥€£.-@")


@dataclass(frozen=True)
class Told:
    """An object that a prose source says."""

    source: str
    value: dict[str, Any]
    titles: dict[str, str]


@dataclass(frozen=True)
class Example:
    token_ids: list[int]
    targets: list[int]
    """Positions whose token is learnt; predicted from the position before."""
    sensitive: list[bool]
    """For each target."""


def made_up(seed: int, part: str) -> Iterator[Told]:
    """Objects of the kinds of one part, without end."""
    rng = Random(f"train {seed} {part}")
    kinds = [kind for kind in KINDS if kind.part == part]
    while True:
        kind = rng.choice(kinds)
        value = instance(rng, kind)
        properties = schema(kind)["properties"]
        yield Told(prose(rng, kind, value), value, {name: str(properties[name].get("title", "")) for name in value})


def told_of(source: str, value: dict[str, Any], schema: dict[str, Any]) -> Told:
    """A collected case."""
    parts = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    titles = {name: part.get("title") for name, part in (parts or {}).items() if isinstance(part, dict)}
    return Told(source, value, {name: title for name, title in titles.items() if isinstance(title, str)})


def scalars(told: Told) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in told.value.items() if isinstance(value, str | int | float)]


def example_of(told: Told, tokenizer: Tokenizer, rng: Random, max_tokens: int) -> Example | None:
    """All scalars of an object in one sequence, in an order drawn anew; None where it is too long."""
    token_ids = tokenizer.encode(opening(told.source), add_special_tokens=False).ids
    targets: list[int] = []
    sensitive: list[bool] = []
    asked = scalars(told)
    rng.shuffle(asked)
    for name, value in asked:
        token_ids += tokenizer.encode(question(name, told.titles.get(name, "")), add_special_tokens=False).ids
        encoded = tokenizer.encode(answer(value), add_special_tokens=False)
        targets += range(len(token_ids), len(token_ids) + len(encoded.ids))
        sensitive += [bool(SENSITIVE & set(answer(value)[start:end])) for start, end in encoded.offsets]
        token_ids += encoded.ids
    if len(token_ids) > max_tokens or not targets:
        return None
    return Example(token_ids, targets, sensitive)
