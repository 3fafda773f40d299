"""Short ends of a grammar: tokens that close what is open and fill in what is required."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

MAX_END_TOKENS = 256
"""A longer end is not looked for."""
CLOSERS = frozenset(b'"]}')
PREFERRED = {b"0": 2, b"1": 3, b",": 4}
"""After what closes: what leads to a close soon."""
MAX_REPEATS = 8
QUOTE, LETTER = b'"', b"a"
FILLERS = b"000@.aaD-/:x"
"""Written in turn within a string that cannot be closed yet: what patterns and formats mostly wait for."""


class EndFinder:
    """Ranks the vocabulary once: what closes comes first."""

    def __init__(self, token_bytes: Sequence[bytes], eos: frozenset[int]) -> None:
        ranked = sorted((rank, token) for token, text in enumerate(token_bytes) if (rank := _rank(text)) is not None)
        self._preferred = np.asarray([token for _, token in ranked], dtype=np.int64)
        self._bytes, self._bits = self._preferred // 8, (1 << self._preferred % 8).astype(np.uint8)
        self._eos = sorted(eos)
        single = {text: token for token, text in enumerate(token_bytes) if len(text) == 1}
        self._quote, self._letter = single.get(QUOTE, 0), single.get(LETTER, 0)
        self._fillers = [single[bytes([byte])] for byte in FILLERS if bytes([byte]) in single]

    @property
    def eos(self) -> int | None:
        """A token that ends an answer, if there is one."""
        return self._eos[0] if self._eos else None

    def find(self, matcher: LLMatcher) -> list[int] | None:
        """Tokens that complete the grammar from the matcher's state, which is left as it was; None if not found."""
        matcher = matcher.deep_copy()
        end: list[int] = []
        while len(end) <= MAX_END_TOKENS:
            if matcher.is_stopped():
                return None if matcher.is_error() else end
            if matcher.is_accepting():
                return end
            tokens = matcher.compute_ff_tokens() or [self._best(matcher, end)]
            if not matcher.consume_tokens(tokens):
                return None
            end += tokens
        return None

    def find_after(self, token: int, end: list[int], matcher: LLMatcher) -> list[int] | None:
        """As `find` after `token`, where `end` completes the present state. Mostly that is an end there, too."""
        after = matcher.deep_copy()
        if not after.consume_token(token):
            return None
        same = after.deep_copy()
        if same.try_consume_tokens(end) == len(end) and same.is_accepting():
            return end
        return self.find(after)

    def _best(self, matcher: LLMatcher, end: list[int]) -> int:
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        position = len(end)
        if position >= MAX_REPEATS and len(set(end[-MAX_REPEATS:])) == 1:  # this leads nowhere
            allowed = np.flatnonzero(np.unpackbits(mask, bitorder="little"))
            return int(allowed[position % len(allowed)]) if len(allowed) else 0
        if _has(mask, self._letter) and not _has(mask, self._quote):
            turn = position % max(1, len(self._fillers))
            in_turn = (token for token in self._fillers[turn:] + self._fillers[:turn] if _has(mask, token))
            return next(in_turn, self._letter)
        allowed = np.flatnonzero(mask[self._bytes] & self._bits)
        if len(allowed):
            return int(self._preferred[allowed[0]])
        byte = int(np.argmax(mask != 0))
        return byte * 8 + _lowest_bit(int(mask[byte]))


def _has(mask: npt.NDArray[np.uint8], token: int) -> bool:
    return bool(mask[token // 8] >> token % 8 & 1)


def _lowest_bit(value: int) -> int:
    return max(0, (value & -value).bit_length() - 1)


def _rank(text: bytes) -> int | None:
    if text and CLOSERS.issuperset(text):
        return 0 if len(text) == 1 else 1
    return PREFERRED.get(text)
