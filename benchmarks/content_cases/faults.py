"""What goes wrong between prose and object: values are missing, altered, exchanged, misplaced or cut off."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.content_cases import chinese, english
from benchmarks.content_cases.story import Story
from benchmarks.content_cases.words import MONTHS
from benchmarks.correction_cases.case import Case

ILLEGIBLE = {"en": "(illegible)", "zh": "（不清）"}


def cases(num_each: int, seed: int) -> list[Case]:
    """`num_each` cases of every kind for every story; a kind that a story cannot have is left out."""
    draw = random.Random(seed)
    made: list[Case] = []
    for _ in range(num_each):
        for tell in (*english.STORIES, *chinese.STORIES):
            story = tell(draw)
            for kind, text, source, determined in _faults(story, draw):
                made.append(
                    Case(
                        id=f"{kind}-{len(made)}",
                        kind=kind,
                        language=story.language,
                        schema_name=story.name,
                        text=text,
                        schema=story.schema,
                        truth=story.value,
                        source=source,
                        determined=determined,
                    )
                )
    return made


def _faults(story: Story, draw: random.Random) -> Iterator[tuple[str, str, str, bool]]:
    """Kind, text, source, and whether text and source say what the truth is."""
    value, source = story.value, story.source
    names = [name for name in value if not isinstance(value[name], list)]
    yield "clean", _dump(value), source, True
    gone = draw.choice(names)
    yield "missing", _dump({name: value[name] for name in value if name != gone}), source, True
    name = draw.choice(names)
    yield "altered", _dump({**value, name: altered(story, name, draw)}), source, True
    if pair := _exchangeable(value, names, draw):
        first, second = pair
        yield "swapped", _dump({**value, first: value[second], second: value[first]}), source, True
        yield "misplaced", _dump({**value, first: value[second]}), source, True
    first, second = draw.sample(names, 2)
    several = {name: value[name] for name in value if name != first}
    yield "several", _dump({**several, second: altered(story, second, draw)}), source, True
    for name, items in value.items():
        if isinstance(items, list) and len(items) > 1:
            kept = list(items)
            del kept[draw.randrange(len(kept))]
            yield "dropped", _dump({**value, name: kept}), source, True
    text = _dump(value)
    yield "truncated", text[: int(len(text) * draw.uniform(0.4, 0.85))], source, True
    name = draw.choice([name for name in names if not isinstance(value[name], bool)])
    blotted = _blotted(source, value[name], story.language)
    if blotted != source:
        yield "undetermined", _dump({key: value[key] for key in value if key != name}), blotted, False
        yield "undetermined", _dump({**value, name: altered(story, name, draw)}), blotted, False


def altered(story: Story, name: str, draw: random.Random) -> Any:
    """Another value of the same type."""
    value, schema = story.value[name], story.schema["properties"][name]
    if "enum" in schema:
        return draw.choice([option for option in schema["enum"] if option != value])
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((value + draw.randint(1, 9), value * 10))
        case float():
            return round(value + draw.choice((1.0, 10.0, 0.5, -0.3)), 2)
    text = str(value)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return f"{text[:8]}{int(text[8:]) % 28 + 1:02}"
    digits = [at for at, char in enumerate(text) if char.isdigit()]
    if digits:
        at = draw.choice(digits)
        return f"{text[:at]}{(int(text[at]) + draw.randint(1, 8)) % 10}{text[at + 1 :]}"
    at = draw.randrange(len(text))
    return f"{text[:at]}{'x' if text[at].isascii() else '口'}{text[at + 1 :]}"


def _exchangeable(value: dict[str, Any], names: list[str], draw: random.Random) -> list[str] | None:
    """Two names whose values are of one type and differ."""
    groups: dict[str, list[str]] = {}
    for name in names:
        told = str(value[name])
        is_day = re.fullmatch(r"\d{4}-\d\d-\d\d", told) is not None
        is_plain = isinstance(value[name], str) and not any(map(str.isdigit, told))
        if is_day or is_plain or isinstance(value[name], int | float):
            groups.setdefault(f"{type(value[name]).__name__} {is_day}", []).append(name)
    pairs = [group for kind, group in groups.items() if len(group) > 1 and "bool" not in kind]
    if not pairs:
        return None
    first, second = draw.sample(draw.choice(pairs), 2)
    return [first, second] if value[first] != value[second] else None


def _blotted(source: str, value: Any, language: str) -> str:
    """The source with the value made illegible wherever it stands."""
    forms = [str(value)]
    if isinstance(value, int | float):
        forms += [f"{value:,}", f"{value:,.2f}", f"{value:.2f}"]
        forms += [f"{value // 10_000}万元"] if language == "zh" and isinstance(value, int) and value >= 10_000 else []
    elif re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        year, month, number = str(value).split("-")
        name = MONTHS[int(month) - 1]
        forms += [
            f"{int(number)} {name} {year}",
            f"{name} {int(number)}, {year}",
            f"{year}年{int(month)}月{int(number)}日",
        ]
    for form in sorted(forms, key=len, reverse=True):
        source = source.replace(form, ILLEGIBLE[language])
    return source


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(copy.deepcopy(value), ensure_ascii=False)
