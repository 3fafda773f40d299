"""Dates in a text exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stagemesh.validation.forms import form_of
from stagemesh.validation.numerals.chinese import NUMERALS, chinese_number
from stagemesh.validation.rules.date_formats import MONTHS, existing
from stagemesh.validation.text.lines import MAX_FOUND, Line, issue_at
from stagemesh.validation.verdict import Issue

LEAP_YEAR = 2024
YEARS = range(1800, 2200)
"""Of dates in digits with hyphens, dots or strokes, which other numbers have, too."""
_MONTH = f"(?P<name>{'|'.join(f'{name}|{name[:3]}' for name in MONTHS)}|sept)\\.?"
_NOT_BEFORE, _NOT_AFTER = r"(?<![\w./-])", r"(?![\w/-]|\.\d)"
_NUMERIC = re.compile(
    rf"{_NOT_BEFORE}(?P<y>[0-9]{{4}})(?P<s>[-/.])(?P<m>[0-9]{{1,2}})(?P=s)(?P<d>[0-9]{{1,2}}){_NOT_AFTER}"
)
_TIMED = re.compile(rf"{_NOT_BEFORE}(?P<y>[0-9]{{4}})-(?P<m>[0-9]{{2}})-(?P<d>[0-9]{{2}})T[0-9]{{2}}:")
_REVERSED = re.compile(
    rf"{_NOT_BEFORE}(?P<a>[0-9]{{1,2}})(?P<s>[-/.])(?P<b>[0-9]{{1,2}})(?P=s)(?P<y>[0-9]{{4}}){_NOT_AFTER}"
)
_N = f"[0-9０-９]{{1,4}}|[{NUMERALS}]{{1,6}}"
# From the beginning of a run of digits or numerals only, so that no text makes this slow.
_CHINESE = re.compile(rf"(?<![0-9０-９{NUMERALS}])(?:(?P<y>{_N}) ?年 ?)?(?P<m>{_N}) ?月 ?(?P<d>{_N}) ?[日号]")
_DAY_FIRST = re.compile(
    rf"(?<![\w.,/-])(?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH},?(?: (?P<y>[0-9]{{4}}))?(?![\w-])",
    re.IGNORECASE,
)
_MONTH_FIRST = re.compile(
    rf"(?<![\w-]){_MONTH} (?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y>[0-9]{{4}}))?(?![\w-]|[:.]\d)", re.IGNORECASE
)


def date_issues(lines: Sequence[Line], pointer: str) -> list[Issue]:
    found: list[Issue] = []
    for line in lines:
        for written, reason in _wrong(line.text):
            found.append(issue_at(pointer, "date.exists", line.number, f"{written!r} is no date: {reason}"))
            if len(found) == MAX_FOUND:
                return found
    return found


def _wrong(text: str) -> Iterator[tuple[str, str]]:
    for match in (*_NUMERIC.finditer(text), *_TIMED.finditer(text)):
        month = int(match["m"])
        if int(match["y"]) not in YEARS:
            continue  # rather another number with hyphens
        if match.groupdict().get("s") == "." and not 1 <= month <= 12:
            continue  # rather the number of a version
        yield from _checked(
            match[0].rstrip("T:0123456789") if "T" in match[0] else match[0], int(match["y"]), month, int(match["d"])
        )
    for match in _REVERSED.finditer(text):
        year, a, b = int(match["y"]), int(match["a"]), int(match["b"])
        if max(a, b) <= 31 and min(a, b) >= 1 and not existing(year, b, a) and not existing(year, a, b):
            yield match[0], "neither order of day and month exists in that year"
    for match in _CHINESE.finditer(text) if "月" in text else ():
        in_year, of_month, on_day = (_number(match[name]) for name in "ymd")
        if of_month is not None and on_day is not None and (in_year is not None or match["y"] is None):
            yield from _checked(match[0], in_year, of_month, on_day)
    for match in (*_DAY_FIRST.finditer(text), *_MONTH_FIRST.finditer(text)):
        if match["name"].lower() == "may" and match["name"][0] == "m":
            continue  # rather the verb
        if not match["y"] and not 1 <= int(match["d"]) <= 31:
            continue  # In May 35 people …
        month = 1 + next(i for i, name in enumerate(MONTHS) if name.startswith(match["name"].lower()[:3]))
        yield from _checked(match[0], int(match["y"]) if match["y"] else None, month, int(match["d"]))


def _checked(written: str, year: int | None, month: int, day: int) -> Iterator[tuple[str, str]]:
    """Without a year, the 29th of February may exist."""
    if year == 0 or existing(LEAP_YEAR if year is None else year, month, day) is not None:
        return
    if not 1 <= month <= 12:
        yield written, f"there is no month {month}"
        return
    name = MONTHS[month - 1].capitalize()
    yield written, f"{name}{'' if year is None else f' {year}'} has no day {day}"


def _number(text: str | None) -> int | None:
    if not text:
        return None
    digits = form_of(text)
    return int(digits) if digits.isdecimal() else chinese_number(text)
