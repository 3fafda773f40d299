"""LoRA adapters on the native kernels: rows of one step with different adapters, and files in PEFT's layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_models_support import Model
from engine_native_steps import decoder_of, prompt_batch
from engine_tiny_gguf import TinyModel, build_gguf
from safetensors.torch import save_file
from test_engine_native_shapes import MODELS, SHAPE, rms

from services.engine.adapters import TARGETS, parse_adapter
from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import Decoder, Floats
from services.engine.kernels.native.lora import LoraPart, target_shape
from services.engine.kernels.rounded_reference import RoundedReference
from stagemesh.models.errors import ModelCorrupt, ModelError, UnsupportedModel
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

PROMPTS = [[5, 9, 77], [12, 13] * 9, [3, 4], [101] * 5, [8]]
FUSED = {"qkv": ("q", "k", "v"), "output": ("output",), "gate_up": ("gate", "up"), "down": ("down",)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> TinyModel:
    family, formats, settings = MODELS["qwen2-q4_0-untied"]
    folder = tmp_path_factory.mktemp("adapters")
    return build_gguf(folder, default_model_files.cache_dir, family, formats, {**SHAPE, **settings})


def write_adapter(
    folder: Path, tiny: TinyModel, *, rank: int, targets: Sequence[str], layers: Sequence[int] = (0, 1), **extra: Any
) -> Path:
    model = load_model_config(tiny.files)
    generator = torch.Generator().manual_seed(rank)
    tensors: dict[str, torch.Tensor] = {}
    for layer in layers:
        for target in targets:
            rows, cols = target_shape(TARGETS[target], model)
            group = "self_attn" if target[0] in "qkvo" else "mlp"
            prefix = f"base_model.model.model.layers.{layer}.{group}.{target}"
            a, b = (torch.randn(size, generator=generator) for size in ((rank, cols), (rows, rank)))
            tensors[f"{prefix}.lora_A.weight"] = a * cols**-0.5
            tensors[f"{prefix}.lora_B.weight"] = b.bfloat16()
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 0.5 * rank, "bias": "none", **extra}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def load_adapter(folder: Path, model: TransformerConfig) -> tuple[LoraPart, ...]:
    config, weights = (folder / name for name in ("adapter_config.json", "adapter_model.safetensors"))
    return parse_adapter(config.read_bytes(), weights.read_bytes(), model)


@pytest.fixture(scope="module")
def adapters(tiny: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[LoraPart, ...]]:
    """Three adapters of different ranks and targets; the last one leaves the first layer alone."""
    folder, model = tmp_path_factory.mktemp("peft"), load_model_config(tiny.files)
    made = (
        write_adapter(folder / "all", tiny, rank=64, targets=list(TARGETS)),
        write_adapter(folder / "attention", tiny, rank=5, targets=["q_proj", "v_proj"]),
        write_adapter(folder / "mlp", tiny, rank=17, targets=["up_proj", "down_proj"], layers=(1,)),
    )
    return [load_adapter(path, model) for path in made]


def loaded(tiny: TinyModel, adapters: Sequence[Sequence[LoraPart]], threads: int = 1) -> Decoder:
    decoder = decoder_of(tiny.files, threads=threads)
    for number, parts in enumerate(adapters):
        decoder.set_adapter(number, parts)
    return decoder


def alone(decoder: Decoder, prompt: Sequence[int], adapter: int) -> Floats:
    row: Floats = decoder.step(prompt_batch([prompt], [adapter]), None)[0].copy()
    return row


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_with_different_adapters_in_one_step_are_bitwise_what_each_is_alone(
    tiny: TinyModel, adapters: list[tuple[LoraPart, ...]], threads: int
) -> None:
    single, mixed = loaded(tiny, adapters), loaded(tiny, adapters, threads)
    chosen = [0, -1, 2, 1, 0]
    expected = [alone(single, prompt, adapter) for prompt, adapter in zip(PROMPTS, chosen, strict=True)]
    np.testing.assert_array_equal(mixed.step(prompt_batch(PROMPTS, chosen), None), np.stack(expected))


def test_a_row_without_an_adapter_is_bitwise_what_it_is_where_there_are_none(
    tiny: TinyModel, adapters: list[tuple[LoraPart, ...]]
) -> None:
    plain = decoder_of(tiny.files).step(prompt_batch(PROMPTS), None)
    mixed = loaded(tiny, adapters).step(prompt_batch(PROMPTS, [-1, 0, -1, 1, 2]), None)
    for index, same in enumerate((True, False, True, False, False)):
        assert np.array_equal(mixed[index], plain[index]) == same


def test_an_adapter_that_is_taken_away_adds_nothing(tiny: TinyModel, adapters: list[tuple[LoraPart, ...]]) -> None:
    decoder = loaded(tiny, adapters)
    plain = decoder.step(prompt_batch(PROMPTS), None).copy()
    decoder.set_adapter(0, ())
    np.testing.assert_array_equal(decoder.step(prompt_batch(PROMPTS, [0] * 5), None), plain)


class WithAdapter(RoundedReference):
    """The definition, with one adapter on the decoder's fused matrices."""

    def __init__(self, parts: Sequence[LoraPart]) -> None:
        super().__init__()
        self._parts = {(part.layer, part.target): part for part in parts}
        self.fused: Mapping[int, tuple[int, str]] = {}
        """Address of a weight → its layer and name."""

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        y = super().linear(x, weight, bias)
        if weight.data_ptr() not in self.fused:
            return y
        layer, name = self.fused[weight.data_ptr()]
        return torch.cat([self._added(layer, target, x, rows) for target, rows in self._split(name, y)], dim=-1)

    def _added(self, layer: int, target: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part = self._parts.get((layer, target))
        return y if part is None else self.lora(y, x, torch.from_numpy(part.a), torch.from_numpy(part.b), part.scale)

    def _split(self, name: str, y: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        widths = {"qkv": [128, 64, 64], "gate_up": [160, 160]}.get(name, [y.shape[-1]])
        return list(zip(FUSED[name], torch.split(y, widths, dim=-1), strict=True))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_adapter_computes_what_its_definition_says(
    tiny: TinyModel, adapters: list[tuple[LoraPart, ...]], number: int
) -> None:
    kernels = WithAdapter(adapters[number])
    model = Model(tiny.files, kernels=kernels)
    layers = model.runner._decoder._weights.layers  # type: ignore[attr-defined]
    kernels.fused = {
        getattr(layer, name).data_ptr(): (index, name) for index, layer in enumerate(layers) for name in FUSED
    }
    defined = np.stack(model.logits(PROMPTS))
    decoder = loaded(tiny, adapters)
    found = decoder.step(prompt_batch(PROMPTS, [number] * len(PROMPTS)), None)[:, : SHAPE["vocab_size"]].copy()
    plain = decoder.step(prompt_batch(PROMPTS), None)[:, : SHAPE["vocab_size"]]
    apart = [rms(one - other) / other.std() for one, other in zip(found, defined, strict=True)]
    assert max(apart) < 0.1
    assert min(apart) < 1e-4
    assert min(rms(one - other) / other.std() for one, other in zip(plain, defined, strict=True)) > 0.15


@pytest.mark.parametrize(
    ("extra", "targets", "error", "words"),
    [
        ({"use_dora": True}, ["q_proj"], UnsupportedModel, "use_dora"),
        ({"bias": "all"}, ["q_proj"], UnsupportedModel, "bias"),
        ({"peft_type": "IA3"}, ["q_proj"], UnsupportedModel, "IA3"),
        ({"lora_alpha": "much"}, ["q_proj"], ModelCorrupt, "lora_alpha"),
        ({}, [], ModelCorrupt, "no matrices"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused_with_the_reason(
    tiny: TinyModel, tmp_path: Path, extra: dict[str, Any], targets: list[str], error: type[ModelError], words: str
) -> None:
    folder = write_adapter(tmp_path / "a", tiny, rank=4, targets=targets, **extra)
    with pytest.raises(error, match=words):
        load_adapter(folder, load_model_config(tiny.files))


def test_an_adapter_of_another_model_or_too_high_a_rank_is_refused(tiny: TinyModel, tmp_path: Path) -> None:
    model = load_model_config(tiny.files)
    with pytest.raises(UnsupportedModel, match="rank 65"):
        load_adapter(write_adapter(tmp_path / "a", tiny, rank=65, targets=["q_proj"]), model)
    with pytest.raises(ModelCorrupt, match="layer 7"):
        load_adapter(write_adapter(tmp_path / "b", tiny, rank=4, targets=["q_proj"], layers=[7]), model)


def test_alpha_and_its_exceptions_set_the_scale(tiny: TinyModel, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"lora_alpha": 8, "use_rslora": True, "alpha_pattern": {"layers.1.self_attn.q_proj": 2}}
    folder = write_adapter(tmp_path / "a", tiny, rank=4, targets=["q_proj"], **settings)
    assert [part.scale for part in load_adapter(folder, load_model_config(tiny.files))] == [4.0, 1.0]
