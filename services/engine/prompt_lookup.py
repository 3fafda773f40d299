"""Guesses a sequence's next tokens from its own earlier ones: answers quote, repair and edit what stands in the prompt.

While the answer follows a passage, that passage goes on. When the answer leaves it, it is picked up again where the
last tokens occur close behind, or where they occurred last anywhere, or else one token further on, as after a word
that was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONG, SHORT = 3, 2
"""Tokens that must agree for a passage to be looked up."""
NEARBY_TOKENS = 48
"""How far behind the place where the answer left a passage it is looked for."""
MAX_LENGTH = 12
"""A longer agreement is not told apart."""
REPLACED = 0
"""The length of agreement that stands for "one token further on"."""


@dataclass(frozen=True)
class Passage:
    """Where the next token is expected, and how many tokens before it agree with the latest ones."""

    at: int
    length: int


class PromptLookup:
    """The passages of one sequence. Follows its tokens as they come; nothing is read twice."""

    def __init__(self) -> None:
        self._last_long: dict[tuple[int, ...], int] = {}
        self._last_short: dict[tuple[int, ...], int] = {}
        self._num_read = 0
        self.passage: Passage | None = None

    def follow(self, tokens: Sequence[int], first_output: int) -> Passage | None:
        """Read the tokens that are new; gives the passage that the next one is guessed from.

        Tokens before `first_output` are only remembered: there is nothing to guess in a prompt.
        """
        for at in range(self._num_read, len(tokens)):
            self._remember(tokens, at)
            if at >= first_output:
                self.passage = self._step(tokens, at)
        if self._num_read < first_output == len(tokens):
            self.passage = self._find(tokens, len(tokens))
        self._num_read = len(tokens)
        return self.passage

    def guess(self, tokens: Sequence[int], num_tokens: int) -> list[int]:
        """What follows at the passage; beyond the end it repeats itself."""
        if self.passage is None:
            return []
        passage = list(tokens[self.passage.at : self.passage.at + num_tokens])
        while 0 < len(passage) < num_tokens:
            passage += passage[: num_tokens - len(passage)]
        return passage

    def _remember(self, tokens: Sequence[int], at: int) -> None:
        """Note that token `at` follows those before it."""
        if at >= SHORT:
            self._last_short[(tokens[at - 2], tokens[at - 1])] = at
        if at >= LONG:
            self._last_long[(tokens[at - 3], tokens[at - 2], tokens[at - 1])] = at

    def _step(self, tokens: Sequence[int], at: int) -> Passage | None:
        """Token `at` came: the passage goes on if it was the one expected there."""
        passage = self.passage
        if passage is None:
            return self._find(tokens, at + 1)
        if tokens[passage.at] == tokens[at]:
            return Passage(passage.at + 1, min(MAX_LENGTH, passage.length + 1))
        return (
            self._nearby(tokens, at + 1, passage.at) or self._find(tokens, at + 1) or Passage(passage.at + 1, REPLACED)
        )

    def _nearby(self, tokens: Sequence[int], end: int, start: int) -> Passage | None:
        before, last = tokens[end - 2], tokens[end - 1]
        for at in range(start, min(start + NEARBY_TOKENS, end - 1)):
            if tokens[at] == last and tokens[at - 1] == before:
                return self._passage(tokens, end, at + 1)
        return None

    def _find(self, tokens: Sequence[int], end: int) -> Passage | None:
        """The last place where what tokens[:end] end with stood before."""
        at = None
        if end >= LONG:
            at = self._last_long.get((tokens[end - 3], tokens[end - 2], tokens[end - 1]))
        if at is None and end >= SHORT:
            at = self._last_short.get((tokens[end - 2], tokens[end - 1]))
        return None if at is None else self._passage(tokens, end, at)

    def _passage(self, tokens: Sequence[int], end: int, at: int) -> Passage:
        length = SHORT
        while length < min(MAX_LENGTH, at) and tokens[at - length - 1] == tokens[end - length - 1]:
            length += 1
        return Passage(at, length)
