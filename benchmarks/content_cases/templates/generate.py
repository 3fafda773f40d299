# ruff: noqa: E501  tables of words and templates are easier to read in long lines
"""Cases from a seed: an object, its prose, a fault, and what the truth is."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.content_cases.templates import made
from benchmarks.content_cases.templates.kinds import KINDS, Kind
from benchmarks.correction_cases.case import Case

FAULTS = ("missing", "swapped", "altered", "misplaced", "dropped-item", "truncated", "several", "clean")
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


def cases(seed: int, count: int, part: str) -> Iterator[Case]:
    """`count` cases of each fault and language, of kinds of one part; `undetermined`: the source has lost the truth."""
    for fault in (*FAULTS, "undetermined"):
        for language in ("en", "zh"):
            kinds = [kind for kind in KINDS if kind.language == language and kind.part == part]
            made_cases = 0
            rng = Random(f"{seed} {fault} {language} {part}")
            while made_cases < count:
                case = _case(rng, rng.choice(kinds), fault, made_cases)
                if case is not None:
                    made_cases += 1
                    yield case


def _case(rng: Random, kind: Kind, fault: str, number: int) -> Case | None:
    truth = instance(rng, kind)
    source = prose(rng, kind, truth)
    broken = copy.deepcopy(truth)
    times = rng.randint(2, 3) if fault == "several" else 1
    for _ in range(times):
        one = rng.choice(FAULTS[:6]) if fault == "several" else "altered" if fault == "undetermined" else fault
        if one != "clean" and not _break(rng, kind, broken, one):
            return None
    if fault == "undetermined":
        (name,) = [name for name in truth if broken[name] != truth[name]]
        shown = _showings(truth[name])
        lines = re.split(r"(?<=[。.!\n；;，])", source)
        kept = [line for line in lines if not any(text in line for text in shown)]
        source = "".join(kept)
        if not source.strip() or len(kept) == len(lines) or any(text in source for text in shown):
            return None
    if fault != "clean" and broken == truth:
        return None
    return Case(
        id=f"{fault}-{kind.language}-{number}", kind=fault, language=kind.language, schema_name=kind.name,
        text=json.dumps(broken, ensure_ascii=False), schema=schema(kind), truth=truth, source=source, determined=fault != "undetermined",
    )  # fmt: skip


def _showings(value: Any) -> set[str]:
    found: set[str] = set()
    for seed in range(30):
        for style in (
            "",
            *(["money"] if isinstance(value, int | float) else []),
            *(["date", "zhdate"] if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)) else []),
        ):
            found.add(made.shown(value, style, Random(seed)))
    return found


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
    text = rng.choice(kind.prose)

    def put(match: re.Match[str]) -> str:
        name, _, style = match[1].partition(":")
        value = truth[name]
        if not isinstance(value, list):
            return made.shown(value, style, rng)
        if isinstance(value[0], dict):
            return kind.joint.join(_row(rng, kind.row, item) for item in value)
        if kind.language == "zh":
            return "、".join(value)
        return ", ".join(value) if rng.random() < 0.5 else ", ".join(value[:-1]) + " and " + value[-1]

    text = re.sub(r"\{([a-z_]+(?::[a-z]+)?)\}", put, text)
    for junk in rng.sample(JUNK[kind.language], rng.randint(0, 2)):
        text = f"{text}\n{junk}" if rng.random() < 0.7 else f"{junk}\n{text}"
    return text


def _row(rng: Random, row: str, item: dict[str, Any]) -> str:
    return re.sub(r"\{([a-z_]+)(?::([a-z]+))?\}", lambda match: made.shown(item[match[1]], match[2] or "", rng), row)


def schema(kind: Kind) -> dict[str, Any]:
    properties = {name: _schema_of(kind, maker) for name, maker in kind.fields.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _schema_of(kind: Kind, maker: str) -> dict[str, Any]:
    maker, _, title = maker.partition("|")
    name = maker.partition(":")[0]
    said: dict[str, Any] = {
        "date": {"type": "string", "format": "date"}, "later": {"type": "string", "format": "date"}, "money": {"type": "number", "minimum": 0}, "number": {"type": "number"},
        "small": {"type": "integer", "minimum": 1}, "email": {"type": "string", "format": "email"}, "people": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    }.get(name, {"type": "string"})  # fmt: skip
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


def _sort(kind: Kind, name: str) -> str:
    sort = kind.fields[name].split("|")[0].partition(":")[0]
    return {"later": "date"}.get(sort, sort)


def _break(rng: Random, kind: Kind, value: dict[str, Any], fault: str) -> bool:
    """Put a fault into an object; False where it has no place for it."""
    names = [name for name in value if not isinstance(value[name], list)]
    match fault:
        case "missing":
            if not names:
                return False
            del value[rng.choice(names)]
        case "swapped" | "misplaced":
            pairs = [(a, b) for a in names for b in names if a != b and _sort(kind, a) == _sort(kind, b)]
            if not pairs:
                return False
            a, b = rng.choice(pairs)
            if fault == "swapped":
                value[a], value[b] = value[b], value[a]
            else:
                value[b] = value.pop(a)
        case "altered":
            lists = [n for n in value if isinstance(value[n], list) and isinstance(value[n][0], dict)]
            if lists and rng.random() < 0.3:
                row = rng.choice(value[lists[0]])
                field = rng.choice(list(row))
                row[field] = altered(rng, row[field])
                return True
            names = [n for n in names if not kind.fields[n].startswith("enum")]
            if not names:
                return False
            name = rng.choice(names)
            value[name] = altered(rng, value[name])
        case "dropped-item":
            lists = [n for n in value if isinstance(value[n], list) and len(value[n]) > 1]
            if not lists:
                return False
            name = rng.choice(lists)
            value[name].pop(rng.randrange(len(value[name])))
        case "truncated":
            long = [
                n
                for n in names
                if isinstance(value[n], str) and len(value[n]) >= 4 and _sort(kind, n) not in ("date", "email", "enum")
            ]
            if not long:
                return False
            name = rng.choice(long)
            text = value[name]
            value[name] = text[: rng.randint(max(2, len(text) // 2), len(text) - 1)].rstrip(" ,.-")
            return bool(value[name] != text)
    return True


def altered(rng: Random, value: Any) -> Any:
    """One digit or letter changed, or two neighbours exchanged."""
    if isinstance(value, int | float):
        text = str(value)
        while True:
            at = rng.choice([i for i, char in enumerate(text) if char.isdigit()])
            new = text[:at] + rng.choice("123456789") + text[at + 1 :]
            if new != text and type(value)(new) != value:
                return type(value)(new)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        while True:
            new = (
                value[:8] + f"{rng.randint(1, 28):02d}"
                if rng.random() < 0.6
                else f"{value[:5]}{rng.randint(1, 12):02d}-{min(int(value[8:]), 28):02d}"
            )
            if new != value:
                return new
    at = rng.choice([i for i, char in enumerate(value) if char.isalnum()])
    old = value[at]
    pool = "0123456789" if old.isdigit() else "伟芳敏静达信远睿元盛" if not old.isascii() else "abcdeghiklmnoprstu"
    new = rng.choice([char for char in pool if char != old.lower()])
    return value[:at] + (new.upper() if old.isupper() else new) + value[at + 1 :]
