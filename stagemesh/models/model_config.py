"""What the engine must know to build a model, from GGUF metadata or a Hugging Face `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.gguf_file import GgufFile, open_gguf
from stagemesh.models.sliding_window import Windows, gguf_windows, hf_windows
from stagemesh.models.store import ModelFiles

Architecture = Literal["llama", "mistral", "qwen2", "qwen3"]
ROPE_SCALINGS = ("linear", "llama3", "factors")


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched for long contexts."""

    kind: Literal["linear", "llama3", "factors"]
    """`factors`: each frequency is divided by its entry of the GGUF tensor `rope_freqs.weight`."""
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    original_context_length: int = 0


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Shape and constants of a decoder. `q` has num_heads × head_dim rows, `k` and `v` num_kv_heads × head_dim."""

    architecture: Architecture
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    """Rows of the embedding; may exceed the tokenizer's vocabulary."""
    rope_theta: float
    rope_scaling: RopeScaling | None
    rms_norm_eps: float
    tied_embeddings: bool
    """The output head is the embedding."""
    context_length: int
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    """Tokens that end an answer."""
    qkv_bias: bool
    output_bias: bool
    """A bias on the attention's output projection."""
    qk_norm: bool
    """RMS norm over each head of q and k, before the rotation."""
    permuted_qk: bool
    """The file's q and k rows are interleaved per rotated pair (GGUF of llama), to be undone on loading."""
    windows: Windows = ()

    def window(self, layer: int) -> int:
        """How many last tokens a token sees in `layer`, itself included; 0: all."""
        return self.windows[layer] if self.windows else 0


def load_model_config(files: ModelFiles) -> TransformerConfig:
    """Raises UnsupportedModel for anything but Llama, Mistral, Qwen2 and Qwen3, ModelCorrupt for impossible values."""
    config = from_gguf(open_gguf(files.path)) if files.kind == "gguf" else from_hf(files.path)
    return _checked(config, files.path)


def from_gguf(file: GgufFile) -> TransformerConfig:
    """The configuration that a GGUF file's metadata and tensor table state."""
    architecture = _supported(str(file.metadata.get("general.architecture")), file.path)
    read = _Reader(file.metadata, f"{architecture}.", file.path)
    hidden, heads = read.integer("embedding_length"), read.integer("attention.head_count")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelCorrupt(f"{file.path} has no tensor token_embd.weight")
    return TransformerConfig(
        architecture=architecture,
        hidden_size=hidden,
        num_layers=read.integer("block_count"),
        num_heads=heads,
        num_kv_heads=read.integer("attention.head_count_kv", heads),
        head_dim=read.integer("attention.key_length", hidden // heads),
        ffn_size=read.integer("feed_forward_length"),
        vocab_size=embedding.shape[0],
        rope_theta=read.number("rope.freq_base", 10_000.0),
        rope_scaling=_gguf_scaling(read, file),
        rms_norm_eps=read.number("attention.layer_norm_rms_epsilon"),
        tied_embeddings="output.weight" not in file.tensors,
        context_length=read.integer("context_length"),
        bos_token_id=_token(file.metadata, "bos"),
        eos_token_ids=tuple(
            dict.fromkeys(token for kind in ("eos", "eot", "eom") if (token := _token(file.metadata, kind)) is not None)
        ),
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        output_bias="blk.0.attn_output.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        permuted_qk=architecture == "llama",
        windows=gguf_windows(file.metadata, architecture, read.integer("block_count"), file.path),
    )


def from_hf(folder: Path) -> TransformerConfig:
    """The configuration that `config.json` and `generation_config.json` in `folder` state."""
    path = folder / "config.json"
    values = read_json(path)
    architecture = _supported(str(values.get("model_type")), path)
    _refuse_variants(values, path)
    read = _Reader(values, "", path)
    hidden, heads = read.integer("hidden_size"), read.integer("num_attention_heads")
    rope = {**(values.get("rope_scaling") or {}), **(values.get("rope_parameters") or {})}
    generation_path = folder / "generation_config.json"
    generation = read_json(generation_path) if generation_path.is_file() else {}
    eos = generation.get("eos_token_id", values.get("eos_token_id"))
    return TransformerConfig(
        architecture=architecture,
        hidden_size=hidden,
        num_layers=read.integer("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=read.integer("num_key_value_heads", heads),
        head_dim=read.integer("head_dim", hidden // heads),
        ffn_size=read.integer("intermediate_size"),
        vocab_size=read.integer("vocab_size"),
        rope_theta=_Reader({**values, **rope}, "", path).number("rope_theta", 10_000.0),
        rope_scaling=_hf_scaling(rope, path),
        rms_norm_eps=read.number("rms_norm_eps", 1e-6),
        tied_embeddings=bool(values.get("tie_word_embeddings", False)),
        context_length=read.integer("max_position_embeddings"),
        bos_token_id=values.get("bos_token_id"),
        eos_token_ids=tuple(eos) if isinstance(eos, list) else (() if eos is None else (eos,)),
        qkv_bias=architecture == "qwen2" or bool(values.get("attention_bias", False)),
        output_bias=architecture != "qwen2" and bool(values.get("attention_bias", False)),
        qk_norm=architecture == "qwen3",
        permuted_qk=False,
        windows=hf_windows(values, read.integer("num_hidden_layers"), path),
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of the model. Raises ModelCorrupt."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelCorrupt(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelCorrupt(f"{path} does not hold a JSON object")
    return values


class _Reader:
    """Typed access to metadata; a missing or mistyped value raises ModelCorrupt."""

    def __init__(self, values: Mapping[str, Any], prefix: str, path: Path) -> None:
        self.values, self.prefix, self.path = values, prefix, path

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(self.prefix + key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelCorrupt(f"{self.path}: {self.prefix}{key} is {value!r}, not a number")
        return float(value)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if not 1 <= value <= 1 << 31 or value != int(value):
            raise ModelCorrupt(f"{self.path}: {self.prefix}{key} is {value!r}, not a positive integer")
        return int(value)


def _supported(name: str, path: Path) -> Architecture:
    for architecture in get_args(Architecture):
        if name == architecture:
            return architecture  # type: ignore[no-any-return]  # get_args is untyped
    raise UnsupportedModel(
        f"{path}: the architecture {name!r} is not supported; supported are {', '.join(get_args(Architecture))}"
    )


def _token(metadata: Mapping[str, Any], kind: str) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{kind}_token_id")
    return int(value) if isinstance(value, int) else None


def _gguf_scaling(read: _Reader, file: GgufFile) -> RopeScaling | None:
    if "rope_freqs.weight" in file.tensors:
        return RopeScaling(kind="factors")
    kind = read.values.get(f"{read.prefix}rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        raise UnsupportedModel(f"{file.path}: rope scaling {kind!r}; supported are {', '.join(ROPE_SCALINGS)}")
    return RopeScaling(kind="linear", factor=read.number("rope.scaling.factor"))


def _hf_scaling(rope: Mapping[str, Any], path: Path) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    read = _Reader(rope, "", path)
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=read.number("factor"))
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=read.number("factor"),
            low_freq_factor=read.number("low_freq_factor"),
            high_freq_factor=read.number("high_freq_factor"),
            original_context_length=read.integer("original_max_position_embeddings"),
        )
    raise UnsupportedModel(f"{path}: rope scaling {kind!r} is not supported; supported are {', '.join(ROPE_SCALINGS)}")


def _refuse_variants(values: Mapping[str, Any], path: Path) -> None:
    refused = {
        "hidden_act other than silu": values.get("hidden_act", "silu") != "silu",
        "mlp_bias": bool(values.get("mlp_bias", False)),
        "quantized safetensors (quantization_config)": values.get("quantization_config") is not None,
    }
    for what, present in refused.items():
        if present:
            raise UnsupportedModel(f"{path}: {what} is not supported")


def _checked(config: TransformerConfig, path: Path) -> TransformerConfig:
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise ModelCorrupt(
            f"{path}: {config.num_heads} heads, {config.num_kv_heads} KV heads of {config.head_dim} do not fit"
        )
    tokens = [*config.eos_token_ids, *([] if config.bos_token_id is None else [config.bos_token_id])]
    if any(
        isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < config.vocab_size for token in tokens
    ):
        raise ModelCorrupt(f"{path}: a special token lies outside the vocabulary of {config.vocab_size}: {tokens}")
    return config
