"""The default model in float32 with its columns in another order: the same function, on no grid of 4 bits.

A group of 32 weights shares a scale; with the columns shuffled, a group holds weights of many scales, distributed as a
real checkpoint's are. Hidden, FFN and value columns are shuffled everywhere alike, so what is computed stays the same.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from services.engine.weights import gguf_names, hf_names
from services.engine.weights.gguf_tensors import GgufTensors
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.store import ModelFiles

Floats = npt.NDArray[np.float32]
SEED = 20_000


def on_another_grid(files: ModelFiles) -> ModelFiles:
    """A folder beside the model's other caches, written on first use (0.5 GB)."""
    folder = files.cache_dir / "perplexity" / f"shuffled-{files.pinned_sha256[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _write(files, load_model_config(files), Path(made))
            shutil.copytree(made, f"{made}.whole")
            os.replace(f"{made}.whole", folder)
    return replace(files, kind="hf", path=folder, pinned_sha256="")


def _write(files: ModelFiles, config: TransformerConfig, folder: Path) -> None:
    rng = np.random.default_rng(SEED)
    hidden, values = rng.permutation(config.hidden_size), rng.permutation(config.head_dim)
    tensors: dict[str, Floats] = {}
    read = _Reader(files, config)
    tensors["embedding"] = read.matrix("embedding")[:, hidden]
    tensors["norm"] = read.vector("norm")[hidden]
    for index in range(config.num_layers):
        p, ffn = f"layers.{index}.", rng.permutation(config.ffn_size)
        for name in ("attention_norm", "ffn_norm"):
            tensors[p + name] = read.vector(p + name)[hidden]
        for name in ("q", "k"):
            tensors[p + name] = read.matrix(p + name)[:, hidden]
        tensors[p + "v"] = read.matrix(p + "v")[_in_heads(values, config.num_kv_heads)][:, hidden]
        tensors[p + "output"] = read.matrix(p + "output")[hidden][:, _in_heads(values, config.num_heads)]
        for name in ("gate", "up"):
            tensors[p + name] = read.matrix(p + name)[ffn][:, hidden]
        tensors[p + "down"] = read.matrix(p + "down")[hidden][:, ffn]
    stored = {hf_names.stored_name(name): np.ascontiguousarray(values) for name, values in tensors.items()}
    save_file(stored, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(_settings(config)))


def _in_heads(order: npt.NDArray[np.int64], num_heads: int) -> npt.NDArray[np.int64]:
    return np.concatenate([head * len(order) + order for head in range(num_heads)])


def _settings(config: TransformerConfig) -> dict[str, object]:
    return {
        "model_type": config.architecture,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn_size,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tied_embeddings,
    }


class _Reader:
    def __init__(self, files: ModelFiles, config: TransformerConfig) -> None:
        self._file, self._config = open_gguf(files.path), config
        self._tensors = GgufTensors(self._file, config)

    def matrix(self, name: str) -> Floats:
        """Dequantized, rows in the engine's order."""
        values = self._file.tensor(gguf_names.stored_name(name))
        heads = {"q": self._config.num_heads, "k": self._config.num_kv_heads}.get(name.rpartition(".")[2], 0)
        return gguf_names.unpermute(values, heads) if heads and self._config.permuted_qk else values

    def vector(self, name: str) -> Floats:
        return self._tensors.vector(name)
