"""Cases of other kinds than the usual ones, from a seed: forms of values, and faults of whole texts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from benchmarks.correction_cases.case import Case
from benchmarks.correction_cases.fresh_objects import FRESH, closed
from benchmarks.correction_cases.fresh_texts import TEXTS
from benchmarks.correction_cases.fresh_values import UNKNOWN, VALUES, Told

FILLERS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "ref": ({"type": "string"}, ("Q7", "z-9", "甲3")),
    "memo": ({"type": "string"}, ("nothing to add", "照旧")),
    "page": ({"type": "integer"}, (3, 17)),
    "ratios": ({"type": "array", "items": {"type": "number"}}, ([0.5, 2], [])),
}


def fresh_cases(seed: int) -> Iterator[Case]:
    for kind, table in VALUES.items():
        for told in table:
            for number, form in enumerate(told.forms):
                yield _value_case(random.Random(f"{seed}/{told.name}/{form}"), kind, told, form, number)
    for kind, fault in TEXTS.items():
        for fresh in FRESH:
            rng = random.Random(f"{seed}/{kind}/{fresh.name}")
            value = fresh.sample(rng)
            for number, (text, truth) in enumerate(fault(rng, value, fresh.schema)):
                yield Case(
                    id=f"{kind}/{fresh.name}/{number}", kind=kind, language=fresh.language, schema_name=fresh.name,
                    text=text, schema=fresh.schema, truth=truth, determined=truth is not UNKNOWN,
                )  # fmt: skip


def _value_case(rng: random.Random, kind: str, told: Told, form: Any, number: int) -> Case:
    """The field in an object with one or two others that are right, at times within an array."""
    names = rng.sample(sorted(FILLERS), 2)
    value = {told.name: form, **{name: rng.choice(FILLERS[name][1]) for name in names}}
    schema = closed(**{told.name: told.schema}, **{name: FILLERS[name][0] for name in names})
    truth, pointer = {**value, told.name: told.truth}, f"/{told.name}"
    if rng.random() < 0.3:
        value, truth, pointer = {"rows": [value]}, {"rows": [truth]}, f"/rows/*{pointer}"
        schema = closed(rows={"type": "array", "items": schema})
    return Case(
        id=f"{kind}/{told.name}/{form}/{number}",
        kind=kind,
        language="en" if told.name.isascii() and str(form).isascii() else "zh",
        schema_name=told.name,
        text=json.dumps(value, ensure_ascii=False),
        schema=schema,
        truth=truth if told.truth is not UNKNOWN else UNKNOWN,
        anchors={pointer: list(told.keys)} if told.keys else None,
        determined=told.truth is not UNKNOWN,
    )
