# ruff: noqa: E501  lists of forms are easier to read in long lines
"""Faults of form: each takes an instance apart as models and systems do, and says what the text is then.

A fault is `fault(rng, make) -> Broken | None`: `make` has the object, its schema and an instance; None where the object has
nothing that can break this way.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.correction_cases.objects import Business, Field


@dataclass
class Make:
    business: Business
    schema: dict[str, Any]
    instance: dict[str, Any]

    def having(self, *kinds: str) -> list[Field]:
        """Fields of these kinds that the instance has a value for."""
        return [f for f in self.business.fields if f.kind in kinds and self.instance.get(f.name) is not None]


@dataclass
class Broken:
    text: str
    determined: bool = True
    source: str | None = None
    anchors: dict[str, list[str]] | None = None
    truth: Any = None
    """Where the fault changes it; else the instance."""
    schema: dict[str, Any] | None = field(default=None)


_WITHIN_LITERAL = re.compile(r"\b(?:n|nu|nul|null|t|tr|tru|true|f|fa|fal|fals|false)$")
"""What is left of it may say which one it was."""

Fault = Callable[[random.Random, Make], Broken | None]


def dumped(value: Any, rng: random.Random) -> str:
    style = rng.randrange(4)
    return json.dumps(
        value, ensure_ascii=style == 3, indent=2 if style == 1 else None, separators=(",", ":") if style == 2 else None
    )


def replaced(make: Make, name: str, value: Any, rng: random.Random) -> str:
    changed = copy.deepcopy(make.instance)
    changed[name] = value
    return dumped(changed, rng)


def fences(rng: random.Random, make: Make) -> Broken:
    text = dumped(make.instance, rng)
    zh = make.business.language == "zh"
    forms = (
        f"```json\n{text}\n```", f"```\n{text}\n```\n", f"Answer: {text}", f"Here is the JSON you asked for:\n\n```json\n{text}\n```\nLet me know!",
        f"{text}\n\nI hope this helps {{smile}}.", f"Sure! The result is {text}. Anything else?", f"<think>use {{braces}}, then [1]</think>\n{text}",
        f"以下是结果：\n```json\n{text}\n```\n请查收。", f"结果如下：{text}。如有问题请联系我。", f"~~~json\n{text}\n~~~", f"JSON\n{text}",
    )  # fmt: skip
    return Broken(forms[rng.randrange(7, 9)] if zh and rng.random() < 0.5 else rng.choice(forms))


def punctuation(rng: random.Random, make: Make) -> Broken:
    text = json.dumps(make.instance, ensure_ascii=False, indent=2)
    lines = text.split("\n")
    style = rng.randrange(6)
    if style == 0:
        text = text.replace("\n}", ",\n}").replace("\n  ]", ",\n  ]")
    elif style == 1:
        return Broken(_single_quoted(make.instance))
    elif style == 2:
        lines = [_unquoted_key(line) for line in lines]
        text = "\n".join(lines)
    elif style == 3:
        at = rng.randrange(1, len(lines) - 1)
        lines[at] += rng.choice(("  // checked", " /* as agreed */", " # 备注"))
        text = "\n".join(lines)
    elif style == 4:
        at = rng.randrange(1, len(lines) - 1)
        lines[at] = lines[at].removesuffix(",")
        text = "\n".join(lines)
    else:
        text = text.replace(",\n", ",,\n", 1)
    return Broken(text)


def _single_quoted(value: Any) -> str:
    """As Python's repr, with JSON's literals."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{key}': {_single_quoted(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_single_quoted, value)) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return json.dumps(value)


def _unquoted_key(line: str) -> str:
    bare = line.lstrip()
    if bare.startswith('"') and '": ' in bare:
        key, rest = bare[1:].split('": ', 1)
        if key.replace("_", "").isalnum():
            return line[: len(line) - len(bare)] + f"{key}: {rest}"
    return line


def full_width(rng: random.Random, make: Make) -> Broken | None:
    text = json.dumps(make.instance, ensure_ascii=False)
    style = rng.randrange(3)
    if style == 0:
        outside = str.maketrans({":": "：", ",": "，", "{": "｛", "}": "｝", "[": "［", "]": "］"})
        return Broken(_outside_strings(text, lambda part: part.translate(outside)))
    if style == 1:
        return Broken(_outside_strings(text, lambda part: part.replace(":", "：").replace(",", "，")))
    fields = make.having("int", "amount", "date", "id", "phone")
    if not fields:
        return None
    chosen = rng.choice(fields)
    value = make.instance[chosen.name]
    wide = str(value).translate({ord(c): ord(c) + 0xFEE0 for c in "0123456789-.+"})
    return Broken(replaced(make, chosen.name, wide, rng))


def _outside_strings(text: str, change: Callable[[str], str]) -> str:
    parts, inside = [], False
    run = ""
    escaped = False
    for char in text:
        run += char
        if inside and escaped:
            escaped = False
        elif inside and char == "\\":
            escaped = True
        elif char == '"':
            parts.append(run if inside else change(run[:-1]) + '"')
            run, inside = "", not inside
    parts.append(change(run))
    return "".join(parts)


def truncated(rng: random.Random, make: Make) -> Broken:
    text = json.dumps(make.instance, ensure_ascii=False)
    if rng.random() < 0.5:
        last = make.business.fields[-1]
        is_full = make.business.closed and all(f.name in make.instance for f in make.business.fields)
        return Broken(text[:-1], determined=is_full and last.kind not in ("int", "amount", "rate", "weight"))
    cut = text[: rng.randrange(len(text) // 2, len(text) - 2)]
    return Broken(_WITHIN_LITERAL.sub("", cut), determined=False)


def duplicated(rng: random.Random, make: Make) -> Broken:
    text = json.dumps(make.instance, ensure_ascii=False)
    name = rng.choice(list(make.instance))
    member = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(make.instance[name], ensure_ascii=False)}"
    if rng.random() < 0.6:
        return Broken(f"{text[:-1]}, {member}}}")
    fields = make.having("int", "amount")
    if not fields:
        return Broken(f"{text[:-1]}, {member}}}")
    chosen = rng.choice(fields).name
    other = f"{json.dumps(chosen, ensure_ascii=False)}: {make.instance[chosen] + 7}"
    return Broken(f"{{{other}, {text[1:]}" if rng.random() < 0.5 else f"{text[:-1]}, {other}}}", determined=False)


def two_objects(rng: random.Random, make: Make) -> Broken:
    text = dumped(make.instance, rng)
    style = rng.randrange(4)
    between = rng.choice(("\n", " ", "\n\nor\n\n", ","))
    if style == 0:
        return Broken(text + between + dumped(make.instance, rng))
    if style == 1:
        return Broken('{"thought": "look at it step by step"}' + "\n" + text)
    if style == 2:
        cut = json.dumps(make.instance, ensure_ascii=False)
        return Broken(cut[: len(cut) // 3] + "\n" + text)
    fields = make.having("int", "amount")
    if not fields:
        return Broken(text + between + text)
    other = copy.deepcopy(make.instance)
    other[rng.choice(fields).name] += 3
    return Broken(text + between + dumped(other, rng), determined=False)


def escaped(rng: random.Random, make: Make) -> Broken:
    text = json.dumps(make.instance, ensure_ascii=False)
    style = rng.randrange(4)
    if style == 0:
        return Broken(json.dumps(text, ensure_ascii=False))
    if style == 1:
        return Broken(json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False))
    nested = make.having("lines", "party", "table")
    if style == 2 and nested:
        name = rng.choice(nested).name
        return Broken(replaced(make, name, json.dumps(make.instance[name], ensure_ascii=False), rng))
    return Broken(json.dumps(text, ensure_ascii=False)[1:-1])


def literals(rng: random.Random, make: Make) -> Broken | None:
    style = rng.randrange(3)
    if style == 0:
        return Broken(repr(make.instance))
    fields = make.having("int")
    if style == 1 and fields:
        name = rng.choice(fields).name
        marked = json.dumps({**make.instance, name: "@"}, ensure_ascii=False)
        return Broken(marked.replace('"@"', hex(make.instance[name])))
    fields = make.having("int", "amount")
    if not fields:
        return None
    name = rng.choice(fields).name
    marked = json.dumps({**make.instance, name: "@"}, ensure_ascii=False)
    return Broken(
        marked.replace('"@"', rng.choice(("NaN", "Infinity", "-Infinity", "None", "undefined"))), determined=False
    )


def control_characters(rng: random.Random, make: Make) -> Broken | None:
    style = rng.randrange(3)
    text = json.dumps(make.instance, ensure_ascii=False)
    if style == 0:
        return Broken(text.replace(", ", rng.choice((",\x00 ", ",\x0b ", ", \x1f", ",\u200b ", "\ufeff, ")), 2))
    fields = make.having("person", "company", "city", "text", "note")
    if not fields:
        return None
    name = rng.choice(fields).name
    value = make.instance[name]
    if style == 1 and len(value) > 2:
        at = rng.randrange(1, len(value))
        broken = value[:at] + rng.choice("\x00\x01\x07\x08\x1b\x1f") + value[at:]
        marked = json.dumps({**make.instance, name: "@@"}, ensure_ascii=False)
        return Broken(
            marked.replace('"@@"', '"' + json.dumps(value, ensure_ascii=False)[1:-1].replace(value, broken) + '"')
            if '"' not in value
            else text
        )
    lines = "first line, as told\nsecond line"
    truth = {**make.instance, name: lines}
    return Broken(json.dumps(truth, ensure_ascii=False).replace("\\n", "\n"), truth=truth)
