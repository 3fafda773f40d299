"""Weights of every stored type, as the native kernels are given them."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from services.engine.config import WeightFormats
from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.convert import READABLE, WRITABLE, converted
from services.engine.kernels.native.library import KernelLibrary, load_kernels
from services.engine.weights.formats import chosen_format
from services.engine.weights.gguf_tensors import GgufTensors
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

Floats = npt.NDArray[np.float32]
Raw = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def library(default_model_files: ModelFiles) -> KernelLibrary:
    return load_kernels(default_model_files.cache_dir / "kernels")


def values(seed: int = 0, rows: int = 48, cols: int = 96) -> Floats:
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.001, 30, (rows, 1)).astype(np.float32)
    return (rng.normal(size=(rows, cols)).astype(np.float32) + rng.normal(size=(rows, 1)).astype(np.float32)) * scales


def stored(x: Floats, format_: str) -> Raw:
    if format_ in {"F32", "F16"}:
        return x.astype(np.float32 if format_ == "F32" else np.float16).view(np.uint8)
    raw: Raw = gguf.quantize(x, gguf.GGMLQuantizationType[format_])
    return raw


def read(raw: Raw, format_: str) -> Floats:
    if format_ in {"F32", "F16"}:
        return raw.view(np.float32 if format_ == "F32" else np.float16).astype(np.float32)
    x: Floats = gguf.dequantize(raw, gguf.GGMLQuantizationType[format_])
    return x


def relative_error(found: Floats, expected: Floats) -> float:
    return float(np.sqrt(np.square(found - expected).sum() / np.square(expected).sum()))


@pytest.mark.parametrize("to", sorted(WRITABLE))
@pytest.mark.parametrize("from_", READABLE)
def test_a_conversion_loses_what_the_new_format_loses_and_no_more(library: KernelLibrary, from_: str, to: str) -> None:
    raw = stored(values(), from_)
    x = read(raw, from_)
    found = read(converted(library, raw, from_, to), to)
    assert relative_error(found, x) <= 1.001 * relative_error(read(stored(x, to), to), x) + 1e-7


def test_the_fitted_lines_of_four_bits_beat_those_through_minimum_and_maximum(library: KernelLibrary) -> None:
    x = values()
    fitted, plain = (
        relative_error(read(raw, "Q4_1"), x)
        for raw in (converted(library, stored(x, "F32"), "F32", "Q4_1"), stored(x, "Q4_1"))
    )
    assert fitted < 0.93 * plain


def test_bfloat16_is_rounded_to_nearest_even(library: KernelLibrary) -> None:
    x = values()
    np.testing.assert_array_equal(converted(library, stored(x, "F32"), "F32", "BF16"), stored(x, "BF16"))


def test_symmetric_four_bits_become_lines_exactly(library: KernelLibrary) -> None:
    raw = stored(values(), "Q4_0")
    np.testing.assert_array_equal(read(converted(library, raw, "Q4_0", "Q4_1"), "Q4_1"), read(raw, "Q4_0"))


@pytest.mark.parametrize("x", [0.0, 1.0, -3.5, 1e-30])
def test_a_group_of_equal_weights_keeps_its_value(library: KernelLibrary, x: float) -> None:
    rows = np.full((16, 32), x, dtype=np.float32)
    for to in WRITABLE:
        found = read(converted(library, stored(rows, "F32"), "F32", to), to)
        np.testing.assert_allclose(found, rows, rtol=4e-3, atol=1e-7)


def gguf_with(path: Path, raw: Raw, kind: gguf.GGMLQuantizationType, config: TransformerConfig) -> GgufTensors:
    """A file with one matrix, named as a layer's MLP output."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("blk.0.ffn_down.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufTensors(open_gguf(path), config)


def random_blocks(kind: gguf.GGMLQuantizationType, rows: int) -> Raw:
    """Blocks of any bits, with half floats where the formats have scales, in blocks of 256."""
    rng = np.random.default_rng(kind.value)
    size = int(gguf.GGML_QUANT_SIZES[kind][1])
    raw = rng.integers(0, 256, (rows * 2, size), dtype=np.uint8)
    halves = rng.uniform(1e-4, 1e-2, (rows * 2, 2)).astype("<f2").view(np.uint8)
    at = {"Q2_K": 80, "Q3_K": 108, "Q4_K": 0, "Q5_K": 0, "Q6_K": 208}[kind.name]
    raw[:, at : at + min(4, size - at)] = halves[:, : min(4, size - at)]
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_read_as_the_reference_reads_them(
    tmp_path: Path, name: str, default_model_files: ModelFiles
) -> None:
    kind = gguf.GGMLQuantizationType[name]
    raw = random_blocks(kind, 16)
    rows = gguf_with(tmp_path / "k.gguf", raw, kind, load_model_config(default_model_files)).rows("layers.0.down")
    assert rows.format == ("Q4_1" if name == "Q4_K" else "F32")
    expected = gguf.dequantize(raw, kind)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(read(rows.raw, rows.format), expected, atol=1e-3 * largest if name == "Q4_K" else 0)


@pytest.mark.parametrize(
    ("mode", "kind", "types", "expected"),
    [
        ("turbo", "mlp", ["F32", "F32"], "Q4_1"),
        ("turbo", "attention", ["BF16"] * 3, "Q8_0"),
        ("turbo", "head", ["F16"], "Q8_0"),
        ("standard", "mlp", ["F16", "F16"], "Q8_0"),
        ("standard", "mlp", ["Q4_1", "Q4_1"], "Q4_1"),
        ("turbo", "mlp", ["Q4_0", "Q4_1"], "Q4_1"),
        ("turbo", "mlp", ["Q8_0", "Q4_1"], "Q8_0"),
        ("precise", "mlp", ["Q4_1", "Q4_1"], "Q4_1"),
        ("precise", "mlp", ["Q4_1", "Q8_0"], "BF16"),
        ("precise", "mlp", ["F32", "F32"], "BF16"),
    ],
)
def test_the_mode_chooses_the_format_of_what_is_not_quantized_already(
    mode: str, kind: str, types: list[str], expected: str
) -> None:
    assert chosen_format(mode, kind, types, WeightFormats()) == expected  # type: ignore[arg-type]  # parameters


def test_all_modes_of_the_default_model_are_on_its_own_weights(
    library: KernelLibrary, default_model_files: ModelFiles
) -> None:
    tensors = GgufTensors(open_gguf(default_model_files.path), load_model_config(default_model_files))
    kept = {
        chosen_format(mode, "mlp", [tensors.format("layers.0.up")], WeightFormats()) for mode in ("turbo", "standard")
    }
    assert kept == {tensors.format("layers.0.up")} == {"Q4_1"}
