# ruff: noqa: E501  tables of words are easier to read in long lines
"""The digits of a number with its separators: `12,000.50`, `1.234,56`, `1 234,5`, `1'234`, and words for numbers."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

SURE, UNSURE = 0.9, 0.7

_GROUPS = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+") for mark in (",", ".", " ", "'", "_")}
_INDIAN = re.compile(r"[1-9]\d{0,1}(?:,\d{2})+,\d{3}")
_BASED = re.compile(r"([+-]?)0([xX][0-9a-fA-F]{1,32}|[oO][0-7]{1,40}|[bB][01]{1,128})")
_CHINESE_DIGITS = {
    char: value
    for value, chars in enumerate(("零〇", "一壹", "二贰两", "三叁", "四肆", "五伍", "六陆", "七柒", "八捌", "九玖"))
    for char in chars
}
_CHINESE_UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_CHINESE_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_ENGLISH = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
    "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40,
    "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_ENGLISH_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}


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
    """`twenty-five`, `two hundred and ten`, `一百二十`, `壹万贰仟`."""
    if len(text) > 80:
        return None
    is_chinese = text[:1] in ("十", "拾") or bool(set(text) & _CHINESE_DIGITS.keys())
    return _read_chinese(text) if is_chinese else _read_english(text)


def _read_chinese(text: str) -> int | None:
    total, section, digit = 0, 0, None
    if all(char in _CHINESE_DIGITS for char in text):
        return int("".join(str(_CHINESE_DIGITS[char]) for char in text))
    for char in text:
        if char in _CHINESE_DIGITS:
            if digit:
                return None
            digit = _CHINESE_DIGITS[char]
        elif char in _CHINESE_UNITS:
            section += (1 if digit is None else digit) * _CHINESE_UNITS[char]
            digit = None
        elif char in _CHINESE_SCALES:
            total = (total + section + (digit or 0)) * _CHINESE_SCALES[char]
            section, digit = 0, None
        else:
            return None
    return total + section + (digit or 0)


def _read_english(text: str) -> int | None:
    words = [word for word in re.split(r"[\s-]+", text.lower().strip()) if word not in ("and", "a", "")]
    if not words:
        return None
    total, section = 0, 0
    for word in words:
        if word in _ENGLISH:
            section += _ENGLISH[word]
        elif word == "hundred":
            section = (section or 1) * 100
        elif word in _ENGLISH_SCALES:
            total, section = total + (section or 1) * _ENGLISH_SCALES[word], 0
        else:
            return None
    return total + section


def decimal_of(text: str) -> Decimal | None:
    """A plain decimal with exponent."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 300 else None
