"""Where a source cannot be read plainly: it tells of changes or proposals, or says numbers in forms not read here."""

from __future__ import annotations

import re
from decimal import Decimal

from services.corrector.content.evidence import Place, Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.labels import occurrences
from services.corrector.content.mentions import Kind
from services.corrector.form.units import dimension_of
from services.corrector.form.values import is_number

_CHANGE = re.compile(
    r"\bwas\b[^.;]{0,80}\bnow\b|\bnow\b|\b(?:raised|increased?|reduced|lowered|cut|changed?|changes|amended|"
    r"revised|corrected|"
    r"replaced?s?|instead|no longer|previously|formerly|used to|updated?|moved|postponed|rescheduled|brought "
    r"forward)\b|"
    r"\(previous|(?:涨|降|升|调整|改|变更|更正|下调|上调|推迟|提前)(?:到|至|为)|原[^。；]{0,24}(?:现|改|请)|离职|"
    r"取代|不再|改由",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\bfrom\b[^.;]{0,40}\bto\b|(?:由|从)[^。；]{0,24}(?:到|至|为)", re.IGNORECASE)
_PROPOSAL = re.compile(
    r"\b(?:propos\w+|suggest\w+|counter-?offer\w*|initial(?:ly)?|originally|first offer|demand\w*|agreed on|"
    r"settled on)\b"
    r"|提议|还价|起初|最初|建议[^。]{0,12}\d",
    re.IGNORECASE,
)
_UNREAD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    r"eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|dozen|dozens|half|"
    r"quarter|"
    r"third|both|couple|several|twice|double|triple)\b|"
    r"[一二两三四五六七八九十百千半双俩](?=[个天周月年人名位件次台张份成折倍岁层间])|百分之",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"change|growth|delta|profit|margin|变化|增长|增幅|利润|变动", re.IGNORECASE)
_FALL = re.compile(
    r"\b(?:fell|fall|falls|down|decreas\w+|declin\w+|loss|losses|lost|minus|negative|drop\w*)\b|下降|减少|亏损|跌|负",
    re.IGNORECASE,
)


def is_contested(known: Field, places: list[Place], source: Source) -> bool:
    """Whether the source tells of more than one value of the field: old and new, proposed and decided."""
    distinct = {str(place.value) for place in places}
    if len(distinct) < 2:
        return False
    if known.sort is Sort.NUMBER and _PROPOSAL.search(source.text):
        return True
    for place in places:
        start, end = source.sentence(place.span)
        here = {str(other.value) for other in places if start <= other.span[0] < end}
        if len(here) > 1 and _tells_change(known, source.text[start:end]):
            return True
    return False


def _tells_change(known: Field, sentence: str) -> bool:
    return bool(_CHANGE.search(sentence) or (known.sort is Sort.NUMBER and _SPAN.search(sentence)))


def can_be_read(known: Field, place: Place, source: Source) -> bool:
    """Whether nothing beside the field's words says its value in a form that is not read here.

    All of its words must stand in the sentence of the place, and that must have no numbers in words and none of another
    unit of the same kind; a code must look like the one that stands in its place now.
    """
    is_free_code = known.sort is Sort.CODE and isinstance(known.value, str) and "pattern" not in known.shape.keywords
    if is_free_code and shape(str(known.value)) != shape(str(place.value)):
        return False
    start, end = source.sentence(place.span)
    own = [label for label in known.labels if not label.distance]
    said = [(at, after) for at, after, _ in occurrences(own, source.lowered) if not source.is_aside((at, after))]
    if not all(start <= at < end for at, _ in said):
        return False
    if not is_plain(known, (start, end), source):
        return False
    if is_number(known.value) and (known.value < 0 or _FALL.search(source.text[start:end])):
        return Decimal(str(known.value)).copy_abs() != Decimal(str(place.value)).copy_abs()
    return True


def is_plain(known: Field, stretch: Span, source: Source) -> bool:
    """Whether numbers in the stretch, and near the field's own words, are read in one sure way and in the field's unit,
    and tell no fall where the field is about a change."""
    if known.sort is not Sort.NUMBER:
        return True
    own = [label for label in known.labels if not label.distance]
    said = [(at, end) for at, end, _ in occurrences(own, source.lowered)]
    near = [source.sentence(word) for word in said if not source.is_aside(word)]
    texts = [source.text[start:end] for start, end in (stretch, *near)]
    if any(start <= m.start < end for m in source.mentions if m.is_unread for start, end in (stretch, *near)):
        return False
    if any(map(_UNREAD.search, texts)) or _has_other_unit(known, source, stretch):
        return False
    return not (_CHANGES.search(known.name) and any(map(_FALL.search, texts)))


def _has_other_unit(known: Field, source: Source, sentence: Span) -> bool:
    mine = dimension_of(known.unit)
    if mine is None:
        return False
    units = (m.unit for m in source.mentions if m.kind is Kind.NUMBER and sentence[0] <= m.start < sentence[1])
    return any((its := dimension_of(unit)) is not None and its[0] == mine[0] and its != mine for unit in units)


def shape(code: str) -> str:
    """A code with 9 for each digit and A for each letter."""
    return re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", code))
