"""KV pages out of the pool and into it: what is stored is defined in numpy; a restored page answers as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engine_models_support import Model
from engine_native_steps import decoder_of, prompt_batch
from engine_tiny_gguf import build_gguf
from test_engine_native_shapes import MODELS, SHAPE

from services.engine.kernels.native.build import LEVELS, Level, supported_levels
from services.engine.kernels.native.library import Batch, Decoder, Floats, KernelLibrary, Shape, load_kernels
from services.engine.kernels.native.page_io import PageIo, checksum
from services.engine.kernels.native.stages import Stages
from services.engine.model_runner import ModelRunner
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]
NUM_LAYERS, NUM_KV_HEADS = 3, 2
PAGES = [5, 1, 7]
HEAD_DIMS = (32, 64, 96, 128)


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: level.name)
def library(request: pytest.FixtureRequest, default_model_files: ModelFiles) -> KernelLibrary:
    level: Level = request.param
    if level not in supported_levels():
        pytest.skip(f"this processor has no {level.name}")
    return load_kernels(default_model_files.cache_dir / "kernels", level)


def pool(library: KernelLibrary, head_dim: int, kv_format: str = "bfloat16") -> PageIo:
    """Of a decoder without weights."""
    sizes = {"num_layers": NUM_LAYERS, "num_kv_heads": NUM_KV_HEADS, "head_dim": head_dim, "num_pages": 8}
    others = {"hidden_size": 64, "num_heads": 4, "ffn_size": 64, "num_threads": 1, "rms_norm_eps": 1e-5}
    no_positions = np.zeros((1, head_dim // 2), np.float32)
    return PageIo(Decoder(library, Shape(**sizes, **others, kv_format=kv_format), no_positions, no_positions))


def in_bf16(x: Floats) -> Words:
    """The definition: to the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(words: Words) -> Floats:
    return (words.astype(np.uint32) << 16).view(np.float32)


def drawn_rows(head_dim: int, seed: int = 0) -> Words:
    """[pages, layers, heads, K and V, 16, D] of very different sizes, one of them zeros"""
    rng = np.random.default_rng(seed)
    shape = (len(PAGES), NUM_LAYERS, NUM_KV_HEADS, 2, 16, head_dim)
    rows = rng.normal(size=shape) * np.exp(rng.normal(size=(*shape[:-1], 1)) * 4)
    rows[1, 1, 1, :, 3] = 0
    return in_bf16(rows.astype(np.float32))


def rounded(rows: Words) -> tuple[npt.NDArray[np.int8], Words]:
    """The definition of 8-bit rows: values, and scales [..., 16]."""
    x = wide(rows)
    scales = in_bf16(np.abs(x).max(-1) / np.float32(127))
    inverse = np.divide(np.float32(1), wide(scales), out=np.zeros(scales.shape, np.float32), where=scales > 0)
    return np.rint(x * inverse[..., None]).astype(np.int8), scales


def as_payloads(rows: Words, format_: str) -> Bytes:
    """The definition of a stored page: [pages, bytes]"""
    if format_ == "bfloat16":
        return np.ascontiguousarray(rows).astype("<u2").reshape(len(rows), -1).view(np.uint8)
    values, scales = rounded(rows)
    heads = (len(rows), NUM_LAYERS * NUM_KV_HEADS, -1)
    parts = (values.reshape(heads).view(np.uint8), scales.reshape(heads).astype("<u2").view(np.uint8))
    return np.concatenate(parts, axis=-1).reshape(len(rows), -1)


def exported(io: PageIo, format_: str) -> Bytes:
    out = np.empty((len(PAGES), io.page_bytes(format_)), np.uint8)
    assert io.export_pages(PAGES, format_, out).all()
    return out


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("kv_format", ["bfloat16", "int8"])
def test_equal_formats_give_back_the_bytes(library: KernelLibrary, kv_format: str, head_dim: int) -> None:
    io, payloads = pool(library, head_dim, kv_format), as_payloads(drawn_rows(head_dim), kv_format)
    assert payloads.shape[1] == io.page_bytes(kv_format)
    assert io.import_pages(PAGES, kv_format, [payload.tobytes() for payload in payloads]).all()
    np.testing.assert_array_equal(exported(io, kv_format), payloads)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_a_bfloat16_pool_rounds_to_eight_bits_and_widens_them_as_defined(library: KernelLibrary, head_dim: int) -> None:
    io, rows = pool(library, head_dim), drawn_rows(head_dim)
    io.import_pages(PAGES, "bfloat16", list(as_payloads(rows, "bfloat16")))
    eight = as_payloads(rows, "int8")
    np.testing.assert_array_equal(exported(io, "int8"), eight)
    assert io.import_pages(PAGES, "int8", list(eight)).all()
    values, scales = rounded(rows)
    expected = in_bf16(values.astype(np.float32) * wide(scales)[..., None])
    np.testing.assert_array_equal(exported(io, "bfloat16"), as_payloads(expected, "bfloat16"))


@pytest.mark.parametrize(("kv_format", "format_"), [("bfloat16", "bfloat16"), ("bfloat16", "int8"), ("int8", "int8")])
def test_pages_lie_between_headers_that_are_left_alone(library: KernelLibrary, kv_format: str, format_: str) -> None:
    io, rows = pool(library, 64, kv_format), drawn_rows(64)
    io.import_pages(PAGES, kv_format, list(as_payloads(rows, kv_format)))
    size = io.page_bytes(format_)
    room = np.full((len(PAGES), 40 + size + 24), 7, np.uint8)
    io.export_pages(PAGES, format_, room[:, 40 : 40 + size])
    np.testing.assert_array_equal(room[:, 40 : 40 + size], as_payloads(rows, format_))
    assert (room[:, :40] == 7).all()
    assert (room[:, 40 + size :] == 7).all()


@pytest.mark.parametrize("broken", [0x7F80, 0xFF80, 0x7FC1])
@pytest.mark.parametrize("at", [(0, 0, 0, 0, 0, 0), (1, 2, 1, 1, 15, 63), (2, 1, 0, 0, 7, 17)])
def test_a_page_that_is_not_finite_is_named_and_leaves_nothing_behind(
    library: KernelLibrary, broken: int, at: tuple[int, ...]
) -> None:
    io, rows = pool(library, 64), drawn_rows(64)
    io.import_pages(PAGES, "bfloat16", list(as_payloads(rows, "bfloat16")))
    rows[at] = broken
    good = [index != at[0] for index in range(len(PAGES))]
    assert io.import_pages(PAGES, "bfloat16", list(as_payloads(rows, "bfloat16"))).tolist() == good
    rows[at[0]] = 0
    np.testing.assert_array_equal(exported(io, "bfloat16"), as_payloads(rows, "bfloat16"))


@pytest.mark.parametrize("kv_format", ["bfloat16", "int8"])
@pytest.mark.parametrize("broken", [0x7FC0, 0xFFC0, 0x7F80, 0x7F00, 0xBF80])
def test_an_eight_bit_page_whose_scale_cannot_be_one_is_refused(
    library: KernelLibrary, kv_format: str, broken: int
) -> None:
    io, payloads = pool(library, 64, kv_format), as_payloads(drawn_rows(64), "int8")
    payloads[1, -2:] = np.array([broken], "<u2").view(np.uint8)
    assert io.import_pages(PAGES, "int8", list(payloads)).tolist() == [True, False, True]


def prompt_of(length: int) -> list[int]:
    return np.random.default_rng(length).integers(3, 171, length).tolist()


def tiny(name: str, folder: Path, cache_dir: Path) -> ModelFiles:
    family, formats, settings = MODELS[name]
    return build_gguf(folder, cache_dir, family, formats, {**SHAPE, **settings}).files


def test_no_number_that_a_step_wrote_is_hidden_where_it_is_not_finite(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    files = tiny("llama-mixed", tmp_path, default_model_files.cache_dir)
    made = decoder_of(files, kv_dtype="int8")
    made.step(prompt_batch([prompt_of(32)]), None)
    io = PageIo(made)
    out = np.empty((2, io.page_bytes("int8")), np.uint8)
    assert io.export_pages([1, 2], "int8", out).all()
    stages, batch = Stages(made), prompt_batch([prompt_of(32)])
    x = stages.embed(batch)
    normed = stages.norm("attention", 0, x)
    normed[20] = np.nan
    stages.attend(0, batch, normed, x)
    assert io.export_pages([1, 2], "int8", out).tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "kv_dtype"), [("llama-mixed", "bfloat16"), ("llama-mixed", "int8"), ("head-96", "bfloat16")]
)
def test_a_restored_prompt_continues_with_the_same_bits_on_other_pages(
    name: str, kv_dtype: str, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    made = decoder_of(tiny(name, tmp_path, default_model_files.cache_dir), kv_dtype=kv_dtype)
    io, prompt = PageIo(made), prompt_of(49)
    expected = made.step(prompt_batch([prompt]), None).copy()
    out = np.empty((3, io.page_bytes(kv_dtype)), np.uint8)
    assert io.export_pages([1, 2, 3], kv_dtype, out).all()
    assert io.import_pages([30, 9, 21], kv_dtype, list(out)).all()
    last = Batch(
        token_ids=np.array(prompt[48:], np.int32),
        positions=np.array([48], np.int32),
        sequences=np.zeros(1, np.int32),
        page_starts=np.zeros(1, np.int32),
        pages=np.array([30, 9, 21, 40], np.int32),
        sample_rows=np.zeros(1, np.int32),
    )
    np.testing.assert_array_equal(made.step(last, None), expected)


@pytest.mark.parametrize("name", ["llama-mixed", "qwen3-q8_0-128"])
def test_a_stored_page_holds_each_layers_heads_tokens_and_dimensions_in_that_order(
    name: str, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    """Against the pool of the PyTorch model, which lies otherwise."""
    files, prompt = tiny(name, tmp_path, default_model_files.cache_dir), prompt_of(32)
    made, theirs = decoder_of(files), Model(files)
    made.step(prompt_batch([prompt]), None)
    io = PageIo(made)
    out = np.empty((2, io.page_bytes("bfloat16")), np.uint8)
    io.export_pages([1, 2], "bfloat16", out)
    shape = made.shape
    found = wide(out.view("<u2")).reshape(2, shape.num_layers, shape.num_kv_heads, 2, 16, shape.head_dim)
    theirs.logits([prompt])
    assert isinstance(theirs.runner, ModelRunner)
    pages = [1, 2]  # the first that a pool gives out
    layers = [
        np.stack([layer.keys[pages].numpy(), layer.values[pages].numpy()], axis=1)
        for layer in theirs.runner._pool.layers
    ]
    expected = np.stack(layers, axis=1).transpose(0, 1, 4, 2, 3, 5)  # [pages, layers, heads, K and V, 16, D]
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31, 32, 33, 100, 4096 + 5])
def test_the_checksum_is_four_crcs_over_every_fourth_word(library: KernelLibrary, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    words = np.zeros(-(-size // 8) * 8, np.uint8)
    words[:size] = data
    lanes = [b"".join(word.tobytes() for word in words.reshape(-1, 8)[lane::4]) for lane in range(4)]
    assert checksum(library, data) == b"".join(crc_32c(lane).to_bytes(4, "little") for lane in lanes)


def crc_32c(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF
