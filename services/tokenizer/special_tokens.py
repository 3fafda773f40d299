"""Keep a caller's words apart from control tokens, before and after the chat template.

A caller may write `<|im_end|>` in a message; it must reach the model as six characters of text and not end the turn.
So before rendering, a mark (a Unicode noncharacter that occurs nowhere else) is put behind every character of the
caller's text at which a special token could begin. In the rendered prompt a special token without marks comes from the
template; the marks are removed from what lies between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import InvalidRequest

MARKS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
TAG = re.compile(r"</?[A-Za-z_]+>")


@dataclass(frozen=True)
class Piece:
    """A stretch of a prompt: ordinary text, or one special token."""

    text: str
    special_id: int | None = None


class SpecialTokens:
    """The special tokens of one vocabulary, seen with one chat template."""

    def __init__(self, file: TokenizerFile) -> None:
        self._ids: Mapping[str, int] = file.special_tokens
        self._first_chars = sorted({text[0] for text in self._ids})
        # Templates look for tags such as </think> in messages; those may stand unmarked where no special token
        # begins with them.
        tags = {*TAG.findall(file.chat_template), *file.plain_added_tokens}
        self._tags = sorted(
            tag
            for tag in tags
            if tag[0] in self._first_chars
            and not any(text.startswith(tag) or tag.startswith(text) for text in self._ids)
        )
        self._pattern = self._compile(file) if self._ids else None

    def guard(self, text: str, mark: str) -> str:
        """The caller's `text` with marks, so that no special token begins in it."""
        for char in self._first_chars:
            text = text.replace(char, char + mark)
        for tag in self._tags:
            text = text.replace(tag[0] + mark + tag[1:].replace(tag[0], tag[0] + mark), tag)
        return text

    def split(self, prompt: str, mark: str = "") -> list[Piece]:
        """The pieces of a rendered prompt, marks removed. White space that a special token swallows is gone.

        Without a mark, every special token in the text counts: raw prompts, whose author writes them himself.
        """
        if self._pattern is None:
            return [Piece(_unmarked(prompt, mark))] if prompt else []
        pieces: list[Piece] = []
        end = 0
        for match in self._pattern.finditer(prompt):
            # The mark stands right behind a character of the caller's: a token of one character is his, too.
            if mark and prompt.startswith(mark, match.end(1)):
                continue
            if match.start() > end:
                pieces.append(Piece(_unmarked(prompt[end : match.start()], mark)))
            pieces.append(Piece(match[1], self._ids[match[1]]))
            end = match.end()
        if end < len(prompt):
            pieces.append(Piece(_unmarked(prompt[end:], mark)))
        return [piece for piece in pieces if piece.text]

    def _compile(self, file: TokenizerFile) -> re.Pattern[str]:
        # Longest first, as the tokenizer library matches.
        texts = sorted(self._ids, key=len, reverse=True)
        core = f"({'|'.join(map(re.escape, texts))})"
        if not file.strips:
            return re.compile(core)
        before = "|".join(re.escape(text) for text, (left, _) in file.strips.items() if left)
        after = "|".join(re.escape(text) for text, (_, right) in file.strips.items() if right)
        left = rf"(?:\s+(?={before}))?" if before else ""
        right = "".join(rf"(?:(?<={re.escape(text)})\s+)?" for text, (_, right) in file.strips.items() if right)
        return re.compile(left + core + (right if after else ""))


def _unmarked(text: str, mark: str) -> str:
    return text.replace(mark, "") if mark else text


def choose_mark(texts: Iterable[str]) -> str:
    """A mark that occurs in none of `texts`. Raises InvalidRequest when a caller has used them all."""
    known: Sequence[str] = list(texts)
    for mark in MARKS:
        if not any(mark in text for text in known):
            return mark
    raise InvalidRequest("INVALID_TEXT", "the text holds all Unicode noncharacters from U+FDD0 to U+FDEF; remove one")
