"""Tokens of one answer → text, piece by piece, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from services.tokenizer.loaded_model import LoadedModel

new_decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """The pieces joined are exactly `LoadedModel.decode` of all tokens. Work per token does not grow with the text."""

    def __init__(self, model: LoadedModel, *, keep_special: bool) -> None:
        self._model = model
        self._keep_special = keep_special
        # Holds back at most three bytes, the beginning of a character.
        self._decoder = new_decoder("replace")
        self.num_tokens = 0

    def feed(self, token_ids: Sequence[int], *, end: bool) -> str:
        """The text that can be told for sure now; with `end` also what is left, as U+FFFD.

        Raises InvalidRequest TOKEN_OUT_OF_RANGE.
        """
        data = self._model.token_bytes(token_ids, keep_special=self._keep_special)
        self.num_tokens += len(token_ids)
        return self._decoder.decode(data, final=end)
