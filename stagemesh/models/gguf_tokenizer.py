"""Build a Hugging Face `tokenizer.json` from the vocabulary inside a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.pre_tokenizers import IGNORE_MERGES, NORMALIZERS, PRE_TOKENIZERS

CONTROL, USER_DEFINED = 3, 4
"""GGUF token types: control tokens never come from text, user-defined ones are matched before BPE."""


@dataclass(frozen=True, kw_only=True)
class GgufTokenizer:
    json: dict[str, Any]
    """The content of a `tokenizer.json`."""
    chat_template: str
    adds_bos: bool


def read_gguf_tokenizer(path: Path) -> GgufTokenizer:
    """Raises UnsupportedModel for vocabularies that are not byte-level BPE or are cut in an unknown way."""
    metadata = open_gguf(path).metadata
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise UnsupportedModel(
            f"{path}: the tokenizer {kind!r} is not supported in GGUF files (`gpt2` is); use the model's folder in "
            "Hugging Face layout"
        )
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedModel(
            f"{path}: the pre-tokenizer {pre!r} is not supported; known are {', '.join(PRE_TOKENIZERS)}"
        )
    tokens, merges = _list(metadata, "tokens", path), _list(metadata, "merges", path)
    adds_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe"))
    return GgufTokenizer(
        json=_tokenizer_json(metadata, pre, tokens, merges, adds_bos),
        chat_template=str(metadata.get("tokenizer.chat_template", "")),
        adds_bos=adds_bos,
    )


def _list(metadata: Mapping[str, Any], key: str, path: Path) -> list[str]:
    values = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(values, list) or not values:
        raise ModelCorrupt(f"{path} has no list tokenizer.ggml.{key}")
    return values


def _tokenizer_json(
    metadata: Mapping[str, Any], pre: str, tokens: list[str], merges: list[str], adds_bos: bool
) -> dict[str, Any]:
    types = metadata.get("tokenizer.ggml.token_type")
    kinds = [1] * len(tokens) if types is None else [int(kind) for kind in types]
    if len(kinds) != len(tokens):
        raise ModelCorrupt(f"tokenizer.ggml.token_type has {len(kinds)} entries for {len(tokens)} tokens")
    added = [
        {
            "id": token_id,
            "content": tokens[token_id],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for token_id, kind in enumerate(kinds)
        if kind in {CONTROL, USER_DEFINED}
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": NORMALIZERS.get(pre),
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": _begin_with(metadata, tokens) if adds_bos else None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in IGNORE_MERGES,
            "vocab": {text: token_id for token_id, text in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    }


def _begin_with(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    """A post-processor that puts the BOS token in front."""
    token_id = metadata.get("tokenizer.ggml.bos_token_id")
    if not isinstance(token_id, int) or not 0 <= token_id < len(tokens):
        raise ModelCorrupt(f"tokenizer.ggml.bos_token_id is {token_id!r}, but the model wants a BOS token")
    bos, text = {"SpecialToken": {"id": tokens[token_id], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [bos, text],
        "pair": [bos, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {tokens[token_id]: {"id": tokens[token_id], "ids": [token_id], "tokens": [tokens[token_id]]}},
    }
