"""The default model's GGUF file as a Hugging Face folder, for peers that cannot read GGUF.

Same weights: every matrix is dequantized to float32, exactly what the file says; a peer rounds or quantizes from there.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.peers.cache import peers_dir, step
from stagemesh.models.gguf_file import GgufFile, open_gguf
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.pull import pull
from stagemesh.models.revision import sha256_of
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

Floats = npt.NDArray[np.float32]

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def default_model() -> ModelFiles:
    """The default model's GGUF file, fetched if need be."""
    return pull(read_source(environ={}).shared(MeshConfig))


def hugging_face_folder() -> Path:
    """`<peers>/checkpoint/model`: config, tokenizer and float32 safetensors, made once."""
    files = default_model()
    folder = peers_dir() / "checkpoint"
    folder.mkdir(exist_ok=True)
    step(folder, "convert", {"gguf": sha256_of(files.path), "form": 1}, lambda: convert(files, folder / "model"))
    return folder / "model"


def convert(files: ModelFiles, target: Path) -> None:
    """Write the folder. Raises ModelError for a file that cannot be read."""
    from safetensors.numpy import save_file  # only this step needs it

    config, tokenizer = load_model_config(files), load_tokenizer(files)
    target.mkdir(parents=True, exist_ok=True)
    save_file(dict(tensors(open_gguf(files.path), config)), target / "model.safetensors", metadata={"format": "pt"})
    (target / "tokenizer.json").write_text(tokenizer.json, encoding="utf-8")
    for name, values in {
        "config.json": config_json(config),
        "generation_config.json": {"bos_token_id": config.bos_token_id, "eos_token_id": list(config.eos_token_ids)},
        "tokenizer_config.json": tokenizer_config_json(config, tokenizer),
    }.items():
        (target / name).write_text(json.dumps(values, indent=2), encoding="utf-8")


def tensors(file: GgufFile, config: TransformerConfig) -> dict[str, Floats]:
    """All tensors under Hugging Face's names, q and k in its order of rows."""
    found = {
        "model.embed_tokens.weight": file.tensor("token_embd.weight"),
        "model.norm.weight": file.tensor("output_norm.weight"),
    }
    if not config.tied_embeddings:
        found["lm_head.weight"] = file.tensor("output.weight")
    num_heads = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}
    for layer in range(config.num_layers):
        for name, theirs in LAYER_NAMES.items():
            values = file.tensor(f"blk.{layer}.{name}.weight")
            if name in num_heads and config.permuted_qk:
                values = split_pairs(values, num_heads[name])
            found[f"model.layers.{layer}.{theirs}.weight"] = np.ascontiguousarray(values)
    return found


def split_pairs(rows: Floats, num_heads: int) -> Floats:
    """Rows of q or k from GGUF's order, where the rows of a rotated pair are neighbours, to one half after the other.

    rows: [num_heads * head_dim, hidden]; row 2i+j of a head becomes row j * head_dim/2 + i.
    """
    heads = rows.reshape(num_heads, -1, 2, rows.shape[-1])  # [H, D/2, 2, hidden]
    return np.concatenate([heads[:, :, 0], heads[:, :, 1]], axis=1).reshape(rows.shape)


def config_json(config: TransformerConfig) -> dict[str, object]:
    """Hugging Face's `config.json` of a plain Llama."""
    assert config.architecture == "llama"
    assert config.rope_scaling is None
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.ffn_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": config.tied_embeddings,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_ids[0],
        "torch_dtype": "float32",
    }


def tokenizer_config_json(config: TransformerConfig, tokenizer: TokenizerFile) -> dict[str, object]:
    """Enough for loaders that insist on a tokenizer; the comparison itself speaks token IDs."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context_length,
        "chat_template": tokenizer.chat_template,
        **tokenizer.template_tokens,
    }
