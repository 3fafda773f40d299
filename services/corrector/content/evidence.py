"""Which mention of a source belongs to which field: where a value stands, and which words stand beside it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from services.corrector.content.asides import REMARK, is_denied, is_no_value, is_of_others, other_parts
from services.corrector.content.deeds import DEED, does
from services.corrector.content.fields import Field, Sort
from services.corrector.content.labels import is_generic, occurrences, telling
from services.corrector.content.mentions import Kind, Mention
from services.corrector.content.roles import Role, shows
from services.corrector.form.values import is_number
from services.corrector.proposals import ABSENT

MAX_GAP = 48
"""Between a word and what it speaks of."""
BREAK = 8
"""How much further a word counts for each comma or bracket between."""
AFTER = 6
"""How much further a word counts that stands behind what it speaks of, but for units."""
ROLE = 12
"""How far the look of a place counts as a word that speaks of it."""
UNIT = 14
COUNTED = frozenset("pcs pieces units boxes sets pairs packs cartons crates parcels items".split())  # noqa: SIM905
_COUNTED_BY = COUNTED | {"day", "days", "night", "nights", "hour", "hours", "小时", "个月", *"天晚件箱间人台个套年"}
MEASURES = tuple("个件台套箱盒份只支条双把张瓶袋包辆部块卷根")
MARGIN = 4
"""By how much the nearest must be nearer than the next."""
_SENTENCE = re.compile(r"[!?;\n。；！？]|\.(?=\s|$)")
_DIRECT = re.compile(
    r"(?:\s|[:：,，(（]|is\b|was\b|named\b|called\b|name\b|the\b|our\b|as\b|a\b|mr\b\.?|mrs\b\.?|ms\b\.?|dr\b\.?|"
    r"为|是|姓名|由|名){0,6}",
    re.IGNORECASE,
)
"""What may stand between a word and the name that it introduces."""
_INTRODUCED = re.compile(r"\s*(?:[(（]|,\s*(?:the|our|as|a)\b)", re.IGNORECASE)
"""What may stand between a name and the word that says afterwards what it is."""
_NUMBER_OF = re.compile(r"\s*(?:numbers?\b|no\b\.?|nr\b\.?|id\b|code\b|编号|号码|号)", re.IGNORECASE)
"""What makes a word a longer name of the same thing: tracking number."""
_PLAIN_NUMBER = re.compile(r"[\d.,]+")
_TOLD = r"(?:为|是|名为|[:：])\s*([\u4e00-\u9fff·]{2,20})(?=[，。；,;、\n）)]|$)"
RANGE = 8
"""How far an end of a stretch of time counts as a word for it."""
_BEGIN = re.compile(r"\b(?:start|begin|beginning|from|check ?in|effective|commence\w*|first day)\b|起|入住|开始|生效")
_FINISH = re.compile(r"\b(?:end|until|to|check ?out|expiry|expires|expiration|last day)\b|止|退房|到期|结束|届满|终止")
_JOINT = re.compile(r"\s*(?:(to|till?|until|through|and|-|–|—|~|至|到)|起至|起到|起,?至)\s*")
_FROM = re.compile(r"(?:\b(?:from|between|period|term|stay|dates?)\b|自|从|由|期|间|为)\s*[:：]?\s*$", re.IGNORECASE)
_MOVED = re.compile(
    r"\b(?:moved?|postponed|rescheduled|changed?|shifted|instead|brought forward|delayed)\b|"
    r"改|推迟|提前|调整|变更",
    re.IGNORECASE,
)
_DAY_END = re.compile(r"(?:日|\d{4}[-/]\d{1,2}[-/]\d{1,2})$")
_CLAUSE = re.compile(r"[,，、()（）]|\band\b|和|及")

Span = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A stretch of the source that may be a field's value."""

    span: Span
    value: Any


@dataclass
class Source:
    text: str
    """Folded."""
    mentions: list[Mention]
    lowered: str = field(init=False)
    _ends: list[int] = field(init=False)
    _other_parts: list[Span] = field(init=False)

    def __post_init__(self) -> None:
        self.lowered = "".join(low if len(low := char.lower()) == 1 else char for char in self.text)
        self._ends = [match.start() for match in _SENTENCE.finditer(self.text)]
        self._other_parts = list(other_parts(self.text))

    def stated(self, known: Field) -> list[Span]:
        """Where the source has the field's value."""
        if known.value is ABSENT or known.value is None or isinstance(known.value, bool):
            return []
        if known.sort in (Sort.NUMBER, Sort.DATE) or is_number(known.value):
            spans = [
                (m.start, m.end)
                for m in self.mentions
                if known.value_of(m) is not ABSENT and known.value_of(m) == known.value
            ]
        else:
            spans = self.find(str(known.value)) or self._grouped(known)
        return [span for span in spans if known.is_of_others or not self.is_aside(span)]

    def find(self, text: str) -> list[Span]:
        """Where a text stands, whatever its case and spaces, as whole words."""
        words = text.split()
        if not words or len(text) > 500:
            return []
        pattern = r"\s*".join(map(re.escape, words)) if not text.isascii() else r"\s+".join(map(re.escape, words))
        before = r"(?<![A-Za-z0-9])" if words[0][0].isascii() and words[0][0].isalnum() else ""
        after = r"(?![A-Za-z0-9])" if words[-1][-1].isascii() and words[-1][-1].isalnum() else ""
        return [match.span() for match in re.finditer(before + pattern + after, self.text, re.IGNORECASE)][:50]

    def _grouped(self, known: Field) -> list[Span]:
        """Where a code stands in groups: DE89 3704 0044."""
        bare = re.sub(r"[\s-]", "", str(known.value))
        if known.sort not in (Sort.CODE, Sort.PHONE) or not 6 <= len(bare) <= 64 or not bare.isalnum():
            return []
        pattern = r"[\s-]?".join(map(re.escape, bare))
        found = re.finditer(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])", self.text, re.IGNORECASE)
        return [match.span() for match in found][:50]

    def sentence(self, span: Span) -> Span:
        """The stretch between the sentence marks around a place."""
        at = bisect_left(self._ends, span[0])
        start = self._ends[at - 1] + 1 if at else 0
        after = bisect_left(self._ends, span[1])
        return start, self._ends[after] if after < len(self._ends) else len(self.text)

    def places(self, known: Field, others: Iterable[Field]) -> list[Place]:
        """All that could be the field's value: mentions that fit it, and for texts what other texts are."""
        found = [
            Place((m.start, m.end), value)
            for m in self.mentions
            if (value := known.value_of(m)) is not ABSENT
            and (known.is_of_others or not self.is_aside((m.start, m.end)))
        ]
        if known.sort in (Sort.CODE, Sort.PHONE):
            first = Kind.PHONE if known.sort is Sort.PHONE else Kind.CODE
            sure = {(m.start, m.end) for m in self.mentions if m.kind is first}
            found = [place for place in found if place.span in sure] or found
        if known.sort is Sort.TEXT:
            found = [place for place in found if not is_generic(str(place.value))]
            found += self._told(known)
            spans = {place.span for place in found}
            for other in (known, *others):
                if other.sort is Sort.TEXT and isinstance(other.value, str):
                    for span in self.stated(other):
                        if span not in spans and known.shape.accepts(other.value):
                            found = [p for p in found if p.span[1] <= span[0] or span[1] <= p.span[0]]
                            found.append(Place(span, other.value))
                            spans.add(span)
        return found

    def _told(self, known: Field) -> list[Place]:
        """Chinese texts that the source gives right behind the field's own words, up to a mark: 甲方为刘洋，"""
        own = "|".join(
            re.escape(label.word) for label in known.labels if not label.word.isascii() and not label.distance
        )
        if not own:
            return []
        return [
            Place(match.span(1), match[1])
            for match in re.finditer(f"(?:{own}){_TOLD}", self.text)
            if known.shape.accepts(match[1]) and not self.is_aside(match.span(1))
        ]

    def gap(self, word: Span, place: Span, *, direct: bool = False) -> int | None:
        """How far a word stands from a place; None if they are of different sentences, too far apart, or overlap.

        `direct`: nothing may stand between them but what introduces a name.
        """
        if word[0] < place[1] and place[0] < word[1]:
            return None
        is_after = word > place
        first, second = sorted((word, place))
        between = self.text[first[1] : second[0]]
        if direct and (not _DIRECT.fullmatch(between) or (is_after and not _INTRODUCED.match(between))):
            return None
        if len(between) > MAX_GAP or any(first[1] <= end < second[0] for end in self._near(first[1], second[0])):
            return None
        named = None if is_after else _NUMBER_OF.match(between)
        distance = len(between[named.end() if named else 0 :].strip())
        if not direct:
            distance += BREAK * len(_CLAUSE.findall(between))
        is_unit = is_after and distance <= 2 and re.fullmatch(r"[\d.,]+", self.text[slice(*place)]) is not None
        is_told = is_after and not between and _DAY_END.search(self.text[slice(*place)]) is not None  # 3月4日到货
        return distance + (AFTER if is_after and not direct and not is_unit and not is_told else 0)

    def is_aside(self, span: Span) -> bool:
        """Whether the source speaks of an earlier, other or denied matter there."""
        before = _SENTENCE.split(self.text[max(0, span[0] - REMARK) : span[0]])[-1]
        if self.is_in_other_part(span) or is_of_others(before):
            return True
        if not _PLAIN_NUMBER.fullmatch(self.text, *span) and is_denied(self.text[span[1] : self.sentence(span)[1]]):
            return True
        return self.text[span[0]].isdigit() and is_no_value(before)

    def is_in_other_part(self, span: Span) -> bool:
        """Whether a heading above it says that what follows is of something earlier or other."""
        return any(start <= span[0] < end for start, end in self._other_parts)

    def shows(self, role: Role, span: Span) -> bool:
        """Whether what stands there looks like a thing of that role."""
        start, end = span
        return shows(role, self.text[start:end], self.text[max(0, start - 16) : start], self.text[end : end + 16])

    def around(self, span: Span, reach: int = REMARK) -> tuple[str, str]:
        """What stands before and after a place in its sentence."""
        start, end = self.sentence(span)
        return self.text[max(start, span[0] - reach) : span[0]], self.text[span[1] : min(end, span[1] + reach)]

    def _near(self, start: int, end: int) -> Sequence[int]:
        return self._ends[bisect_left(self._ends, start) : bisect_left(self._ends, end)]


Near = dict[Span, tuple[int, bool]]
"""Place → how far it is from the field, and whether only its look says so."""


@dataclass(frozen=True)
class Link:
    place: Place
    gap: int
    by_words: bool
    """Words of the field stand there; else it is only what the place looks like."""


def links(source: Source, wanted: Sequence[Field], places: dict[Field, list[Place]]) -> dict[Field, Link]:
    """Fields with the one place that their words point to, where nothing else points there as clearly.

    The clearest are found first; then what is left is looked at without them. Present values play no part in it.
    """
    gaps = _gaps(source, wanted, places)
    linked: dict[Field, Link] = {}
    while new := _clear(gaps, places):
        linked.update(new)
        spans = {link.place.span for link in new.values()}
        gaps = {
            known: {span: gap for span, gap in near.items() if span not in spans}
            for known, near in gaps.items()
            if known not in linked
        }
    return linked


def _gaps(source: Source, wanted: Sequence[Field], places: dict[Field, list[Place]]) -> dict[Field, Near]:
    own_labels = telling([known.labels for known in wanted])
    gaps: dict[Field, Near] = {}
    for known, own in zip(wanted, own_labels, strict=True):
        words = occurrences(own, source.lowered)
        near: Near = {}
        for place in places[known]:
            direct = known.sort is Sort.TEXT
            found = [
                gap + distance
                for start, end, distance in words
                if not _only_counts(known, source, (start, end), place.span)
                if (gap := source.gap((start, end), place.span, direct=direct)) is not None
            ]
            looks = _looks(source, known, place.span)
            if known.sort is Sort.TEXT and does(known.labels, *source.around(place.span)):
                found.append(DEED)
            if found or looks:
                near[place.span] = (min([*found, *looks]), not found or min(found) > min([*found, *looks]))
        gaps[known] = near
    for known, span in _stretch(source, wanted).items():
        if span in {place.span for place in places[known]} and all(gap >= RANGE for gap, _ in gaps[known].values()):
            gaps[known][span] = (RANGE, False)
    return gaps


def _stretch(source: Source, wanted: Sequence[Field]) -> dict[Field, Span]:
    """Where the source tells of one stretch of time, `from … to …`: its ends, by field."""
    days = [known for known in wanted if known.sort is Sort.DATE]
    first = [known for known in days if any(map(_BEGIN.search, known.heads))]
    last = [known for known in days if any(map(_FINISH.search, known.heads))]
    if len(first) != 1 or len(last) != 1 or first == last:
        return {}
    told = [m for m in source.mentions if m.kind is Kind.DATE]
    found = []
    for one, other in pairwise(told):
        before, between = source.text[max(0, one.start - 12) : one.start], source.text[one.end : other.start]
        joint = _JOINT.fullmatch(between)
        if joint is None or (joint[1] and not _FROM.search(before)) or source.is_aside((one.start, one.end)):
            continue
        start, end = source.sentence((one.start, other.end))
        if _MOVED.search(source.text[start:end]):
            return {}
        found.append((one, other))
    if len(found) != 1 or found[0][0].date > found[0][1].date:
        return {}
    [(one, other)] = found
    return {first[0]: (one.start, one.end), last[0]: (other.start, other.end)}


def _only_counts(known: Field, source: Source, word: Span, place: Span) -> bool:
    """Whether a word behind a number only says what is counted, and is not the field's own: 5 days, 12件."""
    said = source.lowered[slice(*word)]
    is_counted = known.sort is Sort.NUMBER and said in _COUNTED_BY and 0 <= word[0] - place[1] <= 1
    return is_counted and said not in known.about.split()


def _looks(source: Source, known: Field, span: Span) -> list[int]:
    """How far the place counts by what it looks like: its unit, or what stands around it."""
    if known.role is not None and source.shows(known.role, span):
        return [ROLE]
    if known.sort is Sort.NUMBER:
        number = next((m for m in source.mentions if m.kind is Kind.NUMBER and (m.start, m.end) == span), None)
        if number is not None and _is_unit_of(known, number):
            return [UNIT]
    return []


def _is_unit_of(known: Field, number: Mention) -> bool:
    """Whether a number's unit or currency is what the field's name asks for."""
    if known.unit:
        return number.unit == known.unit
    if known.counts:
        return number.unit[:1] in MEASURES or number.unit in COUNTED
    return known.is_money and bool(number.currency)


def _clear(gaps: dict[Field, Near], places: dict[Field, list[Place]]) -> dict[Field, Link]:
    clear: dict[Field, Link] = {}
    for known, near in gaps.items():
        values = {place.span: place.value for place in places[known]}
        best = _clear_minimum(near, values)
        if best is None:
            continue
        gap, is_look = near[best]
        rivals = [other[best][0] for field, other in gaps.items() if field is not known and best in other]
        if not rivals or min(rivals) >= gap + MARGIN:
            clear[known] = Link(Place(best, values[best]), gap, by_words=not is_look)
    return clear


def _clear_minimum(gaps: Near, values: dict[Span, Any]) -> Span | None:
    """The span with the smallest gap, where every other with another value is clearly farther."""
    if not gaps:
        return None
    best = min(gaps, key=lambda span: gaps[span])
    others = [gap for span, (gap, _) in gaps.items() if values[span] != values[best]]
    return best if not others or min(others) >= gaps[best][0] + MARGIN else None
