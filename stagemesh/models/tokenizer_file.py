"""A model's tokenizer as data: `tokenizer.json` text, the bytes of each token, special tokens, chat template."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from stagemesh.models.byte_alphabet import bytes_of_token
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.gguf_tokenizer import read_gguf_tokenizer
from stagemesh.models.model_config import load_model_config, read_json
from stagemesh.models.store import ModelFiles

BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, kw_only=True)
class TokenizerFile:
    """Everything about text ↔ tokens of one model. Immutable; share one per process."""

    json: str
    """A Hugging Face `tokenizer.json`; `llguidance.LLTokenizer` and `fastokens` take it as it is."""
    vocab_size: int
    """Highest token ID plus one; the model's embedding may have more rows."""
    special_tokens: Mapping[str, int]
    """Control tokens by their text, e.g. `<|im_end|>`: never produced from a caller's words."""
    strips: Mapping[str, tuple[bool, bool]]
    """Special tokens that swallow white space (before, after) them."""
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    """Tokens that end an answer."""
    adds_bos: bool
    """A raw prompt begins with the BOS token."""
    chat_template: str
    """Jinja text, empty if the model has none."""
    token_texts: tuple[str | None, ...]
    """By ID, as the vocabulary spells them; None for a gap."""
    byte_level: bool
    """The vocabulary spells bytes in GPT-2's alphabet; otherwise it is SentencePiece-like (`▁`, `<0x0A>`)."""

    @cached_property
    def tokenizer_hash(self) -> str:
        """SHA-256 of all that decides text ↔ tokens."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    @cached_property
    def template_hash(self) -> str:
        """SHA-256 of the chat template."""
        return hashlib.sha256(self.chat_template.encode()).hexdigest()

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.special_tokens.values())

    @cached_property
    def all_token_bytes(self) -> tuple[bytes, ...]:
        """By ID, the bytes that a token adds to the text; special tokens as their text, gaps empty."""
        return tuple(b"" if text is None else self._bytes_of(text) for text in self.token_texts)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to the text. Raises IndexError outside the vocabulary."""
        if token_id < 0:
            raise IndexError(token_id)
        return self.all_token_bytes[token_id]

    def token_text(self, token_id: int | None) -> str:
        """The vocabulary's spelling, e.g. of the BOS token for templates; empty for none."""
        return "" if token_id is None else self.token_texts[token_id] or ""

    def build(self) -> Tokenizer:
        """A new reference tokenizer (about 100 ms)."""
        try:
            return Tokenizer.from_str(self.json)
        except Exception as error:  # noqa: BLE001  the library raises bare Exception
            raise ModelCorrupt(f"the tokenizer cannot be built: {error}") from None

    def _bytes_of(self, text: str) -> bytes:
        if self.byte_level:
            return bytes_of_token(text)
        if (byte := BYTE_TOKEN.fullmatch(text)) is not None:
            return bytes([int(byte[1], 16)])
        return text.replace("▁", " ").encode()


def load_tokenizer(files: ModelFiles) -> TokenizerFile:
    """Read the tokenizer of a model (0.3 s for 49,152 tokens). Raises ModelCorrupt or UnsupportedModel."""
    config = load_model_config(files)
    if files.kind == "gguf":
        parts = read_gguf_tokenizer(files.path)
        values, template, adds_bos = parts.json, parts.chat_template, parts.adds_bos
    else:
        values = read_json(files.path / "tokenizer.json")
        template, adds_bos = _read_template(files.path), _adds_bos(values)
    texts, special = _vocabulary(values, files.path)
    return TokenizerFile(
        json=json.dumps(values, ensure_ascii=False, separators=(",", ":")),
        vocab_size=len(texts),
        special_tokens=special,
        strips=_strips(values),
        bos_token_id=config.bos_token_id,
        eos_token_ids=config.eos_token_ids,
        adds_bos=adds_bos,
        chat_template=template,
        token_texts=texts,
        byte_level=_is_byte_level(values, files.path),
    )


def _vocabulary(values: dict[str, Any], path: Path) -> tuple[tuple[str | None, ...], dict[str, int]]:
    try:
        vocab: dict[str, int] = dict(values["model"]["vocab"])
        added = [(str(token["content"]), int(token["id"]), bool(token["special"])) for token in values["added_tokens"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelCorrupt(f"{path}: the tokenizer lacks {error}") from None
    vocab |= {text: token_id for text, token_id, _ in added}
    size = max(vocab.values(), default=-1) + 1
    if not 0 < size <= 4 * len(vocab) or min(vocab.values()) < 0:
        raise ModelCorrupt(f"{path}: token IDs up to {size - 1} for {len(vocab)} tokens")
    texts: list[str | None] = [None] * size
    for text, token_id in vocab.items():
        texts[token_id] = text
    return tuple(texts), {text: token_id for text, token_id, is_special in added if is_special}


def _strips(values: dict[str, Any]) -> dict[str, tuple[bool, bool]]:
    flags = {
        str(token["content"]): (bool(token.get("lstrip")), bool(token.get("rstrip")))
        for token in values["added_tokens"]
        if token["special"]
    }
    return {text: pair for text, pair in flags.items() if any(pair)}


def _is_byte_level(values: dict[str, Any], path: Path) -> bool:
    if values["model"].get("type", "BPE") != "BPE":
        raise UnsupportedModel(f"{path}: a tokenizer of type {values['model'].get('type')}; BPE is supported")
    decoder = values.get("decoder") or {}
    kinds = {part.get("type") for part in (decoder, *decoder.get("decoders", ()))}
    if "ByteLevel" in kinds:
        return True
    if "ByteFallback" in kinds:
        return False
    raise UnsupportedModel(f"{path}: its decoder is neither byte-level nor byte-fallback ({sorted(map(str, kinds))})")


def _adds_bos(values: dict[str, Any]) -> bool:
    """Whether the post-processor puts a special token in front of a single text."""
    processor = values.get("post_processor") or {}
    for part in (processor, *processor.get("processors", ())):
        single = part.get("single") or [{}]
        if part.get("type") == "TemplateProcessing" and "SpecialToken" in single[0]:
            return True
    return False


def _read_template(folder: Path) -> str:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    config_path = folder / "tokenizer_config.json"
    template = read_json(config_path).get("chat_template") if config_path.is_file() else None
    if isinstance(template, list):  # several templates by name
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    return template if isinstance(template, str) else ""
