"""GGUF files: what is read, and what hostile ones do."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from models_support import TOKENS, write_gguf

from stagemesh.models.errors import ModelCorrupt, ModelError, ModelMissing, UnsupportedModel
from stagemesh.models.gguf_file import open_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def test_metadata_and_tensors_are_what_was_written(path: Path) -> None:
    file = open_gguf(path)
    assert file.metadata["general.architecture"] == "llama"
    assert file.metadata["tokenizer.ggml.tokens"] == TOKENS
    assert file.metadata["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)
    embedding = file.tensors["token_embd.weight"]
    assert (embedding.shape, embedding.type, file.tensors["blk.0.attn_q.weight"].type) == ((8, 32), "F32", "Q8_0")
    random_ = np.random.default_rng(1)
    expected = random_.standard_normal((8, 32)).astype(np.float32)
    np.testing.assert_array_equal(file.tensor("token_embd.weight"), expected)
    quantized = random_.standard_normal((32, 32)).astype(np.float32)
    np.testing.assert_allclose(file.tensor("blk.0.attn_q.weight"), quantized, atol=0.02)
    assert file.raw("blk.0.attn_q.weight").shape == (32, 34)


def test_a_file_reads_as_the_gguf_library_reads_it(path: Path) -> None:
    ours, theirs = open_gguf(path), gguf.GGUFReader(path)
    assert set(ours.tensors) == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        np.testing.assert_array_equal(ours.raw(tensor.name).ravel(), tensor.data.view(np.uint8).ravel())
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            value = ours.metadata[key]
            assert (value.tolist() if isinstance(value, np.ndarray) else value) == field.contents(), key


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", ModelCorrupt, "cannot be read"),
        (b"GG", ModelCorrupt, "not a sound GGUF file"),
        (b"PK\x03\x04" + bytes(100), ModelCorrupt, "does not begin with"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(100), UnsupportedModel, "version 9"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(100), UnsupportedModel, "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), ModelCorrupt, "announces"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62), ModelCorrupt, "beyond the end"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 77), ModelCorrupt, "value type 77"),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 1 << 59),
            ModelCorrupt,
            "strings announced",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 5),
            ModelCorrupt,
            "value type 9",
        ),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2) + b"\xff\xfe" + bytes(9), ModelCorrupt, "utf-8"),
    ],
)
def test_a_file_that_is_no_gguf_is_refused_with_a_sentence(
    tmp_path: Path, data: bytes, error: type[ModelError], words: str
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(error, match=words):
        open_gguf(path)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing):
        open_gguf(tmp_path / "none.gguf")


def test_a_file_cut_anywhere_is_an_error_and_never_a_crash(path: Path) -> None:
    data = path.read_bytes()
    for end in range(1, len(data), 37):
        path.write_bytes(data[:end])
        with pytest.raises(ModelError):
            open_gguf(path)


def test_flipped_bytes_are_read_or_refused_and_never_crash(path: Path) -> None:
    data, random_ = path.read_bytes(), random.Random(3)
    header = data.index(b"blk.0.attn_q.weight") + 60
    for _ in range(600):
        changed = bytearray(data)
        for _ in range(random_.randint(1, 4)):
            changed[random_.randrange(header)] = random_.randrange(256)
        path.write_bytes(changed)
        try:
            file = open_gguf(path)
        except ModelError:
            continue
        for name in file.tensors:
            file.raw(name)
