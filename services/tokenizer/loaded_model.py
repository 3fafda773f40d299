"""One model's tokenizer, ready for work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.tokenizer.encoder import Encoder
from services.tokenizer.special_tokens import Piece, SpecialTokens
from stagemesh.models.chat_template import ChatTemplate, compile_template
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    name: str
    file: TokenizerFile
    encoder: Encoder
    special: SpecialTokens
    template: ChatTemplate | None
    """None for a model that was not trained for chat."""
    context_length: int
    max_token_bytes: int
    """Of the longest ordinary token: a text of N bytes has at least N / max_token_bytes tokens."""

    def encode_pieces(self, pieces: Sequence[Piece]) -> list[int]:
        """The token IDs of a split prompt."""
        ids: list[int] = []
        for piece in pieces:
            if piece.special_id is None:
                ids.extend(self.encoder.encode(piece.text))
            else:
                ids.append(piece.special_id)
        return ids

    def encode_raw(self, text: str, *, add_bos: bool) -> list[int]:
        """A text whose author may write special tokens: raw prompts and `Encode`."""
        ids = self.encode_pieces(self.special.split(text))
        bos = self.file.bos_token_id
        return [bos, *ids] if add_bos and self.file.adds_bos and bos is not None else ids

    def decode(self, token_ids: Sequence[int], *, keep_special: bool) -> str:
        """The text of a whole sequence; bytes that are no UTF-8 become U+FFFD.

        Raises InvalidRequest TOKEN_OUT_OF_RANGE.
        """
        return self.token_bytes(token_ids, keep_special=keep_special).decode("utf-8", "replace")

    def token_bytes(self, token_ids: Sequence[int], *, keep_special: bool) -> bytes:
        """The bytes that the tokens stand for. Raises InvalidRequest TOKEN_OUT_OF_RANGE."""
        table, skipped = self.file.all_token_bytes, frozenset() if keep_special else self.file.special_ids
        try:
            return b"".join([table[token_id] for token_id in token_ids if token_id not in skipped])
        except IndexError:
            raise InvalidRequest(
                "TOKEN_OUT_OF_RANGE", f"a token ID is not below {len(table)}, the vocabulary of {self.name}"
            ) from None


def load_model(files: ModelFiles, library: str) -> LoadedModel:
    """Half a second of work. Raises ModelError."""
    file, config = load_tokenizer(files), load_model_config(files)
    ordinary = (data for token_id, data in enumerate(file.all_token_bytes) if token_id not in file.special_ids)
    return LoadedModel(
        name=files.name,
        file=file,
        encoder=Encoder(file, library),
        special=SpecialTokens(file),
        template=compile_template(file.chat_template) if file.chat_template else None,
        context_length=config.context_length,
        max_token_bytes=max(map(len, ordinary)),
    )
