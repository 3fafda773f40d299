"""The unit, the currency and the scale that a field's name asks for: `length_m`, 价格_元, `amount_keur`."""

from __future__ import annotations

import re

from services.corrector.form.units import CURRENCIES, PIECES, currency_in, dimension_of, unit_in

_LETTER = re.compile(r"(?:[a-z0-9)]_|[a-z](?=[A-Z]))(in|[a-zA-Z])(?=\s|$)|[(\[（](in|[a-zA-Z])[)\]）]|\bin ([a-z])$")
"""A unit of one letter, and the inch: only at the end of a name or in brackets, since else it is a word."""
_HAN = re.compile(r"(?:^|[\s_(（\[])([\u4e00-\u9fff])(?=$|[\s)）\]])")
_SPEED = re.compile(r"speed|velocity|wind|速", re.IGNORECASE)
_TEMPERATURE = re.compile(r"temp|温", re.IGNORECASE)
_DEGREES = {"c": "°c", "f": "°f", "k": "kelvin", "celsius": "°c", "fahrenheit": "°f", "度": "°c"}
_SCALED = re.compile(r"(?:(k|t|m|mn|mio|bn)(eur|usd|gbp|cny|rmb|chf|jpy|hkd)|(eur|usd|gbp|cny|rmb|chf)(k|m|mn|bn))")
_POWERS = {
    **dict.fromkeys(("k", "t", "thousand", "thousands"), 3),
    **dict.fromkeys(("m", "mn", "mio", "million", "millions"), 6),
    **dict.fromkeys(("bn", "billion", "billions"), 9),
}
_HAN_POWERS = {"千": 3, "万": 4, "十万": 5, "百万": 6, "千万": 7, "亿": 8}
_HAN_SCALE = re.compile(r"(百万|千万|十万|[千万亿])(?:美|欧|港|日)?(?:元|$|[\s)）])")
_RATE = re.compile(
    r"per|price|rate|cost|fee|rent|salary|wage|monthly|yearly|annual|/|单价|价格|费|租|薪|工资|月|年", re.IGNORECASE
)


def field_unit(about: str) -> str:
    """The unit of physical things that a field asks for; empty if it does not speak of one."""
    name = about.split(" ")[0]
    letter = _LETTER.search(name) or _LETTER.search(about)
    unit = next((group for group in letter.groups() if group), "").lower() if letter else ""
    han = _HAN.findall(about)
    unit = unit if dimension_of(unit) or unit in _DEGREES else next((word for word in han if dimension_of(word)), "")
    if _TEMPERATURE.search(name) and (degrees := _degrees(about, unit)):
        return degrees
    unit = unit if dimension_of(unit) else unit_in(re.sub(r"\bin\b", " ", about.replace("_", " ")))
    return "m/s" if unit == "ms" and _SPEED.search(name) else unit


def _degrees(about: str, unit: str) -> str:
    found = re.search(r"celsius|fahrenheit|kelvin|°[cf]", about.lower())
    return _DEGREES.get(found[0], found[0]) if found else _DEGREES.get(unit, "")


def field_currency(about: str) -> str:
    """The code of the currency that a field asks for."""
    words = re.split(r"[\s_()（）\[\]]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", about).lower())
    for word in words:
        if scaled := _SCALED.fullmatch(word):
            return CURRENCIES[scaled[2] or scaled[3]]
        if re.fullmatch(r"(?:十|百|千)?[万亿千](美元|欧元|港元|日元|元)", word):
            return CURRENCIES[re.sub(r"^[十百千万亿]+", "", word)]
    han = [word for word in words if word in ("元", "块", "圆", "円")]
    return currency_in(about) or (CURRENCIES[han[0]] if han else "")


def field_power(about: str) -> int:
    """The power of ten in which a field counts: 3 for `amount_keur` and `amount_thousands`, 4 for 金额_万元."""
    words = re.split(r"[\s_()（）\[\]]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", about).lower())
    for word in words:
        if scaled := _SCALED.fullmatch(word):
            return _POWERS[scaled[1] or scaled[4]]
        if len(word) > 1 and word in _POWERS:
            return _POWERS[word]
    han = _HAN_SCALE.search(about)
    return _HAN_POWERS[han[1]] if han else 0


def is_rate(about: str) -> bool:
    """Whether a field may ask for an amount of money for each unit: `price_per_kg`."""
    return _RATE.search(about) is not None


def counts_pieces(about: str) -> bool:
    """Whether a field's name says that single things are counted."""
    words = re.split(r"[\s_()（）\[\]]+", about.split(" ")[0].lower())
    return not PIECES.isdisjoint(words) and not is_rate(about)
