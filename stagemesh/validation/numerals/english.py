"""English number words: twelve thousand, one hundred and five; and Roman numerals."""

from __future__ import annotations

import re

SMALL = {
    word: value
    for value, word in enumerate(
        (
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
        )
    )
}
TENS = {
    word: 10 * value
    for value, word in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2
    )
}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
WORDS = frozenset({*SMALL, *TENS, *SCALES, "hundred"})
MAX_WORDS = 40
_ROMAN = re.compile("M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1_000}


def english_number(text: str) -> int | None:
    """The number that words mean; None for what is none: `two one`, `hundred thousand two million`."""
    words = [word for word in re.split(r"[\s-]+", text.lower().replace(",", " ")) if word and word != "and"]
    if not words or len(words) > MAX_WORDS or not WORDS.issuperset(words):
        return None
    total, least = 0, 10**15
    group: list[str] = []
    for word in words:
        if word in SCALES:
            number = _below_1000(group or ["one"] if not total else group)
            if not number or SCALES[word] >= least:
                return None
            least = SCALES[word]
            total += number * least
            group = []
        else:
            group.append(word)
    if not group:
        return total
    rest = _below_1000(group)
    return None if rest is None or (total and rest == 0) else total + rest


def roman_number(text: str) -> int | None:
    """XIV → 14; None for what is no Roman numeral in its usual form."""
    if not text or not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_DIGITS[char] for char in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < after else value for value, after in pairs)


def _below_1000(words: list[str]) -> int | None:
    total = 0
    if "hundred" in words:
        at = words.index("hundred")
        hundreds = _below_100(words[:at] or ["one"])
        if not hundreds or hundreds % 10 == 0:
            return None
        total, words = 100 * hundreds, words[at + 1 :]
        if not words:
            return total
    rest = _below_100(words)
    return None if rest is None or (total and rest == 0) else total + rest


def _below_100(words: list[str]) -> int | None:
    match words:
        case [word] if word in SMALL:
            return SMALL[word]
        case [word] if word in TENS:
            return TENS[word]
        case [tens, one] if tens in TENS and 0 < SMALL.get(one, 0) < 10:
            return TENS[tens] + SMALL[one]
    return None
