"""How text is cut into words before BPE, by the name that a GGUF file gives (`tokenizer.ggml.pre`)."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = QWEN2_WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

BYTES_BY_WORD: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ONLY: Json = {**BYTES_BY_WORD, "use_regex": False}


def _split(pattern: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _sequence(*parts: Json) -> Json:
    return {"type": "Sequence", "pretokenizers": list(parts)}


PRE_TOKENIZERS: dict[str, Json] = {
    "gpt-2": BYTES_BY_WORD,
    # Digits one by one; common conversions from GGUF forget that.
    "smollm": _sequence({"type": "Digits", "individual_digits": True}, BYTES_BY_WORD),
    "qwen2": _sequence(_split(QWEN2_WORDS), BYTES_ONLY),
    # What llama.cpp does for files that name none: punctuation apart, digits in threes.
    "default": _sequence(
        _split(r"[\p{P}\$\+<=>\^~\|]+"), _split(GPT2_WORDS), _split(r"\p{N}+"), _split("[0-9][0-9][0-9]"), BYTES_ONLY
    ),
    "llama-bpe": _sequence(_split(LLAMA3_WORDS), BYTES_ONLY),
}
"""Pre-tokenizers in the form of `tokenizer.json`."""

NORMALIZERS: dict[str, Json] = {"qwen2": {"type": "NFC"}}

IGNORE_MERGES = frozenset({"llama-bpe"})
"""Vocabularies in which a whole word that is a token is taken without merging."""
