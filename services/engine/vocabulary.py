"""What the engine knows of the model's tokens: their bytes, which are special, which end an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    token_bytes: Sequence[bytes]
    """By ID; the model may have more rows."""
    special: frozenset[int]
    """Control tokens, which are no part of the text."""
    eos: frozenset[int]

    def text(self, token: int) -> bytes:
        """What the token adds to the answer; special tokens and rows beyond the vocabulary add nothing."""
        return b"" if token in self.special or token >= len(self.token_bytes) else self.token_bytes[token]
