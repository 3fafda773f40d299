# ruff: noqa: E501  lists of forms are easier to read in long lines
"""What models and systems put around, into and in place of JSON, told as faults of whole texts.

A fault is `fault(rng, value, schema)`: texts with what each says, UNKNOWN where that cannot be known.
"""

from __future__ import annotations

import copy
import html
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.correction_cases.fresh_values import UNKNOWN

Damaged = tuple[str, Any]
Fault = Callable[[random.Random, dict[str, Any], dict[str, Any]], Iterator[Damaged]]


def _dumped(value: Any, *, lines: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if lines else None)


def fenced(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    text, lines = _dumped(value), _dumped(value, lines=True)
    other = _dumped(_altered(value))
    for form in (
        f"```json5\n{lines}\n```", f"```json title=\"out.json\"\n{lines}\n```", f"```json\n{lines}", f"```\n{text}```", f"````json\n{lines}\n````", f"`{text}`",
        f"<json>{text}</json>", f"<answer>\n{lines}\n</answer>", f"```json\n{lines}\n```\n```python\nprint(sum([1, 2]))\n```", f"```python\nx = load([1])\n```\nResult:\n```json\n{lines}\n```",
        f"const result = {text};", f"export default {lines};", f"return {text};", f"callback({text});", f"data: {text}\n\ndata: [DONE]\n", f"> {text}",
        "\n".join(f"> {line}" for line in lines.split("\n")), f"**Answer**\n\n{lines}\n\n---\n*end*", f"\x1b[32m{text}\x1b[0m", f"Step 1: read {{input}}. Step 2: write it.\n\n{text}",
        f"HTTP/1.1 200 OK\nContent-Type: application/json\n\n{text}", html.escape(text, quote=True), f"<pre><code>{html.escape(text)}</code></pre>", f"    {text}", f"{text}\n```", f"```json\n{text}\n```json",
        f"The schema was ```json\n{_dumped(schema)}\n```\nand the object is ```json\n{lines}\n```", f"{text}<|im_end|>", f"<|assistant|>{text}", f"$ curl -s api/x\n{text}\n$", f"JSON: {text} (end of JSON)",
    ):  # fmt: skip
        yield form, value
    yield f"```json\n{text}\n```\nor\n```json\n{other}\n```", UNKNOWN
    yield f"{text}\n{other}", UNKNOWN
    yield f"Either {text} or {other}, I am not sure which.", UNKNOWN
    yield f"[{text}, {other}]", UNKNOWN


def _altered(value: dict[str, Any]) -> dict[str, Any]:
    """Another object that the schema allows as well."""
    other = copy.deepcopy(value)
    name = next(name for name, item in other.items() if isinstance(item, bool | int))
    other[name] = not other[name] if isinstance(other[name], bool) else other[name] + 1
    return other


def trailing(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    text = _dumped(value)
    for after in (
        "\n\nNote: values marked {x} were guessed.", " // done", "\n\n(confidence: 0.93)", "\n\nLet me know if [anything] is off!", "\n{}", "\n[]", "\n\n以上数据仅供参考（[1]）。", ";", "\n\n{\"confidence\": 0.9}",
        "\n\n| a | b |\n|---|---|\n| 1 | 2 |", "\n\nTotal tokens: 120", "}", "\n\n\"\"\"", ",", "\n\nSources: [1], [2]", "\n\n{{footer}}", " ]", "\u3002",
    ):  # fmt: skip
        yield text + after, value


def commented(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    lines = _dumped(value, lines=True).split("\n")
    at = rng.randrange(1, len(lines) - 1)
    for note in (
        '  // was "x": 1,',
        "  /* {old: 1} */",
        "  # NOTE: check [this]",
        "  // 备注：已核对",
        "  -- checked",
        "  <!-- checked -->",
        "  // see https://example.com/{id}",
        "  /* a\n  b */",
        "  // don't change",
        "  ; note",
    ):
        yield "\n".join([*lines[:at], lines[at] + note, *lines[at + 1 :]]), value
    name = next(name for name, item in value.items() if isinstance(item, bool | int))
    old = f'  // "{name}": {_dumped(_altered(value)[name])},'
    yield "\n".join([lines[0], old, *lines[1:]]), value
    yield "\n".join([lines[0], old.replace("//", "#"), *lines[1:]]), value
    yield "/* header */\n" + "\n".join(lines) + "\n/* footer */", value


def quoted(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    text = _dumped(value)
    yield repr(value), value
    yield f"{value}", value
    yield text.replace("true", "True").replace("false", "False").replace("null", "None"), value
    yield text.replace("null", "undefined").replace("true", "TRUE"), value
    if "\\" not in text and "“" not in text:
        yield re.sub(r'"([^"]*)"', r"“\1”", text), value
        yield re.sub(r'"([^"]*)"', r"«\1»", text), value
        yield re.sub(r'"([^"]*)"', r"`\1`", text), value
        yield re.sub(r'"([^"]*)"', r"「\1」", text), value
        yield re.sub(r'"([^"]*)"', r"″\1″", text), value
        yield re.sub(r'"([^"]*)"', r"''\1''", text), value
        if "'" not in text:
            yield text.replace('"', "'"), value
            yield text.replace('"', "’"), value
    yield re.sub(r'"(\w+)": ', r"\1: ", text), value
    yield re.sub(r'"(\w+)": ', r"'\1': ", text), value
    yield re.sub(r'"(\w+)": ', r'"\1" = ', text), value
    yield re.sub(r'"(\w+)": ', r'"\1": : ', text), value
    yield re.sub(r'"(\w+)": ', r'"\1 : ', text), value
    yield text.replace('": ', '"：').replace(", ", "，"), value
    yield json.dumps(text, ensure_ascii=False), value
    yield json.dumps(json.dumps(text)), value
    yield text.replace('"', '\\"'), value
    yield text.replace('"', '""'), value
    yield text[1:-1], value
    yield text[1:], value
    yield text + "}", value
    yield "{" + text + "}", value
    yield text.replace(", ", "; "), value
    yield text.replace(", ", "\n"), value
    yield text.replace(", ", ",\n\n,"), value


def doubled(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    text, names = _dumped(value), list(value)
    name = next(name for name, item in value.items() if isinstance(item, bool | int))
    first, other = _dumped(value[name]), _dumped(_altered(value)[name])
    yield f'{text[:-1]}, "{name}": {first}}}', value
    yield f'{text[:-1]}, "{name}": "{first}"}}', value
    yield f'{text[:-1]}, "{name}": null}}', value
    yield f'{text[:-1]}, "{name}": "n/a"}}', value
    yield f'{text[:-1]}, "{name.upper()}": {first}}}' if name.isascii() else f'{text[:-1]}, " {name}": {first}}}', value
    yield f'{text[:-1]}, "{names[0]}": {_dumped(value[names[0]])}}}', value
    yield f'{text[:-1]}, "{name}": {other}}}', UNKNOWN
    yield f'{{"{name}": {other}, {text[1:]}', UNKNOWN
    yield f'{text[:-1]}, " {name}": {other}}}', UNKNOWN
    yield f'{text[:-1]}, "{name}_new": {other}}}', UNKNOWN
    yield f'{text[:-1]}, "{name}": "{other}"}}', UNKNOWN
    yield f'{text[:-1]}, "old_{name}": {other}}}', UNKNOWN


def cut(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    """Only a closing brace that is missing loses nothing, since the schema closes the object."""
    text, lines = _dumped(value), _dumped(value, lines=True)
    yield text[:-1], value
    yield lines[:-1], value
    yield f"```json\n{lines[:-2]}", value
    yield text[:-1] + ", ...", UNKNOWN
    for whole in (text, lines):
        for _ in range(6):
            at = rng.randrange(2, len(whole) - 12)
            yield whole[:at], UNKNOWN
            yield whole[:at] + "...", UNKNOWN
            yield whole[:at] + "…}", UNKNOWN
    listed = next(
        (
            name
            for name, item in value.items()
            if isinstance(item, list) and len(item) > 1 and "maxItems" not in schema["properties"][name]
        ),
        None,
    )
    if listed is not None:
        shorter = {**value, listed: [value[listed][0]]}
        yield _dumped(shorter).replace(_dumped(shorter[listed]), _dumped(shorter[listed])[:-1] + ", ...]"), UNKNOWN
        yield (
            _dumped(shorter).replace(_dumped(shorter[listed]), _dumped(shorter[listed])[:-1] + ", // and 1 more\n]"),
            UNKNOWN,
        )


def renamed(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    name = rng.choice([name for name in value if len(name) > 3] or list(value))

    def as_(new: str) -> str:
        return _dumped({new if key == name else key: item for key, item in value.items()})

    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
    if name.isascii():
        for new in (
            "-".join(words),
            " ".join(words).title(),
            "".join(word.title() for word in words),
            name.upper(),
            ".".join(words),
            f"{name}:",
            f"*{name}*",
            f" {name}",
        ):
            yield as_(new), value
        yield as_(name[:2] + name[3] + name[2] + name[4:]), value
        yield as_(name + "s"), value
        yield as_(f"the_{name}"), value
        yield as_(f"{name}_value"), value
        if len(words) > 1:
            yield as_("_".join(reversed(words))), value
            yield as_(words[-1]), value
    else:
        for new in (f"{name}：", f"【{name}】", f" {name[0]} {name[1:]}", f"{name}*"):
            yield as_(new), value
    yield as_("field1"), value
    others = [other for other in value if other != name]
    kept = {key: item for key, item in value.items() if key not in (name, others[0])}
    yield _dumped({**kept, "x1": value[name], "x2": value[others[0]]}), UNKNOWN
    yield _dumped({key: item for key, item in value.items() if key != name}), UNKNOWN
    yield (
        _dumped({**{key: item for key, item in value.items() if key != name}, "comment": "left out on purpose"}),
        UNKNOWN,
    )


def misplaced(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    text = _dumped(value)
    for form in (
        {"ok": True, "payload": value}, {"data": {"attributes": value}}, {"choices": [{"message": {"content": text}}]}, {"name": "submit", "arguments": value}, {"name": "submit", "arguments": text},
        [[value]], {"value": [value]}, {"schema": schema, "instance": value}, {"$schema": "https://json-schema.org/draft/2020-12/schema", **value}, {"type": "object", "properties": value}, {"parameters": value, "tool": "x"},
        {key: {"value": item} if isinstance(item, bool | int) else item for key, item in value.items()}, {key: [item] if isinstance(item, bool | int) else item for key, item in value.items()},
        {key: _dumped(item) if isinstance(item, dict | list) else item for key, item in value.items()}, [{"key": key, "value": item} for key, item in value.items()], [{key: item} for key, item in value.items()], list(value.items()),
        {key: {str(i): part for i, part in enumerate(item)} if isinstance(item, list) else item for key, item in value.items()}, {key: {"items": item} if isinstance(item, list) else item for key, item in value.items()},
        {key: {key: item} if isinstance(item, dict | list) else item for key, item in value.items()},
    ):  # fmt: skip
        yield _dumped(form), value
    nested = next(
        (
            name
            for name, item in value.items()
            if isinstance(item, dict)
            and "additionalProperties" in schema["properties"][name]
            and schema["properties"][name].get("properties")
        ),
        None,
    )
    if nested is not None:
        rest = {key: item for key, item in value.items() if key != nested}
        yield _dumped({**rest, **{f"{nested}_{key}": item for key, item in value[nested].items()}}), value
        yield _dumped({**rest, **{f"{nested}.{key}": item for key, item in value[nested].items()}}), value
        yield _dumped({**rest, **value[nested]}), value
        last = list(rest)[-1]
        yield (
            _dumped({**{k: v for k, v in rest.items() if k != last}, nested: {**value[nested], last: rest[last]}}),
            value,
        )
    yield _dumped({"before": value, "after": _altered(value)}), UNKNOWN
    yield _dumped({"data": [value, _altered(value)]}), UNKNOWN
    yield _dumped({"candidates": {"a": _altered(value), "b": value}}), UNKNOWN
    yield _dumped({"example": value}), value
    yield _dumped({"previous": value}), value
    yield _dumped({"error": "not found", "data": None}), UNKNOWN


def clean(rng: random.Random, value: dict[str, Any], schema: dict[str, Any]) -> Iterator[Damaged]:
    for lines in (False, True):
        yield _dumped(value, lines=lines), value
    yield json.dumps(value), value


TEXTS: dict[str, Fault] = {
    "fences and markup": fenced, "trailing text": trailing, "comments": commented, "quotes and marks": quoted, "duplicate keys": doubled, "cut": cut, "keys": renamed, "nesting": misplaced, "clean": clean,
}  # fmt: skip
