"""A long text by lines, without what stands in code fences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stagemesh.validation.sentences import quoted
from stagemesh.validation.verdict import Issue

MAX_FOUND = 50
"""Issues that one rule tells about one text."""
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


@dataclass(frozen=True)
class Line:
    number: int
    """From 1 on."""
    text: str
    after_break: bool
    """The line before is empty, or there is none."""


def lines_of(text: str) -> list[Line]:
    """All lines outside of code fences that are not empty."""
    found: list[Line] = []
    fenced, empty = False, True
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fenced, empty = not fenced, True
            continue
        if not line.strip():
            empty = True
        elif not fenced:
            found.append(Line(number, line, empty))
            empty = False
    return found


def fences(text: str, *languages: str) -> Iterator[tuple[int, list[str]]]:
    """The fenced blocks in one of the languages: number of the first line, lines."""
    block: list[str] | None = None
    first = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not _FENCE.match(line):
            if block is not None:
                block.append(line)
        elif block is not None:
            yield first, block
            block = None
        elif line.strip().lstrip("`~").strip().lower() in languages:
            block, first = [], number + 1


def issue_at(pointer: str, rule: str, line: int, message: str) -> Issue:
    where = f"line {line} of {pointer}" if pointer else f"line {line}"
    return Issue(pointer=pointer, rule=rule, message=f"{where}: {message}")


def excerpt(text: str) -> str:
    return quoted(text.strip()[:60])
