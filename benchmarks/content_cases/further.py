# ruff: noqa: E501  long lines read better than broken expressions here
"""Cases of records that were written apart from the rules: objects, their prose, a fault, and what the truth is."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.content_cases import records, tellings
from benchmarks.content_cases.records import Record
from benchmarks.correction_cases.case import Case

FAULTS = ("clean", "missing", "swapped", "altered", "misplaced", "dropped", "truncated", "several", "undetermined")
ILLEGIBLE = {"en": "(illegible)", "zh": "（不清）"}
TYPES = {"money": "number", "decimal": "number", "whole": "integer", "flag": "boolean"}


def cases(seed: int, count: int, part: str) -> Iterator[Case]:
    """`count` cases of each fault and text of one part, `open` or `held`; a fault that a record cannot have is left out."""
    draw = Random(f"{seed} {part}")
    for record in records.RECORDS:
        for number, text in enumerate(record.texts):
            if (record.held or number == len(record.texts) - 1) is not (part == "held"):
                continue
            for fault in FAULTS:
                for _ in range(count):
                    made = _case(draw, record, text, fault)
                    if made is not None:
                        yield made


def _case(draw: Random, record: Record, text: str, fault: str) -> Case | None:
    truth = _truth(draw, record)
    broken, lost = copy.deepcopy(truth), None
    if fault == "several":
        for kind in draw.sample(
            ("missing", "swapped", "altered", "misplaced", "dropped", "truncated"), draw.randint(2, 3)
        ):
            _break(draw, record, broken, kind)
    elif fault == "undetermined":
        lost = draw.choice(
            [name for name, maker in record.fields.items() if _kind(maker) not in ("flag", "items", "enum")]
        )
        if draw.random() < 0.5:
            del broken[lost]
        else:
            broken[lost] = _altered(draw, broken[lost], record.fields[lost])
    elif fault != "clean":
        _break(draw, record, broken, fault)
    if fault != "clean" and broken == truth:
        return None
    return Case(
        id=f"{record.name}-{record.texts.index(text)}-{fault}", kind=fault, language=record.language, schema_name=record.name,
        text=json.dumps(broken, ensure_ascii=False), schema=_schema(record), truth=truth,
        source=_source(draw, record, text, truth, lost), determined=lost is None,
    )  # fmt: skip


def _kind(maker: str) -> str:
    return maker.partition("|")[0].partition(":")[0]


def _truth(draw: Random, record: Record) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, told in record.fields.items():
        maker = told.partition("|")[0]
        if maker == "items":
            products = draw.sample(tellings.PRODUCTS[record.language], draw.randint(2, 4))
            made[name] = [
                {
                    key: product if how == "product" else tellings.make(draw, how, record.language, {})
                    for key, how in record.item.items()
                }
                for product in products
            ]
            continue
        value = tellings.make(draw, maker, record.language, made)
        while not isinstance(value, bool) and any(_collides(value, other) for other in made.values()):
            value = tellings.make(draw, maker, record.language, made)
        made[name] = value
    return made


def _collides(value: Any, other: Any) -> bool:
    """Whether the two are one value, or one text within the other."""
    if isinstance(value, str) and isinstance(other, str):
        return value in other or other in value
    return type(value) is type(other) and bool(value == other)


def _schema(record: Record) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, told in record.fields.items():
        maker, _, title = told.partition("|")
        properties[name] = _field(maker)
        if maker == "items":
            fields = {key: _field(how) for key, how in record.item.items()}
            items = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
            properties[name] = {"type": "array", "items": items}
        if title:
            properties[name]["title"] = title
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _field(maker: str) -> dict[str, Any]:
    kind, _, detail = maker.partition(":")
    schema: dict[str, Any] = {"type": TYPES.get(kind, "string")}
    if kind in ("date", "after"):
        schema["format"] = "date"
    if kind == "enum":
        schema["enum"] = detail.split(",")
    return schema


def _source(draw: Random, record: Record, text: str, truth: dict[str, Any], lost: str | None) -> str:
    def one(found: re.Match[str]) -> str:
        name, _, words = found[1].partition("?")
        if name == lost:
            return ILLEGIBLE[record.language]
        if name.startswith("+"):
            while True:
                value = tellings.make(draw, name[1:], record.language, {})
                if value not in truth.values():
                    return tellings.shown(draw, value, name[1:], record.language)
        maker = record.fields[name].partition("|")[0]
        if maker == "items":
            told = [
                re.sub(
                    r"\{(\w+)\}",
                    lambda key, item=item: tellings.shown(draw, item[key[1]], record.item[key[1]], record.language),
                    record.told,
                )
                for item in truth[name]
            ]
            return record.joint.join(told)
        if maker == "flag":
            return words.split("|")[not truth[name]]
        return tellings.shown(draw, truth[name], maker, record.language)

    return re.sub(r"\{([^}]+)\}", one, text)


def _break(draw: Random, record: Record, value: dict[str, Any], fault: str) -> None:
    """Put the fault into the object, where it has a place for it."""
    names = [name for name in value if not isinstance(value[name], list)]
    match fault:
        case "missing":
            del value[draw.choice(names)]
        case "swapped" | "misplaced":
            pairs = [
                (a, b)
                for a in names
                for b in names
                if a != b and _alike(record, a, b) and not isinstance(value[a], bool)
            ]
            if pairs:
                a, b = draw.choice(pairs)
                value[a], value[b] = value[b], (value[a] if fault == "swapped" else value[b])
        case "altered":
            lists = [name for name in value if isinstance(value[name], list)]
            if lists and draw.random() < 0.4:
                item = draw.choice(value[lists[0]])
                name = draw.choice(list(item))
                item[name] = _altered(draw, item[name], record.item[name])
            else:
                name = draw.choice(names)
                value[name] = _altered(draw, value[name], record.fields[name])
        case "dropped":
            for name in value:
                if isinstance(value[name], list) and len(value[name]) > 1:
                    value[name].pop(draw.randrange(len(value[name])))
        case "truncated":
            long = [
                name
                for name in names
                if isinstance(value[name], str)
                and len(value[name]) > 3
                and _kind(record.fields[name]) not in ("date", "after", "enum")
            ]
            if not long:
                return
            name = draw.choice(long)
            value[name] = value[name][: draw.randint(2, len(value[name]) - 1)].rstrip(" ,.-")


def _alike(record: Record, a: str, b: str) -> bool:
    one, other = (
        {"after": "date", "decimal": "money"}.get(kind, kind)
        for kind in (_kind(record.fields[a]), _kind(record.fields[b]))
    )
    return one == other


def _altered(draw: Random, value: Any, maker: str) -> Any:
    """Another value that looks like this one."""
    maker = maker.partition("|")[0]
    kind, _, detail = maker.partition(":")
    if kind == "flag":
        return not value
    if kind == "enum":
        return draw.choice([option for option in detail.split(",") if option != value])
    if isinstance(value, int | float):
        return draw.choice((value + draw.randint(1, 9), value * 10, round(value + 10, 2)))
    if kind in ("date", "after"):
        return f"{value[:8]}{int(value[8:]) % 28 + 1:02}"
    at = draw.choice([at for at, char in enumerate(value) if char.isalnum()])
    pool = "0123456789" if value[at].isdigit() else "abegiklmnorstu" if value[at].isascii() else "伟芳敏静达信远睿元盛"
    new = draw.choice([char for char in pool if char != value[at].lower()])
    return value[:at] + (new.upper() if value[at].isupper() else new) + value[at + 1 :]
