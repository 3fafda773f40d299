# ruff: noqa: E501  tables of words and templates are easier to read in long lines
"""Objects of a kind with prose that says them, from a seed."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from services.corrector.training.prose import made
from services.corrector.training.prose.kinds import Kind

TOPICS = {
    "en": [
        "Warehouse move",
        "Annual audit",
        "Supplier selection",
        "Website relaunch",
        "Safety training",
        "Price review",
    ],
    "zh": ["仓库搬迁", "年度审计", "供应商选择", "网站改版", "安全培训", "价格评审"],
}
JUNK = {
    "en": ["Please treat this as confidential.", "Our office is closed on public holidays.", "For reference, last year's order came to 2,410.50.", "The draft of 11 January 2020 no longer applies.",
           "Have a nice day.", "Case 77-A was handled by another team."],
    "zh": ["请注意保密。", "节假日办公室不上班。", "仅供参考：去年订单金额为2,410.50元。", "2020年1月11日的草稿作废。", "祝好。", "另有案件77-A由其他团队处理。"],
}  # fmt: skip


def instance(rng: Random, kind: Kind) -> dict[str, Any]:
    """A true object: values differ from each other."""
    truth: dict[str, Any] = {}
    for name, maker in kind.fields.items():
        while True:
            value = _make(rng, kind, maker.split("|")[0], truth)
            if isinstance(value, list) or value not in truth.values():
                break
        truth[name] = value
    return truth


def _make(rng: Random, kind: Kind, maker: str, truth: dict[str, Any]) -> Any:
    name, _, detail = maker.partition(":")
    match name:
        case "code":
            return made.code(rng, detail)
        case "company" | "person" | "address" | "city" | "product" | "phone":
            return getattr(made, name)(rng, kind.language)
        case "date":
            return made.date(rng)
        case "later":
            return made.later(rng, truth[detail])
        case "money":
            return made.amount(rng)
        case "number":
            return round(rng.uniform(2, 900), 1)
        case "small":
            return rng.randint(2, 60)
        case "room":
            return str(rng.randint(101, 989))
        case "email":
            return made.email(rng)
        case "enum":
            return rng.choice(detail.split(","))
        case "phrase":
            return rng.choice(TOPICS[kind.language])
        case "people":
            people: list[str] = []
            while len(people) < rng.randint(2, 5):
                one = made.person(rng, kind.language)
                if one not in people and one not in truth.values():
                    people.append(one)
            return people
        case "rows":
            names = rng.sample(made.PRODUCTS_ZH if kind.language == "zh" else made.PRODUCTS, rng.randint(2, 4))
            return [
                {
                    field: names[index] if how == "product" else _make(rng, kind, how, {})
                    for field, how in kind.rows.items()
                }
                for index in range(len(names))
            ]
    raise AssertionError(maker)


def prose(rng: Random, kind: Kind, truth: dict[str, Any]) -> str:
    return said(rng, kind, truth)[0]


def said(rng: Random, kind: Kind, truth: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Prose, and the words of each single value in it."""
    text, words = rng.choice(kind.prose), dict[str, str]()

    def put(match: re.Match[str]) -> str:
        name, _, style = match[1].partition(":")
        value = truth[name]
        if not isinstance(value, list):
            words[name] = made.shown(value, style, rng)
            return words[name]
        if isinstance(value[0], dict):
            return kind.joint.join(_row(rng, kind.row, item) for item in value)
        if kind.language == "zh":
            return "、".join(value)
        return ", ".join(value) if rng.random() < 0.5 else ", ".join(value[:-1]) + " and " + value[-1]

    text = re.sub(r"\{([a-z_]+(?::[a-z]+)?)\}", put, text)
    for junk in rng.sample(JUNK[kind.language], rng.randint(0, 2)):
        text = f"{text}\n{junk}" if rng.random() < 0.7 else f"{junk}\n{text}"
    return text, words


def _row(rng: Random, row: str, item: dict[str, Any]) -> str:
    return re.sub(r"\{([a-z_]+)(?::([a-z]+))?\}", lambda match: made.shown(item[match[1]], match[2] or "", rng), row)


def schema(kind: Kind) -> dict[str, Any]:
    properties = {name: _schema_of(kind, maker) for name, maker in kind.fields.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _schema_of(kind: Kind, maker: str) -> dict[str, Any]:
    maker, _, title = maker.partition("|")
    name = maker.partition(":")[0]
    plain: dict[str, dict[str, Any]] = {
        "date": {"type": "string", "format": "date"}, "later": {"type": "string", "format": "date"}, "money": {"type": "number", "minimum": 0}, "number": {"type": "number"},
        "small": {"type": "integer", "minimum": 1}, "email": {"type": "string", "format": "email"}, "people": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    }  # fmt: skip
    said = plain.get(name, {"type": "string"})
    if name == "enum":
        said = {"enum": maker.partition(":")[2].split(",")}
    if name == "rows":
        properties = {field: _schema_of(kind, how) for field, how in kind.rows.items()}
        said = {
            "type": "array",
            "items": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
            "minItems": 1,
        }
    return {**said, "title": title} if title else said


def sort_of(kind: Kind, name: str) -> str:
    sort = kind.fields[name].split("|")[0].partition(":")[0]
    return {"later": "date"}.get(sort, sort)
