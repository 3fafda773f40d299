"""A step replayed stage by stage gives the bits of the step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_native_steps import decoder_of, prompt_batch
from engine_tiny_gguf import build_gguf
from test_engine_native_shapes import MODELS, SHAPE

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import KV_FORMATS, Decoder, Floats
from services.engine.kernels.native.stages import Stages
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

PROMPTS = [[5, 9, 77], [12] * 17, [3, 4]]


def decoder(name: str, folder: Path, cache_dir: Path, *, threads: int = 1, kv_dtype: str = "bfloat16") -> Decoder:
    family, formats, settings = MODELS[name]
    tiny = build_gguf(folder, cache_dir, family, formats, {**SHAPE, **settings})
    return decoder_of(tiny.files, threads=threads, kv_dtype=kv_dtype)


def replayed(made: Decoder) -> Floats:
    stages, batch = Stages(made), prompt_batch(PROMPTS)
    x = stages.embed(batch)
    for layer in range(made.shape.num_layers):
        x = stages.attend(layer, batch, stages.norm("attention", layer, x), x)
        x = stages.mlp(layer, batch, stages.norm("ffn", layer, x), x)
    return stages.head(stages.norm("final", 0, x[batch.sample_rows]))


@pytest.mark.parametrize(
    ("name", "kv_dtype"), [("llama-mixed", "bfloat16"), ("qwen2-window-7", "int8"), ("qwen3-q8_0-128", "bfloat16")]
)
def test_a_step_replayed_stage_by_stage_is_bitwise_the_step(
    name: str, kv_dtype: str, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    assert kv_dtype in KV_FORMATS
    made = decoder(name, tmp_path, default_model_files.cache_dir, kv_dtype=kv_dtype, threads=2)
    expected = made.step(prompt_batch(PROMPTS), None).copy()
    for page in range(1, 8):
        made.zero_page(page)
    np.testing.assert_array_equal(replayed(made), expected)
    np.testing.assert_array_equal(replayed(made), expected)  # over pages that hold the same tokens already


def test_a_stage_changes_its_own_layer_alone(tmp_path: Path, default_model_files: ModelFiles) -> None:
    made = decoder("llama-mixed", tmp_path, default_model_files.cache_dir)
    stages, batch = Stages(made), prompt_batch(PROMPTS)
    x = stages.embed(batch)
    given, normed = x.copy(), stages.norm("attention", 0, x)
    assert not np.array_equal(stages.attend(0, batch, normed, x), stages.attend(1, batch, normed, x))
    np.testing.assert_array_equal(x, given)
