"""Precision modes of the native kernels: several weight sets over one pool of pages, from either kind of model."""

from __future__ import annotations

import os
from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
import transformers
from engine_models_support import Model, folder_files
from engine_support import make_sequence

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.convert import converted
from services.engine.kernels.native.library import KernelLibrary, load_kernels
from services.engine.modes import MODES, Mode
from services.engine.native_runner import NativeRunner
from services.engine.native_sampler import NativeSampler
from services.engine.scheduler import WorkItem
from services.engine.stages import Probe
from services.engine.weights import packing
from services.engine.weights.native_weights import load_native
from services.engine.weights.quantized_cache import PART, QuantizedCache, saving
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

Floats = npt.NDArray[np.float32]
TEXT = (
    "In 1846 a storm broke the northern wall; it was built anew within two years, wider than before, for 12,500 pounds."
)


@pytest.fixture(scope="module")
def tokens(default_model_files: ModelFiles) -> list[int]:
    ids: list[int] = load_tokenizer(default_model_files).build().encode(TEXT).ids
    return ids


@pytest.fixture(scope="module")
def model(default_model_files: ModelFiles) -> Model:
    return Model(default_model_files, backend="native", modes=("turbo", "precise"))


@pytest.fixture(scope="module")
def library(default_model_files: ModelFiles) -> KernelLibrary:
    return load_kernels(default_model_files.cache_dir / "kernels")


def last_rows(model: Model, prompts: Seq[Seq[int]], modes: Seq[Mode]) -> list[Floats]:
    """Logits after each prompt, all computed in one step, each in its mode."""
    sequences = [make_sequence(str(number), prompt) for number, prompt in enumerate(prompts)]
    for sequence, mode in zip(sequences, modes, strict=True):
        sequence.mode = mode
        model.blocks.allocate(sequence.table, sequence.tokens)
    rows = model.runner.run([WorkItem.next(sequence, len(sequence.tokens)) for sequence in sequences], Probe())
    for sequence in sequences:
        model.blocks.release(sequence.table)
    return list(rows)


def test_sequences_of_several_modes_in_a_step_are_computed_as_alone(model: Model, tokens: list[int]) -> None:
    parts = [tokens[:9], tokens[4:24], tokens[:17], tokens[2:3]]
    modes: list[Mode] = ["turbo", "precise", "precise", "turbo"]
    together = last_rows(model, parts, modes)
    for part, mode, found in zip(parts, modes, together, strict=True):
        np.testing.assert_array_equal(found, last_rows(model, [part], [mode])[0])
    assert not np.array_equal(together[0], last_rows(model, [parts[0]], ["precise"])[0])


def test_a_pass_in_another_mode_leaves_nothing_of_the_first(model: Model, tokens: list[int]) -> None:
    """What progressive precision rests on: drafted pages, written anew, are those of the precise weights alone."""
    sequence = make_sequence("a", tokens)
    model.blocks.allocate(sequence.table, sequence.tokens)
    items = [WorkItem.next(sequence, len(tokens))]
    model.runner.run(items, Probe(), "turbo")
    model.runner.run([WorkItem(sequence, 0, len(tokens) - 1, samples=False)], Probe(), "precise")
    found = model.runner.run([WorkItem(sequence, len(tokens) - 1, len(tokens), samples=True)], Probe(), "precise")
    model.blocks.release(sequence.table)
    np.testing.assert_array_equal(found[0], last_rows(model, [tokens], ["precise"])[0])


def test_precise_logits_are_nearer_to_float32_than_turbo_by_far(
    default_model_files: ModelFiles, model: Model, tokens: list[int]
) -> None:
    parts = [tokens[:length] for length in range(4, len(tokens), 3)]
    expected = torch.from_numpy(np.stack(Model(default_model_files).logits(parts))).log_softmax(-1)
    divergence: dict[Mode, float] = {}
    for mode in ("turbo", "precise"):
        rows = np.stack(last_rows(model, parts, [mode] * len(parts)))
        found = torch.from_numpy(rows).log_softmax(-1)
        divergence[mode] = float((expected.exp() * (expected - found)).sum(-1).mean())
    assert divergence["precise"] < 2e-4
    assert divergence["precise"] < divergence["turbo"] / 10


def test_modes_that_hold_the_same_weights_share_their_memory(
    default_model_files: ModelFiles, library: KernelLibrary
) -> None:
    config = load_model_config(default_model_files)
    sizes = {"num_positions": 64, "num_pages": 4, "threads": 1}
    one, both = (
        load_native(default_model_files, config, library, **sizes, modes=modes).weight_bytes()
        for modes in (("turbo",), ("turbo", "standard", "precise"))
    )
    assert one == both
    assert load_native(default_model_files, config, library, **sizes, modes=("precise",)).weight_bytes() == one


# From a folder in Hugging Face layout.

SHAPE = {
    "vocab_size": 171,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = {"Llama": {"tie_word_embeddings": True}, "Qwen2": {"tie_word_embeddings": False}, "Qwen3": {"head_dim": 64}}
PROMPTS = [[3 + (at * 37 + length) % 160 for at in range(length)] for length in (1, 7, 16, 60)]


def folder_model(
    folder: Path, cache_dir: Path, family: str = "Llama", dtype: torch.dtype = torch.float32
) -> ModelFiles:
    """A random model, saved; kernels and quantized weights are kept in `cache_dir`."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**SHAPE, **FAMILIES[family])
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.08)
    model.to(dtype).save_pretrained(folder)
    return replace(folder_files(folder), cache_dir=cache_dir)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_is_quantized_when_it_is_loaded(family: str, tmp_path: Path, default_model_files: ModelFiles) -> None:
    files = folder_model(tmp_path, default_model_files.cache_dir, family)
    expected = torch.from_numpy(np.stack(Model(files).logits(PROMPTS))).log_softmax(-1)
    divergence: dict[Mode, float] = {}
    for mode in MODES:
        rows = np.stack(Model(files, backend="native", modes=(mode,)).logits(PROMPTS))
        found = torch.from_numpy(rows).log_softmax(-1)[:, : expected.shape[1]]
        divergence[mode] = float((expected.exp() * (expected - found)).sum(-1).mean())
    assert divergence["precise"] < divergence["standard"] < divergence["turbo"] < 0.05
    assert divergence["precise"] < 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_folders_are_read(tmp_path: Path, default_model_files: ModelFiles, dtype: torch.dtype) -> None:
    files = folder_model(tmp_path, default_model_files.cache_dir, dtype=dtype)
    expected = Model(files).logits(PROMPTS)
    for found, wanted in zip(Model(files, backend="native", modes=("precise",)).logits(PROMPTS), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.05)


class Loads:
    """Loads a folder with a cache on disk, again and again."""

    def __init__(self, files: ModelFiles, library: KernelLibrary) -> None:
        self.files, self.library = files, library
        self.config = load_model_config(files)

    def logits(self, mode: Mode = "turbo", cache_mb: int = 1) -> Floats:
        sizes = {"num_positions": 128, "num_pages": 8, "threads": 1}
        decoder = load_native(self.files, self.config, self.library, **sizes, modes=(mode,), cache_mb=cache_mb)
        model = Model(
            self.files, num_pages=8, runner=NativeRunner(decoder, self.config.vocab_size, NativeSampler(self.library))
        )
        return model.logits(PROMPTS[:1])[0]

    def cached(self) -> list[Path]:
        return sorted((self.files.cache_dir / "quantized").glob("*.safetensors"))


@pytest.fixture
def loads(tmp_path: Path, library: KernelLibrary) -> Loads:
    return Loads(folder_model(tmp_path / "model", tmp_path), library)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The formats that something is quantized to."""
    made: list[str] = []

    def counted(library: KernelLibrary, raw: npt.NDArray[np.uint8], from_: str, to: str) -> npt.NDArray[np.uint8]:
        made.append(to)
        return converted(library, raw, from_, to)

    monkeypatch.setattr(packing, "converted", counted)
    return made


def test_the_second_load_quantizes_nothing_and_computes_the_same(loads: Loads, conversions: list[str]) -> None:
    first = loads.logits()
    assert conversions.count("Q4_1") == 6
    conversions.clear()
    np.testing.assert_array_equal(loads.logits(), first)
    assert not conversions
    loads.logits("standard")
    assert set(conversions) == {"Q8_0"}
    assert len(loads.cached()) == 1
    conversions.clear()
    loads.logits("turbo"), loads.logits("standard")
    assert not conversions


@pytest.mark.parametrize("at", [3, 300, -1])
def test_a_damaged_cache_is_noticed_and_made_anew(loads: Loads, conversions: list[str], at: int) -> None:
    first = loads.logits()
    (path,) = loads.cached()
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)
    conversions.clear()
    np.testing.assert_array_equal(loads.logits(), first)
    assert conversions
    conversions.clear()
    np.testing.assert_array_equal(loads.logits(), first)
    assert not conversions


def test_a_cut_cache_is_noticed_and_made_anew(loads: Loads) -> None:
    first = loads.logits()
    (path,) = loads.cached()
    path.write_bytes(path.read_bytes()[:5000])
    np.testing.assert_array_equal(loads.logits(), first)


def test_another_checkpoint_does_not_get_the_first_ones_weights(loads: Loads, tmp_path: Path) -> None:
    first = loads.logits()
    model = transformers.LlamaForCausalLM.from_pretrained(loads.files.path)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
        model.model.layers[0].mlp.down_proj.weight.mul_(2)
    model.save_pretrained(loads.files.path)
    assert not np.array_equal(loads.logits(), first)
    assert len(loads.cached()) == 2


def test_a_cache_without_room_keeps_nothing(loads: Loads) -> None:
    loads.logits(cache_mb=0)
    assert not loads.cached()


def test_the_weights_used_longest_ago_make_room(tmp_path: Path) -> None:
    for number, revision in enumerate(("a", "b", "c")):
        cache = QuantizedCache(tmp_path, revision, max_bytes=25_000)
        cache.put("head", "Q8_0", np.zeros((10, 1_000), np.uint8))
        cache.save()
        (made,) = tmp_path.glob(f"{revision}-*")
        os.utime(made, (number, number))
    assert {path.name[0] for path in tmp_path.glob("*.safetensors")} == {"b", "c"}


def test_a_save_that_was_killed_leaves_nothing_that_stays(tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(b"half of the weights")
    cache = QuantizedCache(tmp_path, "a", max_bytes=25_000)
    cache.put("head", "Q8_0", np.zeros((10, 1_000), np.uint8))
    cache.save()
    assert QuantizedCache(tmp_path, "a", max_bytes=25_000).get("head", "Q8_0") is not None
    assert not (tmp_path / PART).exists()


def test_while_another_process_saves_nothing_is_written(tmp_path: Path) -> None:
    cache = QuantizedCache(tmp_path, "a", max_bytes=25_000)
    cache.put("head", "Q8_0", np.zeros((10, 1_000), np.uint8))
    with saving(tmp_path):
        cache.save()
        assert not list(tmp_path.glob("*.safetensors"))
    cache.save()
    assert list(tmp_path.glob("*.safetensors"))


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = QuantizedCache(tmp_path / "file" / "folder", "a", max_bytes=10_000)
    cache.put("head", "Q8_0", np.zeros((1, 34), np.uint8))
    cache.save()
    assert cache.get("head", "Q8_0") is None


def test_widths_that_the_kernels_do_not_take_are_named(loads: Loads, library: KernelLibrary) -> None:
    config = replace(loads.config, ffn_size=100)
    with pytest.raises(UnsupportedModel, match="ffn size that is a multiple of 32, not 100"):
        load_native(loads.files, config, library, num_positions=16, num_pages=4, threads=1)


def test_a_malformed_safetensors_file_is_refused(loads: Loads) -> None:
    path = loads.files.path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2_000])
    with pytest.raises(ModelCorrupt, match="cannot be read"):
        loads.logits()
