"""Arrays of objects whose items the source tells one after the other, each in the same words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from services.corrector.content.evidence import MEASURES, Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.content.mentions import Kind
from services.corrector.form.dates import find_dates
from services.corrector.form.values import plain_number

MAX_WINDOW = 300
"""Characters of the source in which one item stands."""
MAX_GLUE = 60
_NUMBER = r"(-?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+)"
"""Possessive: a shorter number is another number."""
_NOT_IN_TEXTS = ",;:.，；：。、\n()（）|\t"
_COUNTER = re.compile(f"[{''.join(MEASURES)}]")
_GONE = re.compile(
    r"\b(?:cancel\w*|returned|refunded|deleted|removed|out of stock|sold out|unavailable|not available)\b|"
    r"取消|作废|退货|退回|缺货|删除|无货",
    re.IGNORECASE,
)
_ONE_BEFORE = re.compile(r"\d[^.。\n]{0,40}(?:[;；、]|\band|\bplus|和|及|以及)\s*$", re.IGNORECASE)
_ONE_MORE = re.compile(
    r"\W{0,2}\s*(?:[;；、+]|(?:and|plus|as well as)\b|和|及|以及|还有|另)"
    r"(?![^.。;；\n:：]{0,20}(?:total|sum\b|合计|总|共|运费|税))\s*[^.。;；\n:：\d]{0,24}\d",
    re.IGNORECASE,
)
_JOINED = r"(?:(?:和|及|以及|与|and\s|plus\s)\s*)?"
_BULLETS = " \t|*•·-0123456789.)、"
_ROW = re.compile(
    r"\s*(?:[|*•·-]|\d{1,2}[.)、]\s)?.*?\S(?:\s*[|,;\t]|\s{2,}|\s[x×]\s|\s[@–-]\s).*\d|\s*(?:[|*•·-]|\d{1,2}[.)、]).*\d"
)
_SUM = re.compile(
    r"[\s|*-]*(?:sub ?total|total|sum|vat|tax|shipping|net|gross|grand|合计|总计|小计|税|运费|共计)|[^\d\n]{1,30}[:：]",
    re.I,
)
_CODE = r"([A-Za-z0-9][A-Za-z0-9\-_/.]{1,40}?)"
_DATE = r"(.{4,30}?)"


@dataclass(frozen=True)
class Template:
    """How the source tells one item."""

    pattern: re.Pattern[str]
    leaves: tuple[Field, ...]
    """In the order in which the source has them; those of the item that the template was made from."""
    glue: str = ""
    """A pattern of the longest words that stand within an item."""

    def items(self, source: Source) -> list[dict[str, Any]] | None:
        """Leaf values by name of all items that are told so, in order; None where one cannot be read."""
        found = []
        matches = list(self.pattern.finditer(source.text))
        if matches and self._goes_on(source.text, [match.span() for match in matches]):
            return None
        for match in matches:
            if source.is_aside(match.span()) or _GONE.search(source.around(match.span())[0]):
                return None
            if any(
                _is_part(match.span(at), source) for at, leaf in enumerate(self.leaves, 1) if leaf.sort is Sort.NUMBER
            ):
                return None
            values = [_read(leaf, text) for leaf, text in zip(self.leaves, match.groups(), strict=True)]
            if any(
                value is None or not leaf.shape.accepts(value) for leaf, value in zip(self.leaves, values, strict=True)
            ):
                return None
            found.append({str(leaf.path[-1]): value for leaf, value in zip(self.leaves, values, strict=True)})
        return found

    def _goes_on(self, text: str, spans: Sequence[Span]) -> bool:
        """Whether more items seem to be told than were read: one may be told otherwise."""
        start, end = spans[0][0], spans[-1][1]
        stretch = text[max(0, start - MAX_WINDOW // 2) : end + MAX_WINDOW // 2]
        if self.glue and len(re.findall(self.glue, stretch)) > len(spans):
            return True
        if _ONE_BEFORE.search(text[:start][-80:]) or _ONE_MORE.match(text[end : end + 80]):
            return True
        lines = list(_block(text, start, end))
        holding = [sum(at <= first < to for first, _ in spans) for at, to in lines]
        begins = [text[at:first].strip(_BULLETS) for at, to in lines for first, _ in spans if at <= first < to]
        if max(holding) > 1 or any(begins):
            return False
        return any(_is_row(text[at:to]) for (at, to), num_items in zip(lines, holding, strict=True) if not num_items)


def _is_part(span: Span, source: Source) -> bool:
    """Whether digits are a part of a number, or one that cannot be read: 3 of 3万."""
    within = [m for m in source.mentions if m.kind is Kind.NUMBER and m.start < span[1] and span[0] < m.end]
    return any((m.start, m.end) != span or m.is_unread for m in within)


def _block(text: str, start: int, end: int) -> Iterator[Span]:
    """The lines around a stretch up to empty ones."""
    at = text.rfind("\n\n", 0, start) + 2 if "\n\n" in text[:start] else 0
    last = text.find("\n\n", end)
    for line in text[at : last if last >= 0 else len(text)].split("\n"):
        yield at, at + len(line)
        at += len(line) + 1


def _is_row(line: str) -> bool:
    """Whether a line tells something with numbers in columns or behind a mark, and is no sum of others."""
    return bool(_ROW.match(line)) and not _SUM.match(line)


def template(source: Source, leaves: Sequence[Field]) -> Template | None:
    """The template of an item whose leaves all stand in one stretch of the source, each once; else None."""
    spans = _window(source, leaves)
    if spans is None:
        return None
    ordered = sorted(zip(spans, leaves, strict=True), key=lambda pair: pair[0])
    parts, end = [_JOINED if ordered[0][1].sort is Sort.TEXT else ""], ordered[0][0][0]
    for span, leaf in ordered:
        glue = source.text[end : span[0]]
        if span[0] < end or len(glue) > MAX_GLUE:
            return None
        parts += [_words(glue), _group(leaf)]
        end = span[1]
    after = re.match(r"[^\w]?\s?\w{0,8}", source.text[end:])
    tail = after[0].rstrip() if after else ""
    glued = "".join(source.text[a[0][1] : b[0][0]] for a, b in pairwise(ordered))
    if len(glued.strip()) < 2:
        return None
    ending = (
        re.escape(tail)
        if tail and tail[-1].isalnum() and (len(tail) > 1 or not tail.isascii())
        else r"(?=[\s,;.，；。、)]|$)"
    )
    within = [source.text[a[0][1] : b[0][0]] for a, b in pairwise(ordered)]
    glue = _words(max((part for part in within if len(part.strip()) > 1), key=len, default=""))
    return Template(re.compile("".join(parts) + ending), tuple(leaf for _, leaf in ordered), glue)


def _words(glue: str) -> str:
    """A pattern of the words between two values; what is counted may be counted by another word in another item."""
    counted = _COUNTER.match(glue)
    rest = re.escape(glue[counted.end() :] if counted else glue).replace(r"\ ", r"\s+")
    return f"{_COUNTER.pattern}{rest}" if counted else rest


def _window(source: Source, leaves: Sequence[Field]) -> list[Span] | None:
    """One span for each leaf, the narrowest stretch that holds them all."""
    stated = [source.stated(leaf) for leaf in leaves]
    if len(leaves) < 2 or not all(stated):
        return None
    best: list[Span] | None = None
    for anchor in min(stated, key=len):
        chosen = [min(spans, key=lambda span: abs(span[0] - anchor[0])) for spans in stated]
        width = max(span[1] for span in chosen) - min(span[0] for span in chosen)
        if len(set(chosen)) == len(chosen) and width <= MAX_WINDOW and (best is None or width < _width(best)):
            best = chosen
    return best


def _width(spans: list[Span]) -> int:
    return max(span[1] for span in spans) - min(span[0] for span in spans)


def _group(leaf: Field) -> str:
    told = "".join(mark for mark in _NOT_IN_TEXTS if mark not in str(leaf.value))
    return {Sort.NUMBER: _NUMBER, Sort.CODE: _CODE, Sort.DATE: _DATE}.get(leaf.sort, f"([^{told}]{{1,80}}?)")


def _read(leaf: Field, text: str) -> Any:
    if leaf.sort is Sort.NUMBER:
        return plain_number(Decimal(text.replace(",", "")))
    if leaf.sort is Sort.DATE:
        dates = find_dates(text)
        return dates[0][0].isoformat() if len(dates) == 1 and dates[0][1] else None
    return text.strip() or None
