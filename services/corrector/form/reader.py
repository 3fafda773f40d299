"""Read a text that is nearly JSON, in one pass, and say what was not JSON in it.

The reader never guesses in silence: each departure from JSON is a note with a confidence, and what one name says twice
is kept twice. It goes forward only, so no text takes more than linear time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from services.corrector.form.marks import (
    CLOSERS,
    CLOSES_OBJECT,
    CLOSING_QUOTES,
    OPENERS,
    PREFIXED_QUOTE,
    STRING_ENDS,
)
from services.corrector.form.strings import PLAIN, StringReader
from services.corrector.form.trivia import Trivia
from services.corrector.form.values import Several, same
from services.corrector.form.words import read_call, read_key_word, read_word
from stagemesh.validation.pointer import Path

TELLING = frozenset('{}[]:,"0123456789tfn')
"""Characters with which a token of JSON begins; most of what is read."""


class TooDeep(Exception):
    """Brackets nest deeper than is allowed."""


@dataclass
class Reading:
    value: Any
    end: int
    notes: dict[str, float] = field(default_factory=dict)
    """What was not JSON → confidence of how it was read."""
    cut: bool = False
    """The text ended before the value did."""
    open_paths: list[Path] = field(default_factory=list)
    """Containers that were open when the text ended, the outermost first."""
    partial: Path | None = None
    """The scalar in which the text ended."""
    several: list[Path] = field(default_factory=list)


def read(text: str, start: int = 0, *, max_depth: int = 128) -> Reading:
    """The value that begins at `start`. Raises TooDeep."""
    return _Reader(text, max_depth).read(start)


class _Reader:
    def __init__(self, text: str, max_depth: int) -> None:
        self._text, self._max_depth = text, max_depth
        self._trivia = Trivia(text)
        self._position = 0
        self._path: list[str | int] = []
        self._stack: list[str] = []
        self._out = Reading(value=None, end=0)

    def read(self, start: int) -> Reading:
        self._position = start
        self._out.value = self._value("root")
        self._out.end = self._position
        return self._out

    def _note(self, reason: str, confidence: float) -> None:
        self._out.notes[reason] = min(confidence, self._out.notes.get(reason, 1.0))

    def _skip(self) -> str:
        """The next character that says something; empty at the end of the text."""
        text, position = self._text, self._position
        char = text[position : position + 1]
        if char == " ":
            position += 1
            char = text[position : position + 1]
        if char in TELLING and char:
            self._position = position
            return char
        self._position = self._trivia.skip(self._position, self._out.notes)
        return self._text[self._position : self._position + 1]

    def _value(self, context: str) -> Any:
        char = self._skip()
        if char in OPENERS and char:
            return self._container(char)
        if char in CLOSING_QUOTES and char:
            return self._string("item" if context == "root" else context)
        if match := PREFIXED_QUOTE.match(self._text, self._position):
            self._note("a string with a prefix", 0.85)
            self._position = match.end()
            return self._string("item" if context == "root" else context)
        if call := read_call(self._text, self._position):
            return self._call(call)
        word = read_word(self._text, self._position, "item" if context == "root" else context)
        self._position = word.end
        for reason, confidence in word.notes:
            self._note(reason, confidence)
        if word.cut:
            self._out.partial, self._out.cut = tuple(self._path), True
        return word.value

    def _call(self, end: int) -> Any:
        """`ObjectId("…")`, `Decimal('1.5')`: the argument."""
        name = self._text[self._position : end - 1]
        self._position = end - 1
        arguments = self._container("(")
        self._note(f"a call of {name.strip()[:40]}", 0.85)
        if name.endswith(("date", "datetime")) and isinstance(arguments, list) and len(arguments) >= 3:
            return "-".join(str(part).zfill(2) for part in arguments[:3])
        if isinstance(arguments, list) and len(arguments) == 1:
            return arguments[0]
        return arguments

    def _string(self, context: str) -> str:
        text = self._text
        if (match := PLAIN.match(text, self._position)) and STRING_ENDS[context].match(text, match.end()):
            self._position = match.end()
            if self._position == len(text) and self._stack:
                self._out.cut = True
            return match[1]
        triple = text[self._position : self._position + 3]
        if triple in ('"""', "'''") and (end := text.find(triple, self._position + 3)) > 0:
            value = text[self._position + 3 : end]
            self._note("a string in three quotes", 0.85)
            self._position = end + 3
            return value
        if text[self._position] != '"':
            self._note("quotes that are not JSON's", 0.9)
        done = StringReader(text, self._position, context).read()
        self._position = done.end
        for reason, confidence in done.notes:
            self._note(reason, confidence)
        if not done.closed:
            self._out.partial, self._out.cut = tuple(self._path), True
        return done.value

    def _container(self, opener: str) -> Any:
        if len(self._stack) >= self._max_depth:
            raise TooDeep
        kind = OPENERS[opener]
        if opener not in "{[":
            self._note("brackets that are not JSON's", 0.9 if opener in "｛［【" else 0.85)
        self._position += 1
        self._stack.append(kind)
        try:
            return self._members() if kind == "object" else self._items()
        finally:
            self._stack.pop()

    def _ended(self, char: str, closes: str) -> bool:
        """At the end of a container, or of one around it; a stray closing bracket is passed over."""
        while char and char in CLOSERS:
            if char in closes:
                if char not in "}])":
                    self._note("brackets that are not JSON's", 0.9)
                self._position += 1
                return True
            kinds = ("object",) if char in CLOSES_OBJECT else ("array", "tuple")
            if any(kind in kinds for kind in self._stack[:-1]):
                self._note("a closing bracket was missing", 0.8)
                return True
            self._note("a closing bracket too many", 0.8)
            self._position += 1
            char = self._skip()
        if not char:
            self._out.cut = True
            self._out.open_paths.insert(0, tuple(self._path))
        return not char

    def _commas(self, *, first: bool) -> None:
        """What separates members and items: one comma, or not."""
        num, odd = 0, False
        while (char := self._skip()) and char in ",，、;；":
            num, odd = num + 1, odd or char != ","
            self._position += 1
        if odd:
            self._note("commas that are not JSON's", 0.6 if first else 0.9)
        if first and num:
            self._note("a comma too many", 0.9)
        elif num > 1:
            self._note("a comma too many", 0.9 if self._stack[-1] == "object" else 0.75)
        if not char:
            return
        if num == 0 and not first and char not in CLOSERS:
            self._note("a comma was missing", 0.85)
        if num == 1 and not first and char in CLOSERS:
            self._note("a comma too many", 0.9)

    def _items(self) -> list[Any]:
        items: list[Any] = []
        closes = ")）" if self._stack[-1] == "tuple" else "]］】"
        while True:
            self._commas(first=not items)
            if self._ended(self._skip(), closes):
                return items
            before = self._position
            self._path.append(len(items))
            if self._text[before] in ":：":
                self._position += 1
                self._note("a colon in an array", 0.5)
            else:
                items.append(self._value("item"))
            self._path.pop()
            if self._position == before:
                self._position += 1
                self._note("characters that mean nothing in JSON", 0.5)

    def _members(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        first = True
        while True:
            self._commas(first=first)
            if self._ended(self._skip(), "}｝"):
                return members
            first, before = False, self._position
            key = self._key()
            self._colon(key, members)
            if self._position == before:
                self._position += 1
                self._note("characters that mean nothing in JSON", 0.5)

    def _key(self) -> str:
        char = self._text[self._position]
        if char in CLOSING_QUOTES:
            key = self._string("key")
            if self._out.cut:
                self._out.partial = None
            if any(char in key for char in "\n{}"):
                self._note("a name that reads like more than a name", 0.5)
            return key
        key, self._position = read_key_word(self._text, self._position)
        self._note("keys without quotes", 0.9)
        return key

    def _colon(self, key: str, members: dict[str, Any]) -> None:
        """The rest of a member after its key."""
        char = self._skip()
        if not char:
            self._out.cut = True
            return
        if char in ":：=":
            if char != ":":
                self._note("colons that are not JSON's", 0.9)
            self._position += 1
            while self._text[self._position : self._position + 1] in (">", "=", ":"):
                self._position += 1
        elif char in CLOSERS or char in ",，;；":
            self._note("a key without a value", 0.4)
            return
        else:
            self._note("a colon was missing", 0.8)
        char = self._skip()
        if char and (char in ",，;；" or char in CLOSERS):
            self._note("a key without a value", 0.7)
        elif char:
            self._path.append(key)
            self._add(members, key, self._value("member"))
            self._path.pop()
        else:
            self._out.cut = True

    def _add(self, members: dict[str, Any], key: str, value: Any) -> None:
        while (
            self._skip() == "+"
            and self._text[self._position + 1 :].lstrip()[:1] in ("'", '"')
            and isinstance(value, str)
        ):
            self._position += 1
            self._skip()
            value += self._string("member")
            self._note("joined strings", 0.85)
        if key not in members:
            members[key] = value
            return
        held = members[key].values if isinstance(members[key], Several) else [members[key]]
        if any(same(value, other) for other in held):
            self._note("a member that stood twice", 0.9)
            return
        members[key] = Several([*held, value])
        if tuple(self._path) not in self._out.several:
            self._out.several.append(tuple(self._path))
