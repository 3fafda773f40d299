"""Choices and truth values, which a source tells in words of its own."""

from __future__ import annotations

import re

from services.corrector.content.asserted import asserted, told_as_choice
from services.corrector.content.evidence import Source
from services.corrector.content.fields import Field
from services.corrector.content.judgement import LIKELY, SURE, Judgement
from services.corrector.content.labels import SAME, occurrences
from services.corrector.content.lines import own_lines
from services.corrector.form.units import CURRENCIES
from services.corrector.proposals import ABSENT, Proposal

_STATE = re.compile(
    r"(?:ed|paid|sent|open|done|active|ready|pending|en)$|[已未待]|^(?:通过|合格|不合格|完成|取消|批准|拒绝|同意)$",
    re.IGNORECASE,
)
"""A choice that says what has become of something."""
_CURRENCY = re.compile(r"euros?|dollars?|us dollars|pounds|yen|美元|欧元|英镑|日元|人民币")


def judge_choice(known: Field, source: Source, found: Judgement) -> None:
    options = [option for option in known.shape.enum or () if isinstance(option, str) and option]
    said = _under_own_label(known, options, source)
    tellings = {option: _tellings(known, source, option) for option in options} if said is None else {said: {True}}
    told = [option for option, each in tellings.items() if True in each]
    is_open = any(each - {True, False} for each in tellings.values())
    if known.value is None or told == [known.value]:
        found.confirm(known)
    elif known.value in told:
        found.doubt(known.pointer, "the source has several of the choices")
    elif len(told) == 1 and not is_open:
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


def _under_own_label(known: Field, options: list[str], source: Source) -> str | None:
    """The choice that a form states under the field's own label."""
    line = own_lines([known], source).get(known)
    text = source.text[slice(*line.span)].strip(" .").casefold() if line else ""
    return next((option for option in options if text and text in _wordings(option)), None)


def _wordings(option: str) -> set[str]:
    return {option.casefold(), option.replace("_", " ").replace("-", " ").casefold()}


def _tellings(known: Field, source: Source, option: str) -> set[bool | None]:
    """What each place that has a choice says of it."""
    is_state = _STATE.search(option) is not None
    spans = {span for wording in _wordings(option) for span in source.find(wording)}
    told = {told_as_choice(source, span, known.labels, is_state=is_state) for span in spans}
    if any(CURRENCIES.get(word) == option for word in _CURRENCY.findall(source.lowered)):
        told.add(True)
    if any(m.currency and CURRENCIES.get(m.currency.lower()) == option for m in source.mentions):
        told.add(True)
    return told


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
    """What the places that have the field's own words say of it; None among them where one leaves it open."""
    own = [label for label in known.labels if label.distance <= SAME]
    return {asserted(source, (start, end)) for start, end, _ in occurrences(own, source.lowered)}
