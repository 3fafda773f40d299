"""Chinese numerals: 十二, 一百零五, 二〇二五, and the forms in which amounts are written, 壹万贰仟元整."""

from __future__ import annotations

import re
from decimal import Decimal

DIGITS = {
    **{char: value for value, char in enumerate("零一二三四五六七八九")},
    **{char: value for value, char in enumerate("零壹贰叁肆伍陆柒捌玖")},
    "〇": 0,
    "○": 0,
    "两": 2,
    "兩": 2,
    "貳": 2,
    "參": 3,
    "叄": 3,
    "陸": 6,
    "弌": 1,
    "弍": 2,
    "弎": 3,
}
UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1_000, "仟": 1_000}
BIG = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
NUMERALS = "".join([*DIGITS, *UNITS, *BIG])
MAX_CHARS = 40
_RUN = re.compile(f"[{NUMERALS}]+")
_AMOUNT = re.compile(
    f"(?:(?P<whole>[{NUMERALS}]+)(?:元|圆|圓|块))?(?:(?P<jiao>[{''.join(DIGITS)}])角)?(?:零?(?P<fen>[{''.join(DIGITS)}])分)?(?:整|正)?"
)


def chinese_number(text: str) -> int | None:
    """The number that a numeral means; None for what is none: 十十, 万三万, an empty text."""
    if not text or len(text) > MAX_CHARS or not _RUN.fullmatch(text):
        return None
    if all(char in DIGITS for char in text):
        return int("".join(str(DIGITS[char]) for char in text))
    total, left = 0, text
    least = 10**13  # units go down, and a 万 may come before 亿: 一万亿
    for big, value in (("亿億", 10**8), ("万萬", 10**4)):
        head, unit, tail = _partition_last(left, big)
        if unit:
            number = chinese_number(head) if value == 10**8 and any(c in "万萬" for c in head) else _below_10000(head)
            if not number or number * value >= least:
                return None
            total += number * value
            left, least = tail, value
    rest = _below_10000(left) if left else 0
    if rest is None or (total and rest >= 10**4):
        return None
    return total + rest


def chinese_digits(text: str) -> str:
    """The text with numerals of dates as digits: 二〇二五年三月十二日 → 2025年3月12日."""

    def digits(run: re.Match[str]) -> str:
        number = chinese_number(run[0])
        return run[0] if number is None else str(number)

    return re.sub(f"[{NUMERALS}]+(?=[年月日号])", digits, text)


def chinese_amount(text: str) -> Decimal | None:
    """The amount that words mean: 壹万贰仟元整, 叁角伍分; None for what is no amount."""
    match = _AMOUNT.fullmatch(text)
    if match is None or len(text) > MAX_CHARS or not (match["whole"] or match["jiao"] or match["fen"]):
        return None
    whole = chinese_number(match["whole"]) if match["whole"] else 0
    if whole is None:
        return None
    jiao, fen = (DIGITS[match[name]] if match[name] else 0 for name in ("jiao", "fen"))
    return Decimal(whole) + Decimal(jiao) / 10 + Decimal(fen) / 100


def _partition_last(text: str, units: str) -> tuple[str, str, str]:
    at = max(text.rfind(unit) for unit in units)
    return (text[:at], text[at], text[at + 1 :]) if at >= 0 else ("", "", text)


def _below_10000(text: str) -> int | None:
    """一千二百零五, 十二, 三百五 is refused: it is 350 in speech only."""
    total, digit, least = 0, -1, 10_000
    for char in text:
        if char in UNITS:
            unit = UNITS[char]
            if unit >= least or digit == 0 or (digit < 0 and (unit != 10 or total)):
                return None
            total += (1 if digit < 0 else digit) * unit
            digit, least = -1, unit
        elif char in DIGITS:
            if digit > 0:
                return None
            digit = DIGITS[char]
        else:
            return None
    if digit > 0 and least > 10 and total and not _has_zero_before_last(text):
        return None
    return total + max(digit, 0)


def _has_zero_before_last(text: str) -> bool:
    return len(text) >= 2 and DIGITS.get(text[-2]) == 0
