"""Bring a JSON answer to its end when its tokens run out, so that what is cut is still well formed.

A small model can go on inside a string or an array until `max_tokens`. Now and then a shortest end is looked for: the
tokens that close what is open and fill in what is required. When no more tokens are left than that end needs, it is
taken, and the sequence ends with LENGTH, as anything that was cut. Everything follows from the tokens so far, so an
answer that is continued elsewhere ends the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

MAX_END_TOKENS = 256
"""A longer end is not looked for."""
MARGIN_TOKENS = 2
"""Tokens kept back beyond the end that was found."""
CHECK_FRACTION = 4
"""The next look is due when this part of the spare tokens has been used."""
CLOSERS = frozenset(b'"]}')
NOT_PREFERRED = 5


class EndFinder:
    """Ranks the vocabulary once: what closes comes first, what opens comes last."""

    def __init__(self, token_bytes: Sequence[bytes], eos: frozenset[int]) -> None:
        self._rank = np.asarray([_rank(text) for text in token_bytes], dtype=np.int8)
        self._eos = sorted(eos)

    def find(self, matcher: LLMatcher) -> list[int] | None:
        """Tokens that complete the grammar from the matcher's state, which is left as it was; None if not found."""
        matcher = matcher.deep_copy()
        end: list[int] = []
        while len(end) <= MAX_END_TOKENS:
            if matcher.is_stopped():
                return None if matcher.is_error() else end
            allowed = allowed_tokens(matcher)
            if allowed[self._eos].any():
                return end
            tokens = matcher.compute_ff_tokens() or [self._best(allowed)]
            if not matcher.consume_tokens(tokens):
                return None
            end += tokens
        return None

    def _best(self, allowed: npt.NDArray[np.bool_]) -> int:
        candidates = np.flatnonzero(allowed[: len(self._rank)])
        return int(candidates[self._rank[candidates].argmin()]) if len(candidates) else 0


class WrapUp:
    """Watches one sequence's budget."""

    def __init__(self, finder: EndFinder, max_output_tokens: int) -> None:
        self._finder = finder
        self._left = max_output_tokens
        self._next_look = max_output_tokens
        """Look again when so many tokens are left."""
        self.end: list[int] | None = None
        """The tokens to end with, once it is time."""

    def took(self, token: int, matcher: LLMatcher) -> None:
        """An output token has been consumed by `matcher`."""
        self._left -= 1
        if self.end is not None:
            self.end = self.end[1:] if self.end[:1] == [token] else None
        if self.end is None and self._left <= self._next_look and not matcher.is_stopped():
            self._look(matcher)

    def _look(self, matcher: LLMatcher) -> None:
        end = self._finder.find(matcher)
        spare = self._left - len(end) if end is not None else self._left
        if end is not None and 0 <= spare <= MARGIN_TOKENS:
            self.end = end
        self._next_look = self._left - max(1, spare // CHECK_FRACTION)


def allowed_tokens(matcher: LLMatcher) -> npt.NDArray[np.bool_]:
    """Which tokens may come next: [V of the tokenizer, padded to whole words]."""
    mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    return np.unpackbits(mask, bitorder="little").view(np.bool_)


def _rank(text: bytes) -> int:
    if text and CLOSERS.issuperset(text):
        return 0 if len(text) == 1 else 1
    return {b",": 2, b"0": 3, b"1": 4}.get(text, NOT_PREFERRED)
