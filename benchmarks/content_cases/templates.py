# ruff: noqa: E501  tables of words and templates are easier to read in long lines
"""Cases from a seed: an object, its prose, a fault, and what the truth is."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.correction_cases.case import Case
from services.corrector.training.prose import made
from services.corrector.training.prose.kinds import KINDS, Kind
from services.corrector.training.prose.objects import instance, prose, schema, sort_of

FAULTS = ("missing", "swapped", "altered", "misplaced", "dropped-item", "truncated", "several", "clean")


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


def _break(rng: Random, kind: Kind, value: dict[str, Any], fault: str) -> bool:
    """Put a fault into an object; False where it has no place for it."""
    names = [name for name in value if not isinstance(value[name], list)]
    match fault:
        case "missing":
            if not names:
                return False
            del value[rng.choice(names)]
        case "swapped" | "misplaced":
            pairs = [(a, b) for a in names for b in names if a != b and sort_of(kind, a) == sort_of(kind, b)]
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
                if isinstance(value[n], str)
                and len(value[n]) >= 4
                and sort_of(kind, n) not in ("date", "email", "enum")
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
