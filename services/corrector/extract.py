"""Find the JSON in a text that holds more, or less, than JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n?")
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+(?P<closed>")?|[\[\]{}]', re.DOTALL)
_OPENER = re.compile(r"[\[{]")
MAX_CANDIDATES = 8
CLOSERS = {"{": "}", "[": "]"}


@dataclass(frozen=True, kw_only=True)
class Found:
    text: str
    cut: bool
    """The text ends before the JSON does."""
    several: bool
    """There may be more JSON before or after it."""


def candidates(text: str) -> Iterator[Found]:
    """Stretches that may be the JSON that was meant, in the order in which they stand."""
    inside = _inside_fence(text)
    position = 0
    for number in range(MAX_CANDIDATES):
        opening = _OPENER.search(inside, position)
        if opening is None:
            return
        found = _from(inside[opening.start() :], CLOSERS[opening[0]])
        yield replace(found, several=found.several or number > 0)
        if found.cut:
            return
        position = opening.start() + len(found.text)


def _inside_fence(text: str) -> str:
    """The content of the first code block that holds a brace or bracket; else the whole text."""
    blocks = _FENCE.split(text)
    for block in blocks[1::2]:
        if any(opener in block for opener in CLOSERS):
            return block
    return text


def _from(text: str, closer: str) -> Found:
    depth = 0
    for match in _TOKENS.finditer(text):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
            if depth == 0:
                rest = text[match.end() :]
                return Found(text=text[: match.end()], cut=False, several=any(opener in rest for opener in CLOSERS))
        elif match["closed"] is None:
            return _within_string(text, closer)
    return Found(text=text.rstrip(), cut=True, several=False)


def _within_string(text: str, closer: str) -> Found:
    """The quotes do not add up: a text that still ends like JSON has bad quotes, another one is cut off."""
    end = text.rstrip()
    if end.endswith(closer):
        return Found(text=end, cut=False, several=False)
    return Found(text=text, cut=True, several=False)
