"""From files to a model's configuration, tokenizer and identity."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from models_support import TOKENIZER_JSON, write_gguf, write_hf
from transformers import Qwen3Config

from stagemesh.models.errors import ModelCorrupt, ModelError, ModelMissing, UnsupportedModel
from stagemesh.models.info import info
from stagemesh.models.model_config import RopeScaling, TransformerConfig, load_model_config
from stagemesh.models.revision import recall, revision
from stagemesh.models.store import ModelFiles, locate
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.models.verify import verify
from stagemesh.runtime.mesh_config import MeshConfig, ModelConfig


def mesh(tmp_path: Path, source: Path | str) -> MeshConfig:
    return MeshConfig(
        models={"mine": ModelConfig(source=str(source))}, default_model="mine", model_dir=tmp_path / "cache"
    )


def located(tmp_path: Path, source: Path) -> ModelFiles:
    return locate(mesh(tmp_path, source), "mine")


def test_the_default_model_is_what_its_publisher_says(default_model_files: ModelFiles) -> None:
    config = load_model_config(default_model_files)
    assert config == TransformerConfig(
        architecture="llama",
        hidden_size=576,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        ffn_size=1536,
        vocab_size=49_152,
        rope_theta=100_000.0,
        rope_scaling=None,
        rms_norm_eps=pytest.approx(1e-5),
        tied_embeddings=True,
        context_length=8_192,
        bos_token_id=1,
        eos_token_ids=(2,),
        qkv_bias=False,
        output_bias=False,
        qk_norm=False,
        permuted_qk=True,
    )


def test_a_folder_in_hugging_face_layout_is_read(tmp_path: Path) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf"))
    config = load_model_config(files)
    assert (config.architecture, config.head_dim, config.num_kv_heads, config.qk_norm) == ("qwen3", 16, 2, True)
    assert (config.rope_theta, config.eos_token_ids, config.permuted_qk) == (1e6, (2,), False)
    assert (files.path / "generation_config.json").exists() is False
    (files.path / "generation_config.json").write_text('{"eos_token_id": [2, 0]}')
    assert load_model_config(files).eos_token_ids == (2, 0)


def test_a_configuration_that_todays_transformers_writes_is_read(tmp_path: Path) -> None:
    folder = write_hf(tmp_path / "hf")
    rope: dict[str, Any] = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8_192,
    }
    Qwen3Config(vocab_size=16, num_hidden_layers=2, rope_parameters=rope, eos_token_id=2).save_pretrained(folder)
    config = load_model_config(located(tmp_path, folder))
    assert (config.rope_theta, config.num_layers) == (5e5, 2)
    assert config.rope_scaling == RopeScaling(
        kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context_length=8_192
    )


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model_type": "mamba"}, UnsupportedModel, "supported are llama, mistral, qwen2, qwen3"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, UnsupportedModel, "yarn"),
        ({"hidden_act": "gelu"}, UnsupportedModel, "hidden_act"),
        ({"use_sliding_window": True, "sliding_window": "far"}, ModelCorrupt, "sliding window of 'far'"),
        ({"use_sliding_window": True, "sliding_window": 8, "layer_types": ["odd"]}, ModelCorrupt, "layer_types"),
        ({"quantization_config": {"bits": 4}}, UnsupportedModel, "quantized"),
        ({"hidden_size": None}, ModelCorrupt, "hidden_size is None"),
        ({"hidden_size": "large"}, ModelCorrupt, "hidden_size"),
        ({"num_hidden_layers": -1}, ModelCorrupt, "not a positive integer"),
        ({"num_hidden_layers": True}, ModelCorrupt, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, ModelCorrupt, "do not fit"),
        ({"eos_token_id": 99}, ModelCorrupt, "outside the vocabulary"),
        ({"eos_token_id": "</s>"}, ModelCorrupt, "outside the vocabulary"),
        ({"rope_scaling": {"rope_type": "linear"}}, ModelCorrupt, "factor"),
    ],
)
def test_a_model_that_cannot_run_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, Any], error: type[ModelError], words: str
) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf", **change))
    with pytest.raises(error, match=words):
        load_model_config(files)


@pytest.mark.parametrize(
    ("settings", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 8}, (8, 8)),
        ({"model_type": "mistral", "sliding_window": None}, ()),
        ({"sliding_window": 8}, ()),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1}, (0, 8)),
        (
            {
                "sliding_window": 8,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            (8, 0),
        ),
    ],
)
def test_the_layers_with_a_sliding_window_are_known(
    tmp_path: Path, settings: dict[str, Any], windows: tuple[int, ...]
) -> None:
    folder = write_hf(tmp_path / "hf", num_hidden_layers=2, **settings)
    assert load_model_config(located(tmp_path, folder)).windows == windows


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000])
def test_a_damaged_config_json_is_corrupt(tmp_path: Path, text: str) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf"))
    (files.path / "config.json").write_text(text)
    with pytest.raises(ModelCorrupt):
        load_model_config(files)


def test_a_gguf_of_an_unknown_architecture_names_the_supported_ones(tmp_path: Path) -> None:
    files = located(tmp_path, write_gguf(tmp_path / "m.gguf", architecture="mamba"))
    with pytest.raises(UnsupportedModel, match="supported are llama, mistral, qwen2, qwen3"):
        load_model_config(files)


def test_a_gguf_tokenizer_round_trips(tmp_path: Path) -> None:
    file = load_tokenizer(located(tmp_path, write_gguf(tmp_path / "m.gguf")))
    assert file.build().encode("ab<|im_end|> c").ids == [5, 2, 6, 7]
    assert (file.special_tokens["<|im_start|>"], file.eos_token_ids, file.template_tokens["bos_token"]) == (
        1,
        (2,),
        "<|im_start|>",
    )


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "llama-bpe", "default"])
def test_every_known_pre_tokenizer_builds(tmp_path: Path, pre: str) -> None:
    file = load_tokenizer(located(tmp_path, write_gguf(tmp_path / "m.gguf", pre=pre)))
    ids = file.build().encode("ab ab", add_special_tokens=False).ids
    assert ids == [5, 6, 5]
    assert file.adds_bos is (pre == "llama-bpe")


def test_an_unknown_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="pre-tokenizer 'martian'"):
        load_tokenizer(located(tmp_path, write_gguf(tmp_path / "m.gguf", pre="martian")))


def test_a_tokenizer_json_gives_its_tokens_template_and_hash(tmp_path: Path) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf"))
    (files.path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ bos_token }}"})
    )
    file = load_tokenizer(files)
    assert (file.special_tokens, file.plain_added_tokens) == ({"<s>": 0, "</s>": 2}, ("<think>",))
    assert (file.vocab_size, file.token_bytes(5), file.token_bytes(15)) == (16, b"ab", b"")
    assert (file.chat_template, file.template_tokens) == ("{{ bos_token }}", {"bos_token": "<s>", "eos_token": "</s>"})
    (files.path / "chat_template.jinja").write_text("own")
    assert load_tokenizer(files).chat_template == "own"
    assert load_tokenizer(files).tokenizer_hash == file.tokenizer_hash


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}}, UnsupportedModel),
        ({"model": {"type": "Unigram", "vocab": []}}, UnsupportedModel),
        ({"model": None}, ModelCorrupt),
        ({"model": {"type": "BPE", "vocab": {"a": "1"}, "merges": []}}, ModelCorrupt),
        ({"model": {"type": "BPE", "vocab": {"a": 1 << 40}, "merges": []}}, ModelCorrupt),
        ({"added_tokens": [{"id": 1}]}, ModelCorrupt),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, ModelCorrupt),
    ],
)
def test_a_tokenizer_json_that_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, Any], error: type[ModelError]
) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf"))
    (files.path / "tokenizer.json").write_text(json.dumps(TOKENIZER_JSON | change))
    with pytest.raises(error):
        load_tokenizer(files)


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_something_says_what(tmp_path: Path, missing: str) -> None:
    (write_hf(tmp_path / "hf") / missing).unlink()
    with pytest.raises(ModelMissing, match=missing.replace("model", r"\*").replace(".", r"\.")):
        located(tmp_path, tmp_path / "hf")


def test_names_that_lead_nowhere_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="known are mine, smollm2-135m-instruct"):
        locate(mesh(tmp_path, "x"), "gpt-9")
    with pytest.raises(ModelMissing, match="there is no file"):
        located(tmp_path, tmp_path / "none.gguf")
    with pytest.raises(ModelMissing, match="use `builtin`"):
        located(tmp_path, tmp_path / "nowhere")
    with pytest.raises(ModelMissing, match="stagemesh model pull mine"):
        locate(mesh(tmp_path, "hf:org/name"), "mine")


def test_the_revision_changes_with_the_bytes_and_is_remembered(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    files = located(tmp_path, path)
    first = revision(files)
    assert recall(path, files.cache_dir) == first
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    assert revision(files) != first


def test_the_revision_of_a_folder_covers_weights_and_configuration(tmp_path: Path) -> None:
    files = located(tmp_path, write_hf(tmp_path / "hf"))
    first = revision(files)
    write_hf(tmp_path / "hf", rope_theta=10_000.0)
    assert revision(files) != first


def test_a_cache_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    files = located(tmp_path, write_gguf(tmp_path / "m.gguf"))
    assert revision(files) == revision(files)


def test_info_tells_what_a_folder_holds(tmp_path: Path) -> None:
    config = mesh(tmp_path, write_hf(tmp_path / "hf"))
    told = info(config, "mine")
    assert (told.num_parameters, told.tensor_types, told.has_chat_template) == (32, {"F32": 1}, False)
    assert verify(config, "mine").ok


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{"])
def test_damaged_safetensors_are_corrupt(tmp_path: Path, data: bytes) -> None:
    (write_hf(tmp_path / "hf") / "model.safetensors").write_bytes(data)
    with pytest.raises(ModelCorrupt):
        info(mesh(tmp_path, tmp_path / "hf"), "mine")
