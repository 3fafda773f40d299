"""Dates as texts: written in declared formats, and existing.

A format is spelled with `YYYY`, `MM`, `DD` (two digits), `M`, `D` (one or two), `MMMM` (March), `MMM` (Mar); all else
stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from stagemesh.validation.forms import form_of
from stagemesh.validation.numerals.chinese import chinese_digits
from stagemesh.validation.rules.places import invalid
from stagemesh.validation.sentences import listed

DEFAULT = "YYYY-MM-DD"
MAX_FORMATS = 16
MAX_FORMAT_CHARS = 40
MAX_DATE_CHARS = 60
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
KNOWN = (
    *("YYYY-MM-DD", "YYYY-M-D", "YYYY/M/D", "YYYY.M.D", "YYYY年M月D日", "YYYYMMDD"),
    *("D MMMM YYYY", "D MMM YYYY", "MMMM D, YYYY", "MMM D, YYYY", "MMMM D YYYY", "MMM D YYYY"),
    *("D/M/YYYY", "M/D/YYYY", "D.M.YYYY", "D-M-YYYY", "M-D-YYYY", "D MMMM, YYYY"),
)
"""Forms in which dates are met. What several of them read differently is ambiguous."""
_TOKEN = re.compile("YYYY|MMMM|MMM|MM|DD|M|D")
_PARTS = {
    "YYYY": "(?P<y>[0-9]{4})",
    "MMMM": f"(?P<name>{'|'.join(MONTHS)})",
    "MMM": f"(?P<abbr>{'|'.join(name[:3] for name in MONTHS)}|sept)\\.?",
    "MM": "(?P<m>[0-9]{2})",
    "DD": "(?P<d>[0-9]{2})",
    "M": "(?P<m>[0-9]{1,2})",
    "D": "(?P<d>[0-9]{1,2})",
}


class DateFormat:
    """One format. Raises ValueError with a sentence for what is none."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_FORMAT_CHARS:
            raise ValueError(f"a date format may have {MAX_FORMAT_CHARS} characters")
        tokens = _TOKEN.findall(source)
        if sorted(token[0] for token in tokens) != ["D", "M", "Y"]:
            raise ValueError(f"a date format has a year, a month and a day, such as {DEFAULT}, but this is {source!r}")
        self.source = source
        pattern, at = "", 0
        for token in _TOKEN.finditer(source):
            pattern += re.escape(source[at : token.start()]) + _PARTS[token[0]]
            at = token.end()
        self._pattern = re.compile(pattern + re.escape(source[at:]), re.IGNORECASE)

    def parts(self, text: str) -> tuple[int, int, int] | None:
        """Year, month and day as they are written; None in another form."""
        match = self._pattern.fullmatch(text)
        if match is None:
            return None
        named = match.groupdict()
        if name := named.get("name") or named.get("abbr"):
            month = 1 + next(i for i, full in enumerate(MONTHS) if full.startswith(name.lower()[:3]))
        else:
            month = int(named["m"])
        return int(named["y"]), month, int(named["d"])

    def write(self, day: date) -> str:
        name = MONTHS[day.month - 1].capitalize()
        parts = {
            "YYYY": f"{day.year:04}",
            "MMMM": name,
            "MMM": name[:3],
            "MM": f"{day.month:02}",
            "DD": f"{day.day:02}",
            "M": str(day.month),
            "D": str(day.day),
        }
        return _TOKEN.sub(lambda token: parts[token[0]], self.source)


class DateFormats:
    """The formats that a rule declares. Raises Refusal INVALID_RULE."""

    def __init__(self, sources: Sequence[Any], field: str) -> None:
        if len(sources) > MAX_FORMATS:
            raise invalid(field, f"give at most {MAX_FORMATS} date formats")
        try:
            self.formats = [DateFormat(str(source)) for source in sources or (DEFAULT,)]
        except ValueError as error:
            raise invalid(field, str(error)) from None

    def parts(self, text: str) -> tuple[int, int, int] | None:
        found = (one.parts(text) for one in self.formats)
        return next((parts for parts in found if parts is not None), None)

    def write(self, day: date) -> str:
        return self.formats[0].write(day)

    def __str__(self) -> str:
        return listed([one.source for one in self.formats])


_KNOWN = tuple(DateFormat(source) for source in KNOWN)


def existing(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def date_of(text: str, formats: DateFormats) -> date | None:
    """The date that a text in one of the formats is; None for others and for dates that do not exist."""
    parts = formats.parts(text) if len(text) <= MAX_DATE_CHARS else None
    return existing(*parts) if parts is not None else None


def meant(text: str) -> date | None:
    """The one date that a text in any known form can mean."""
    if len(text) > MAX_DATE_CHARS:
        return None
    form = chinese_digits(form_of(text)).replace(" 年", "年")
    found = {existing(*parts) for one in _KNOWN if (parts := one.parts(form)) is not None}
    days = {day for day in found if day is not None}
    return days.pop() if len(days) == 1 else None
