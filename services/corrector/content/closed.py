"""Choices and truth values, which a source tells in words of its own."""

from __future__ import annotations

import re
from bisect import bisect_right

from services.corrector.content.evidence import Source
from services.corrector.content.fields import Field
from services.corrector.content.judgement import LIKELY, SURE, Judgement
from services.corrector.content.labels import SAME, occurrences
from services.corrector.form.units import CURRENCIES
from services.corrector.proposals import ABSENT, Proposal

_CLAUSE = re.compile(r"[,.;!?，。；！？\n]|\bbut\b|但")
_NEGATED = re.compile(
    r"\b(?:not|no|non|without|never|neither|nor|none|false|cannot|outstanding|unpaid|overdue|pending|forbidden|"
    r"prohibited|excluded|excluding|refused|denied|un\w+able)\b|n't\b|\bnon-|不|未|无|没|非|否|免|禁止|拒绝",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:whether|if|unless|only|except|provided|maybe|perhaps|may be|might|unclear|unknown|unsure)\b|是否|可能|"
    r"如果|若|仅|只|除非|除了|但|不确定|待定|\?|？",
    re.IGNORECASE,
)


_ANSWER = re.compile(r"\s*[:：]\s*(yes|true|y|no|false|n|是|有|否|无)\s*(?:[,.;，。；\n]|$)", re.IGNORECASE)
"""Behind the label of a form."""
_YES = frozenset({"yes", "true", "y", "是", "有"})


def judge_choice(known: Field, source: Source, found: Judgement) -> None:
    options = [option for option in known.shape.enum or () if isinstance(option, str) and option]
    told = [option for option in options if _tells(source, option)]
    if known.value is None or told == [known.value]:
        found.confirm(known)
    elif known.value in told:
        found.doubt(known.pointer, "the source has several of the choices")
    elif len(told) == 1:
        is_word = told[0].islower() and told[0].isascii() and len(told[0]) < 5
        found.proposals.append(
            Proposal(
                pointer=known.pointer,
                value=told[0],
                reason="the only choice that the source names",
                confidence=LIKELY if is_word else SURE,
            )
        )
    else:
        found.doubt(known.pointer, "the source names no choice" if not told else "the source names several choices")


def _tells(source: Source, option: str) -> bool:
    if source.find(option) or source.find(option.replace("_", " ").replace("-", " ")):
        return True
    return any(m.currency and CURRENCIES.get(m.currency.lower()) == option for m in source.mentions)


def judge_boolean(known: Field, source: Source, found: Judgement) -> None:
    told = _told_truths(known, source)
    if len(told) != 1 or None in told:
        found.doubt(known.pointer, "the source does not say clearly whether it holds")
    elif known.value in told:
        found.confirm(known)
    elif known.value is ABSENT:
        [holds] = told
        reason = "the source seems to say so"
        found.proposals.append(Proposal(pointer=known.pointer, value=holds, reason=reason, confidence=SURE))
    else:
        found.doubt(known.pointer, "the source seems to say the opposite")


def _told_truths(known: Field, source: Source) -> set[bool | None]:
    """What the clauses that have the field's own words say of it; None among them where one leaves it open."""
    own = [label for label in known.labels if label.distance <= SAME]
    ends = [0, *(match.end() for match in _CLAUSE.finditer(source.text)), len(source.text) + 1]
    told: set[bool | None] = set()
    for start, end, _ in occurrences(own, source.lowered):
        at = bisect_right(ends, start)
        clause = source.text[ends[at - 1] : max(ends[at], end)]
        if (said := _ANSWER.match(source.text, end)) is not None:
            told.add(said[1].lower() in _YES)
            continue
        told.add(None if _UNSURE.search(clause) else not _NEGATED.search(clause))
    return told
