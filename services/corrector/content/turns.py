"""Where a source tells that a value was changed, struck out or corrected: which of its values holds is not read."""

from __future__ import annotations

import re

from services.corrector.content.evidence import Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.roles import Role
from services.corrector.proposals import ABSENT

REACH = 80
"""How far from a place the words of a change are looked for, within its sentence."""
_CHANGE = re.compile(
    r"\b(?:mov(?:es?|ed|ing) (?:from|forward|back|up)|slip(?:s|ped)? (?:from|to|by)|became|(?:has|have|had) become|"
    r"becomes?\b(?! (?:effective|due|payable|valid|void|binding|available|final))|"
    r"t(?:ook|akes?|aken|aking) over|hand(?:s|ed)? over to|step(?:s|ped)? (?:down|in)\b|(?:fills?|stands?) in\b|"
    r"succeed(?:s|ed)?|in place of|supersed\w+|replac(?:es|ing)|replaced (?:by|with)|no longer|"
    r"switch(?:es|ed)? (?:from|to|over)|chang(?:es?|ed|ing) (?:from|to)|(?:amended|revised|corrected|adjusted) to|"
    r"(?:gone|went|goes|go|come|came) (?:up|down)|(?:raised|lowered|reduced|increased|cut|rose|risen|fell|dropped|"
    r"extended|shortened) (?:from|to|until)|postponed|rescheduled|brought forward|pushed (?:back|to|out)|"
    r"delayed (?:to|until)|put (?:off|back)|once\b[^.;]{0,60}\b(?:now|has|have)|is now|are now)\b|"
    r"[改换变调延推升降涨减转挪移](?:更|整|迟|期|后|前|换|动|高|低|价)?[到至为成给]|改[由期在用]|换[了人]|更[正改换名]|变更|"
    r"[延推]迟|延期|顺延|提前[到至了]|本来|原[本先定为是](?!材|料)|原计划|后来|最终(?:定|确定|改|为)|最后(?:定|改)|[暂初]定|"
    r"接[任替手]|[代取替顶]替|取代|替换|不再|作废|失效|交接给|离职",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:correction|corrigendum|errat(?:um|a)|i (?:meant|mean)|make (?:that|it)|scratch that|no,? wait|sorry,|"
    r"actually,|oops|my mistake|should (?:read|be|say|have been)|(?:edit|edited|update|amendment)\s*:|rather,|"
    r"(?:is|was|were) wrong|wrong(?:ly)? (?:stated|given|entered|date|number|name|address|amount|value)|mistake|"
    r"typo|in error)|更正|勘误|订正|应为|应是|应该是|写错|有误|错了|说错|笔误|抱歉[,，]|哦不|更新[:：]",
    re.IGNORECASE,
)
_ARROW = r"(?:→|⇒|➔|➜|-{1,2}>|=>)"
_ARROW_BEFORE = re.compile(rf"{_ARROW}\s*(?:[A-Z]{{3}}|US\$|[$€£¥])?\s*$")
_ARROW_AFTER = re.compile(rf"\s*[\w%$€]{{0,4}}\s*{_ARROW}")
_STRUCK = re.compile(r"~~[^~\n]+~~\W{0,4}|<(?:s|del|strike)>.*?</(?:s|del|strike)>\W{0,4}")
_ON_THE_WAY = frozenset({Role.ORIGIN, Role.DESTINATION, Role.PLACE})


def tells_change(known: Field, span: Span, source: Source) -> bool:
    """Whether the source says beside a place that what stands there took another's place, or was replaced."""
    before, after = source.around(span, REACH)
    told = source.text[slice(*span)]
    if _CHANGE.search(f"{before} {after}") or _CHANGE.search(told) or re.search(_ARROW, told):
        return True
    if known.role not in _ON_THE_WAY and (_ARROW_BEFORE.search(before) or _ARROW_AFTER.match(after)):
        return True
    if any(struck.start() <= span[1] and span[0] <= struck.end() for struck in _STRUCK.finditer(source.text)):
        return True
    return any(_is_corrected(known, marker, source) for marker in _CORRECTION.finditer(source.text))


def _is_corrected(known: Field, marker: re.Match[str], source: Source) -> bool:
    """Whether something that could be the field's value stands behind a word that announces a correction."""
    end = source.sentence(marker.span())[1]
    if not source.text[marker.end() : end].strip(" :："):
        end = source.sentence((end + 1, end + 1))[1]
    if known.sort is Sort.TEXT:
        return True
    return any(marker.end() <= m.start < end and known.value_of(m) is not ABSENT for m in source.mentions)
