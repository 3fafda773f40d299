"""Statements of the form `Label: value`, of which a form consists: whose they are, and what they say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from services.corrector.content.evidence import Place, Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.heads import normal_head, spellings
from services.corrector.content.mentions import Kind, Mention
from services.corrector.proposals import ABSENT

MAX_LINES = 200
MAX_VALUE = 300
_HEAD = re.compile(
    r"(?:^|(?<=[\n;；。，,、|(（•·*-])|(?<=[.] ))[ \t]*(?:\d{1,2}[.、)] ?)?"
    r"([^\W\d][^\n:：;；。，,、()（）|.\"“”]{0,39}(?:[(（][^\n:：()（）]{1,20}[)）])?)[ \t]*[:：](?!//)[ \t]*",
    re.MULTILINE,
)
_END = re.compile(r"[\n;；。|]|\.(?=\s+[^\W\d_a-z]|\s*$)")
_END_WITHIN = re.compile(r"[\n;；。|)）]")
_ASIDE = re.compile(r"[(（][^()（）]*[)）]?\s*$")
_AMOUNT = re.compile(
    r"(?:[A-Z]{3}|US\$|[$€£¥]|人民币)?\s?-?[\d.,]+\s?(?:%|‰|[A-Z]{3}|[$€£]|"
    r"[A-Za-z²³/]{1,12}(?:/[A-Za-z]{1,4})?|[\u4e00-\u9fff/]{1,4})?(?: only|整)?[.]?"
)
_SAYS_NOTHING = re.compile(
    r"[^\w]*|[(（\[<].*|(?:n/?a|none|unknown|tbd|tbc|see .*|as .*|same .*|ditto|"
    r"illegible|unreadable|missing|pending|not .*|"
    r"无|暂无|不详|未知|待定|待补|同上|见.*|如.*|未.*|不.*)\.?",
    re.IGNORECASE,
)
"""What stands in a form where nothing is told."""
_MARK = re.compile(r"[,，、(（]")
"""Behind a code in a line: more is said of it, or something else."""
_CODE = re.compile(r"[^\W_](?:[\w\-/.#]*[^\W_])?")


@dataclass(frozen=True)
class Line:
    """One statement."""

    head: str
    """Its label, normalised."""
    span: Span
    """Of the value, without a remark in brackets behind it."""
    is_ended: bool
    """Whether a line's end, a semicolon or the next label ends it, which no name holds."""


def lines(text: str) -> list[Line]:
    """The statements of a folded source, in order."""
    return [line for line in _every_line(text) if line.span[1] > line.span[0]]


def blank_heads(text: str) -> set[str]:
    """Labels under which a folded source tells nothing."""
    every = _every_line(text)
    told = {line.head for line in every if not _says_nothing(text, line)}
    return {line.head for line in every} - told


def _says_nothing(text: str, line: Line) -> bool:
    return _SAYS_NOTHING.fullmatch(text[slice(*line.span)]) is not None


def _every_line(text: str) -> list[Line]:
    heads = []
    for match in _HEAD.finditer(text):
        heads.append(match)
        if len(heads) >= MAX_LINES:
            break
    found = []
    limits = [*(match.start() for match in heads[1:]), len(text)]
    for match, following in zip(heads, limits, strict=False):
        limit = min(match.end() + MAX_VALUE, following)
        is_within = text[match.start() - 1 : match.start()] in ("(", "（")
        mark = (_END_WITHIN if is_within else _END).search(text, match.end(), limit)
        end = mark.start() if mark else limit
        told = text[match.end() : end].rstrip(" \t,，、(（-•*·")
        told = _ASIDE.sub("", told) if not told.startswith(("(", "（")) else told
        span = (match.end(), match.end() + len(told.rstrip()))
        found.append(Line(normal_head(match[1]), span, is_ended=not mark or mark[0] != "."))
    return found


def own_lines(wanted: Sequence[Field], source: Source) -> dict[Field, Line]:
    """Fields with the one statement whose label is theirs and no other's."""
    told = [line for line in lines(source.text) if not source.is_in_other_part(line.span)]
    seen = Counter(line.head for line in told)
    owners: dict[str, list[Field]] = {}
    for known in wanted:
        for head in known.heads:
            owners.setdefault(head, []).append(known)
    by_synonym: dict[str, list[Field]] = {}
    for known in wanted:
        for head in {other for own in known.heads for other in spellings(own)} - owners.keys():
            by_synonym.setdefault(head, []).append(known)
    found: dict[Field, list[Line]] = {}
    for line in told:
        fits = owners.get(line.head) or by_synonym.get(line.head, [])
        if len(fits) == 1:
            found.setdefault(fits[0], []).append(line)
    return {known: own[0] for known, own in found.items() if len(own) == 1 and seen[own[0].head] == 1}


def said(known: Field, line: Line, source: Source) -> Place | None:
    """What a statement gives the field, where it is nothing but a value of its sort."""
    text = source.text[slice(*line.span)]
    if _says_nothing(source.text, line):
        return None
    within = [m for m in source.mentions if line.span[0] <= m.start and m.end <= line.span[1]]
    if known.sort in (Sort.NUMBER, Sort.DATE):
        return _measured(known, line, text, within)
    if known.sort in (Sort.EMAIL, Sort.PHONE):
        fitting = [m for m in within if known.value_of(m) is not ABSENT]
        return _place(fitting[0], known) if len(fitting) == 1 and fitting[0].text == text else None
    bare = text.rstrip(".")
    if known.sort is Sort.CODE:
        bare = _MARK.split(bare, maxsplit=1)[0].rstrip()
        if not bare or not (_CODE.fullmatch(bare) or (line.is_ended and bare == text.rstrip("."))):
            return None
        return Place((line.span[0], line.span[0] + len(bare)), bare) if known.shape.accepts(bare) else None
    return Place(line.span, text) if line.is_ended and known.shape.accepts(text) else None


def _measured(known: Field, line: Line, text: str, within: list[Mention]) -> Place | None:
    kind = Kind.NUMBER if known.sort is Sort.NUMBER else Kind.DATE
    fitting = [m for m in within if m.kind is kind]
    if len(fitting) != 1 or known.value_of(fitting[0]) is ABSENT:
        return None
    [one] = fitting
    if kind is Kind.NUMBER and (one.is_word or not _AMOUNT.fullmatch(text)):
        return None
    if kind is Kind.DATE and (one.end - one.start) < len(text.rstrip(".")):
        return None
    return _place(one, known)


def _place(mention: Mention, known: Field) -> Place:
    return Place((mention.start, mention.end), known.value_of(mention))
