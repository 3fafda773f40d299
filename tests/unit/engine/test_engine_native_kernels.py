"""Each native kernel against its definition in numpy, at odd sizes, for every instruction set this processor has."""

from __future__ import annotations

import ctypes

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from services.engine.kernels.native.build import LEVELS, Level, supported_levels
from services.engine.kernels.native.library import FORMATS, KV_FORMATS, KernelLibrary, Matrix, load_kernels
from stagemesh.models.store import ModelFiles

Floats = npt.NDArray[np.float32]
NUM_ROWS = (1, 2, 3, 5, 15, 16, 17, 67)
GROUP = 32


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: level.name)
def library(request: pytest.FixtureRequest, default_model_files: ModelFiles) -> KernelLibrary:
    level: Level = request.param
    if level not in supported_levels():
        pytest.skip(f"this processor has no {level.name}")
    return load_kernels(default_model_files.cache_dir / "kernels", level)


def quantized(values: Floats, format_: str) -> npt.NDArray[np.uint8]:
    raw: npt.NDArray[np.uint8] = gguf.quantize(values, gguf.GGMLQuantizationType[format_])
    return raw


def dequantized(raw: npt.NDArray[np.uint8], format_: str) -> Floats:
    values: Floats = gguf.dequantize(raw, gguf.GGMLQuantizationType[format_])
    return values


def in_eight_bits(x: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """The definition of quantized activations: values and scales, one scale per group of 32."""
    groups = x.reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    values = np.rint(groups * inverse).astype(np.int8)
    return values.reshape(x.shape), (largest[..., 0] / np.float32(127)).astype(np.float32)


def as_multiplied(x: Floats, format_: str) -> npt.NDArray[np.float64]:
    """What weights of this format are multiplied with: floats by bfloat16, their 8-bit form by the rest."""
    if format_ == "BF16":
        return x.astype(np.float64)
    values, scales = in_eight_bits(x)
    return values.astype(np.float64) * np.repeat(scales, GROUP, axis=1)


def matrix(library: KernelLibrary, raw: npt.NDArray[np.uint8], format_: str, cols: int) -> Matrix:
    made = Matrix(library, format_, len(raw), cols)
    made.fill(raw, 0)
    return made


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_matmul_is_the_product_with_dequantized_weights(library: KernelLibrary, format_: str, num_rows: int) -> None:
    rng = np.random.default_rng(num_rows)
    raw = quantized(rng.normal(size=(80, 96)).astype(np.float32), format_)
    x = rng.normal(size=(num_rows, 96)).astype(np.float32) * rng.uniform(0.01, 10, (num_rows, 1)).astype(np.float32)
    expected = as_multiplied(x, format_) @ dequantized(raw, format_).T.astype(np.float64)
    found = matrix(library, raw, format_, 96).multiply(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(x).max() * 96)


@pytest.mark.parametrize("format_", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_exact_weights_are_multiplied_with_activations_as_they_are(
    library: KernelLibrary, format_: str, num_rows: int
) -> None:
    rng = np.random.default_rng(num_rows)
    raw = quantized(rng.normal(size=(80, 96)).astype(np.float32), format_)
    x = rng.normal(size=(num_rows, 96)).astype(np.float32) * rng.uniform(0.01, 10, (num_rows, 1)).astype(np.float32)
    packed = matrix(library, raw, format_, 96)
    exact = packed.exact()
    assert (exact.format, exact.num_bytes()) == (f"{format_}-F32", 0)
    expected = x.astype(np.float64) @ dequantized(raw, format_).T.astype(np.float64)
    np.testing.assert_allclose(exact.multiply(x), expected, rtol=1e-5, atol=1e-6 * np.abs(x).max() * 96)
    alone = np.concatenate([exact.multiply(row[None]) for row in x])
    np.testing.assert_array_equal(exact.multiply(x), alone)
    del packed  # the memory that both share lives on
    np.testing.assert_array_equal(exact.multiply(x), alone)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_row_is_bitwise_the_same_whatever_rows_are_beside_it(library: KernelLibrary, format_: str) -> None:
    rng = np.random.default_rng(0)
    weights = matrix(library, quantized(rng.normal(size=(48, 576)).astype(np.float32), format_), format_, 576)
    x = rng.normal(size=(67, 576)).astype(np.float32)
    alone = np.concatenate([weights.multiply(row[None]) for row in x])
    for num_rows in NUM_ROWS:
        np.testing.assert_array_equal(weights.multiply(x[:num_rows]), alone[:num_rows])


def test_extreme_weights_and_activations_do_not_overflow(library: KernelLibrary) -> None:
    x = np.full((5, 64), 3.0, dtype=np.float32)
    x[1:] *= -1
    q8 = np.full((16, 2, 34), 0x80, dtype=np.uint8)  # every weight −128, which no quantizer writes
    q4 = np.full((16, 2, 20), 0xFF, dtype=np.uint8)
    for blocks, format_, weight in ((q8, "Q8_0", -128.0), (q4, "Q4_1", 15.0)):
        blocks[:, :, :2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
        if format_ == "Q4_1":
            blocks[:, :, 2:4] = 0
        found = matrix(library, blocks.reshape(16, -1), format_, 64).multiply(x)
        np.testing.assert_allclose(found, np.repeat(x.sum(1, keepdims=True) * weight, 16, axis=1), rtol=1e-6)


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_are_packed_where_they_are_sent_and_come_back(library: KernelLibrary, format_: str) -> None:
    rng = np.random.default_rng(1)
    one, other = (quantized(rng.normal(size=(32, 64)).astype(np.float32), format_) for _ in range(2))
    both = Matrix(library, format_, 64, 64)
    both.fill(one, 0, block_step=2)
    both.fill(other, 1, block_step=2)
    for row in range(32):
        at = row // 16 * 32 + row % 16
        np.testing.assert_array_equal(both.row(at), dequantized(one, format_)[row])
        np.testing.assert_array_equal(both.row(at + 16), dequantized(other, format_)[row])


def test_a_row_count_that_fills_no_block_is_padded_with_zeros(library: KernelLibrary) -> None:
    raw = quantized(np.ones((50, 32), dtype=np.float32), "Q8_0")
    found = matrix(library, raw, "Q8_0", 32).multiply(np.ones((1, 32), dtype=np.float32))
    assert found.shape == (1, 64)
    assert not found[0, 50:].any()


@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_norm_and_quantization(library: KernelLibrary, num_rows: int) -> None:
    rng = np.random.default_rng(num_rows)
    x, weight = rng.normal(size=(num_rows, 96)).astype(np.float32), rng.normal(size=96).astype(np.float32)
    x[0, :GROUP] = 0
    values, scales = np.empty((num_rows, 96), np.int8), np.empty((num_rows, 3), np.float32)
    pointers = [array.ctypes.data for array in (x, weight)]
    sizes = (num_rows, 96, ctypes.c_float(1e-5))
    assert library.c.sm_norm_quantize(*pointers, *sizes, values.ctypes.data, scales.ctypes.data) == 0
    normed = x / np.sqrt(np.square(x).mean(1, keepdims=True) + np.float32(1e-5)) * weight
    expected_values, expected_scales = in_eight_bits(normed)
    np.testing.assert_allclose(scales, expected_scales, rtol=1e-5)
    assert (
        np.abs(values.astype(int) - expected_values).max() <= 1
    )  # a value on the border between two may fall either way


def in_bf16(x: Floats) -> Floats:
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def in_scaled_rows(x: Floats) -> Floats:
    scale = in_bf16(np.abs(x).max(-1, keepdims=True) / np.float32(127))
    rows: Floats = np.rint(x * (np.float32(1) / scale)) * scale
    return rows


@pytest.mark.parametrize("kv_format", KV_FORMATS)
@pytest.mark.parametrize(("num_heads", "num_kv_heads", "head_dim"), [(9, 3, 64), (4, 4, 128), (14, 2, 64), (2, 1, 32)])
@pytest.mark.parametrize(
    ("num_rows", "end", "window"),
    [(1, 1, 0), (1, 16, 0), (3, 17, 0), (15, 63, 0), (17, 300, 0), (1, 1, 5), (3, 17, 16), (15, 63, 1), (17, 300, 63)],
)
def test_attention(
    library: KernelLibrary,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    num_rows: int,
    end: int,
    window: int,
    kv_format: str,
) -> None:
    rng = np.random.default_rng(end)
    q = rng.normal(size=(num_rows, num_heads, head_dim)).astype(np.float32)
    k, v = (rng.normal(size=(end, num_kv_heads, head_dim)).astype(np.float32) for _ in range(2))
    pages = rng.permutation(end // 16 + 3).astype(np.int32)[: -(-end // 16)]
    out = np.empty_like(q)
    sizes = (num_rows, end, num_heads, num_kv_heads, head_dim, window, KV_FORMATS[kv_format])
    pointers = [array.ctypes.data for array in (q, k, v)]
    assert library.c.sm_attend(*pointers, *sizes, pages.ctypes.data, end // 16 + 3, out.ctypes.data) == 0

    group, rounded = num_heads // num_kv_heads, {"bfloat16": in_bf16, "int8": in_scaled_rows}[kv_format]
    scores = np.einsum("rhd,thd->rht", q, np.repeat(rounded(k), group, axis=1))
    tokens, last = np.arange(end), np.arange(end - num_rows, end)[:, None]
    seen = (tokens <= last) & (tokens > last - (window or end))
    scores = np.where(seen[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(out, np.einsum("rht,thd->rhd", weights, np.repeat(rounded(v), group, axis=1)), atol=2e-5)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_eight_bit_pages_do_not_hide_what_is_not_finite(library: KernelLibrary, broken: float) -> None:
    q, k = np.ones((1, 1, 64), np.float32), np.ones((3, 1, 64), np.float32)
    v, pages, out = k.copy(), np.zeros(1, np.int32), np.empty_like(q)
    v[1, 0, 37] = broken
    pointers = [array.ctypes.data for array in (q, k, v)]
    sizes = (1, 3, 1, 1, 64, 0, KV_FORMATS["int8"])
    assert library.c.sm_attend(*pointers, *sizes, pages.ctypes.data, 1, out.ctypes.data) == 0
    assert not np.isfinite(out).all()


def threads_given(library: KernelLibrary, most: int, jobs: list[tuple[float, float]]) -> list[int]:
    """jobs: seconds each took, and seconds of these that threads waited for others"""
    ran_s, stalled_s = (np.array(column) for column in zip(*jobs, strict=True))
    threads = np.empty(len(jobs), np.int32)
    library.c.sm_thread_budget(most, ran_s.ctypes.data, stalled_s.ctypes.data, len(jobs), threads.ctypes.data)
    return threads.tolist()


def test_a_pool_whose_threads_wait_for_each_other_works_with_fewer_and_tries_all_again(library: KernelLibrary) -> None:
    calm, stalled = (0.01, 0.001), (0.01, 0.008)
    assert threads_given(library, 2, [calm] * 20) == [2] * 20
    # After 50 ms all are tried again, then after 100 ms.
    expected = [2] + [1] * 5 + [2] + [1] * 10 + [2] * 3
    assert threads_given(library, 2, [stalled] * 17 + [calm] * 3) == expected
    assert threads_given(library, 8, [(0.01, 0.03), calm])[1] == 5  # three of eight were away
