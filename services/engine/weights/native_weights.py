"""Weights from a GGUF file for the native kernels: Q4_0, Q4_1 and Q8_0 repacked as they are, other formats as Q8_0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gguf
import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.library import (
    BLOCK_ROWS,
    FORMATS,
    GROUP,
    Decoder,
    KernelLibrary,
    Layer,
    Matrix,
    Shape,
)
from services.engine.models.rotary import rotary_tables
from services.engine.modes import Mode
from services.engine.weights.gguf_names import stored_name, unpermute
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.gguf_file import GgufFile
from stagemesh.models.model_config import TransformerConfig

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Blocks:
    """Rows of a weight matrix in one of FORMATS."""

    format: str
    raw: npt.NDArray[np.uint8]
    """[rows, bytes per row]"""


def load_native(
    file: GgufFile,
    config: TransformerConfig,
    library: KernelLibrary,
    *,
    num_positions: int,
    num_pages: int,
    threads: int,
    kv_dtype: str = "bfloat16",
    modes: Sequence[Mode] = ("turbo",),
) -> Decoder:
    """A decoder with a weight set for each of `modes`. `num_pages` without the padding page.

    Raises ModelCorrupt, or UnsupportedModel for shapes beyond the kernels.
    """
    _check_shape(file, config)
    reader = _Reader(file, config, library)
    factors = reader.vector("frequency_factors", config.head_dim // 2) if _has_factors(config) else None
    cos, sin = rotary_tables(config, factors, num_positions)
    shape = Shape(
        **{
            name: getattr(config, name)
            for name in ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        },
        ffn_size=config.ffn_size,
        num_pages=num_pages + 1,
        num_threads=threads,
        rms_norm_eps=config.rms_norm_eps,
        kv_format=kv_dtype,
    )
    decoder = Decoder(library, shape, cos, sin)
    for mode in modes:
        _load_set(decoder, reader, mode)
    return decoder


def _load_set(decoder: Decoder, reader: _Reader, mode: Mode) -> None:
    config = reader.config
    for index in range(config.num_layers):
        decoder.set_layer(mode, index, _layer(reader, index))
    embedding = reader.stacked(["embedding"], [config.vocab_size], config.hidden_size)
    head = embedding if config.tied_embeddings else reader.stacked(["head"], [config.vocab_size], config.hidden_size)
    decoder.set_ends(mode, embedding, head, reader.vector("norm", config.hidden_size))


def _layer(reader: _Reader, index: int) -> Layer:
    c, p = reader.config, f"layers.{index}."
    q_rows, kv_rows = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    projections = (("q", q_rows), ("k", kv_rows), ("v", kv_rows))
    biases = [reader.vector(f"{p}{name}_bias", rows) for name, rows in projections] if c.qkv_bias else []
    return Layer(
        qkv=reader.stacked([p + name for name, _ in projections], [rows for _, rows in projections], c.hidden_size),
        output=reader.stacked([p + "output"], [c.hidden_size], q_rows),
        gate_up=reader.alternating(p + "gate", p + "up", c.ffn_size, c.hidden_size),
        down=reader.stacked([p + "down"], [c.hidden_size], c.ffn_size),
        attention_norm=reader.vector(p + "attention_norm", c.hidden_size),
        ffn_norm=reader.vector(p + "ffn_norm", c.hidden_size),
        qkv_bias=np.concatenate(biases) if biases else None,
        output_bias=reader.vector(p + "output_bias", c.hidden_size) if c.output_bias else None,
        q_norm=reader.vector(p + "q_norm", c.head_dim) if c.qk_norm else None,
        k_norm=reader.vector(p + "k_norm", c.head_dim) if c.qk_norm else None,
        window=c.window(index),
    )


class _Reader:
    """Reads tensors by the engine's names and packs them."""

    def __init__(self, file: GgufFile, config: TransformerConfig, library: KernelLibrary) -> None:
        self._file, self.config, self._library = file, config, library

    def vector(self, name: str, size: int) -> Floats:
        self._check(name, (size,))
        values = self._file.tensor(stored_name(name))
        heads = self._permuted_heads(name)
        return np.ascontiguousarray(unpermute(values, heads) if heads else values)

    def stacked(self, names: Sequence[str], rows: Sequence[int], cols: int) -> Matrix:
        """One matrix of several tensors' rows after each other."""
        parts = _in_one_format([self._blocks(name, (count, cols)) for name, count in zip(names, rows, strict=True)])
        matrix = Matrix(self._library, parts[0].format, sum(rows), cols)
        first = 0
        for part in parts:
            matrix.fill(part.raw, first)
            first += len(part.raw) // BLOCK_ROWS
        return matrix

    def alternating(self, one: str, other: str, rows: int, cols: int) -> Matrix:
        """One matrix of 16 rows of `one`, 16 of `other`, and so on."""
        parts = _in_one_format([self._blocks(name, (rows, cols)) for name in (one, other)])
        matrix = Matrix(self._library, parts[0].format, 2 * rows, cols)
        for first, part in enumerate(parts):
            matrix.fill(part.raw, first, block_step=2)
        return matrix

    def _blocks(self, name: str, shape: tuple[int, int]) -> Blocks:
        self._check(name, shape)
        stored = stored_name(name)
        kind = self._file.tensors[stored].type
        raw = self._file.raw(stored)
        if kind not in FORMATS:
            kind, raw = "Q8_0", _quantized(self._file.tensor(stored))
        heads = self._permuted_heads(name)
        return Blocks(kind, unpermute(raw, heads) if heads else raw)

    def _permuted_heads(self, name: str) -> int:
        """Heads whose rows the file interleaves; 0 where it does not."""
        kind = name.rpartition(".")[2].removesuffix("_bias")
        heads = {"q": self.config.num_heads, "k": self.config.num_kv_heads}.get(kind, 0)
        return heads if self.config.permuted_qk else 0

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        info = self._file.tensors.get(stored_name(name))
        if info is None or info.shape != shape:
            found = "is missing" if info is None else f"has the shape {info.shape}, not {shape}"
            raise ModelCorrupt(f"{self._file.path}: tensor {stored_name(name)} {found}")


def _in_one_format(parts: list[Blocks]) -> list[Blocks]:
    """Parts of one matrix that are stored differently meet in 8 bits."""
    if len({part.format for part in parts}) == 1:
        return parts
    return [part if part.format == "Q8_0" else Blocks("Q8_0", _quantized(_dequantized(part))) for part in parts]


def _dequantized(blocks: Blocks) -> Floats:
    values: Floats = gguf.dequantize(blocks.raw, gguf.GGMLQuantizationType[blocks.format])
    return values


def _quantized(values: Floats) -> npt.NDArray[np.uint8]:
    raw: npt.NDArray[np.uint8] = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    return raw


def _has_factors(config: TransformerConfig) -> bool:
    return config.rope_scaling is not None and config.rope_scaling.kind == "factors"


def _check_shape(file: GgufFile, config: TransformerConfig) -> None:
    widths = {"hidden size": config.hidden_size, "ffn size": config.ffn_size, "head size": config.head_dim}
    for what, width in widths.items():
        if width % GROUP:
            raise UnsupportedModel(
                f"{file.path}: the native kernels need a {what} that is a multiple of 32, not {width}"
            )
