"""Numbers that are not finite are found in a model's files, whatever format they are in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from stagemesh.models.finite import BLOCK_BYTES, is_finite, not_finite
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.store import ModelFiles


@pytest.mark.parametrize("kind", BLOCK_BYTES)
def test_a_scale_that_is_not_finite_is_found_and_any_quantized_bytes_are_not(kind: str) -> None:
    blocks = np.full((7, BLOCK_BYTES[kind]), 0xFF, np.uint8)
    blocks[:, :4] = 0
    blocks[:, :2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)
    assert is_finite(blocks.reshape(-1), kind)
    blocks[3, :2] = np.frombuffer(np.float16("inf").tobytes(), np.uint8)
    assert not is_finite(blocks.reshape(-1), kind)


@pytest.mark.parametrize("kind", ["F32", "F16", "F64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_floats(kind: str, value: float) -> None:
    numbers = np.ones(33, {"F32": np.float32, "F16": np.float16, "F64": np.float64}[kind])
    assert is_finite(numbers.view(np.uint8), kind)
    numbers[17] = value
    assert not is_finite(numbers.view(np.uint8), kind)


def test_bfloat16_and_unknown_formats() -> None:
    numbers = np.array([0x3F80, 0x7F7F, 0xFF7F], np.uint16)
    assert is_finite(numbers.view(np.uint8), "BF16")
    numbers[1] = 0x7FC0
    assert not is_finite(numbers.view(np.uint8), "BF16")
    assert is_finite(numbers.view(np.uint8), "IQ4_XS")


def test_the_default_model_is_finite_and_a_copy_with_one_nan_is_not(
    default_model_files: ModelFiles, tmp_path: Path
) -> None:
    assert list(not_finite(default_model_files)) == []
    copy = tmp_path / "nan.gguf"
    copy.write_bytes(default_model_files.path.read_bytes())
    offset = open_gguf(copy).tensors["output_norm.weight"].offset
    with copy.open("r+b") as file:
        file.seek(offset)
        file.write(np.float32("nan").tobytes())
    assert list(not_finite(replace(default_model_files, path=copy))) == ["output_norm.weight"]


def test_safetensors(default_model_files: ModelFiles, tmp_path: Path) -> None:
    save_file({"a": np.ones(5, np.float32), "b": np.array([1, np.inf], np.float16)}, tmp_path / "model.safetensors")
    assert list(not_finite(replace(default_model_files, path=tmp_path))) == ["b"]
