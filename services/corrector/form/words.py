"""Scalars that stand without quotes: JSON literals, and everything else that people and programs write."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from services.corrector.form.marks import CALL, LITERAL, LITERAL_ENDS, WORD_ENDS
from services.corrector.form.values import Word, number_of

_CONSTANTS = {"true": True, "false": False, "null": None}
_RUN = {
    "member": re.compile(r"[^,，;；、{}\[\]｛｝［］\n\r/#\"\\]+"),
    "item": re.compile(r"[^,，;；、{}\[\]｛｝［］()（）\n\r/#\"\\]+"),
}
_COMMENT = re.compile(r"//|/\*|#|```")
_LATER_COMMENT = re.compile(r"\s(?:--[ \t]|<!--)")
_MAYBE_COMMENT = re.compile(r"\s(?:;|--|//|#)")
_KEY_WORD = re.compile(r"[^:：=,，;；{}\[\]｛｝\n\r]{0,100}")
_STRAY_QUOTES = "\"'“”‘’`"


@dataclass
class ReadWord:
    value: Any
    end: int
    cut: bool = False
    notes: list[tuple[str, float]] = field(default_factory=list)


def read_word(text: str, start: int, context: str) -> ReadWord:
    """A JSON literal, else a Word up to where the next member or item begins."""
    if (match := LITERAL.match(text, start)) and LITERAL_ENDS[context].match(text, match.end()):
        number = match[0]
        value = _CONSTANTS[number] if number in _CONSTANTS else number_of(number)
        if value is not None or number == "null":
            return ReadWord(value, match.end(), cut=match.end() == len(text) and number not in _CONSTANTS)
    end = _end(text, start, context)
    if later := _LATER_COMMENT.search(text, start, end):
        end = later.start()
    raw = text[start:end].rstrip()
    done = ReadWord(Word(raw.strip(_STRAY_QUOTES).strip()), end, cut=end == len(text))
    if raw.strip(_STRAY_QUOTES) != raw:
        done.notes.append(("a quote that opens or closes nothing", 0.75))
    if _MAYBE_COMMENT.search(raw):
        done.notes.append(("a word that may hold a comment", 0.6))
    done.notes.append(("values without quotes", 0.9))
    return done


def _end(text: str, start: int, context: str) -> int:
    position = start
    while position < len(text):
        if match := _RUN[context].match(text, position):
            position = match.end()
            continue
        char = text[position]
        if char in "{}[]｛｝［］\n\r()（）":
            break
        if char in ",，;；、" and WORD_ENDS[context].match(text, position):
            break
        if char in "/#`" and text[position - 1 : position].isspace() and _COMMENT.match(text, position):
            break
        position += 1
    return position


def read_key_word(text: str, start: int) -> tuple[str, int]:
    """A key without quotes, and where it ends."""
    match = _KEY_WORD.match(text, start)
    assert match is not None
    return match[0].strip().strip(_STRAY_QUOTES).strip(), match.end()


def read_call(text: str, start: int) -> int | None:
    """The end of `name(` at `start`, if that is there."""
    match = CALL.match(text, start)
    return match.end() if match else None
