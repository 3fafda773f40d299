"""A native decoder with a model's weights, in one or more precision modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from services.engine.config import WeightFormats
from services.engine.kernels.native.library import GROUP, Decoder, KernelLibrary, Layer, Shape
from services.engine.models.rotary import rotary_tables
from services.engine.modes import Mode
from services.engine.weights.gguf_tensors import GgufTensors
from services.engine.weights.hf_tensors import HfTensors
from services.engine.weights.packing import Packer
from services.engine.weights.quantized_cache import QuantizedCache
from services.engine.weights.tensors import Tensors
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles

MB = 1_000_000


def load_native(
    files: ModelFiles,
    config: TransformerConfig,
    library: KernelLibrary,
    *,
    num_positions: int,
    num_pages: int,
    threads: int,
    kv_dtype: str = "bfloat16",
    modes: Sequence[Mode] = ("turbo",),
    turbo: WeightFormats | None = None,
    cache_mb: int = 0,
) -> Decoder:
    """A decoder with a weight set for each of `modes`, named as they are. `num_pages` without the padding page.

    `turbo`: formats of what that mode quantizes; `cache_mb`: how much of what is quantized is kept on disk.
    Raises ModelCorrupt, or UnsupportedModel for shapes beyond the kernels.
    """
    _check_shape(files, config)
    tensors = _tensors(files, config)
    cache = QuantizedCache(files.cache_dir / "quantized", revision(files) if cache_mb else "", max_bytes=cache_mb * MB)
    packer = Packer(library, tensors, turbo or WeightFormats(), cache)
    factors = packer.vector("frequency_factors", config.head_dim // 2) if _has_factors(config) else None
    cos, sin = rotary_tables(config, factors, num_positions)
    decoder = Decoder(library, _shape(config, num_pages + 1, threads, kv_dtype), cos, sin)
    for mode in modes:
        _load_set(decoder, packer, config, mode)
    cache.save()
    return decoder


def _tensors(files: ModelFiles, config: TransformerConfig) -> Tensors:
    if files.kind == "gguf":
        return GgufTensors(open_gguf(files.path), config)
    return HfTensors(files.path, files.weight_paths())


def _shape(config: TransformerConfig, num_pages: int, threads: int, kv_dtype: str) -> Shape:
    return Shape(
        **{
            name: getattr(config, name)
            for name in ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        },
        ffn_size=config.ffn_size,
        num_pages=num_pages,
        num_threads=threads,
        rms_norm_eps=config.rms_norm_eps,
        kv_format=kv_dtype,
    )


def _load_set(decoder: Decoder, packer: Packer, config: TransformerConfig, mode: Mode) -> None:
    for index in range(config.num_layers):
        decoder.set_layer(mode, index, _layer(packer, config, mode, index))
    vocab, hidden = config.vocab_size, config.hidden_size
    # A head that is the embedding is one matrix with it, in the head's format: every row of it is multiplied with.
    embedding = packer.stacked(mode, "head" if config.tied_embeddings else "embedding", ["embedding"], [vocab], hidden)
    head = embedding if config.tied_embeddings else packer.stacked(mode, "head", ["head"], [vocab], hidden)
    decoder.set_ends(mode, embedding, head, packer.vector("norm", hidden))


def _layer(packer: Packer, c: TransformerConfig, mode: Mode, index: int) -> Layer:
    p = f"layers.{index}."
    q_rows, kv_rows = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    projections = {"q": q_rows, "k": kv_rows, "v": kv_rows}
    biases = [packer.vector(f"{p}{name}_bias", rows) for name, rows in projections.items()] if c.qkv_bias else []
    names = [p + name for name in projections]
    return Layer(
        qkv=packer.stacked(mode, "attention", names, [*projections.values()], c.hidden_size),
        output=packer.stacked(mode, "attention", [p + "output"], [c.hidden_size], q_rows),
        gate_up=packer.alternating(mode, "mlp", (p + "gate", p + "up"), c.ffn_size, c.hidden_size),
        down=packer.stacked(mode, "mlp", [p + "down"], [c.hidden_size], c.ffn_size),
        attention_norm=packer.vector(p + "attention_norm", c.hidden_size),
        ffn_norm=packer.vector(p + "ffn_norm", c.hidden_size),
        qkv_bias=np.concatenate(biases) if biases else None,
        output_bias=packer.vector(p + "output_bias", c.hidden_size) if c.output_bias else None,
        q_norm=packer.vector(p + "q_norm", c.head_dim) if c.qk_norm else None,
        k_norm=packer.vector(p + "k_norm", c.head_dim) if c.qk_norm else None,
        window=c.window(index),
    )


def _has_factors(config: TransformerConfig) -> bool:
    return config.rope_scaling is not None and config.rope_scaling.kind == "factors"


def _check_shape(files: ModelFiles, config: TransformerConfig) -> None:
    widths = {"hidden size": config.hidden_size, "ffn size": config.ffn_size, "head size": config.head_dim}
    for what, width in widths.items():
        if width % GROUP:
            raise UnsupportedModel(
                f"{files.path}: the native kernels need a {what} that is a multiple of 32, not {width}"
            )
