"""Values that are searched for in the source: numbers, dates, codes, addresses, names."""

from __future__ import annotations

import re
from typing import Any

from rapidfuzz.distance import OSA

from services.corrector.content.contested import can_be_read, is_contested, is_plain, shape
from services.corrector.content.endings import (
    ends_at_mark,
    ends_clearly,
    extensions,
    is_full_person,
    is_whole,
    may_lack_point,
)
from services.corrector.content.evidence import Link, Place, Source, Span, links
from services.corrector.content.fields import Field, Sort
from services.corrector.content.judgement import LIKELY, SURE, Judgement
from services.corrector.content.labels import occurrences
from services.corrector.content.lines import own_lines, said
from services.corrector.content.lookalikes import has_lookalike, looks_like
from services.corrector.content.mentions import Kind, folded
from services.corrector.content.roles import Role
from services.corrector.form.names import SURNAMES
from services.corrector.proposals import ABSENT

SPELLED = frozenset({Sort.TEXT, Sort.EMAIL, Sort.CODE, Sort.PHONE})
MIN_LINES = 3
"""Statements under labels from which on a source is a form."""
NEAR = 12
"""How near a word must stand to what is put in a field's place."""
_UNREAD_DIGITS = re.compile(r"\d/\d")
"""Numbers that are not read as such, like a blood pressure."""
SPECIFIC = frozenset({Sort.EMAIL, Sort.PHONE})
"""Sorts of which a source rarely has one that belongs to nothing."""


def judge_searched(wanted: list[Field], source: Source, found: Judgement) -> None:
    """Confirm, correct or doubt values that are searched for in the source."""
    _judge_searched(wanted, source, found)
    for known in wanted:
        is_text = known in found.confirmed and known.sort is Sort.TEXT and isinstance(known.value, str)
        if is_text and may_lack_point(source.text, source.find(str(known.value))):
            found.confirmed.discard(known)
            found.doubt(known.pointer, "the point behind it may belong to it")


def _judge_searched(wanted: list[Field], source: Source, found: Judgement) -> None:
    wanted = _judge_lines(wanted, source, found)
    places = {known: source.places(known, wanted) for known in wanted}
    for known, own in places.items():
        places[known] = [place for place in own if not found.is_claimed(place.span)]
    linked = links(source, wanted, places)
    stated = {known: [s for s in source.stated(known) if not found.is_claimed(s)] for known in wanted}
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
        if not is_plain(known, source.sentence(link.place.span), source):
            continue
        if all(_owner(span, known, linked, found) is not known for span in stated[known]):
            sure = known.sort is not Sort.TEXT or ends_clearly(source.text, *link.place.span)
            reason = "the source has another value beside the words for it"
            found.propose(known, link.place, reason, SURE if sure else LIKELY)
    _eliminate(wanted, places, stated, source, found)
    proposed = {proposal.pointer for proposal in found.proposals}
    for known in wanted:
        if known not in found.confirmed and known.pointer not in proposed:
            _judge_open(known, places[known], stated[known], source, found)


def _judge_lines(wanted: list[Field], source: Source, found: Judgement) -> list[Field]:
    """Judge the fields that a form states under their own labels; return the others."""
    own = {known: place for known, line in own_lines(wanted, source).items() if (place := said(known, line, source))}
    spans = [place.span for place in own.values()]
    settled = set()
    for known, place in own.items():
        if known.value is None:
            continue
        if _key(place.value) == _key(known.value) or (known.sort in SPELLED and _same_text(place.value, known.value)):
            if found.confirm(known, place.span):
                settled.add(known)
        elif _may_be_told(known, place, len(own)) and _stands_within(known, place, spans, source):
            found.propose(known, place, "the source has another value under its label", SURE)
            settled.add(known)
        elif known.sort is not Sort.TEXT:
            found.contradicted.add(known)
    return [known for known in wanted if known not in settled]


def _may_be_told(known: Field, place: Place, num_lines: int) -> bool:
    """Whether what stands under a label is surely a value: a speaker's name has a colon behind it, too."""
    text = str(place.value)
    if known.sort is Sort.CODE:
        return not re.search(r"\s", text)
    if known.sort is not Sort.TEXT:
        return True
    if num_lines < MIN_LINES or not _is_one_name(text):
        return False
    is_name = known.role in (Role.PERSON, Role.COMPANY)
    return not is_name or not text.isascii() or all(word[0].isupper() for word in text.split() if len(word) > 3)


def _stands_within(known: Field, place: Place, spans: list[Span], source: Source) -> bool:
    """Whether the source has the present value nowhere but under labels: else it may be told in another place."""
    for start, end in source.stated(known):
        if start == place.span[0]:
            continue
        if not any(first <= start and end <= last for first, last in spans):
            return False
    return True


def _same_text(told: Any, value: Any) -> bool:
    return isinstance(value, str) and str(told).casefold() == folded(value).casefold()


def _is_one_name(text: str) -> bool:
    """Whether a text has no mark within it that might end or divide it."""
    return not re.search(r"[,;:，；：、/()（）]|\d", text)


def _says_more(value: Any, other: Any) -> bool:
    return isinstance(value, str) and isinstance(other, str) and other in value


def _is_cut(known: Field, stated: list[Span], source: Source) -> bool:
    """Whether a text may be the beginning of a longer one wherever the source has it."""
    if known.sort not in (Sort.TEXT, Sort.CODE) or not isinstance(known.value, str):
        return False
    if stated:
        is_prose = known.sort is Sort.TEXT or not known.value.isascii()
        if known.role is Role.PERSON and is_full_person(known.value):
            return False
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
    if stated and not text.isascii() and known.role is Role.PERSON and len(text) > (4 if text[:2] in SURNAMES else 3):
        sure = False  # a person's name is not that long: words follow it
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
            if not free or left != {_key(known.value)} or not _could_be_told(known, wanted, source, found):
                continue
            changed = any(found.confirm(known, span) for span in free) or changed


def _could_be_told(known: Field, wanted: list[Field], source: Source, found: Judgement) -> bool:
    """Whether a text would be missed if it stood in another field's place: nothing marks where a text ends."""
    if known.sort is not Sort.TEXT and _says_another(known, source, found):
        return False
    if known.sort in (Sort.CODE, Sort.EMAIL, Sort.PHONE):
        return True
    if known.sort in (Sort.NUMBER, Sort.DATE):
        has_words = bool(occurrences(known.labels, source.lowered))
        return has_words and not _UNREAD_DIGITS.search(source.text) and is_plain(known, (0, len(source.text)), source)
    return _is_only_name(known, wanted, source, found)


def _is_spoken_of(known: Field, span: Span, source: Source) -> bool:
    """Whether a number stands in a sentence with words of its field, and can be read there."""
    start, end = source.sentence(span)
    has_words = any(start <= at < end for at, _, _ in occurrences(known.labels, source.lowered))
    return has_words and is_plain(known, (start, end), source)


def _says_another(known: Field, source: Source, found: Judgement) -> bool:
    """Whether the field's own words stand in a sentence with something else that could be its value."""
    own = [label for label in known.labels if not label.distance]
    for at, to, _ in occurrences(own, source.lowered):
        start, end = source.sentence((at, to))
        told = [m for m in source.mentions if start <= m.start < end and not found.is_claimed((m.start, m.end))]
        values = {_key(value) for m in told if (value := known.value_of(m)) is not ABSENT}
        if values and _key(known.value) not in values:
            return True
    return False


def _is_only_name(known: Field, wanted: list[Field], source: Source, found: Judgement) -> bool:
    """Whether the source has nothing else that may be a name of the field's kind, and no other field may want it."""
    value, own = str(known.value), source.stated(known)
    names = {mention.text for mention in source.mentions if mention.kind is Kind.NAME}
    texts = [other for other in wanted if other is not known and other.sort is Sort.TEXT]
    if any(other.value == known.value for other in texts):
        return False
    if names == {value}:
        return all(other in found.confirmed for other in texts)
    if not looks_like(known, value) or not any(is_whole(source.text, *span) for span in own):
        return False
    if has_lookalike(known, own, found.claimed, source):
        return False
    if known.role is Role.ADDRESS:
        return all(other in found.confirmed for other in texts if other.role is Role.ADDRESS)
    apart = (Role.ADDRESS, Role.DEPARTMENT)
    return all(other in found.confirmed for other in texts if other.role not in apart)


def _owner(span: Span, known: Field, linked: dict[Field, Link], found: Judgement) -> Field:
    """Whose the place is: another field's that has it already or whose words point to it, else `known`'s."""
    pointing = (other for other, link in linked.items() if link.place.span == span and other is not known)
    return found.claimed.get(span) or next(pointing, known)


def _judge_open(known: Field, places: list[Place], stated: list[Span], source: Source, found: Judgement) -> None:
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
    if len(near) == 1 and (known.sort is not Sort.NUMBER or _is_spoken_of(known, near[0].span, source)):
        sure = known.sort is not Sort.TEXT or ends_clearly(source.text, *near[0].span)
        reason = "the source has it with a character or two different"
        found.propose(known, near[0], reason, SURE if sure else LIKELY)
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
