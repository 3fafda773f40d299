"""Text → token IDs with the fastest library that is exact for the vocabulary."""

from __future__ import annotations

import fastokens
from tokenizers import Tokenizer

from services.tokenizer.hard_strings import HARD_STRINGS
from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class Encoder:
    """Encodes ordinary text: what looks like a special token in it stays text. Thread-safe; releases the GIL."""

    def __init__(self, file: TokenizerFile, library: str) -> None:
        self._reference: Tokenizer = file.build()
        self._reference.encode_special_tokens = True
        self._fast = self._build_fast(file) if library == "auto" else None
        self.library = "tokenizers" if self._fast is None else "fastokens"

    def encode(self, text: str) -> list[int]:
        """Raises InvalidRequest INVALID_TEXT for text that is no Unicode (lone surrogates)."""
        if not text:
            return []
        try:
            if self._fast is not None:
                try:
                    return list(self._fast.encode(text, split_special_tokens=True).ids)
                except ValueError as error:
                    # Its regular expressions have a bounded stack: half a million blanks in a row exceed it.
                    log.info("text left to the reference library", chars=len(text), problem=str(error))
            return self._encode_reference(text)
        except UnicodeEncodeError:
            raise InvalidRequest(
                "INVALID_TEXT", "the text holds half of a surrogate pair; send valid Unicode"
            ) from None

    def _encode_reference(self, text: str) -> list[int]:
        ids: list[int] = self._reference.encode(text, add_special_tokens=False).ids
        return ids

    def _build_fast(self, file: TokenizerFile) -> fastokens.Tokenizer | None:
        """The fast library, or None when it cannot read this tokenizer or disagrees on one hard string."""
        try:
            fast = fastokens.Tokenizer.from_json_str(file.json)
            wrong = [
                text
                for text in HARD_STRINGS
                if fast.encode(text, split_special_tokens=True).ids != self._encode_reference(text)
            ]
        except Exception as error:  # noqa: BLE001  a library without error types; any failure means the reference
            log.info("fastokens does not take this tokenizer", problem=str(error))
            return None
        if wrong:
            log.info("fastokens disagrees with the reference library", num_strings=len(wrong), first=wrong[0])
            return None
        return fast
