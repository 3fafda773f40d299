"""Values that are searched for in the source: numbers, dates, codes, addresses, names."""

from __future__ import annotations

import re
from typing import Any

from rapidfuzz.distance import OSA

from services.corrector.content.contested import can_be_read, is_contested, is_plain, shape
from services.corrector.content.endings import ends_at_mark, ends_clearly, extensions, is_whole
from services.corrector.content.evidence import Link, Place, Source, Span, links
from services.corrector.content.fields import Field, Sort
from services.corrector.content.judgement import LIKELY, SURE, Judgement
from services.corrector.content.labels import occurrences
from services.corrector.content.mentions import Kind, folded
from services.corrector.proposals import ABSENT

NEAR = 12
"""How near a word must stand to what is put in a field's place."""
_UNREAD_DIGITS = re.compile(r"\d/\d")
"""Numbers that are not read as such, like a blood pressure."""
SPECIFIC = frozenset({Sort.EMAIL, Sort.PHONE})
"""Sorts of which a source rarely has one that belongs to nothing."""


def judge_searched(wanted: list[Field], source: Source, found: Judgement) -> None:
    places = {known: source.places(known, wanted) for known in wanted}
    linked = links(source, wanted, places)
    stated = {known: source.stated(known) for known in wanted}
    cut = [known for known in wanted if _is_cut(known, stated[known], source)]
    for known in cut:
        _lengthen(known, linked.get(known), stated[known], source, found)
    for known in wanted:
        if known not in cut and is_contested(known, places[known], source):
            found.doubt(known.pointer, "the source tells of more than one value for it")
            cut.append(known)
    wanted = [known for known in wanted if known not in cut]
    for known in wanted:
        link = linked.get(known)
        if link is None or known.value is ABSENT or link.place.value != known.value:
            continue
        if not is_plain(known, source.sentence(link.place.span), source):
            continue
        if link.by_words or known.pointer not in found.filled:  # what a value looks like is how it was filled in
            found.confirm(known, link.place.span)
    _eliminate(wanted, places, stated, source, found)
    for known in wanted:
        link = linked.get(known)
        if known in found.confirmed or link is None or link.place.span in found.claimed:
            continue
        is_exchange = any(other is not known and link.place.span in stated[other] for other in wanted)
        if link.gap > NEAR or not (link.by_words or is_exchange):
            continue
        if _says_more(known.value, link.place.value) and folded(str(known.value)) in source.text:
            continue  # the present value stands in the source as it is, and the other one is a part of it
        if not is_exchange and not can_be_read(known, link.place, source):
            continue
        if all(_owner(span, known, linked, found) is not known for span in stated[known]):
            sure = known.sort is not Sort.TEXT or ends_clearly(source.text, *link.place.span)
            reason = "the source has another value beside the words for it"
            found.propose(known, link.place, reason, SURE if sure else LIKELY)
    _eliminate(wanted, places, stated, source, found)
    proposed = {proposal.pointer for proposal in found.proposals}
    for known in wanted:
        if known not in found.confirmed and known.pointer not in proposed:
            _judge_open(known, places[known], stated[known], found)


def _says_more(value: Any, other: Any) -> bool:
    return isinstance(value, str) and isinstance(other, str) and other in value


def _is_cut(known: Field, stated: list[Span], source: Source) -> bool:
    """Whether a text may be the beginning of a longer one wherever the source has it."""
    if known.sort not in (Sort.TEXT, Sort.CODE) or not isinstance(known.value, str):
        return False
    if stated:
        is_prose = known.sort is Sort.TEXT or not known.value.isascii()
        return is_prose and not any(is_whole(source.text, *span) for span in stated)
    return bool(extensions(source.text, source.lowered, known.value))


def _lengthen(known: Field, link: Link | None, stated: list[Span], source: Source, found: Judgement) -> None:
    """Propose what the source has where it has the beginning, if that is one text and acceptable."""
    spans = extensions(source.text, source.lowered, str(known.value))
    texts = {source.text[start:end]: (start, end) for start, end in spans}
    if len(texts) != 1 or not known.shape.accepts(next(iter(texts))):
        found.doubt(known.pointer, "the source may say more here than this value")
        return
    [(text, span)] = texts.items()
    ends = ends_at_mark(source.text, span[1]) and ends_clearly(source.text, *span)
    linked = link is not None and link.place.span[0] == span[0]
    sure = ends and (linked or (not stated and link is None))
    if sure or not stated:
        found.propose(known, Place(span, text), "the source has more of it than this", SURE if sure else LIKELY)
    if not sure:
        found.doubt(known.pointer, f"the source may say more here: {text[:80]!r}")


def _eliminate(
    wanted: list[Field],
    places: dict[Field, list[Place]],
    stated: dict[Field, list[Span]],
    source: Source,
    found: Judgement,
) -> None:
    """Confirm what is the only value left that a field can have, until nothing more follows."""
    settled = found.filled.union(proposal.pointer for proposal in found.proposals)
    changed = True
    while changed:
        changed = False
        for known in wanted:
            if known in found.confirmed or not stated[known] or known.pointer in settled:
                continue
            free = [span for span in stated[known] if found.claimed.get(span, known) is known]
            left = {_key(place.value) for place in places[known] if found.claimed.get(place.span, known) is known}
            if free and left == {_key(known.value)} and _could_be_told(known, wanted, source, found):
                found.confirm(known, free[0])
                changed = True


def _could_be_told(known: Field, wanted: list[Field], source: Source, found: Judgement) -> bool:
    """Whether a text would be missed if it stood in another field's place: nothing marks where a text ends."""
    if known.sort in (Sort.CODE, Sort.EMAIL, Sort.PHONE):
        return True
    if known.sort in (Sort.NUMBER, Sort.DATE):
        has_words = bool(occurrences(known.labels, source.lowered))
        return has_words and not _UNREAD_DIGITS.search(source.text) and is_plain(known, (0, len(source.text)), source)
    names = {mention.text for mention in source.mentions if mention.kind is Kind.NAME}
    if names != {str(known.value)}:
        return False
    return all(other is known or other.sort is not Sort.TEXT or other in found.confirmed for other in wanted)


def _owner(span: Span, known: Field, linked: dict[Field, Link], found: Judgement) -> Field:
    """Whose the place is: another field's that has it already or whose words point to it, else `known`'s."""
    pointing = (other for other, link in linked.items() if link.place.span == span and other is not known)
    return found.claimed.get(span) or next(pointing, known)


def _judge_open(known: Field, places: list[Place], stated: list[Span], found: Judgement) -> None:
    if known.value is None:
        found.confirm(known)
        return
    free = {_key(place.value): place for place in places if place.span not in found.claimed}
    if known.value is ABSENT:
        if len(free) == 1:
            [place] = free.values()
            sure = (
                SURE
                if known.sort in SPECIFIC or (known.sort is Sort.CODE and "pattern" in known.shape.keywords)
                else LIKELY
            )
            found.propose(known, place, "the only value in the source that is left for it", sure)
        found.doubt(known.pointer, "it is missing, and the source does not say clearly what it is") if len(
            free
        ) != 1 else None
        return
    if stated:
        found.doubt(known.pointer, "the source has this value, but nothing says that it belongs here")
        return
    near = [place for place in free.values() if _is_near(known, str(known.value), str(place.value))]
    if len(near) == 1:
        found.propose(known, near[0], "the source has it with a character or two different", SURE)
    else:
        found.doubt(known.pointer, "the source does not have this value")


def _is_near(known: Field, value: str, other: str) -> bool:
    """Whether a value is another one with a character wrong. Dates and short numbers that are near are other ones."""
    if known.sort is Sort.DATE or not value.isascii():
        return False
    if known.sort is Sort.NUMBER and (len(value) < 4 or shape(value) != shape(other)):
        return False
    if known.sort in (Sort.CODE, Sort.PHONE) and (len(value) < 5 or shape(value) != shape(other)):
        return False
    limit = 2 if known.sort is Sort.TEXT and len(value) >= 8 else 1
    return min(len(value), len(other)) >= 3 and OSA.distance(value, other, score_cutoff=limit) <= limit


def _key(value: Any) -> str:
    return f"{type(value).__name__ if isinstance(value, str) else 'number'}:{value}"
