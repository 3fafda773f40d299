"""Small random models as GGUF files, beside the same weights in transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import torch
import transformers

from services.engine.weights import gguf_names, hf_names
from stagemesh.models.store import ModelFiles


@dataclass(frozen=True)
class TinyModel:
    files: ModelFiles
    theirs: transformers.PreTrainedModel
    """Holds what the file's quantized weights stand for, in float32."""

    def logits(self, prompt: list[int]) -> torch.Tensor:
        """After the last token: [V]"""
        with torch.no_grad():
            wanted: torch.Tensor = self.theirs(torch.tensor([prompt])).logits[0, -1]
        return wanted


def build_gguf(
    folder: Path, cache_dir: Path, family: str, formats: Callable[[str], str] | str, settings: Mapping[str, Any]
) -> TinyModel:
    """`family`: Llama, Mistral, Qwen2 or Qwen3; `formats`: the type of each matrix, by its name in the file.

    `settings`: of the family's configuration in transformers.
    """
    torch.manual_seed(len(str(settings)))
    config = getattr(transformers, f"{family}Config")(**settings)
    model: transformers.PreTrainedModel = getattr(transformers, f"{family}ForCausalLM")(config).float().eval()
    architecture = "llama" if family == "Mistral" else family.lower()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    _write_settings(writer, config)
    state = model.state_dict()
    for name, stored in _names(config.num_hidden_layers):
        if name not in state or (stored == "output.weight" and config.tie_word_embeddings):
            continue
        kind = stored.split(".")[-2] if stored.startswith("blk") else stored.removesuffix(".weight")
        values = _random(state[name], stored)
        if values.ndim == 1:
            writer.add_tensor(stored, _stored_order(values, stored, config, architecture))
        else:
            type_ = gguf.GGMLQuantizationType[formats if isinstance(formats, str) else formats(kind)]
            values = gguf.dequantize(gguf.quantize(values, type_), type_).astype(np.float32)
            raw = gguf.quantize(_stored_order(values, stored, config, architecture), type_)
            writer.add_tensor(stored, raw, raw_dtype=type_)
        state[name].copy_(torch.from_numpy(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(state)
    return TinyModel(ModelFiles(name="tiny", source="", kind="gguf", path=path, cache_dir=cache_dir), model)


def _names(num_layers: int) -> list[tuple[str, str]]:
    """Names in transformers and in the file."""
    ours = list(hf_names.TOP_NAMES)
    ours += [f"layers.{index}.{kind}" for index in range(num_layers) for kind in hf_names.LAYER_NAMES]
    return [(hf_names.stored_name(name), gguf_names.stored_name(name)) for name in ours]


def _random(like: torch.Tensor, stored: str) -> npt.NDArray[np.float32]:
    """Norms near one; the rest so large that attention is not uniform and biases matter."""
    noise = torch.randn(like.shape)
    if "norm" in stored:
        return (1 + 0.2 * noise).numpy()
    return (noise * (0.5 if like.ndim == 1 else 1.5 * like.shape[-1] ** -0.5)).numpy()


def _stored_order(
    values: npt.NDArray[np.float32], stored: str, config: Any, architecture: str
) -> npt.NDArray[np.float32]:
    """The file of a llama pairs neighbouring rows of q and k where transformers pairs halves."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(stored.split(".")[-2])
    if architecture != "llama" or heads is None:
        return values
    shape = (heads, 2, len(values) // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(values.reshape(shape).swapaxes(1, 2).reshape(values.shape))


def _write_settings(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(
        config.head_dim if getattr(config, "head_dim", None) else config.hidden_size // config.num_attention_heads
    )
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if getattr(config, "sliding_window", None):
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])
