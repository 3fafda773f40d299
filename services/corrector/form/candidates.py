"""Where in a text the JSON is: in fences, in prose, escaped in a string, once or several times."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field

from services.corrector.form.reader import Reading, TooDeep, read

MAX_RETRIES = 8
"""Openers within a stretch that reads badly from which it is read again."""
SMALL_CHARS = 20_000
"""Longer texts are read again once only."""
MAX_CANDIDATES = 1_000
MAX_UNESCAPED = 4
MAX_SAID = 60
"""Characters of what a text says right before a value."""

_OPENER = re.compile(r"[\[{｛［]")
_FENCE = re.compile(r"(?:```|~~~)[A-Za-z0-9_+-]*[ \t]*\r?\n?")
_ESCAPED = re.compile(r'[{\[,:]\s*(?:\\[nrt]|\s)*\\+"')
_MEMBERS = re.compile(r"""\s*["'“]?[\w$\u4e00-\u9fff][\w$ .\-]{0,63}["'”]?[ \t]*[:：=]""")
_BAD = 0.5
_CLAUSE = re.compile(r"[.!?。！？\n]")
_FINAL = re.compile(r"\b(?:final|correct(?:ed|ion)?|revised|updated)\b|更正|最终|修正|改正|正确", re.IGNORECASE)
"""What a text says before the value that takes the place of earlier ones."""
_NOT_FINAL = re.compile(
    r"\b(?:not|no|never|than|before|old|previous|wrong|if|should)\b|n['’]t\b|不|未|非|错|旧|原|前|若|如"
)


@dataclass
class Candidate:
    reading: Reading
    start: int
    notes: dict[str, float] = field(default_factory=dict)


def candidates(text: str, *, max_depth: int) -> list[Candidate]:
    """What the text may mean, in the order in which it stands."""
    notes: dict[str, float] = {}
    text = _unescaped(_unmarked(text, notes), notes)
    for stretch, offset in _stretches(text):
        found = _in(stretch, max_depth)
        if found:
            for candidate in found:
                candidate.notes.update(notes)
                if offset or stretch is not text:
                    candidate.notes["a code fence"] = 0.95
            _note_prose(stretch, found)
            return [*_without_opener(stretch, notes, max_depth), *_final(stretch, found)]
    return _without_brackets(text, notes, max_depth)


def _unmarked(text: str, notes: dict[str, float]) -> str:
    """The text without the marks of a quotation, and without the entities of HTML."""
    lines = text.strip().split("\n")
    if all(line.startswith(">") or not line.strip() for line in lines) and len(lines) > 1:
        text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
        notes["lines that were marked as quoted"] = 0.9
    if "&quot;" in text and '"' not in text:
        text = html.unescape(text)
        notes["entities of HTML"] = 0.85
    return text


def _unescaped(text: str, notes: dict[str, float]) -> str:
    """JSON that was written into a string once or more often."""
    for _ in range(MAX_UNESCAPED):
        bare = text.strip().strip("\ufeff")
        if len(bare) > 1 and bare[0] == bare[-1] == '"' and _OPENER.search(bare):
            inner = _loads(bare)
        elif _ESCAPED.search(bare[:20_000]) and '"' not in bare.replace('\\"', ""):
            inner = _loads(f'"{bare}"')
        else:
            return text
        if inner is None or not _OPENER.search(inner):
            return text
        text = inner
        notes["JSON that was escaped in a string"] = 0.9
    return text


def _loads(text: str) -> str | None:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _stretches(text: str) -> list[tuple[str, int]]:
    """The code blocks that hold a bracket, then the whole text."""
    if "```" not in text and "~~~" not in text:
        return [(text, 0)]
    blocks = _FENCE.split(text)
    inside = [block for block in blocks[1::2] if _OPENER.search(block)]
    return [*(("\n".join(inside), 1) for _ in inside[:1]), (text, 0)]


def _in(text: str, max_depth: int) -> list[Candidate]:
    found: list[Candidate] = []
    position, retries = 0, 0
    while (opening := _OPENER.search(text, position)) and len(found) < MAX_CANDIDATES:
        start = opening.start()
        try:
            reading = read(text, start, max_depth=max_depth)
        except TooDeep:
            break
        found.append(Candidate(reading, start))
        is_bad = reading.cut or min(reading.notes.values(), default=1.0) <= _BAD
        if is_bad and retries < (MAX_RETRIES if len(text) <= SMALL_CHARS else 1):
            retries += 1
            position = start + 1
        else:
            position = max(reading.end, start + 1)
    return found


def _note_prose(text: str, found: list[Candidate]) -> None:
    whole = text.strip().strip("\ufeff")
    for candidate in found:
        taken = text[candidate.start : candidate.reading.end].strip()
        if taken != whole:
            candidate.notes["what stood around the JSON"] = 0.95
        elif "\ufeff" in text[: candidate.start]:
            candidate.notes["a byte order mark"] = 0.95


def _final(text: str, found: list[Candidate]) -> list[Candidate]:
    """The last value alone, where the text itself says that it is the one that counts."""
    if len(found) < 2 or found[-1].reading.cut:
        return found
    last = found[-1]
    said = _CLAUSE.split(text[found[-2].reading.end : last.start].strip())[-1]
    if len(said) > MAX_SAID or not _FINAL.search(said) or _NOT_FINAL.search(said.lower()):
        return found
    last.notes["the value that the text calls final"] = 0.85
    return [last]


def _without_opener(text: str, notes: dict[str, float], max_depth: int) -> list[Candidate]:
    """Members of an object whose opening brace is missing."""
    if text.lstrip()[:1] not in ('"', "'", "“") or not _MEMBERS.match(text) or not text.rstrip().endswith("}"):
        return []
    try:
        reading = read("{" + text.strip(), max_depth=max_depth)
    except TooDeep:
        return []
    if reading.cut:
        return []
    reading.notes["the opening brace was missing"] = 0.85
    return [Candidate(reading, 0, dict(notes))]


def _without_brackets(text: str, notes: dict[str, float], max_depth: int) -> list[Candidate]:
    """Members whose braces are missing, or one a line."""
    if not _MEMBERS.match(text):
        return []
    try:
        reading = read("{" + text.strip().removesuffix("}") + "}", max_depth=max_depth)
    except TooDeep:
        return []
    reading.notes["braces were missing"] = 0.8 if text.lstrip()[:1] in "\"'“" else 0.7
    reading.end = len(text)
    return [Candidate(reading, 0, dict(notes))]
