"""Arrays of objects whose items the source tells one after the other, each in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from services.corrector.content.evidence import Source, Span
from services.corrector.content.fields import Field, Sort
from services.corrector.form.dates import find_dates
from services.corrector.form.values import plain_number

MAX_WINDOW = 300
"""Characters of the source in which one item stands."""
MAX_GLUE = 60
_NUMBER = r"(-?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+)"
"""Possessive: a shorter number is another number."""
_TEXT = r"([^,;:.，；：。、\n]{1,80}?)"
_CODE = r"([A-Za-z0-9][A-Za-z0-9\-_/.]{1,40}?)"
_DATE = r"(.{4,30}?)"


@dataclass(frozen=True)
class Template:
    """How the source tells one item."""

    pattern: re.Pattern[str]
    leaves: tuple[Field, ...]
    """In the order in which the source has them; those of the item that the template was made from."""
    glue: str = ""
    """The longest words that stand within an item."""

    def items(self, source: Source) -> list[dict[str, Any]] | None:
        """Leaf values by name of all items that are told so, in order; None where one cannot be read."""
        found = []
        matches = list(self.pattern.finditer(source.text))
        if matches and self._goes_on(source.text, matches[0].start(), matches[-1].end(), len(matches)):
            return None
        for match in matches:
            values = [_read(leaf, text) for leaf, text in zip(self.leaves, match.groups(), strict=True)]
            if any(
                value is None or not leaf.shape.accepts(value) for leaf, value in zip(self.leaves, values, strict=True)
            ):
                return None
            found.append({str(leaf.path[-1]): value for leaf, value in zip(self.leaves, values, strict=True)})
        return found

    def _goes_on(self, text: str, start: int, end: int, num_items: int) -> bool:
        """Whether the words within an item stand there more often than items were read: one may be told otherwise."""
        stretch = text[max(0, start - MAX_WINDOW // 2) : end + MAX_WINDOW // 2]
        return bool(self.glue) and len(re.findall(re.escape(self.glue), stretch)) > num_items


def template(source: Source, leaves: Sequence[Field]) -> Template | None:
    """The template of an item whose leaves all stand in one stretch of the source, each once; else None."""
    spans = _window(source, leaves)
    if spans is None:
        return None
    ordered = sorted(zip(spans, leaves, strict=True), key=lambda pair: pair[0])
    parts, end = [], ordered[0][0][0]
    for span, leaf in ordered:
        glue = source.text[end : span[0]]
        if span[0] < end or len(glue) > MAX_GLUE:
            return None
        parts += [re.escape(glue).replace(r"\ ", r"\s+"), _group(leaf)]
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
    glue = max((part for part in within if len(part.strip()) > 1), key=len, default="")
    return Template(re.compile("".join(parts) + ending), tuple(leaf for _, leaf in ordered), glue)


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
    return {Sort.NUMBER: _NUMBER, Sort.CODE: _CODE, Sort.DATE: _DATE}.get(leaf.sort, _TEXT)


def _read(leaf: Field, text: str) -> Any:
    if leaf.sort is Sort.NUMBER:
        return plain_number(Decimal(text.replace(",", "")))
    if leaf.sort is Sort.DATE:
        dates = find_dates(text)
        return dates[0][0].isoformat() if len(dates) == 1 and dates[0][1] else None
    return text.strip() or None
