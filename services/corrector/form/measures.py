"""An amount as the field's name asks for it: in its unit, its currency and its scale, or unsure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from services.corrector.form.amounts import Amount
from services.corrector.form.field_units import counts_pieces, field_currency, field_power, field_unit, is_rate
from services.corrector.form.units import BUNDLES, DOZENS, converted

UNFIT = 0.55
"""The most that an amount in another unit or currency than the field's is sure of."""
SAME_UNIT = 0.85
AMBIGUOUS_UNIT = 0.7
"""How sure `m` is where nothing says that it is a metre."""
_DOLLARS = frozenset({"USD", "AUD", "CAD", "HKD", "SGD", "TWD"})
_YUAN = frozenset({"CNY", "JPY"})


@dataclass(frozen=True)
class Measured:
    value: Decimal
    confidence: float
    reason: str = "a number that was written as text"
    other: Decimal | None = None
    """The number in the field's own scale, which may be meant as well."""


def measured(amount: Amount, about: str) -> Measured:
    """What a number says for a field; `about` is its key with title and description."""
    read = _scaled(amount, about)
    wanted, code = field_unit(about), field_currency(about)
    if amount.unit:
        read = _in_unit(read, amount.unit, wanted)
    elif wanted and wanted != "%" and (amount.count or (amount.currency and not is_rate(about))):
        read = _unfit(read, f"{amount.count or amount.currency}, where {wanted} is asked for")
    if code and (
        amount.unit
        or (amount.count and not amount.currency)
        or (amount.currency and not _may_be(amount.currency, code))
    ):
        other = amount.currency or amount.unit or amount.count
        read = _unfit(read, f"an amount in {other}, where {code} is asked for")
    if amount.count in DOZENS and amount.count not in about.lower():
        read = _unfit(read, f"a number of {amount.count}, where single things may be counted")
    if amount.is_rate and not is_rate(about):
        read = _unfit(read, "an amount for each unit of something")
    if wanted and amount.scale and wanted != "%" and not (amount.unit or amount.count or amount.currency):
        read = _unfit(read, "a scale that may belong to a unit")
    if counts_pieces(about) and (amount.unit or amount.currency or amount.count in BUNDLES):
        read = _unfit(read, "a number of other things than the field counts")
    return read


def _scaled(amount: Amount, about: str) -> Measured:
    """Where the field counts in thousands, its numbers may be written in full."""
    power = field_power(about)
    if amount.scale and (power or any(word in about for word in ("万", "亿", "thousand", "million", "千元", "in k"))):
        return Measured(amount.value, 0.6, other=amount.value.scaleb(-(power or amount.scale)))
    if power and (amount.currency or amount.unit):
        return Measured(amount.value.scaleb(-power), 0.6, "the number in the field's own scale")
    return Measured(amount.value, amount.confidence)


def _in_unit(read: Measured, unit: str, wanted: str) -> Measured:
    if not wanted:
        return _unfit(read, "per mille, where no unit is asked for") if unit == "‰" else read
    found = converted(read.value, unit, wanted)
    if found is None:
        return _unfit(read, f"{unit}, where {wanted} is asked for")
    value, is_sure = found
    confidence = SAME_UNIT if read.confidence == AMBIGUOUS_UNIT else read.confidence
    if value == read.value:
        return replace(read, confidence=confidence)
    is_exact = value == round(value, 4)
    limit = 0.8 if is_exact and is_sure else 0.6
    return replace(read, value=value, confidence=min(confidence, limit), reason=f"{unit} in {wanted}")


def _unfit(read: Measured, reason: str) -> Measured:
    return replace(read, confidence=min(read.confidence, UNFIT), reason=reason)


def _may_be(currency: str, code: str) -> bool:
    """Whether the currency's sign may stand for the code."""
    return currency == code or (currency == "$" and code in _DOLLARS) or (currency == "¥" and code in _YUAN)
