"""Native kernels on each shape of model that the engine takes: near transformers, bitwise batch invariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from engine_models_support import Model
from engine_tiny_gguf import TinyModel, build_gguf

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import KV_FORMATS
from services.engine.kernels.rounded_reference import RoundedReference
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

SHAPE = {
    "vocab_size": 171,
    "hidden_size": 128,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def heads(num_heads: int, num_kv_heads: int, head_dim: int, *, tied: bool) -> dict[str, Any]:
    return {
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_kv_heads,
        "head_dim": head_dim,
        "tie_word_embeddings": tied,
    }


def window(size: int) -> dict[str, Any]:
    """In all layers but the first."""
    return {"sliding_window": size, "use_sliding_window": True, "max_window_layers": 1}


def mixed(kind: str) -> str:
    """Formats that meet in one fused matrix, and one without a kernel of its own."""
    return {"attn_q": "Q4_0", "attn_k": "Q8_0", "ffn_gate": "Q4_1", "ffn_up": "Q4_0", "token_embd": "F16"}.get(
        kind, "Q4_1"
    )


MODELS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "llama-q4_0-gqa3": ("Llama", "Q4_0", {**heads(3, 1, 64, tied=True), "hidden_size": 192}),
    "llama-q4_1-untied-128": ("Llama", "Q4_1", heads(4, 1, 128, tied=False)),
    "llama-q8_0-mha": ("Llama", "Q8_0", {**heads(2, 2, 64, tied=True), "attention_bias": True}),
    "llama-mixed": ("Llama", mixed, heads(4, 2, 64, tied=False)),
    "qwen2-q8_0-gqa7": ("Qwen2", "Q8_0", {**heads(7, 1, 64, tied=True), "hidden_size": 448}),
    "qwen2-q4_0-untied": ("Qwen2", "Q4_0", {**heads(2, 1, 64, tied=False)}),
    "qwen3-q8_0-128": ("Qwen3", "Q8_0", heads(4, 2, 128, tied=True)),
    "qwen3-q4_1-untied-gqa8": ("Qwen3", "Q4_1", heads(8, 1, 64, tied=False)),
    "mistral-window-17": ("Mistral", "Q8_0", {**heads(4, 2, 64, tied=True), "sliding_window": 17}),
    "qwen2-window-7": ("Qwen2", "Q8_0", {**heads(2, 1, 64, tied=True), **window(7)}),
    "head-96": ("Qwen3", "Q8_0", heads(6, 2, 96, tied=True)),
    "head-32": ("Llama", "Q8_0", heads(4, 1, 32, tied=True)),
}


def prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 171, (length,), generator=generator).tolist() for length in lengths]


SHORT = prompts(1, 2, 3, 5, 15, 16, 17, 35)
PROMPTS = prompts(1, 15, 16, 17, 63, 200)


def rms(values: npt.NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(values).mean()))


@pytest.fixture(scope="module", params=MODELS)
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles
) -> TinyModel:
    family, formats, settings = MODELS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    return build_gguf(folder, default_model_files.cache_dir, family, formats, {**SHAPE, **settings})


@pytest.fixture(scope="module", params=KV_FORMATS)
def kv_dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def native(tiny: TinyModel, kv_dtype: str) -> Model:
    return Model(tiny.files, backend="native", kv_dtype=kv_dtype)


def test_the_file_holds_what_transformers_computes_with(tiny: TinyModel) -> None:
    for prompt, logits in zip(PROMPTS, Model(tiny.files).logits(PROMPTS), strict=True):
        torch.testing.assert_close(torch.from_numpy(logits), tiny.logits(prompt), rtol=1e-4, atol=2e-4)


def test_logits_are_those_of_the_definition_and_near_those_of_transformers(
    request: pytest.FixtureRequest, tiny: TinyModel, native: Model, kv_dtype: str
) -> None:
    """The definition rounds alike: where no rounding falls the other way, only float32 is left. One that does, like
    the rounding as a whole, is 0.5 % of a standard deviation in each product, which the softmax makes more."""
    found, defined = native.logits(SHORT), Model(tiny.files, kernels=RoundedReference(kv_dtype)).logits(SHORT)
    spread = [tiny.logits(prompt).numpy().std() for prompt in SHORT]
    apart = [rms(one - other) / std for one, other, std in zip(found, defined, spread, strict=True)]
    rounded = [
        rms(one - tiny.logits(prompt).numpy()) / std for one, prompt, std in zip(found, SHORT, spread, strict=True)
    ]
    assert max(apart) < 0.1
    assert max(rounded) < 0.1
    if "mixed" not in request.node.name:  # there the native kernels repack what meets in one matrix
        assert min(apart) < 1e-5


def test_logits_are_bitwise_the_same_however_prompts_are_cut_and_batched(native: Model) -> None:
    alone = [native.logits([prompt])[0] for prompt in PROMPTS]
    for chunk in (1, 7, 16, 100):
        for expected, found in zip(alone, native.logits(PROMPTS, chunk=chunk), strict=True):
            np.testing.assert_array_equal(found, expected)
