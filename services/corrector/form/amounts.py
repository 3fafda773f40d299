"""A number that was written as text, with what stands around it: `USD 1.2k`, `RMB 12,000元`, `3 kg`, `15%`, `(5)`."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from decimal import Decimal

from services.corrector.form.digits import (
    UNSURE,
    decimal_of,
    is_loose,
    read_based,
    read_decimal_words,
    read_digits,
    read_words,
)
from services.corrector.form.units import (
    APPROXIMATE,
    COUNTS,
    CURRENCIES,
    FILLERS,
    SCALES,
    UNSURE_SCALES,
    dimension_of,
)

MAX_CHARS = 120
_NUMBER = re.compile(r"(?<![A-Za-z0-9])(?:\d[\d.,'’_ \u00a0\u202f]*\d|\d)(?:[eE][+-]?\d{1,3}(?![\w.]))?|[.]\d+")
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_CODE_BEFORE = re.compile(
    rf"^({'|'.join(code for code in CURRENCIES if code.isalpha() and code.isascii())})(?=[\d.,])", re.I
)
"""A currency's code right before the digits."""
_BRACKETED = re.compile(r"\(([^()]*)\)")
_EACH = re.compile(r"(?:/|\bper |\ba |每)\s*[^\W\d]+$")
_MINUS = re.compile(r"(?:minus|negative|负)\s*$")
_BYTES_A_SECOND = re.compile(r"\b[KMGT]?B(?:ps|/s)\b")
"""The case of the B tells bytes from bits."""


@dataclass(frozen=True)
class Amount:
    value: Decimal
    confidence: float
    unit: str = ""
    """A unit with a dimension (`kg`, `%`), in small letters."""
    currency: str = ""
    count: str = ""
    """What is counted (`boxes`), in small letters."""
    scale: int = 0
    """Power of ten that a word like `k` or 万 said, already in the value."""
    is_rate: bool = False
    """For each unit of something: 3500元/月, 5kg/袋."""


def read_amount(text: str) -> Amount | None:
    """The one number that a text says; None if it says none, or several."""
    if len(text) > MAX_CHARS or _BYTES_A_SECOND.search(text):
        return None
    text = unicodedata.normalize("NFKC", text).replace("−", "-").replace("–", "-").strip()
    text = _CODE_BEFORE.sub(r"\1 ", text.strip("\"'`“”*_ "))
    if (inner := _BRACKETED.fullmatch(text)) and (amount := read_amount(inner[1])) and _is_money(amount):
        return replace(amount, value=-abs(amount.value))
    if (based := read_based(text)) is not None:
        return Amount(Decimal(based), 0.9)
    if _PLAIN.fullmatch(text) and "." not in text and (number := decimal_of(text)) is not None:
        return Amount(number, 0.9)
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) != 1:
        return _in_words(text) if not numbers else None
    return _around(text[: numbers[0].start()], numbers[0][0], text[numbers[0].end() :])


def _around(before: str, digits: str, after: str) -> Amount | None:
    before, after = before.strip().lower(), after.strip().lower()
    sign = 1
    if before.count("-") > 1:
        return None
    if before.endswith(("(", "-")) or before.startswith("-"):
        if before.endswith("(") and not after.startswith(")"):
            return None
        sign = -1
        after = after.removeprefix(")") if before.endswith("(") else after
        before = before.strip("-(").strip()
    elif minus := _MINUS.search(before):
        sign, before = -1, before[: minus.start()]
    elif before.endswith("(") and after.startswith(")"):
        return None
    is_dialled = before.endswith("+") and " " in digits  # +49 123
    before = before.removesuffix("+").strip()
    sides = _Sides()
    if is_dialled or after in ("-", "x", "×", "*"):  # a sign, a range or a product that was cut off, or nothing
        sides.confidence = UNSURE
    sides.take(before)
    if before.startswith("第") or _is_clock_unit(sides.unit) or (_is_year(digits) and after == "年"):
        sides.confidence = UNSURE - 0.05  # the second week, week 2, the year 2025
    sides.take(after)
    if sides.is_broken:
        return None
    exponent = re.search(r"[eE][+-]?\d+$", digits)
    mantissa = digits[: exponent.start()] if exponent else digits
    read = read_digits(mantissa, has_currency=bool(sides.currency) and sides.currency != "EUR")
    if read is None:
        return None
    value, confidence = read
    power = sides.scale + (int(exponent[0][1:]) if exponent else 0)
    return Amount(
        value=sign * value.scaleb(power),
        confidence=min(confidence, sides.confidence),
        unit="" if sides.currency else sides.unit,
        currency=sides.currency,
        count=sides.count,
        scale=sides.scale,
        is_rate=_is_each(sides, after),
    )


def _is_each(sides: _Sides, after: str) -> bool:
    """Whether the number is one of many, and not a speed."""
    if sides.currency or (sides.unit and not re.search(r"[/每]", sides.unit)):
        return _EACH.search(after) is not None or sides.count in ("each", "ea")
    return False


def _is_money(amount: Amount) -> bool:
    """Whether brackets around it make it negative."""
    return not (amount.unit or amount.count)


def _is_clock_unit(unit: str) -> bool:
    return (dimension_of(unit) or ("",))[0] in ("time", "months")


def _is_year(digits: str) -> bool:
    return re.fullmatch(r"(?:19|20)\d\d", digits) is not None


class _Sides:
    """What the words around a number say."""

    def __init__(self) -> None:
        self.confidence, self.scale, self.unit, self.currency, self.count = 0.9, 0, "", "", ""
        self.is_broken = False

    def take(self, text: str) -> None:
        text = text.strip(" ,;:：。.!()（）")
        while text and not self.is_broken:
            taken = self._longest(text)
            if not taken:
                self._unknown(text)
                return
            text = text[len(taken) :].strip(" ,;:：。.()（）/")

    def _longest(self, text: str) -> str:
        """The longest known word that the text begins with, after noting what it says."""
        for length in range(min(len(text), 16), 0, -1):
            word = text[:length]
            following = text[length : length + 1]
            if word[-1].isascii() and word[-1].isalpha() and following.isascii() and following.isalpha():
                continue
            if self._known(word):
                return word
        return ""

    def _known(self, word: str) -> bool:
        dimension = dimension_of(word)
        if word in CURRENCIES and not (word == "块" and self.unit):
            if self.currency and CURRENCIES[word] not in (self.currency, "$", "¥") and self.currency not in ("$", "¥"):
                self.is_broken = True
            self.currency = CURRENCIES[word]
        elif word in APPROXIMATE:
            self.confidence = min(self.confidence, 0.6)
        elif word in SCALES and (dimension is None or (word == "m" and self.currency)) and self.scale == 0:
            self.scale = SCALES[word]
            self.confidence = min(self.confidence, 0.7 if word in UNSURE_SCALES else 0.85)
        elif dimension is not None and not self.unit:
            self.unit = word
            self.confidence = min(self.confidence, 0.7 if word in UNSURE_SCALES else 0.85)
        elif word in COUNTS:
            self.count = word
            self.confidence = min(self.confidence, 0.85)
        elif word not in FILLERS:
            return False
        return True

    def _unknown(self, text: str) -> None:
        """A word that may be a unit nobody told us of, or may change what the number means."""
        self.confidence = min(self.confidence, 0.65)
        self.is_broken = len(text) > 24 or text.startswith(("-", "/", "~", "x ", "*", "to ", "至", "到"))


def _in_words(text: str) -> Amount | None:
    bare = text.lower().strip()
    for suffix in ("元整", "圆整", "元", "圆", "dollars", "只", "个", "件", "人", "天", "only", "台"):
        bare = bare.removesuffix(suffix).strip()
    bare = bare.removeprefix("人民币").replace(" ", "" if not bare.isascii() else " ")
    if bare.startswith("百分之") and (share := read_decimal_words(bare.removeprefix("百分之"))) is not None:
        return Amount(share, 0.85, unit="%")
    value = read_words(bare) if bare.isascii() else read_decimal_words(bare)
    return None if value is None or not bare else Amount(Decimal(value), 0.7 if is_loose(bare) else 0.85)
