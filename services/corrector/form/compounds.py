"""A quantity in parts or in words: `1h 20m`, `1:20 h`, 一个半小时, 半年, `2 kg 500 g`, 1米8, 12元5角, `P1Y6M`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from services.corrector.form.amounts import Amount
from services.corrector.form.digits import is_loose, read_decimal_words, read_fraction, read_words
from services.corrector.form.units import dimension_of

SURE = 0.85
MAX_CHARS = 60
MAX_PARTS = 4
HALF = Decimal("0.5")

_SHORT: dict[str, dict[str, str]] = {
    "time": {"m": "min", "'": "min", "’": "min", "′": "min", '"': "s", "”": "s", "″": "s", "时": "h", "分": "min"},
    "months": {"y": "year", "m": "month", "个月": "month"},
}
"""Signs that are units in quantities of one dimension only."""
_MONEY = {unit: size for units, size in (("元块圆", "1"), ("角毛", "0.1"), ("分", "0.01")) for unit in units}
_ISO = re.compile(
    r"P(?=[\dT])(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_ISO_UNITS = ("year", "month", "week", "day", "h", "min", "s")
_LETTERS = {
    "time": (("day", "D"), ("h", "H"), ("min", "M"), ("s", "S")),
    "months": (("year", "Y"), ("month", "M")),
}
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d))?\s*([a-z\u4e00-\u9fff]*)")
_CLOCK_UNITS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "个小时"), ("h", "min")),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "分钟"), ("min", "s")),
}
_NUMBER = re.compile(
    r"\d{1,12}\s*/\s*\d{1,12}|\d{1,12}(?:\.\d{1,12})?|half (?:an? )?|半个?"
    r"|[零〇一二两三四五六七八九十百千点]{1,20}|[a-z]+(?:-[a-z]+)?(?= )"
)
_UNIT = re.compile(r"[a-zμ°]+[²³]?|['’′\"”″]|[\u4e00-\u9fff]+")
_JOINT = re.compile(r"[\s,，、]*(?:and |零|又)?\s*")
_AND_HALF = re.compile(r"\s*(?:个半(?=[\u4e00-\u9fff])|and a half\b)\s*")
_HALF_AFTER = re.compile(r"半钟?$| and a half$")
_TAIL = re.compile(r"(?<=[米m元块])(\d{1,2})$")
_ONES = frozenset({"a", "an"})


@dataclass(frozen=True)
class Part:
    number: Decimal
    unit: str
    is_plain: bool
    """Digits, as a single number has them."""


def read_compound(text: str, wanted: str) -> Amount | None:
    """The quantity in its smallest unit; None for what is none, or a plain number with a unit.

    `wanted`: the unit of the field, which tells what short signs mean; empty for fields of money.
    """
    if len(text) > MAX_CHARS:
        return None
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/").strip().lower().rstrip(".")
    dimension = (dimension_of(wanted) or ("",))[0]
    parts = _iso(text) or _clock(text) or _spoken(text, dimension)
    if not parts or len(parts) > MAX_PARTS or (len(parts) == 1 and parts[0].is_plain):
        return None
    if not wanted:
        return _money(parts)
    return _sum([(part.number, _full(part.unit, dimension)) for part in parts], dimension)


def iso_duration(text: str) -> str | None:
    """A length of time as ISO 8601 writes it: `PT1H20M`; None for what is none, or not in whole numbers."""
    if len(text) > MAX_CHARS:
        return None
    text = unicodedata.normalize("NFKC", text).strip().lower().rstrip(".")
    for dimension, letters in _LETTERS.items():
        parts = _clock(text) if dimension == "time" else []
        parts = parts or _spoken(text, dimension)
        full = [(part.number, _full(part.unit, dimension)) for part in parts]
        if parts and (amount := _sum(full, dimension)) is not None:
            return _written(amount, dimension, letters, {unit for _, unit in full})
    return None


def _written(amount: Amount, dimension: str, letters: Sequence[tuple[str, str]], units: set[str]) -> str | None:
    """The amount in the largest of its units and in those below; weeks alone stay weeks."""
    sizes = [_size(unit) for unit in units]
    left = amount.value * _size(amount.unit)
    week = Decimal(604_800)
    if dimension == "time" and sizes == [week] and left % week == 0:
        return f"P{left // week}W"
    date, clock = "", ""
    for unit, letter in letters:
        size = _size(unit)
        count, left = (left // size, left % size) if size <= max(sizes) else (Decimal(0), left)
        if count and unit in ("h", "min", "s"):
            clock += f"{count}{letter}"
        elif count:
            date += f"{count}{letter}"
    if left or not (date or clock):
        return None
    return f"P{date}T{clock}" if clock else f"P{date}"


def _size(unit: str) -> Decimal:
    """In the base unit of its dimension."""
    found = dimension_of(unit)
    return Decimal(0) if found is None else found[1]


def _iso(text: str) -> list[Part]:
    match = _ISO.fullmatch(text.upper())
    groups = match.groups() if match else ()
    return [Part(Decimal(said), unit, False) for said, unit in zip(groups, _ISO_UNITS, strict=False) if said]


def _clock(text: str) -> list[Part]:
    """`1:20 h`, `1:30 min`, `01:20:00`; none where nothing says what the first number counts."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return []
    units: tuple[str, ...] = _CLOCK_UNITS.get(match[4], ())
    if match[3] and (not match[4] or units == ("h", "min")):
        units = ("h", "min", "s")
    elif match[3]:
        return []
    return [Part(Decimal(said), unit, False) for said, unit in zip(match.groups(), units, strict=False)]


def _spoken(text: str, dimension: str) -> list[Part]:
    """Numbers with units one after the other, to the end of the text; none if something else stands there."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        if parts and (tail := _TAIL.match(text, at)):
            number = parts[-1].number + Decimal(f"0.{tail[1]}")
            return [*parts[:-1], Part(number, parts[-1].unit, False)]
        found = _part(text, at, dimension)
        if found is None:
            return []
        part, at = found
        parts.append(part)
        joint = _JOINT.match(text, at)
        at = joint.end() if joint else at
    return parts


def _part(text: str, at: int, dimension: str) -> tuple[Part, int] | None:
    number = _number(text, at)
    if number is None:
        return None
    value, at, is_plain = number
    if half := _AND_HALF.match(text, at):
        value, at, is_plain = value + HALF, half.end(), False
    unit = _unit(text, at, dimension)
    if unit is None:
        return None
    name, at = unit
    if after := _HALF_AFTER.match(text, at):
        value, at, is_plain = value + HALF, after.end(), False
    is_plain = is_plain and dimension_of(name) is not None and name not in _SHORT.get(dimension, {})
    return Part(value, name, is_plain), at


def _number(text: str, at: int) -> tuple[Decimal, int, bool] | None:
    match = _NUMBER.match(text, at)
    if match is None:
        return None
    said, end = match[0].strip(), match.end()
    while text[end : end + 1] == " ":
        end += 1
    if said[0].isdigit():
        value = read_fraction(said) if "/" in said else Decimal(said)
        return None if value is None else (value, end, "/" not in said)
    if said.startswith(("半", "half")):
        return HALF, end, False
    if said in _ONES:
        return Decimal(1), end, False
    words = None if is_loose(said) else read_words(said) if said.isascii() else read_decimal_words(said)
    return None if words is None else (Decimal(words), end, False)


def _unit(text: str, at: int, dimension: str) -> tuple[str, int] | None:
    """The longest unit that the text goes on with, of Latin letters only a whole word."""
    match = _UNIT.match(text, at)
    if match is None:
        return None
    word = match[0]
    lengths = range(len(word), 0, -1) if "\u4e00" <= word[0] <= "\u9fff" else (len(word),)
    for length in lengths:
        name = word[:length]
        if dimension_of(name) or name in _SHORT.get(dimension, {}) or (not dimension and name in _MONEY):
            return name, at + length
    return None


def _full(unit: str, dimension: str) -> str:
    return _SHORT.get(dimension, {}).get(unit, unit)


def _sum(parts: Sequence[tuple[Decimal, str]], dimension: str) -> Amount | None:
    """All parts in the smallest unit; None unless each is less than one of the unit before it."""
    total, least = Decimal(0), Decimal("Infinity")
    for number, unit in parts:
        found = dimension_of(unit)
        if found is None or found[0] != dimension or number * found[1] >= least:
            return None
        total, least = total + number * found[1], found[1]
    return Amount(value=total / least, confidence=SURE, unit=parts[-1][1])


def _money(parts: Sequence[Part]) -> Amount | None:
    """元, 角 and 分, each less than one of those before."""
    total, least = Decimal(0), Decimal("Infinity")
    for part in parts:
        size = Decimal(_MONEY.get(part.unit, 0))
        if not size or part.number * size >= least:
            return None
        total, least = total + part.number * size, size
    return None if parts[0].unit == "分" else Amount(value=total, confidence=SURE, currency="CNY")
