"""A model's tokenizer as data: `tokenizer.json` text, the bytes of each token, special tokens, chat template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from stagemesh.models.byte_alphabet import bytes_of_token
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.gguf_tokenizer import read_gguf_tokenizer
from stagemesh.models.hf_template import read_template
from stagemesh.models.model_config import TransformerConfig, load_model_config, read_json
from stagemesh.models.store import ModelFiles


@dataclass(frozen=True, kw_only=True)
class TokenizerFile:
    """Everything about text ↔ tokens of one model. Immutable; share one per process."""

    json: str
    """A Hugging Face `tokenizer.json`; `llguidance.LLTokenizer` and `fastokens` take it as it is."""
    vocab_size: int
    """Rows of the model's embedding; IDs that the vocabulary lacks add nothing to a text."""
    special_tokens: Mapping[str, int]
    """Control tokens by their text, e.g. `<|im_end|>`: never produced from a caller's words."""
    plain_added_tokens: tuple[str, ...]
    """Tokens that are matched whole in any text, a caller's words included, e.g. `<think>`."""
    strips: Mapping[str, tuple[bool, bool]]
    """Special tokens that swallow white space (before, after) them."""
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    """Tokens that end an answer."""
    adds_bos: bool
    """A raw prompt begins with the BOS token."""
    chat_template: str
    """Jinja text, empty if the model has none."""
    template_tokens: Mapping[str, str]
    """What templates know by name: `bos_token`, `eos_token` and so on."""
    token_texts: tuple[str | None, ...]
    """By ID, spelled in the byte alphabet; None for a gap."""

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
        return tuple(b"" if text is None else bytes_of_token(text) for text in self.token_texts)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to the text. Raises IndexError outside the vocabulary."""
        if token_id < 0:
            raise IndexError(token_id)
        return self.all_token_bytes[token_id]

    def build(self) -> Tokenizer:
        """A new reference tokenizer (about 100 ms)."""
        try:
            return Tokenizer.from_str(self.json)
        except Exception as error:  # noqa: BLE001  the library raises bare Exception
            raise ModelCorrupt(f"the tokenizer cannot be built: {error}") from None


def load_tokenizer(files: ModelFiles) -> TokenizerFile:
    """Read the tokenizer of a model (0.3 s for 49,152 tokens). Raises ModelCorrupt or UnsupportedModel."""
    config = load_model_config(files)
    if files.kind == "gguf":
        parts = read_gguf_tokenizer(files.path)
        values, template, adds_bos = parts.json, parts.chat_template, parts.adds_bos
    else:
        values = read_json(files.path / "tokenizer.json")
        template, adds_bos = read_template(files.path), _adds_bos(values)
    _require_byte_level(values, files.path)
    added = _added_tokens(values, files.path)
    texts = _vocabulary(values, added, config.vocab_size, files.path)
    special = [token for token in added if token.get("special")]
    return TokenizerFile(
        json=json.dumps(values, ensure_ascii=False, separators=(",", ":")),
        vocab_size=len(texts),
        special_tokens={token["content"]: token["id"] for token in special},
        plain_added_tokens=tuple(token["content"] for token in added if not token.get("special")),
        strips={
            token["content"]: (bool(token.get("lstrip")), bool(token.get("rstrip")))
            for token in special
            if token.get("lstrip") or token.get("rstrip")
        },
        bos_token_id=config.bos_token_id,
        eos_token_ids=config.eos_token_ids,
        adds_bos=adds_bos,
        chat_template=template,
        template_tokens=_template_tokens(files, config, texts),
        token_texts=texts,
    )


def _added_tokens(values: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    added = values.get("added_tokens") or []
    sound = isinstance(added, list) and all(
        isinstance(token, dict) and isinstance(token.get("content"), str) and isinstance(token.get("id"), int)
        for token in added
    )
    if not sound or any(not token["content"] for token in added):
        raise ModelCorrupt(f"{path}: the tokenizer's added_tokens are not sound")
    return added


def _vocabulary(
    values: dict[str, Any], added: list[dict[str, Any]], num_rows: int, path: Path
) -> tuple[str | None, ...]:
    vocab = values["model"].get("vocab")
    if not isinstance(vocab, dict) or not all(isinstance(token_id, int) for token_id in vocab.values()):
        raise ModelCorrupt(f"{path}: the tokenizer has no vocabulary")
    vocab = vocab | {token["content"]: token["id"] for token in added}
    size = max(num_rows, max(vocab.values(), default=-1) + 1)
    if size > 2 * len(vocab) + 65_536 or min(vocab.values(), default=0) < 0:
        raise ModelCorrupt(f"{path}: token IDs up to {size - 1} for {len(vocab)} tokens")
    texts: list[str | None] = [None] * size
    for text, token_id in vocab.items():
        texts[token_id] = text
    return tuple(texts)


def _require_byte_level(values: dict[str, Any], path: Path) -> None:
    model, decoder = values.get("model"), values.get("decoder") or {}
    if not isinstance(model, dict) or not isinstance(decoder, dict):
        raise ModelCorrupt(f"{path}: the tokenizer is not sound")
    kinds = {part.get("type") for part in (decoder, *decoder.get("decoders", ()))}
    if model.get("type", "BPE") != "BPE" or "ByteLevel" not in kinds:
        raise UnsupportedModel(
            f"{path}: its tokenizer ({model.get('type')}, decoded by {sorted(map(str, kinds))}) is not supported; "
            "byte-level BPE is"
        )


def _adds_bos(values: dict[str, Any]) -> bool:
    """Whether the post-processor puts a special token in front of a single text."""
    processor = values.get("post_processor") or {}
    for part in (processor, *processor.get("processors", ())):
        single = part.get("single") or [{}]
        if part.get("type") == "TemplateProcessing" and "SpecialToken" in single[0]:
            return True
    return False


def _template_tokens(files: ModelFiles, config: TransformerConfig, texts: tuple[str | None, ...]) -> dict[str, str]:
    if files.kind == "gguf":
        ids = {"bos_token": config.bos_token_id, "eos_token": next(iter(config.eos_token_ids), None)}
        return {name: texts[token_id] or "" for name, token_id in ids.items() if token_id is not None}
    path = files.path / "tokenizer_config.json"
    values = read_json(path) if path.is_file() else {}
    names = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
    given = {name: values.get(name) for name in names}
    contents = {name: value.get("content") if isinstance(value, dict) else value for name, value in given.items()}
    return {name: value for name, value in contents.items() if isinstance(value, str)}
