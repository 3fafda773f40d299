# ruff: noqa: E501  lists of forms are easier to read in long lines
"""Faults of values and names that a schema, anchors or a source set right."""

from __future__ import annotations

import copy
import datetime as dt
import json
import random
from typing import Any

from benchmarks.correction_cases import words
from benchmarks.correction_cases.form_faults import Broken, Make, dumped, replaced


def numbers(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("amount", "int", "rate", "weight")
    if not fields:
        return None
    chosen = rng.choice(fields)
    value = make.instance[chosen.name]
    plain = f"{value:,}" if chosen.kind == "amount" else str(value)
    zh = make.business.language == "zh"
    if chosen.kind == "amount":
        forms = [
            plain,
            f"${plain}",
            f"USD {plain}",
            f"{plain} USD",
            f"¥{plain}",
            f"RMB {plain}元",
            f"{plain}元",
            f"€{plain}",
            f"EUR {plain}",
            f"{plain} yuan",
            f"人民币{plain}元",
            f"￥{plain}元整",
        ]
        if value % 100 == 0 or value == int(value):
            forms += (
                [f"{value / 1000:g}k", f"USD {value / 1000:g}K"] if f"{value / 1000:g}" == repr(value / 1000) else []
            )
            forms += (
                [f"{value / 10000:g}万元", f"{value / 10000:g}万"]
                if f"{value / 10000:g}" == repr(value / 10000)
                else []
            )
    elif chosen.kind == "weight":
        forms = [f"{plain} kg", f"{plain}kg", f"{plain}公斤", f"{plain}千克", plain]
    elif chosen.kind == "rate":
        forms = [f"{plain}%", f"{plain} %", plain, f"{plain} percent"]
    else:
        forms = [plain, f"{plain} pcs", f"{plain} units", f"{plain}个", f"{plain}件", f"+{plain}", f"{plain}.0"]
    forms = [form for form in forms if zh or form.isascii() or form[0] in "€¥" or rng.random() < 0.2]
    return Broken(replaced(make, chosen.name, rng.choice(forms), rng))


def dates(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("date")
    if not fields:
        return None
    chosen = rng.choice(fields).name
    day = dt.date.fromisoformat(make.instance[chosen])
    forms = [
        f"{day:%B} {day.day}, {day.year}", f"{day.year}/{day.month}/{day.day}", f"{day.year}年{day.month}月{day.day}日", f"{day:%d-%b-%Y}", f"{day.day} {day:%B} {day.year}",
        f"{day:%Y.%m.%d}", f"{day:%Y%m%d}", f"{day:%b} {day.day}, {day.year}", f"{day:%A}, {day:%B} {day.day}, {day.year}", f"{day:%Y-%m-%d}T00:00:00Z", f"{day.year}-{day.month}-{day.day}",
        f"{day:%Y-%m-%d} 00:00:00", f"{day.day}. {day:%B} {day.year}", f"{day.year}年{day.month:02}月{day.day:02}号",
    ]  # fmt: skip
    if day.day > 12:
        forms += [f"{day:%d/%m/%Y}", f"{day:%m/%d/%Y}", f"{day:%d.%m.%Y}"]
    return Broken(replaced(make, chosen, rng.choice(forms), rng))


def booleans(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("bool")
    if not fields:
        return None
    chosen = rng.choice(fields).name
    true = ["yes", "Yes", "Y", "true", "True", "TRUE", "1", "是", "是的", "on", "对", "√", 1]
    false = ["no", "No", "N", "false", "False", "FALSE", "0", "否", "不是", "off", "错", "×", 0]
    return Broken(replaced(make, chosen, rng.choice(true if make.instance[chosen] else false), rng))


def enums(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("status", "priority")
    if not fields:
        return None
    chosen = rng.choice(fields).name
    value = make.instance[chosen]
    other = {
        "pending": "待处理", "in_progress": "In Progress", "completed": "done", "cancelled": "Canceled", "low": "LOW", "medium": "Med ium", "high": "High.",
        "待处理": "pending", "处理中": "in progress", "已完成": "完成", "已取消": "取消", "低": "low", "中": "中等", "高": "high",
    }  # fmt: skip
    forms = [
        other[value],
        f" {value} ",
        value.upper() if value.isascii() else f"{value}。",
        value.replace("_", "-").title(),
    ]
    if value.isascii() and len(value) > 5:
        forms.append(value[:2] + value[3] + value[2] + value[4:])
    return Broken(replaced(make, chosen, rng.choice(forms), rng))


def misspelled(rng: random.Random, make: Make) -> Broken | None:
    names = [
        f.name
        for f in make.business.fields
        if f.name in make.instance and not f.optional and len(f.name) >= (3 if not f.name.isascii() else 5)
    ]
    if not names:
        return None
    changed = dict(make.instance)
    for name in rng.sample(names, min(len(names), rng.choice((1, 1, 2)))):
        changed = {_misspelled(name, rng) if key == name else key: value for key, value in changed.items()}
    return Broken(dumped(changed, rng))


def _misspelled(name: str, rng: random.Random) -> str:
    parts = name.replace("-", "_").replace(" ", "_")
    spaced = "".join(
        f"_{c.lower()}" if c.isupper() and i and parts[i - 1].islower() else c.lower() for i, c in enumerate(parts)
    ).split("_")
    at = rng.randrange(1, len(name) - 1)
    swapped = name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    forms = [swapped, name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:], f" {name} ", f"{name}："]
    if name.isascii():
        forms += [
            "_".join(spaced), "-".join(spaced), " ".join(spaced), spaced[0] + "".join(w.title() for w in spaced[1:]),
            "".join(w.title() for w in spaced), name.upper(), " ".join(w.title() for w in spaced),
        ]  # fmt: skip
    return rng.choice([form for form in forms if form != name])


def wrapped(rng: random.Random, make: Make) -> Broken:
    value: Any = make.instance
    name = rng.choice(("data", "result", "response", "output", make.business.name.removesuffix("_zh"), "数据", "结果"))
    style = rng.randrange(6)
    if style == 0:
        value = {name: value}
    elif style == 1:
        value = {name: [value]}
    elif style == 2:
        value = {"status": "ok", "code": 200, name: value}
    elif style == 3:
        value = [value]
    elif style == 4:
        value = {name: {"item": value}}
    else:
        value = {"message": "success", "data": {name: value}}
    return Broken(dumped(value, rng))


def arrays(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("lines", "tags", "party", "person", "date")
    fields = [f for f in fields if f.kind in ("party", "person", "date") or len(make.instance[f.name]) == 1]
    if not fields:
        return None
    chosen = rng.choice(fields)
    value = make.instance[chosen.name]
    return Broken(replaced(make, chosen.name, value[0] if isinstance(value, list) else [value], rng))


def spaced(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("person")
    if not fields:
        return None
    chosen = rng.choice(fields).name
    value = make.instance[chosen]
    if make.business.language == "zh":
        broken = " ".join(value) if len(value) == 2 or rng.random() < 0.5 else f"{value[0]} {value[1:]}"
        if value.startswith("欧阳"):
            broken = f"{value[:2]} {value[2:]}"
        keys = [*words.TEXTS["zh"]["person"], "孙立人"] if rng.random() < 0.5 else None
    else:
        at = rng.randrange(1, len(value) - 1)
        broken = value[:at] + " " + value[at:] if value[at] != " " else value.replace(" ", "  ")
        keys = [*words.TEXTS["en"]["person"], "Bob Stone"]
    return Broken(replaced(make, chosen, broken, rng), anchors={f"/{chosen}": keys} if keys else None)


def anchored(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("id")
    if not fields:
        return None
    chosen = fields[0].name
    value = make.instance[chosen]
    keys = {value} | {f"{make.business.prefix}-{rng.randrange(10_000, 99_999)}" for _ in range(200)}
    at = rng.randrange(len(make.business.prefix) + 1, len(value))
    style = rng.randrange(4)
    if style == 0:
        other = value[:at] + rng.choice([d for d in "0123456789" if d != value[at]]) + value[at + 1 :]
    elif style == 1:
        other = value[:at] + value[at + 1 :]
    elif style == 2 and at + 1 < len(value) and value[at] != value[at + 1]:
        other = value[:at] + value[at + 1] + value[at] + value[at + 2 :]
    else:
        other = value[:at] + {"0": "O", "1": "l", "5": "S", "8": "B"}.get(value[at], "X") + value[at + 1 :]
    if other in keys:
        return None
    near = [key for key in keys if _near(other, key)]
    schema = copy.deepcopy(make.schema)
    schema["properties"][chosen] = {"type": "string"}
    pointer = "/" + chosen.replace("~", "~0").replace("/", "~1")
    return Broken(
        replaced(make, chosen, other, rng), determined=near == [value], anchors={pointer: sorted(keys)}, schema=schema
    )


def _near(left: str, right: str) -> bool:
    """One edit apart, a swap of neighbours counting one."""
    if left == right or abs(len(left) - len(right)) > 1:
        return False
    edits = {right[:i] + right[i + 1 :] for i in range(len(right))}
    edits |= {right[:i] + right[i + 1] + right[i] + right[i + 2 :] for i in range(len(right) - 1)}
    if len(left) == len(right):
        return left in edits or sum(a != b for a, b in zip(left, right, strict=True)) == 1
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))


def rows(rng: random.Random, make: Make) -> Broken | None:
    fields = make.having("table")
    if not fields:
        return None
    name = fields[0].name
    table = copy.deepcopy(make.instance[name])
    row = table[rng.randrange(len(table))]
    style = rng.randrange(4)
    determined = True
    if style == 0:
        row += [rng.choice((None, ""))] * rng.choice((1, 2))
    elif style == 1:
        row.insert(1, row[0])
    elif style == 2:
        row.append("extra")
    else:
        row.pop(rng.randrange(len(row)))
        determined = False
    return Broken(replaced(make, name, table, rng), determined=determined)


def missing(rng: random.Random, make: Make) -> Broken | None:
    """A required value left out that the source says, under its name or as the only one of its kind."""
    fields = [f for f in make.having("id", "date", "email", "amount", "int", "status") if not f.optional]
    if not fields:
        return None
    chosen = rng.choice(fields)
    kept = {key: value for key, value in make.instance.items() if key != chosen.name}
    said = [
        _said(key, value, make.business.language, rng)
        for key, value in make.instance.items()
        if not isinstance(value, dict | list | bool) and value is not None
    ]
    return Broken(dumped(kept, rng), source=(" " if make.business.language == "en" else "").join(said))


def _said(name: str, value: Any, language: str, rng: random.Random) -> str:
    if isinstance(value, int | float) and rng.random() < 0.5:
        value = f"{value:,}"
    if language == "zh":
        return rng.choice((f"{name}为{value}。", f"{name}：{value}；", f"{name}是{value}。"))
    label = "".join(f" {c.lower()}" if c.isupper() else c for c in name).replace("_", " ").replace("-", " ").strip()
    return rng.choice(
        (f"The {label} is {value}.", f"{label.capitalize()}: {value}.", f"{label.capitalize()} - {value};")
    )


def undetermined(rng: random.Random, make: Make) -> Broken | None:
    """The truth is nowhere: nothing may be called certain."""
    style = rng.randrange(7)
    required = [f.name for f in make.business.fields if not f.optional and f.name in make.instance]
    name = rng.choice(required)
    if style == 0:
        return Broken(
            dumped({key: value for key, value in make.instance.items() if key != name}, rng), determined=False
        )
    if style == 1 and (fields := make.having("date")):
        day, month, year = [*rng.sample(range(1, 12), 2), rng.randrange(2019, 2027)]
        chosen = fields[0].name
        truth = {**make.instance, chosen: f"{year}-{month:02}-{day:02}"}
        return Broken(
            replaced(
                make,
                chosen,
                f"{rng.choice(((day, month), (month, day)))}".strip("()").replace(", ", "/") + f"/{year}",
                rng,
            ),
            determined=False,
            truth=truth,
        )
    if style == 2 and (fields := make.having("amount", "weight")):
        chosen = fields[0].name
        return Broken(
            replaced(make, chosen, f"{rng.randrange(1, 9)}.{rng.randrange(100, 999)}", rng),
            determined=False,
            truth={**make.instance, chosen: -1},
        )
    if style == 3 and (fields := make.having("int", "amount")):
        chosen = rng.choice(fields).name
        return Broken(
            replaced(
                make, chosen, rng.choice(("many", "unknown", "若干", "3-5", "about 30", "约30", None, "", "N/A")), rng
            ),
            determined=False,
            truth={**make.instance, chosen: -1},
        )
    if style == 4 and (fields := make.having("id")):
        chosen = fields[0].name
        keys = [f"{make.business.prefix}-10{i}45" for i in range(10)]
        schema = copy.deepcopy(make.schema)
        schema["properties"][chosen] = {"type": "string"}
        return Broken(
            replaced(make, chosen, f"{make.business.prefix}-10X45", rng),
            determined=False,
            anchors={f"/{chosen}": keys},
            schema=schema,
            truth={**make.instance, chosen: ""},
        )
    if style == 5 and (fields := make.having("status", "priority")):
        chosen = rng.choice(fields).name
        return Broken(replaced(make, chosen, rng.choice(("purple", "see above", "其他", "x")), rng), determined=False)
    source = "The meeting took place as planned." if make.business.language == "en" else "会议按计划举行。"
    return Broken(
        dumped({key: value for key, value in make.instance.items() if key != name}, rng),
        determined=False,
        source=source,
    )


def clean(rng: random.Random, make: Make) -> Broken:
    text = dumped(make.instance, rng)
    return Broken(text + rng.choice(("", "\n")))


def large(rng: random.Random, make: Make) -> Broken | None:
    """About 200 kB, with one fault."""
    fields = make.having("lines", "tags")
    if not fields:
        return None
    chosen = fields[0].name
    value = copy.deepcopy(make.instance)
    one = value[chosen]
    size = len(json.dumps(one, ensure_ascii=False).encode())
    value[chosen] = (one * (200_000 // max(size, 1) + 1))[:100_000]
    text = json.dumps(value, ensure_ascii=False)
    return Broken(text[:-1] + ",}", truth=value)


def deep(rng: random.Random, make: Make) -> Broken:
    """A tree of which a node says what the next one is."""
    depth = rng.randrange(20, 60)
    tree: dict[str, Any] = {"value": 1}
    for number in range(depth):
        tree = {"value": number, "child": tree}
    schema = {
        "$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "child": {"$ref": "#/$defs/node"}}, "required": ["value"]}},
        "$ref": "#/$defs/node",
    }  # fmt: skip
    text = json.dumps(tree)
    return Broken(
        rng.choice((text[:-1] + ",}", text.replace('"value": 1,', '"value": "1",', 1), f"```json\n{text}\n```")),
        truth=tree,
        schema=schema,
    )
