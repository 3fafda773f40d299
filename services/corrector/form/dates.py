# ruff: noqa: E501  tables of words are easier to read in long lines
"""Dates and times in the forms in which people and programs write them.

A reading says how sure it is: `1/2/2025` has two, and neither is.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from services.corrector.form.digits import DASHES, read_words

MAX_CHARS = 80
SURE, LIKELY, UNSURE = 0.9, 0.7, 0.55

_MONTHS = {name: number for number, names in enumerate(
    ("jan january januar jänner janvier enero", "feb february februar février febrero", "mar march märz mrz mars marzo", "apr april avril abril", "may mai mayo", "jun june juni juin junio",
     "jul july juli juillet julio", "aug august août agosto", "sep sept september septembre septiembre", "oct october okt oktober octobre octubre", "nov november novembre noviembre",
     "dec december dez dezember décembre diciembre"), 1
) for name in names.split()}  # fmt: skip
_WEEKDAYS = {name: number for number, names in enumerate(
    ("mon monday 星期一 周一 礼拜一", "tue tues tuesday 星期二 周二 礼拜二", "wed wednesday 星期三 周三 礼拜三", "thu thur thurs thursday 星期四 周四 礼拜四",
     "fri friday 星期五 周五 礼拜五", "sat saturday 星期六 周六 礼拜六", "sun sunday 星期日 星期天 周日 周天 礼拜天 礼拜日")
) for name in names.split()}  # fmt: skip
_WEEKDAY = re.compile(
    r"^(?:(mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)|[（(]?((?:星期|周|礼拜)[一二三四五六日天])[)）]?|\s*\((mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?\)$",
    re.IGNORECASE,
)
_YEAR_FIRST = re.compile(r"(\d{4})\s*[-/.年_]\s*(\d{1,2})\s*[-/.月_]\s*(\d{1,2})\s*(?:日|号)?(?![\d])")
_COMPACT = re.compile(r"(19\d\d|20\d\d)(\d\d)(\d\d)(?!\d)")
_YEAR_LAST = re.compile(r"(\d{1,2})\s*[-/.]\s*(\d{1,2})\s*[-/.]\s*(\d{4}|\d{2})(?!\d)")
_MONTH = rf"({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY_MONTH = re.compile(
    rf"(?:the\s+)?(\d{{1,2}})(?:st|nd|rd|th|er)?[\s\-/.]*(?:of\s+|de\s+)?{_MONTH},?(?:\s+de\s+)?[\s\-/.,]*'?(\d{{4}}|\d{{2}})(?!\d)",
    re.I,
)
_MONTH_DAY = re.compile(
    rf"{_MONTH}[\s\-/.]*(?:the\s+)?(\d{{1,2}})(?:st|nd|rd|th)?(?!\d)[\s,\-/.]*(\d{{4}})(?!\d)", re.I
)
_YEAR_MONTH_DAY = re.compile(rf"(\d{{4}})[\s\-/.,]*{_MONTH}[\s\-/.]*(\d{{1,2}})(?:st|nd|rd|th)?(?!\d)", re.I)
_CHINESE = re.compile(
    r"([〇零一二三四五六七八九]{4})年([一二三四五六七八九十]{1,3})月([一二三四五六七八九十]{1,3})(?:日|号)?"
)
_WEEK = re.compile(r"(\d{4})-?W(\d{2})-?([1-7])(?!\d)")
_ORDINAL = re.compile(r"(\d{4})-(\d{3})(?!\d)")
_TIME = re.compile(
    r"(上午|下午|晚上|中午|凌晨|早上)?\s*(\d{1,2})\s*[:时点h]\s*(?:(\d{1,2})\s*(?:[:分]\s*(?:(\d{1,2})(?:\.(\d{1,9}))?\s*秒?)?)?)?\s*([ap]\.?m\.?)?",
    re.I,
)
_COMPACT_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d)()()")
_HOUR = re.compile(r"(\d{1,2})()()()\s*([ap]\.?m\.?)", re.I)
_ZONE = re.compile(r"\s*(?:(z|utc|gmt)(?![a-z])\s*)?(?:\(?(?:utc|gmt)?\s*([+-])\s*(\d{1,2}):?(\d{2})?\)?)?", re.I)
_ZONES = {"北京时间": "+08:00", "cst": "", "est": "", "pst": ""}


@dataclass(frozen=True)
class Moment:
    date: dt.date
    confidence: float
    time: dt.time | None = None
    fraction: str = ""
    """Digits of the second's fraction, as written."""
    zone: str = ""
    """`Z` or `+08:00`; empty where nothing is said."""


def read_dates(text: str) -> list[Moment]:
    """All dates that the whole text may mean, the likeliest first; none if it is not a date and nothing else."""
    if len(text) > MAX_CHARS:
        return []
    text = unicodedata.normalize("NFKC", text).translate(DASHES).strip(" \t\r\n\"'“”.,;")
    weekday = _WEEKDAY.search(text)
    bare = (text[: weekday.start()] + " " + text[weekday.end() :]).strip(" ,") if weekday else text
    found = [
        moment for moment, start, end in _dates_in(bare) if start == 0 for moment in _with_time(moment, bare[end:])
    ]
    if weekday and found:
        number = _WEEKDAYS[weekday[2] or (weekday[1] or weekday[3]).lower()[:3]]
        fitting = [moment for moment in found if moment.date.weekday() == number]
        if len(fitting) == 1:
            return [replace(fitting[0], confidence=max(fitting[0].confidence, 0.85))]
        found = [replace(moment, confidence=min(moment.confidence, UNSURE)) for moment in found]
    return found


def find_dates(text: str) -> list[tuple[dt.date, bool, int, int]]:
    """Dates within a longer text: date, whether it is the only reading, and where it stands."""
    text = unicodedata.normalize("NFKC", text) if len(unicodedata.normalize("NFKC", text)) == len(text) else text
    found: list[tuple[dt.date, bool, int, int]] = []
    for pattern in (_YEAR_FIRST, _YEAR_MONTH_DAY, _DAY_MONTH, _MONTH_DAY, _CHINESE, _YEAR_LAST, _COMPACT):
        for match in pattern.finditer(text):
            if any(start < match.end() and match.start() < end for _, _, start, end in found):
                continue
            before = text[match.start() - 1 : match.start()]
            if before.isascii() and before.isalnum():
                continue  # the end of a longer number or code
            readings = list(_readings(pattern, match))
            found += [(date, len(readings) == 1, match.start(), match.end()) for date, _ in readings]
    return sorted(found, key=lambda item: item[2])


def _dates_in(text: str) -> Iterator[tuple[Moment, int, int]]:
    for pattern in (
        _YEAR_FIRST,
        _YEAR_MONTH_DAY,
        _DAY_MONTH,
        _MONTH_DAY,
        _CHINESE,
        _COMPACT,
        _WEEK,
        _ORDINAL,
        _YEAR_LAST,
    ):
        if match := pattern.match(text):
            readings = list(_readings(pattern, match))
            for date, confidence in readings:
                yield Moment(date, confidence), match.start(), match.end()
            if readings:
                return


def _readings(pattern: re.Pattern[str], match: re.Match[str]) -> Iterator[tuple[dt.date, float]]:
    """The dates that a match may mean."""
    if pattern is _YEAR_FIRST or pattern is _COMPACT:
        yield from _date(match[1], match[2], match[3], SURE)
    elif pattern is _YEAR_MONTH_DAY:
        yield from _date(match[1], _MONTHS[match[2].lower()], match[3], SURE)
    elif pattern is _DAY_MONTH:
        yield from _date(match[3], _MONTHS[match[2].lower()], match[1], SURE if len(match[3]) == 4 else LIKELY)
    elif pattern is _MONTH_DAY:
        yield from _date(match[3], _MONTHS[match[1].lower()], match[2], SURE)
    elif pattern is _WEEK or pattern is _ORDINAL:
        yield from _counted(match, by_week=pattern is _WEEK)
    elif pattern is _CHINESE:
        yield from _date(read_words(match[1]) or 0, read_words(match[2]) or 0, read_words(match[3]) or 0, SURE)
    else:
        yield from _year_last(match[1], match[2], match[3], day_first="." in match[0])


def _counted(match: re.Match[str], *, by_week: bool) -> Iterator[tuple[dt.date, float]]:
    """A day of a week, or of a year, by ISO 8601."""
    try:
        if by_week:
            yield dt.date.fromisocalendar(int(match[1]), int(match[2]), int(match[3])), SURE
            return
        day = dt.date(int(match[1]), 1, 1) + dt.timedelta(days=int(match[2]) - 1)
    except (ValueError, OverflowError):
        return
    if day.year == int(match[1]):
        yield day, SURE


def _year_last(first: str, second: str, year: str, *, day_first: bool) -> Iterator[tuple[dt.date, float]]:
    """Day and month in either order: certain only where one of them is no month, or both are equal."""
    orders = [(second, first), (first, second)] if day_first else [(first, second), (second, first)]
    readings = dict(reading for month, day in orders for reading in _date(year, month, day, SURE))
    sure = len(readings) == 1 and len(year) == 4
    for date in readings:
        yield date, SURE if sure else UNSURE


def _date(year: str | int, month: str | int, day: str | int, confidence: float) -> Iterator[tuple[dt.date, float]]:
    number = int(year)
    if isinstance(year, str) and len(year) == 2:
        number += 2000 if number < 70 else 1900
    try:
        yield dt.date(number, int(month), int(day)), confidence
    except ValueError:
        return


def _with_time(moment: Moment, rest: str) -> Iterator[Moment]:
    """The moment with the time that follows its date; nothing if something else follows."""
    rest = rest.strip(" ,")
    rest = re.sub(r"^(?:[tT](?=\d)|at\s+)", "", rest).strip()
    if not rest:
        yield moment
        return
    timed = read_time(rest)
    if timed is not None:
        yield replace(
            moment, time=timed[0], fraction=timed[1], zone=timed[2], confidence=min(moment.confidence, timed[3])
        )


def read_time(text: str) -> tuple[dt.time, str, str, float] | None:
    """Time, fraction, zone and confidence of `10:20`, `10:20:30.5 AM UTC`, `下午3点20分`."""
    match = _COMPACT_TIME.match(text) or _HOUR.match(text) or _TIME.match(text)
    if match is None:
        return None
    groups = match.groups()
    prefix, hour, minute, second, fraction, suffix = groups if len(groups) == 6 else ("", *groups)
    number = int(hour)
    late = prefix in ("下午", "晚上") or (suffix or "").lower().startswith("p")
    early = prefix in ("上午", "凌晨", "早上") or (suffix or "").lower().startswith("a")
    if late and number < 12:
        number += 12
    elif early and number == 12:
        number = 0
    zone, rest = _zone(text[match.end() :])
    if rest:
        return None
    try:
        return dt.time(number, int(minute or 0), int(second or 0)), fraction or "", zone, SURE
    except ValueError:
        return None


def _zone(text: str) -> tuple[str, str]:
    """The zone at the beginning of a text, and what follows it."""
    text = text.strip(" ()（）")
    if text == "北京时间":
        return "+08:00", ""
    match = _ZONE.match(text)
    assert match is not None
    rest = text[match.end() :].strip(" )")
    if match[2]:
        sign, hours, minutes = match[2], int(match[3]), match[4] or "00"
        return ("Z" if hours == 0 and minutes == "00" and match[1] else f"{sign}{hours:02}:{minutes}"), rest
    return ("Z" if match[1] else ""), rest


def iso_time(moment: Moment, *, default_zone: str = "Z") -> str:
    assert moment.time is not None
    fraction = f".{moment.fraction}" if moment.fraction else ""
    return f"{moment.time:%H:%M:%S}{fraction}{moment.zone or default_zone}"
