"""What may stand between the tokens of a text that is nearly JSON: spaces, comments, stray characters."""

from __future__ import annotations

import re

SPACES = re.compile(r"[ \t\r\n]+")
_ODD = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\xa0\xad\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]+"
)
_LINE = re.compile(r"//[^\n]*|#[^\n]*|```[A-Za-z]*|(?<=\s)--[ \t][^\n]*|<!--[^>\n]{0,400}-->")
_LEFT_OUT = re.compile(
    r"\b(?:more|omitted|remaining|rest|etc|and so on|truncated|snip|others?|same|likewise)\b|\.\.\.|…"
    r"|其余|其他|省略|更多|同上|以此类推|类推|等等|略",
    re.IGNORECASE,
)
"""What a comment says that stands in the place of something."""
_ELLIPSIS = re.compile(r"\.{3,}|…+")


class Trivia:
    """Skips it from a position on, and tells what of it is not JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._no_block_end = False
        """No `*/` follows anywhere, so that it is not looked for again."""

    def skip(self, position: int, noted: dict[str, float]) -> int:
        """The position after it; `noted` gets reason and confidence."""
        text = self._text
        while position < len(text):
            if match := SPACES.match(text, position):
                position = match.end()
            elif match := _ODD.match(text, position):
                noted.setdefault("characters that are no white space of JSON", 0.9)
                position = match.end()
            elif (end := self._comment_end(position)) > 0:
                if _LEFT_OUT.search(text, position, end):
                    noted["a comment about something left out"] = 0.5
                else:
                    noted.setdefault("a comment", 0.9)
                position = end
            elif match := _ELLIPSIS.match(text, position):
                noted["an ellipsis in place of something"] = 0.5
                position = match.end()
            else:
                break
        return position

    def _comment_end(self, position: int) -> int:
        if match := _LINE.match(self._text, position):
            return match.end()
        return self._block_end(position) if self._text.startswith("/*", position) else -1

    def _block_end(self, position: int) -> int:
        if self._no_block_end:
            return -1
        end = self._text.find("*/", position + 2)
        self._no_block_end = end < 0
        return end + 2 if end >= 0 else -1
