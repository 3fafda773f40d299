"""The digits of a number with its separators: `12,000.50`, `1.234,56`, `1 234,5`, `1'234`, and words for numbers."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation

from stagemesh.validation.numerals.chinese import DIGITS, chinese_number
from stagemesh.validation.numerals.english import english_number

SURE, UNSURE = 0.9, 0.7

_GROUPS = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+") for mark in (",", ".", " ", "'", "_")}
_INDIAN = re.compile(r"[1-9]\d{0,1}(?:,\d{2})+,\d{3}")
DASHES = str.maketrans(dict.fromkeys("‐‑‒–—−", "-"))
"""Whatever line stands for a hyphen or a minus."""
_EXPONENT = re.compile(r"(?<![\w.+-])-?\d{1,40}(?:\.\d{1,40})?[eE][+-]?\d{1,3}(?![\w.])")
_SLASHED = re.compile(r"(\d{1,6})\s*/\s*(\d{1,6})")
_CHINESE_FRACTION = re.compile(r"([二三四五六七八九十百千]{1,4})分之([一二两三四五六七八九十百点零]{1,8})")
_FRACTIONS = {
    **dict.fromkeys(("half", "a half", "one half", "一半"), Decimal("0.5")),
    **dict.fromkeys(("a quarter", "one quarter"), Decimal("0.25")),
    "three quarters": Decimal("0.75"),
}
_BASED = re.compile(r"([+-]?)0([xX][0-9a-fA-F]{1,32}|[oO][0-7]{1,40}|[bB][01]{1,128})")
_SPOKEN = re.compile(r"(.*)([百佰千仟万萬亿億])([一二三四五六七八九壹贰叁肆伍陆柒捌玖两])")
"""A last digit straight after a scale counts tenths of it: 三百五, 一万二."""
_TENTH = {"百": "十", "佰": "十", "千": "百", "仟": "百", "万": "千", "萬": "千", "亿": "千万", "億": "千万"}
_LOOSE = re.compile(r"[百佰千仟万萬亿億].*|[一二两三四五六七八九]{2}|.*[两兩].")
"""No digit before the first scale, two digits that may be a range (三五个), or 两 that may be one (两三个)."""


def read_digits(text: str, *, has_currency: bool = False) -> tuple[Decimal, float] | None:
    """The number and how sure its separators are understood; None if they fit no custom."""
    text = text.replace("’", "'").replace("\u00a0", " ").replace("\u202f", " ").strip()
    if text.isascii() and text.isdigit():
        return Decimal(text), SURE
    if text.count(".") == 1 and text.replace(".", "").isdigit():
        return _with_point(text)
    whole, fraction, confidence = text, "", SURE
    marks = [mark for mark in ",." if mark in text]
    if len(marks) == 2:
        point = max(marks, key=text.rindex)
        if text.count(point) > 1:
            return None
        whole, fraction = text.rsplit(point, 1)
        marks.remove(point)
    elif text.count(",") == 1 and not _GROUPS[","].fullmatch(text):
        whole, fraction = text.split(",")
        confidence = 0.8  # a decimal comma: the digits fit no grouping by thousands
    elif text.count(".") == 1 and "," not in text:
        whole, fraction = text.split(".")
    elif text.count(",") == 1:
        confidence = SURE if has_currency else 0.75
    if not fraction.isdigit() and fraction:
        return None
    grouped = any(pattern.fullmatch(whole) for pattern in _GROUPS.values()) or _INDIAN.fullmatch(whole)
    if not grouped and not whole.isdigit():
        return None
    return Decimal(re.sub(r"\D", "", whole) + ("." + fraction if fraction else "")), confidence


def _with_point(text: str) -> tuple[Decimal, float]:
    """One point: JSON's own decimal point, unless it may group thousands (`1.234`)."""
    whole, fraction = text.split(".")
    confidence = 0.6 if _GROUPS["."].fullmatch(text) and len(fraction) == 3 else SURE
    return Decimal(f"{whole or 0}.{fraction or 0}"), confidence


def read_based(text: str) -> int | None:
    """`0x1F`, `0o17`, `0b101`."""
    match = _BASED.fullmatch(text)
    return None if match is None else int(f"{match[1]}0{match[2]}", 0)


def read_words(text: str) -> int | None:
    """`twenty-five`, `two hundred and ten`, `一百二十`, `壹万贰仟`, 三百五; None for `five six`, which are two."""
    if len(text) > 80:
        return None
    if text.isascii():
        return english_number(re.sub(r"^an? ", "one ", text.lower().strip()))
    if text[:1] in _TENTH:
        text = f"一{text}"
    if spoken := _SPOKEN.fullmatch(text):
        text = f"{text}{_TENTH[spoken[2]]}"
    return chinese_number(text)


def read_decimal_words(text: str) -> Decimal | None:
    """A Chinese numeral, with 点 for the point: 三点五."""
    whole, point, fraction = text.partition("点")
    value = read_words(whole)
    if value is None or not point:
        return None if value is None else Decimal(value)
    digits = read_words(fraction) if all(char in DIGITS for char in fraction) else None
    return None if digits is None else Decimal(f"{value}.{digits:0{len(fraction)}d}")


def read_fraction(text: str) -> Decimal | None:
    """`1/2`, 四分之三, `half`, `three quarters`; None for what is none, or has no end as a decimal."""
    bare = unicodedata.normalize("NFKC", text).replace("\u2044", "/").strip().lower()
    if bare in _FRACTIONS:
        return _FRACTIONS[bare]
    if match := _SLASHED.fullmatch(bare):
        above, below = Decimal(match[1]), Decimal(match[2])
    elif match := _CHINESE_FRACTION.fullmatch(bare):
        above, below = read_decimal_words(match[2]) or Decimal(0), Decimal(read_words(match[1]) or 0)
    else:
        return None
    if not above or not below:
        return None
    value = above / below
    return value if value == round(value, 6) else None


def is_loose(text: str) -> bool:
    """Whether words for a number may say another one, or several."""
    return _LOOSE.fullmatch(text) is not None


def exponents_in(text: str) -> dict[Decimal, str]:
    """The numbers with an exponent in a text as they are written there; none that is written in two ways."""
    found: dict[Decimal, set[str]] = {}
    for match in _EXPONENT.finditer(text):
        if (number := decimal_of(match[0])) is not None:
            found.setdefault(number, set()).add(match[0])
    return {number: spelled.pop() for number, spelled in found.items() if len(spelled) == 1}


def decimal_of(text: str) -> Decimal | None:
    """A plain decimal with exponent."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 300 else None
