"""What a scalar of the wrong type, format or spelling may have meant, by its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from services.corrector.form.amounts import Amount, read_amount
from services.corrector.form.booleans import read_boolean, reads_as_nothing
from services.corrector.form.compounds import read_compound
from services.corrector.form.digits import read_fraction
from services.corrector.form.edits import Guess
from services.corrector.form.enums import enum_guesses
from services.corrector.form.field_units import field_unit
from services.corrector.form.measures import measured
from services.corrector.form.polarity import agreed
from services.corrector.form.shape import Shape
from services.corrector.form.spellings import string_guesses
from services.corrector.form.units import dimension_of
from services.corrector.form.values import Word, is_number, plain_number
from stagemesh.validation.json_text import dump

_OUT_OF = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(?:/|out of)\s*(\d{1,6})")
NOT_NUMBERS = frozenset({"nan", "infinity", "-infinity", "inf", "-inf", "+infinity", "+inf"})


def scalar_guesses(value: Any, shape: Shape, about: str) -> list[Guess]:
    """Values that the schema accepts; `about` is the key with title and description."""
    options = shape.enum
    guesses = list(_by_type(value, shape, about)) if options is None else enum_guesses(value, options)
    if "null" in shape.types or (options and None in options):
        guesses += _nothing(value)
    return [guess for guess in guesses if shape.accepts(guess.value)]


def _by_type(value: Any, shape: Shape, about: str) -> Iterator[Guess]:
    types = shape.types
    if "boolean" in types:
        yield from _booleans(value, about)
    if types & {"number", "integer"} and isinstance(value, str):
        yield from _numbers(value, shape, about)
    if "string" in types:
        yield from _strings(value, shape, about)


def _nothing(value: Any) -> Iterator[Guess]:
    if not isinstance(value, str):
        return
    if value.casefold() in NOT_NUMBERS and isinstance(value, Word):
        yield Guess(None, "not a number, where nothing is allowed", 0.6)
    elif confidence := reads_as_nothing(value):
        yield Guess(None, "a word for nothing", confidence)


def _booleans(value: Any, about: str) -> Iterator[Guess]:
    if isinstance(value, str) and (read := read_boolean(value)):
        meant, confidence = agreed(value, *read, about.split(" ")[0])
        yield Guess(meant, "a word for true or false", confidence)
    elif is_number(value) and value in (0, 1):
        yield Guess(bool(value), "a number for true or false", 0.85)


def _numbers(text: str, shape: Shape, about: str) -> Iterator[Guess]:
    if guess := _ratio(text, shape):
        yield guess
        return
    amount = read_compound(text, field_unit(about)) or read_amount(text)
    if amount is None or text.strip().casefold() in NOT_NUMBERS:
        return
    if amount.unit and dimension_of(amount.unit) == dimension_of("%"):
        yield from _percents(amount, shape, about)
        return
    reading = measured(amount, about)
    value, confidence, reason = reading.value, reading.confidence, reading.reason
    if reading.other is not None:
        yield Guess(plain_number(reading.other), "the number in the field's own scale", 0.7)
    yield Guess(plain_number(value), reason, _grouped(text, value, shape, confidence))
    if "." in text and confidence == 0.6 and "number" not in shape.types:
        yield Guess(
            plain_number(Decimal(text.strip().replace(".", ""))) if text.strip().replace(".", "").isdigit() else None,
            reason,
            0.75,
        )


def _ratio(text: str, shape: Shape) -> Guess | None:
    """`3/4` as a share of one, and `4/5` or `4 out of 5` of at most five; elsewhere it may be anything."""
    maximum = shape.keywords.get("maximum")
    if not is_number(maximum) or "number" not in shape.types:
        return None
    if maximum == 1:
        value = read_fraction(text)
        return None if value is None else Guess(plain_number(value), "a fraction", 0.85)
    match = _OUT_OF.fullmatch(text.strip().lower())
    if match is None or Decimal(match[2]) != maximum:
        return None
    return Guess(plain_number(Decimal(match[1])), "a number out of the most that is allowed", 0.85)


def _grouped(text: str, value: Decimal, shape: Shape, confidence: float) -> float:
    """A comma before three digits groups thousands where only whole numbers are allowed."""
    if confidence == 0.75 and "number" not in shape.types and value == value.to_integral_value():
        return 0.85
    return confidence


def _percents(amount: Amount, shape: Shape, about: str) -> Iterator[Guess]:
    """`15%`: 15 or 0.15; the bounds or the name of the field may say which."""
    number, share = plain_number(amount.value), plain_number(amount.value / 100)
    low = about.lower()
    named = any(word in low for word in ("percent", "pct", "%", "百分比", "百分率", "百分"))
    maximum = shape.keywords.get("maximum", shape.keywords.get("exclusiveMaximum"))
    is_share = is_number(maximum) and maximum <= 1
    if is_share or (shape.accepts(share) and not shape.accepts(number)):
        yield Guess(share, "a percentage as a share of one", min(amount.confidence, 0.85))
    elif named or "number" not in shape.types or (is_number(maximum) and maximum >= 2):
        yield Guess(number, "a number with a percent sign", amount.confidence)
    else:
        yield Guess(number, "a number with a percent sign, or a share of one", 0.65)


def _strings(value: Any, shape: Shape, about: str) -> Iterator[Guess]:
    if isinstance(value, Word):
        is_text = not reads_as_nothing(value) and read_boolean(value) is None
        yield Guess(str(value), "a text without quotes", 0.9 if is_text else 0.45)
    if isinstance(value, bool):
        yield Guess(dump(value), "a text that was written as true or false", 0.75)
    elif is_number(value):
        text = dump(value)
        yield Guess(text, "a text that was written as a number", 0.7 if "E" in text else 0.9)
        length = shape.keywords.get("minLength")
        if isinstance(value, int) and value >= 0:
            widths = (
                {length}
                if isinstance(length, int) and length <= 40
                else set(range(len(text) + 1, min(len(text) + 6, 21)))
            )
            padded = [text.zfill(width) for width in sorted(widths) if len(text) < width]
            yield from (
                Guess(other, "a text whose leading zeros were lost", 0.65) for other in padded if shape.accepts(other)
            )
        yield from string_guesses(text, shape, about)
    elif isinstance(value, str):
        yield from string_guesses(str(value), shape, about)
