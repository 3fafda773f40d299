"""What is said of a value beside its name and makes it another one: of a year, without tax, in dollars, of a deputy."""

from __future__ import annotations

import re
from decimal import Decimal

from services.corrector.content.evidence import Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.mentions import Kind, Mention
from services.corrector.content.roles import Role
from services.corrector.form.units import CURRENCIES, currency_in
from services.corrector.form.values import is_number

REACH = 48
_MARK = re.compile(r"[,，;；]")
_PERIODS = (
    re.compile(r"\b(?:annual|yearly|per year|a year|per annum|p\.a)\b|年薪|每年|年租|年费|/年", re.I),
    re.compile(r"\b(?:monthly|per month|a month)\b|月薪|每月|月租|月费|月工资|/月", re.I),
    re.compile(r"\b(?:weekly|per week|a week)\b|周薪|每周", re.I),
    re.compile(r"\b(?:daily|per day|a day|per night|a night)\b|日薪|每[天日晚]", re.I),
    re.compile(r"\b(?:hourly|per hour|an hour)\b|时薪|每小时", re.I),
)
_TAXES = (
    re.compile(r"\b(?:without|excl\w*\.?|before|plus|ex)\s(?:vat|tax)\b|\bnet\b|不含税|税前|未税|除税", re.I),
    re.compile(r"\b(?:with|incl\w*\.?|including)\s(?:vat|tax)\b|\bgross\b|(?<!不)含税|价税合计|税后", re.I),
)
_RANK = re.compile(
    r"\b(?:deputy|vice|assistant|acting|candidates?|interim|trainee)\b|副|助理|代理(?!人)|候选|见习", re.I
)
_NEGATED = re.compile(r"(?:\bnot (?:on|in|at|by)|\bnever on|不在|不于|不是|并非)\s*$", re.I)
_BETWEEN = re.compile(r"\b(?:between|no earlier than|not before)\b[^.;]{0,40}$|不早于|最早", re.I)
_ENDS_OF_TIME = re.compile(r"start|begin|from|end|until|period|check|expir|起|止|始|终|到期|结束")
_EACH = re.compile(
    r"\s?(?:each|apiece|per\b|a piece|/\s?(?:pc|unit|个|件|台))|\s?[A-Za-z$€]{1,5} (?:each|apiece|per\b)", re.I
)
_SUM = re.compile(r"total|sum\b|gross|net\b|合计|总")
_PERCENT = re.compile(r"%|percent|pct|百分")


def is_otherwise_qualified(known: Field, span: Span, source: Source, *, is_filled: bool) -> bool:
    """Whether what is said around a place makes it a value of another kind than the field's.

    `is_filled`: an earlier step took the present value from the source.
    """
    before, after = source.around(span, REACH)
    clause = f"{_MARK.split(before)[-1]} {_MARK.split(after)[0]}"
    about = known.about
    if any(_is_other_of(group, about, clause) for group in (_PERIODS, _TAXES)):
        return True
    if known.role is not Role.ADDRESS and known.sort is Sort.TEXT and _RANK.search(before) and not _RANK.search(about):
        return True
    if source.text[source.sentence(span)[1] :][:1] in ("?", "？") or _is_quoted(source.text, span[0]):
        return True
    if known.sort is Sort.DATE:
        return bool(_NEGATED.search(before)) or bool(_BETWEEN.search(before) and not _ENDS_OF_TIME.search(about))
    number = next((m for m in source.mentions if m.kind is Kind.NUMBER and (m.start, m.end) == span), None)
    return known.sort is Sort.NUMBER and number is not None and _is_other_number(known, number, after, is_filled)


def _is_other_of(group: tuple[re.Pattern[str], ...], about: str, clause: str) -> bool:
    """Whether the field is of one of several kinds, and the clause of others only."""
    own = [pattern for pattern in group if pattern.search(about)]
    said = [pattern for pattern in group if pattern.search(clause)]
    return bool(own and said) and not any(pattern in own for pattern in said)


def _is_other_number(known: Field, number: Mention, after: str, is_filled: bool) -> bool:
    wanted, its = currency_in(known.name), CURRENCIES.get(number.currency.lower(), "")
    if wanted.isalpha() and its.isalpha() and wanted != its:
        return True
    if number.unit == "%" and number.number and not _PERCENT.search(known.about):  # 4.5 or 0.045
        present = Decimal(str(known.value)) if is_number(known.value) and not is_filled else Decimal(0)
        return not 0.1 < present / number.number < 10
    return bool(_SUM.search(known.about) and _EACH.match(after))


def _is_quoted(text: str, at: int) -> bool:
    """Whether the line answers, and so repeats, an earlier message."""
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith(">")
