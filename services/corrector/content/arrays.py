"""Arrays: items that the source tells one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from rapidfuzz.distance import OSA

from services.corrector.content.evidence import Source
from services.corrector.content.fields import Field
from services.corrector.content.items import template
from services.corrector.content.judgement import LIKELY, SURE, Judgement
from services.corrector.content.labels import occurrences
from services.corrector.proposals import ABSENT, Proposal
from stagemesh.validation.pointer import to_pointer

_SEPARATOR = re.compile(r"\s*(?:[,、，;；]\s*(?:and|or)?|and|or|和|及|以及|与)\s*", re.IGNORECASE)
"""Between the items of a row."""


def array_of(known: Field) -> tuple[str | int, ...] | None:
    """The path of the outermost array that the field is in."""
    return next((known.path[:at] for at, part in enumerate(known.path) if isinstance(part, int)), None)


def judge_arrays(value: Any, inside: list[Field], source: Source, found: Judgement) -> None:
    arrays: dict[tuple[str | int, ...], list[Field]] = {}
    for known in inside:
        arrays.setdefault(array_of(known) or (), []).append(known)
    for path, leaves in arrays.items():
        items = _at(value, path)
        if all(isinstance(item, dict) for item in items) and all(len(leaf.path) == len(path) + 2 for leaf in leaves):
            _judge_items(path, items, leaves, source, found)
        else:
            _judge_list(path, leaves, source, found)


def _at(value: Any, path: Iterable[str | int]) -> list[Any]:
    for part in path:
        value = value[part]
    items: list[Any] = value
    return items


def _judge_items(
    path: tuple[str | int, ...], items: list[Any], leaves: list[Field], source: Source, found: Judgement
) -> None:
    by_item = [[leaf for leaf in leaves if leaf.path[len(path)] == index] for index in range(len(items))]
    told: list[dict[str, Any]] = []
    for own in by_item:
        made = template(source, [leaf for leaf in own if leaf.value is not ABSENT])
        read = made.items(source) if made and len(made.leaves) == len(own) else None
        if read and len(read) > len(told):
            told = read
    if not told:
        found.doubt(to_pointer(path), "the source does not tell its items in a way that can be followed")
    elif len(told) == len(items):
        for index, (item, says) in enumerate(zip(items, told, strict=True)):
            _judge_item(by_item[index], item, says, found)
    elif len(told) > len(items) and (kept := _in_order(items, told)) is not None:
        reason = "the source tells of further items"
        is_sure = isinstance(kept[0], int) or not isinstance(next(iter(told[0].values())), str)
        renewed = [items[at] if isinstance(at, int) else at for at in kept]
        confidence = SURE if is_sure else LIKELY
        found.proposals.append(Proposal(pointer=to_pointer(path), value=renewed, reason=reason, confidence=confidence))
    else:
        found.doubt(to_pointer(path), "the source tells of other items")


def _judge_item(own: list[Field], item: dict[str, Any], says: dict[str, Any], found: Judgement) -> None:
    """One item against the one that the source has at its place; it is the same one if most of it is."""
    differing = [leaf for leaf in own if item.get(str(leaf.path[-1]), ABSENT) != says.get(str(leaf.path[-1]))]
    if len(differing) * 2 > len(own):
        found.doubt(to_pointer(own[0].path[:-1]), "the source tells of another item here")
        return
    for leaf in own:
        told = says[str(leaf.path[-1])]
        if leaf not in differing or _ends_with(told, leaf.value):
            found.confirm(leaf)
        elif isinstance(told, str) and isinstance(leaf.value, str) and not _is_misspelt(leaf.value, told):
            found.doubt(leaf.pointer, f"the source tells this item with {told[:80]!r}")
        else:
            reason = "the source tells this item with another value"
            found.proposals.append(Proposal(pointer=leaf.pointer, value=told, reason=reason, confidence=SURE))


def _ends_with(told: Any, value: Any) -> bool:
    """Whether a text is what was told, but for words before it: nothing marks where an item's first text begins."""
    return isinstance(told, str) and isinstance(value, str) and len(value) > 1 and told.endswith(value)


def _is_misspelt(value: str, told: str) -> bool:
    """Whether a text is another one with a letter or two wrong, or cut."""
    limit = 1 if len(told) < 8 else 2
    return told.startswith(value) or OSA.distance(value, told, score_cutoff=limit) <= limit


def _in_order(items: list[Any], told: list[dict[str, Any]]) -> list[int | dict[str, Any]] | None:
    """What is told, with the number of the item where the list has it; None unless all items are there, in order."""
    kept: list[int | dict[str, Any]] = []
    at = 0
    for says in told:
        if at < len(items) and _is_same(items[at], says):
            kept.append(at)
            at += 1
        else:
            kept.append(says)
    return kept if at == len(items) else None


def _is_same(item: Any, says: dict[str, Any]) -> bool:
    return item.keys() == says.keys() and all(
        item[name] == told or _ends_with(told, item[name]) for name, told in says.items()
    )


def _judge_list(path: tuple[str | int, ...], leaves: list[Field], source: Source, found: Judgement) -> None:
    spans = [source.stated(leaf) for leaf in leaves]
    if any(len(each) != 1 for each in spans) or any(len(leaf.path) != len(path) + 1 for leaf in leaves):
        found.doubt(to_pointer(path), "not every item can be found in the source")
        return
    start, end = min(each[0][0] for each in spans), max(each[0][1] for each in spans)
    goes_on = re.match(r"\s*(?:[,、，;；]|and\b|or\b|和|及|以及|与)", source.text[end:], re.IGNORECASE)
    came_before = re.search(r"(?:[,、，;；]|\band|\bor|和|及|以及|与)\s*$", source.text[:start], re.IGNORECASE)
    ordered = sorted(each[0] for each in spans)
    is_row = all(_SEPARATOR.fullmatch(source.text[a[1] : b[0]]) for a, b in pairwise(ordered))
    own = [label for label in leaves[0].labels if not label.distance]
    before = max((end for _, end, _ in occurrences(own, source.lowered) if end <= start), default=-1)
    is_introduced = before >= 0 and re.fullmatch(r"\s*[:：]?\s*(?:are|were|为|是|有)?\s*", source.text[before:start])
    if goes_on or came_before or not is_row or not is_introduced:
        found.doubt(to_pointer(path), "the source does not say plainly that these are the items, and all")
        return
    for leaf in leaves:
        found.confirm(leaf)
