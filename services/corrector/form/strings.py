"""One string of a text that is nearly JSON: where it ends, and what it says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from services.corrector.form.marks import CLOSING_QUOTES, SECOND_KEY, STRING_ENDS

PLAIN = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_RUN = re.compile(r"[^\"'`“”‘’」』＂＇»\\\x00-\x1f]+")
_BEFORE_KEY = re.compile(r"[,，;；]?[\s]*\Z")
_ESCAPED = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
_CLOSERS = "}]｝］ \n"
_AFTER_COLON = re.compile(r"[:：]\s*\Z")
_MARKDOWN = "_*`$&#[](){}~<>|'-.!"
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass
class ReadString:
    value: str
    end: int
    closed: bool = True
    notes: list[tuple[str, float]] = field(default_factory=list)
    """Reason and confidence of what was not JSON in it."""


class StringReader:
    """Reads the string whose quote is at `start`, in the place `context`: `key`, `member` or `item`."""

    def __init__(self, text: str, start: int, context: str) -> None:
        self._text, self._context, self._position = text, context, start + 1
        self._start, self._closers = start + 1, CLOSING_QUOTES[text[start]]
        self._parts: list[str] = []
        self._notes: list[tuple[str, float]] = []
        self._num_inner = 0

    def read(self) -> ReadString:
        text = self._text
        while self._position < len(text):
            if run := _RUN.match(text, self._position):
                self._parts.append(run[0])
                self._position = run.end()
                continue
            char = text[self._position]
            if char == "\\":
                self._escape()
            elif char in self._closers:
                if done := self._quote():
                    return done
            elif char < " ":
                self._control(char)
            else:
                self._parts.append('\\"' if char == '"' else char)
                self._position += 1
        return self._unclosed()

    def _quote(self) -> ReadString | None:
        """At a quote: the end, the beginning of the next key, or a part of the string."""
        at = self._position
        if STRING_ENDS[self._context].match(self._text, at + 1):
            return self._done(at + 1)
        if self._context == "member" and self._start < at and SECOND_KEY.match(self._text, at + 1):
            raw = self._text[max(self._start, at - 200) : at]
            before = _BEFORE_KEY.search(raw)
            if before is not None and before[0]:
                self._parts = [self._joined().removesuffix(before[0].translate(_ESCAPED))]
                self._notes = [note for note in self._notes if "line break" not in note[0]]
                self._note("a string's closing quote was missing", 0.8)
                return self._done(at - len(before[0]))
        if self._context == "key" and (before := _AFTER_COLON.search(self._text[max(self._start, at - 40) : at])):
            self._parts = [self._joined().removesuffix(before[0])]
            self._note("a key's closing quote was missing", 0.8)
            return self._done(at - len(before[0]))
        if not self._is_apostrophe(at):
            self._num_inner += 1
        self._parts.append('\\"' if self._text[at] == '"' else self._text[at])
        self._position += 1
        return None

    def _is_apostrophe(self, at: int) -> bool:
        around = self._text[at - 1] + self._text[at + 1 : at + 2]
        return self._text[at] in "'’" and len(around) == 2 and around.isalpha()

    def _escape(self) -> None:
        if match := _ESCAPE.match(self._text, self._position):
            self._parts.append(match[0])
            self._position = match.end()
            return
        following = self._text[self._position + 1 : self._position + 2]
        if following in _MARKDOWN or following == "\n":
            self._parts.append("" if following == "\n" else following)
            self._note("an escape that JSON does not have", 0.85)
            self._position += 1 + len(following)
            return
        self._parts.append("\\\\")
        near = self._text[max(self._start, self._position - 100) : self._position + 100]
        self._note("a backslash that stood alone", 0.7 if re.search(r"\\[bfnrtu]", near) else 0.8)
        self._position += 1

    def _control(self, char: str) -> None:
        if char in "\n\r\t":
            if not (char == "\r" and self._text[self._position + 1 : self._position + 2] == "\n"):
                self._parts.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char])
            else:
                self._parts.append("\\r")
            self._note("a line break or tab in a string", 0.85 if self._is_prose() else 0.7)
        else:
            self._note("a control character was removed", 0.85)
        self._position += 1

    def _is_prose(self) -> bool:
        """Text in lines, rather than one word that something broke apart."""
        around = self._text[max(0, self._position - 1)] + self._text[self._position + 1 : self._position + 2]
        before = self._text[max(self._start, self._position - 40) : self._position]
        return any(not char.isalnum() for char in around) or before.count(" ") >= 3 or len(before) == 40

    def _unclosed(self) -> ReadString:
        raw = self._text[self._start :].rstrip()
        bare = raw.rstrip(_CLOSERS)
        if self._num_inner == 0 and bare and len(bare) < len(raw):
            body = self._joined()
            self._parts = [body.rstrip().removesuffix(raw[len(bare) :]).rstrip()] if "\\" not in body else [body]
            self._note("a string's closing quote was missing at the end", 0.6)
            return self._done(self._start + len(bare))
        done = self._done(len(self._text))
        done.closed = False
        return done

    def _done(self, end: int) -> ReadString:
        if self._num_inner:
            is_sure = self._num_inner % 2 == 0 and "\n" not in self._text[self._start : end]
            self._note("quotes within a string", 0.85 if is_sure else 0.65)
        body = self._joined()
        value = json.loads(f'"{body}"')
        if _SURROGATE.search(value):
            value = _SURROGATE.sub("\ufffd", value)
            self._note("half of a surrogate pair", 0.5)
        return ReadString(value=value, end=end, notes=self._notes)

    def _joined(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def _note(self, reason: str, confidence: float) -> None:
        if (reason, confidence) not in self._notes:
            self._notes.append((reason, confidence))
