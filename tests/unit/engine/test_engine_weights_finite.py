"""A file with a NaN in it is refused when it is loaded: kernels that round to 8 bits would answer nonsense with it."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from engine_models_support import Model
from engine_tiny_gguf import TinyModel, build_gguf

from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.store import ModelFiles

SETTINGS = {
    "vocab_size": 173, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 128, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> TinyModel:
    return build_gguf(tmp_path_factory.mktemp("finite"), default_model_files.cache_dir, "Llama", "Q8_0", SETTINGS)


@pytest.mark.parametrize(
    ("stored", "planted", "name"),
    [
        ("blk.1.ffn_norm.weight", np.float32("nan").tobytes(), r"layers\.1\.ffn_norm"),
        ("blk.0.ffn_down.weight", np.float16("inf").tobytes(), r"layers\.0\.down"),
    ],
)
def test_a_number_that_is_not_finite_is_told_with_its_tensor(
    tiny: TinyModel, tmp_path: Path, stored: str, planted: bytes, name: str
) -> None:
    path = tmp_path / "spoiled.gguf"
    shutil.copy(tiny.files.path, path)
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == stored)
    with path.open("r+b") as file:
        file.seek(int(tensor.data_offset))
        file.write(planted)
    with pytest.raises(ModelCorrupt, match=rf"tensor {name} holds a NaN or an infinite number"):
        Model(dataclasses.replace(tiny.files, path=path), backend="native")
