"""What of a source could be the value of a field: mentions of its type, and texts that may be names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from services.corrector.content.asides import REMARK
from services.corrector.content.endings import extensions, is_whole
from services.corrector.content.evidence import Place, Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.roles import Role
from services.corrector.form.names import SURNAMES
from services.corrector.ranking.question import key_of

MAX_PLACES = 40
"""Of one field that are looked at."""
_MARK = r"[，。；！？,;!?|（）()\n]"
_LABELLED = re.compile(rf"[:：|]\s*([^\s:：，。；,;|（）()][^:：，。；,;|（）()\n]{{1,39}}?)\s*(?={_MARK}|\.\s|\.?$)")
"""What stands behind a colon, up to a mark."""
_COMPANY = re.compile(
    r"[\u4e00-\u9fff]{2,20}?(?:有限责任公司|股份有限公司|有限公司|分公司|公司|集团|银行|事务所|研究院|研究所|中心|厂)"
)
_PERSON = re.compile(r"[\u4e00-\u9fff]{2,4}")
_BEFORE = frozenset("由与和向为是给对将于及的在从自把被让请经归系属即称商方户位人员师理任者址")
"""Characters after which a Chinese name may begin."""
_ADDRESS = re.compile(
    r"\d{1,5} (?:[A-Z][\w'’-]+ ){1,3}[A-Z]?[\w'’-]+(?:, [A-Z][\w'’-]+){0,2}|"
    r"[\u4e00-\u9fff]{2,8}?[市省区县](?:[\u4e00-\u9fff]{1,12}\d{1,5}){1,2}[\u4e00-\u9fff]{0,4}(?:\d{1,5}[\u4e00-\u9fff]{1,2})?"
)
_ADDRESS_NAME = re.compile(r"address|place|ship_?to|deliver_?to|location|venue|residence|property|地址|地点|住址|处$")
_CITY = re.compile(r"(?:从|自|至|到|往|在|于|地)[:：为是]?([\u4e00-\u9fff]{2,4})")
_EXPECTED = re.compile(r"\b(?:expected|estimated|planned)\b|预计|估计", re.IGNORECASE)
_HAN = re.compile(r"[\u4e00-\u9fff]")


class Everything(Source):
    """A source of which nothing is left aside: whether it speaks of another matter somewhere is the model's to say."""

    def is_aside(self, span: Span) -> bool:
        return False

    def is_of_others(self, span: Span) -> bool:
        """Whether it speaks of another matter there than the one at hand, which may well be expected or planned."""
        return super().is_aside(span) and not _EXPECTED.search(self.text[max(0, span[0] - REMARK) : span[0]])


def is_text(known: Field) -> bool:
    """Whether its value is written in words, whose end nothing marks."""
    return known.sort is Sort.TEXT or _is_address(known)


def places(known: Field, wanted: Sequence[Field], source: Everything) -> list[Place]:
    """The likeliest kinds first."""
    found: dict[Span, Place] = {}
    for span in source.stated(known):
        found.setdefault(span, Place(span, known.value))
    if is_text(known):
        for span in _texts(known, wanted, source):
            text = source.text[slice(*span)]
            if known.shape.accepts(text):
                found.setdefault(span, Place(span, text))
    else:
        for place in source.places(known, wanted):
            found.setdefault(place.span, place)
    return list(found.values())[:MAX_PLACES]


def values_of(found: Iterable[Place]) -> dict[str, list[Place]]:
    """Places by value, as `key_of` tells them apart."""
    by_value: dict[str, list[Place]] = {}
    for place in found:
        by_value.setdefault(key_of(place.value), []).append(place)
    return by_value


def _is_address(known: Field) -> bool:
    said = f"{known.name} {known.shape.keywords.get('title', '')}"
    return known.sort in (Sort.TEXT, Sort.CODE) and _ADDRESS_NAME.search(said) is not None


def _texts(known: Field, wanted: Sequence[Field], source: Everything) -> Iterator[Span]:
    """Where texts stand that may be the value: its own continuation, other fields' texts, what looks like a name."""
    if isinstance(known.value, str):
        yield from extensions(source.text, source.lowered, known.value)
    if _is_address(known):
        yield from (match.span() for match in _ADDRESS.finditer(source.text))
    for other in wanted:
        if is_text(other) and isinstance(other.value, str):
            yield from source.stated(other)
            yield from extensions(source.text, source.lowered, other.value)
    if known.role in (Role.PERSON, None):
        yield from _persons(source.text)
    if known.role in (Role.COMPANY, Role.PERSON, None):
        yield from _companies(source.text)
    if known.role in (Role.PLACE, Role.ORIGIN, Role.DESTINATION):
        yield from _cities(source.text)
    yield from _named(wanted, [place.span for place in source.places(known, ())], source.text)
    for match in _LABELLED.finditer(source.text):
        if not any(map(str.isdigit, match[1])) or _is_address(known):
            yield match.span(1)


def _named(wanted: Sequence[Field], spans: Iterable[Span], text: str) -> Iterator[Span]:
    """Names without a word before them that is a field's: `Consignee Castor Packaging Ltd`."""
    words = {label.word for known in wanted for label in known.labels}
    for start, end in spans:
        first, _, rest = text[start:end].partition(" ")
        if first.lower() not in words:
            yield start, end
        elif rest:
            yield start + len(first) + 1, end


def _cities(text: str) -> Iterator[Span]:
    for match in _CITY.finditer(text):
        ends = (match.end(1) - less for less in range(3) if match.end(1) - match.start(1) - less >= 2)
        yield from ((match.start(1), end) for end in ends if is_whole(text, match.start(1), end))


def _persons(text: str) -> Iterator[Span]:
    """Chinese names: a surname behind a mark or a word that introduces one, and one or two characters up to an end."""
    for start in range(len(text) - 1):
        if text[start] not in SURNAMES or not _may_begin(text, start):
            continue
        for length in (3, 2):
            end = start + length
            if end <= len(text) and _PERSON.fullmatch(text[start:end]) and is_whole(text, start, end):
                yield start, end
                break


def _companies(text: str) -> Iterator[Span]:
    for match in _COMPANY.finditer(text):
        start, end = match.span()
        starts = [at for at in range(start, end - 3) if _may_begin(text, at)]
        for at in starts[-2:]:
            yield at, end


def _may_begin(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return not _HAN.match(before) or before in _BEFORE
