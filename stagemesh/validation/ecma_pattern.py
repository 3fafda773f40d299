"""Patterns of JSON Schema as the validator means them, written so that the grammar's library means the same.

JSON Schema's regexes are ECMA-262's. The grammar's library reads Rust's, where `.` matches a carriage return, `\\s` has
another set of spaces, and brackets within a class have a meaning. What is written here says it all in full.
"""

from __future__ import annotations

from dataclasses import dataclass

ANY = r"[^\n\r\u2028\u2029]"
"""`.`: all but line terminators."""
SPACES = r"\t\n\x0B\x0C\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF"
"""`\\s`, as members of a class."""
NESTING_IN_CLASS = "[&~"
"""Unescaped members of a class that Rust takes for operators, or for the beginning of an inner class."""


@dataclass
class _Reader:
    text: str
    at: int = 0

    def is_done(self) -> bool:
        return self.at >= len(self.text)

    def take(self, count: int = 1) -> str:
        taken = self.text[self.at : self.at + count]
        self.at += len(taken)
        return taken


def to_plain(pattern: str) -> str:
    """The same pattern without what the two dialects differ in. What is no pattern stays none."""
    reader, parts = _Reader(pattern), list[str]()
    while not reader.is_done():
        char = reader.take()
        if char == "\\":
            parts.append(_escape(reader, in_class=False))
        elif char == "[":
            parts.append(_class(reader))
        else:
            parts.append(ANY if char == "." else char)
    return "".join(parts)


def _class(reader: _Reader) -> str:
    """After its opening bracket, up to and including the closing one."""
    parts = ["["]
    if reader.text.startswith("^", reader.at):
        parts.append(reader.take())
    while not reader.is_done():
        char = reader.take()
        if char == "]":
            return "".join([*parts, "]"])
        if char == "\\":
            parts.append(_escape(reader, in_class=True))
        elif char == "-":
            parts.append(_dash(reader, parts))
        else:
            parts.append("\\" + char if char in NESTING_IN_CLASS else char)
    return "".join(parts)  # it never closes: the library says so


def _dash(reader: _Reader, parts: list[str]) -> str:
    """As it stands between the ends of a range, else escaped."""
    is_first = parts[-1] in {"[", "^"} or reader.text.startswith("]", reader.at)
    if not is_first and reader.text.startswith("-]", reader.at):
        return "-" + "\\" + reader.take()  # a range up to a dash
    return r"\-" if is_first else "-"


def _escape(reader: _Reader, *, in_class: bool) -> str:
    """After a backslash."""
    char = reader.take()
    if char == "s":
        return SPACES if in_class else f"[{SPACES}]"
    if char == "S":
        return f"[^{SPACES}]"
    if char == "c" and not reader.is_done() and reader.text[reader.at].isascii() and reader.text[reader.at].isalpha():
        return f"\\x{ord(reader.take()) % 32:02X}"
    return "\\" + char
