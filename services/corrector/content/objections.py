"""What speaks against a place as a field's value, whatever points to it: another label, another matter, a change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from services.corrector.content.deeds import does_otherwise
from services.corrector.content.evidence import Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.heads import is_own_head, names_field
from services.corrector.content.labels import SAME, occurrences
from services.corrector.content.lines import blank_heads, lines
from services.corrector.content.lookalikes import persons
from services.corrector.content.mentions import Kind
from services.corrector.content.qualified import is_otherwise_qualified
from services.corrector.content.roles import Role
from services.corrector.content.turns import tells_change
from services.corrector.content.vocabulary import AMOUNTS, DAYS, PARTIES, THINGS

NEAR = 24
"""How far a word for something else may stand from a place that it speaks of."""
_MEASURED = frozenset({Sort.NUMBER, Sort.DATE})
_CONTACTS = frozenset({Sort.EMAIL, Sort.PHONE})
_WORDS_FOR = {
    Sort.NUMBER: AMOUNTS,
    Sort.DATE: DAYS,
    Sort.CODE: THINGS,
    Sort.PHONE: [group for group in THINGS if "contact" not in group],
    Sort.EMAIL: [group for group in THINGS if "contact" not in group],
}
_CONDITION = re.compile(
    r"(?:\b(?:if|unless|should|in case|provided)\b|如果|假如|倘若|若(?!干)|如(?=[需不未超遇有])|一旦)"
    r"(?:[^,，;；]{0,60}|[^,，;；]{0,40}\d[^,，;；]{0,20}[,，][^,，;；]{0,24})$",
    re.I,
)
_LIMIT = re.compile(
    r"(?:\b(?:maximum|minimum|max|min|limit(?:ed)?|capped|threshold|exceed\w*)\b|超过|上限|下限|最高|最低|最大|最小|起订)"
    r"[^,，;；]{0,24}$",
    re.IGNORECASE,
)
_PROSE_HEAD = re.compile(r"\b(?:follows|following|below|note|notes|details|summary|update|hello|hi|dear|team|all)$")
_PERIOD = re.compile(r"period|term|stay|duration|validity|期限?$|期间$|有效期")
_MARK = re.compile(r"[,，;；、()（）]|\band\b")
_LEAD = re.compile(r"\s*(?:[A-Z]{3}|US\$|[$€£¥]|人民币|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)?\s*")
_HIS = re.compile(
    r"(?:['’]s|的)\s?[^,，;；]{0,24}$|\s(?:earns|makes|gets|weighs|owes|pays|receives|has)\s[^,，;；]{0,12}$"
)
_INTRODUCED = re.compile(r"\s?(?:[:：]|is|was|to|by|为|是|由|给)?\s?")
_OF = re.compile(r"\b(?:of|for)\s$")
_FOR = re.compile(r"\s(?:for|of)\s(?:the\s|our\s|its\s)?([a-z]{2,})")


class Objections:
    """Against places, for the fields of one object."""

    def __init__(self, every: Sequence[Field], source: Source, filled: frozenset[str]) -> None:
        """`filled`: pointers of values that an earlier step took from the source."""
        self._filled = filled
        self._every = every
        self._source = source

    def against(self, known: Field, span: Span) -> bool:
        return (
            tells_change(known, span, self._source)
            or is_otherwise_qualified(known, span, self._source, is_filled=known.pointer in self._filled)
            or self._is_under_other_label(known, span)
            or self._is_left_blank(known)
            or self._introduces_another(known, span)
            or self._is_introduced_otherwise(known, span)
            or self._is_beside_other_word(known, span)
            or self._is_for_another(known, span)
            or (known.sort in _MEASURED and self._is_condition(known, span))
            or (
                known.sort is not Sort.TEXT
                and (self._is_of_other_party(known, span) or self._is_of_person(known, span))
            )
        )

    @cached_property
    def _labels(self) -> list[tuple[str, Span]]:
        return [(line.head, line.span) for line in lines(self._source.text)]

    def _is_under_other_label(self, known: Field, span: Span) -> bool:
        """Whether a label stands directly before the place that is none of the field's."""
        for head, told in self._labels:
            lead = _LEAD.match(self._source.text, told[0])
            if not (told[0] <= span[0] <= (lead.end() if lead else told[0])):
                continue
            if _PROSE_HEAD.search(head) or len(head.split()) > 4 or any(map(str.isdigit, head)):
                continue
            if known.sort is Sort.DATE and _PERIOD.search(head):
                continue
            return not names_field(head, known.heads, known.labels, is_contact=known.sort in _CONTACTS)
        return False

    def _is_beside_other_word(self, known: Field, span: Span) -> bool:
        """Whether a word for something else of the same sort stands by the place, and none of the field's."""
        pattern = _PATTERNS.get(known.sort)
        if pattern is None:
            return False
        start, end = self._clause(span)
        own = [label.word for label in known.labels]
        before = [m[0] for m in pattern.finditer(self._source.lowered, max(start, span[0] - NEAR), span[0])]
        after = pattern.match(self._source.lowered, span[1], end)
        named = [word for word in (*before, after[0] if after else "") if word and word not in known.about]
        if not named or any(_is_akin(word, other) for word in named for other in own):
            return False
        return not any(start <= at and to <= end for at, to, _ in occurrences(known.labels, self._source.lowered))

    def _is_for_another(self, known: Field, span: Span) -> bool:
        """Whether the last word of the field's name stands there as that of something else: the budget for marketing,
        where the field is `it_budget`."""
        *qualifiers, last = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", known.name).lower()) or [""]
        if not qualifiers or known.sort not in _MEASURED:
            return False
        start, end = self._clause(span)
        clause = self._source.lowered[start:end]
        if any(re.search(rf"\b{word}", clause) for word in qualifiers):
            return False
        own = [label.word for label in known.labels]
        found = (_FOR.match(clause, word.end()) for word in re.finditer(rf"\b{last}s?\b", clause))
        return any(match is not None and not any(_is_akin(match[1], word) for word in own) for match in found)

    def _clause(self, span: Span) -> Span:
        start, end = self._source.sentence(span)
        before, after = self._source.text[start : span[0]], self._source.text[span[1] : end]
        return span[0] - len(_MARK.split(before)[-1]), span[1] + len(_MARK.split(after)[0])

    def _is_left_blank(self, known: Field) -> bool:
        """Whether the field's own label stands there, and nothing is told under it."""
        return any(is_own_head(head, known.heads) for head in self._blank)

    @cached_property
    def _blank(self) -> set[str]:
        return blank_heads(self._source.text)

    def _introduces_another(self, known: Field, span: Span) -> bool:
        """Whether a word for the field stands directly before another name: the buyer Ada, 采购员王强."""
        if known.sort is not Sort.TEXT or known.role is not Role.PERSON:
            return False
        text = self._source.text
        name = text[slice(*span)]
        for _, end, distance in occurrences(known.labels, self._source.lowered):
            lead = _INTRODUCED.match(text, end)
            start = lead.end() if lead else end
            for at, to in self._persons:
                other = text[at:to]
                if distance <= SAME and at == start and other not in name and name not in other:
                    return True
        return False

    def _is_introduced_otherwise(self, known: Field, span: Span) -> bool:
        """Whether a word for another party or its deed stands beside a name: the driver Ada, 司机赵丽娜."""
        if known.sort is not Sort.TEXT:
            return False
        if does_otherwise(known.labels, *self._source.around(span)):
            return True
        if known.role not in (Role.PERSON, Role.COMPANY):
            return False
        before = self._source.lowered[max(0, span[0] - NEAR) : span[0]]
        said = [match[0] for match in _PARTY.finditer(before) if _INTRODUCED.fullmatch(before, match.end())]
        return bool(said) and not any(_is_akin(word, label.word) for word in said for label in known.labels)

    def _is_condition(self, known: Field, span: Span) -> bool:
        before, after = self._source.around(span, 64)
        if _CONDITION.search(before) or re.match(r"[^,，;；]{0,16}\b(?:if|unless)\b", after, re.I):
            return True
        return _LIMIT.search(before) is not None and not any(map(_LIMIT.search, known.heads))

    def _is_of_other_party(self, known: Field, span: Span) -> bool:
        """Whether the field names a party, and the clause of the place names only others."""
        own = _parties(known)
        if not own:
            return False
        before, after = self._source.around(span)
        clause = re.split(r"[,，;；]", before)[-1] + " " + re.split(r"[,，;；]", after)[0]
        named = {match[0] for match in _PARTY.finditer(clause.lower())}
        return bool(named) and named.isdisjoint(own)

    def _is_of_person(self, known: Field, span: Span) -> bool:
        """Whether it is said to be somebody's of whom the object does not know."""
        text = self._source.text
        start = max(self._source.sentence(span)[0], span[0] - 48)
        named = [each.value for each in self._every if isinstance(each.value, str) and each.sort is Sort.TEXT]
        own = {label.word for label in known.labels}
        for at, end in self._persons:
            if not (start <= at and end <= span[0]):
                continue
            between = text[end : span[0]]
            is_his = (
                between.strip(" :：为是") in own
                or _HIS.match(between)
                or (_OF.search(text[:at]) and not re.search(r"[,，;；]", between))
            )
            name = text[at:end]
            if is_his and not any(name in value or value in name for value in named if value):
                return True
        return False

    @cached_property
    def _persons(self) -> list[Span]:
        named = [(m.start, m.end) for m in self._source.mentions if m.kind is Kind.NAME and " " in m.text]
        return [*named, *persons(self._source.text)]


def _is_akin(word: str, own: str) -> bool:
    """Whether one of two words is in the other: rent, rental."""
    shorter, longer = sorted((word, own), key=len)
    return word == own or (len(shorter) > (3 if shorter.isascii() else 1) and shorter in longer)


def _parties(known: Field) -> set[str]:
    """Words for the parties that a field's own name has."""
    own = {label.word for label in known.labels if label.distance < 8}
    first = {label.word for label in known.labels if label.distance in (0, 5)}
    said = {word for word in first if _PARTY.fullmatch(word)}
    if not said:
        return set()
    return {word for word in own if _PARTY.fullmatch(word)} | {
        other for group in PARTIES if not said.isdisjoint(group.split("|")) for other in group.split("|")
    }


def _pattern(groups: Iterable[str]) -> re.Pattern[str]:
    """Any of the words, but short ones, which stand everywhere."""
    words = sorted({word for group in groups for word in group.split("|")}, key=len, reverse=True)
    latin = "|".join(re.escape(word) for word in words if word.isascii() and len(word) > 3)
    return re.compile(
        rf"(?<![a-z0-9])(?:{latin})(?![a-z0-9])|{'|'.join(w for w in words if not w.isascii() and len(w) > 1)}"
    )


_PATTERNS = {sort: _pattern(groups) for sort, groups in _WORDS_FOR.items()}
_PARTY = _pattern(PARTIES)
