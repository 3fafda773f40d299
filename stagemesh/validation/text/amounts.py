"""An amount in words equals the one in digits beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from stagemesh.validation.forms import form_of
from stagemesh.validation.numerals.chinese import DIGITS, NUMERALS, chinese_amount, chinese_number
from stagemesh.validation.numerals.english import WORDS, english_number
from stagemesh.validation.rules.numbers import plain
from stagemesh.validation.text.lines import MAX_FOUND, Line, issue_at
from stagemesh.validation.verdict import Issue

_D = "".join(DIGITS)
# A run of numerals is only looked at from its beginning, and never in parts, so that no text makes this quadratic.
_HAN = rf"(?P<words>(?<![{NUMERALS}])[{NUMERALS}]{{1,30}}+(?:元|圆|圓)(?:[{_D}]角)?(?:零?[{_D}]分)?[整正]?)"
_CURRENCY = r"(?:[¥￥$€£]|(?:RMB|CNY|USD|EUR|GBP|JPY|HKD|US\$|HK\$)\s?)"
_DIGIT = "[0-9０-９]"
_FRACTION = f"(?:[.．]{_DIGIT}{{1,4}})?"
_DIGITS = (
    rf"{_CURRENCY}?\s?"
    rf"(?P<digits>{_DIGIT}{{1,3}}(?:[,，]{_DIGIT}{{3}}){{1,6}}{_FRACTION}|{_DIGIT}{{1,18}}{_FRACTION})"
)
_UNIT = r"\s?(?P<unit>[万亿]?)(?:元|圆|人民币)?(?:整)?"
_LABEL = r"(?:(?:小写|大写|即|人民币|RMB|合计|金额)[:：]?\s?){0,3}"
_HAN_FIRST = re.compile(rf"{_HAN}\s{{0,3}}[(（]\s?{_LABEL}{_DIGITS}{_UNIT}\s?[)）]")
_HAN_SECOND = re.compile(rf"(?<![0-9０-９.,，]){_DIGITS}{_UNIT}\s{{0,3}}[(（]\s?{_LABEL}{_HAN}\s?[)）]")
_JOINT = r"[，,；;、\s]{0,3}[(（]?"
_HAN_LABELLED = re.compile(rf"{_HAN}{_JOINT}小写[)）]?[:：]?\s?{_DIGITS}{_UNIT}")
_DIGITS_LABELLED = re.compile(rf"小写[)）]?[:：]?\s?{_DIGITS}{_UNIT}{_JOINT}大写[)）]?[:：]?\s?(?:人民币)?{_HAN}")
_PERCENT = re.compile(
    rf"百分之(?P<words>[{NUMERALS}]{{1,10}}+)[(（]\s?(?P<digits>{_DIGIT}{{1,9}}{_FRACTION})\s?[%％]\s?[)）]"
)
_COUNT = re.compile(
    rf"(?<![第{NUMERALS}])(?P<words>[{NUMERALS}]{{1,12}}+)(?P<measure>[日天个年月周份次人件台套])?"
    rf"[(（]\s?(?P<digits>{_DIGIT}{{1,9}})\s?(?(measure)[日天个年月周份次人件台套]?|)[)）](?(measure)|\s?[日天个年月周份次人件台套])"
)
"""三十（30）日, 三十日（30日）"""
_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
_RUN = rf"\b(?:{_WORD})\b(?:(?:[\s-]|,\s?|\sand\s)(?:{_WORD})\b){{0,30}}+"
_WORDS = re.compile(_RUN, re.IGNORECASE)
_MONEY = (
    r"(?:\s(?:US|U\.S\.|Hong\sKong|dollars?|euros?|pounds?(?:\ssterling)?|yuan|renminbi|RMB|USD|EUR|GBP"
    r"|percent|per\scent|only)){0,4}"
)
_CENTS = rf"(?:,?\sand\s(?:(?P<cents>{_RUN})\scents?|(?P<hundredths>[0-9]{{1,2}})/100)(?:\s(?:US\s)?dollars?)?)?"
_CODE = r"(?:\s(?:USD|EUR|GBP|CNY|RMB))?"
_AFTER_WORDS = re.compile(rf"{_MONEY}{_CENTS}{_MONEY}\s?[(]\s?{_DIGITS}\s?%?{_CODE}\s?[)]", re.IGNORECASE)
_BEFORE_WORDS = re.compile(rf"(?<![\w.,]){_DIGITS}\s?%?{_CODE}\s?[(]\s?(?P<words>{_RUN})", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"{_MONEY}{_CENTS}{_MONEY}\s?[)]", re.IGNORECASE)
_HAS_PAIR = re.compile("[(（]|小写")
_SCALE = {"": 1, "万": 10**4, "亿": 10**8}


def amount_issues(lines: Sequence[Line], pointer: str) -> list[Issue]:
    found: list[Issue] = []
    for line in lines:
        if not _HAS_PAIR.search(line.text):
            continue
        for words, digits, said, written in _pairs(line.text):
            if said == written:
                continue
            message = f"{words!r} is {plain(said)}, but {digits!r} beside it is {plain(written)}; correct one of them"
            found.append(issue_at(pointer, "amount.words", line.number, message))
            if len(found) == MAX_FOUND:
                return found
    return found


def _pairs(text: str) -> Iterator[tuple[str, str, Decimal, Decimal]]:
    """Words and digits as they are written, and both as numbers."""
    for pattern in (_PERCENT, _COUNT):
        for match in pattern.finditer(text):
            number = chinese_number(match["words"])
            if number is not None:
                yield match["words"], match["digits"], Decimal(number), _written(match["digits"])
    for pattern in (_HAN_FIRST, _HAN_SECOND, _HAN_LABELLED, _DIGITS_LABELLED):
        for match in pattern.finditer(text):
            said = chinese_amount(match["words"])
            if said is not None:
                yield (
                    match["words"],
                    match["digits"] + match["unit"],
                    said,
                    _written(match["digits"]) * _SCALE[match["unit"]],
                )
    for run in _WORDS.finditer(text):
        if text[max(0, run.start() - 6) : run.start()].lower() == "point ":
            continue  # three point five
        if after := _AFTER_WORDS.match(text, run.end()):
            yield from _english_pair(run[0], after["digits"], after)
    for before in _BEFORE_WORDS.finditer(text):
        if inside := _IN_BRACKETS.match(text, before.end()):
            yield from _english_pair(before["words"], before["digits"], inside)


def _english_pair(words: str, digits: str, rest: re.Match[str]) -> Iterator[tuple[str, str, Decimal, Decimal]]:
    number, cents = english_number(words), _cents(rest)
    if number is not None and cents is not None:
        yield " ".join(words.split()), digits, Decimal(number) + cents, _written(digits)


def _cents(match: re.Match[str]) -> Decimal | None:
    if match["hundredths"]:
        return Decimal(match["hundredths"]) / 100
    if not match["cents"]:
        return Decimal(0)
    number = english_number(match["cents"])
    return None if number is None else Decimal(number) / 100


def _written(digits: str) -> Decimal:
    return Decimal(form_of(digits).replace(",", ""))
