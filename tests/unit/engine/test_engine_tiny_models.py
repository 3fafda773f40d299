from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from engine_models_support import Model, folder_files

from services.engine.kernels.batch import KvLayer
from services.engine.kernels.reference import ReferenceKernels
from services.engine.kernels.torch_forms import TorchKernels
from stagemesh.models.errors import ModelCorrupt

SHAPE = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": True}),
    "llama-untied": ("Llama", {"tie_word_embeddings": False, "head_dim": 16}),
    "llama-bias": ("Llama", {"attention_bias": True}),
    "llama3-rope": ("Llama", {"rope_parameters": LLAMA3}),
    "linear-rope": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e4, "factor": 4.0}}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-untied": ("Qwen2", {"tie_word_embeddings": False}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
    "mistral-window": ("Mistral", {"sliding_window": 17}),
    "qwen2-window": ("Qwen2", {"sliding_window": 31, "use_sliding_window": True, "max_window_layers": 1}),
    "qwen3-window-1": (
        "Qwen3",
        {"sliding_window": 1, "use_sliding_window": True, "max_window_layers": 2, "head_dim": 16},
    ),
    "qwen3-untied": ("Qwen3", {"tie_word_embeddings": False, "head_dim": 16}),
}
LENGTHS = (1, 15, 16, 17, 63, 200)


def build(name: str, folder: Path) -> transformers.PreTrainedModel:
    """A random model of the family, saved to `folder`, with norms and biases that matter."""
    family, extra = MODELS[name]
    torch.manual_seed(len(name))
    config = getattr(transformers, f"{family}Config")(**{**SHAPE, **extra})
    model: transformers.PreTrainedModel = getattr(transformers, f"{family}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.08)
    model.save_pretrained(folder)
    return model


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 160, (length,), generator=generator).tolist() for length in LENGTHS]


@pytest.mark.parametrize("name", MODELS)
def test_logits_agree_with_transformers(name: str, tmp_path: Path) -> None:
    theirs = build(name, tmp_path)
    model = Model(folder_files(tmp_path))
    for prompt, logits in zip(prompts(), model.logits(prompts()), strict=True):
        with torch.no_grad():
            expected = theirs(torch.tensor([prompt])).logits[0, -1]
        torch.testing.assert_close(torch.from_numpy(logits), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral-window"])
def test_logits_do_not_depend_on_chunks_or_batch(name: str, tmp_path: Path) -> None:
    build(name, tmp_path)
    model = Model(folder_files(tmp_path))
    alone = [model.logits([prompt])[0] for prompt in prompts()]
    for chunk in (1, 7, 16, 100):
        for expected, logits in zip(alone, model.logits(prompts(), chunk=chunk), strict=True):
            torch.testing.assert_close(torch.from_numpy(logits), torch.from_numpy(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "qwen2-window"])
def test_the_forms_that_run_agree_with_the_definition(name: str, tmp_path: Path) -> None:
    build(name, tmp_path)
    definition = Model(folder_files(tmp_path), kernels=ReferenceKernels()).logits(prompts(), chunk=33)
    running = Model(folder_files(tmp_path), kernels=TorchKernels()).logits(prompts(), chunk=33)
    for expected, logits in zip(definition, running, strict=True):
        torch.testing.assert_close(torch.from_numpy(logits), torch.from_numpy(expected), rtol=1e-4, atol=1e-4)


def test_bfloat16_stays_near_float32(tmp_path: Path) -> None:
    build("llama", tmp_path)
    exact = Model(folder_files(tmp_path)).logits(prompts())
    rough = Model(folder_files(tmp_path), dtype="bfloat16").logits(prompts())
    for expected, logits in zip(exact, rough, strict=True):
        torch.testing.assert_close(torch.from_numpy(logits), torch.from_numpy(expected), rtol=0.1, atol=0.15)


def test_sharded_safetensors_are_read(tmp_path: Path) -> None:
    theirs = build("llama", tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="50KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    whole, shards = (Model(folder_files(tmp_path / name)) for name in ("whole", "shards"))
    assert (whole.logits(prompts())[3] == shards.logits(prompts())[3]).all()


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    theirs = build("llama", tmp_path)
    state = {name: value for name, value in theirs.state_dict().items() if "layers.1.mlp.up_proj" not in name}
    theirs.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ModelCorrupt, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        Model(folder_files(tmp_path))


def test_a_truncated_file_is_a_sentence(tmp_path: Path) -> None:
    build("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ModelCorrupt, match="cannot be read"):
        Model(folder_files(tmp_path))


def test_a_tensor_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    build("llama", tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": 96', '"intermediate_size": 80'))
    with pytest.raises(ModelCorrupt, match=r"layers\.0\.gate has the shape \(96, 64\), not \(80, 64\)"):
        Model(folder_files(tmp_path))


def test_writing_kv_twice_gives_the_same_bytes() -> None:
    kv = KvLayer(torch.zeros(3, 16, 2, 8), torch.zeros(3, 16, 2, 8))
    slots, keys, values = torch.tensor([17, 18, 40]), torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    TorchKernels().write_kv(kv, slots, keys, values)
    once = kv.keys.clone()
    TorchKernels().write_kv(kv, slots, keys, values)
    assert (kv.keys == once).all()
    assert (kv.keys.flatten(0, 1)[slots] == keys).all()
    assert kv.keys.flatten(0, 1)[[16, 19, 39, 41]].abs().sum() == 0
