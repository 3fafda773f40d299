"""Clauses are numbered without gaps and repetitions.

The first number of a kind may be any, since a text may be a part of another. A new parent (章 above 条, Article above
Section) lets the numbers begin anew, and 1 may begin anew everywhere: annexes and tables of contents do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stagemesh.validation.text.headings import RANKS, Heading
from stagemesh.validation.text.lines import MAX_FOUND, issue_at
from stagemesh.validation.verdict import Issue

MAX_GAP = 3
"""In plain lists (`2.`), where a greater step is rather another list or a number that begins a sentence."""


def clause_issues(found: Sequence[Heading], pointer: str) -> list[Issue]:
    issues: list[Issue] = []
    labelled = [heading for heading in found if heading.kind in RANKS]
    decimals = [heading for heading in found if heading.kind == "decimal"]
    issues += _labelled(labelled, pointer)
    issues += _decimal(decimals, pointer)
    for kind in ("plain", "、"):
        issues += _lists([heading for heading in found if heading.kind == kind], pointer)
    return issues[:MAX_FOUND]


def _labelled(found: Sequence[Heading], pointer: str) -> list[Issue]:
    issues: list[Issue] = []
    last: dict[str, Heading] = {}
    for heading in found:
        before = last.get(heading.kind)
        if before is not None and (problem := _step(before, heading)):
            issues.append(issue_at(pointer, "clause.number", heading.line, problem))
        last[heading.kind] = heading
    return issues


def _step(before: Heading, heading: Heading) -> str:
    was, now = before.number[0], heading.number[0]
    if now == was + 1 or (now == 1 and was != 1):
        return ""
    return _problem(before, heading, was, now)


def _problem(before: Heading, heading: Heading, was: int, now: int) -> str:
    place = f"{before.written} (line {before.line})"
    if now == was:
        return f"{heading.written} has the same number as {place}; number it {was + 1}, or remove one of them"
    if now < was:
        return f"{heading.written} comes after {place}; put the clauses in order, or number it {was + 1}"
    missing = f"number {was + 1} is" if now == was + 2 else f"numbers {was + 1} to {now - 1} are"
    return f"{heading.written} follows {place}, so {missing} missing; add what is missing, or number it {was + 1}"


def _decimal(found: Sequence[Heading], pointer: str) -> list[Issue]:
    issues: list[Issue] = []
    for before, heading in pairwise(found):
        if not _may_follow(before.number, heading.number):
            wanted = " or ".join(_dotted(number) for number in _successors(before.number, len(heading.number)))
            message = f"{heading.written} follows {before.written} (line {before.line}), where {wanted} would be next"
            issues.append(issue_at(pointer, "clause.number", heading.line, message))
    return issues


def _may_follow(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """The next sibling of it or of an ancestor, a first child of one of those, or a new beginning."""
    if before == after:
        return False
    shared = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    if shared == len(before):  # a child
        return all(part == 1 for part in after[shared:])
    if shared == len(after):  # an ancestor of what came before
        return False
    tail_is_first = all(part == 1 for part in after[shared + 1 :])
    if after[shared] == before[shared] + 1:
        return tail_is_first
    # Another part of the document: it must begin at its first number.
    return shared == 0 and after[1:] == (1,) * (len(after) - 1) and after[0] != before[0]


def _successors(before: tuple[int, ...], depth: int) -> list[tuple[int, ...]]:
    found = [(*before[:level], before[level] + 1) for level in range(len(before) - 1, 0, -1)]
    return ([(*before, 1)] if depth > len(before) else []) + found[:2]


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))


def _lists(found: Sequence[Heading], pointer: str) -> list[Issue]:
    """Lists may lie in one another: a number may go on with any list that is open."""
    issues: list[Issue] = []
    open_lists: list[Heading] = []
    for heading in found:
        now = heading.number[0]
        while (
            open_lists and open_lists[-1].number[0] + 1 != now and any(h.number[0] + 1 == now for h in open_lists[:-1])
        ):
            open_lists.pop()
        if open_lists and open_lists[-1].number[0] + 1 == now:
            open_lists[-1] = heading
        elif now == 1:
            open_lists = [*open_lists[-7:], heading]
        elif open_lists and open_lists[-1].number[0] <= now <= open_lists[-1].number[0] + MAX_GAP:
            problem = _problem(open_lists[-1], heading, open_lists[-1].number[0], now)
            issues.append(issue_at(pointer, "clause.number", heading.line, problem))
            open_lists[-1] = heading
        elif not open_lists or now < open_lists[-1].number[0]:
            open_lists = [*open_lists[-7:], heading]  # another list, whose beginning is not here
    return issues
