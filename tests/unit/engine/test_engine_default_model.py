"""The default model against transformers, on the same dequantized weights."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from engine_models_support import Model

from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

QUESTIONS = (
    "Why is the sky blue?",
    "Name three colours.",
    "Write one sentence about the sea.",
    "What is 12 times 12?",
    "Who wrote Hamlet?",
    "List the days of the week.",
    "Explain rain to a child.",
    "What does a compiler do?",
    "Give a synonym of quick.",
    "Translate 'good morning' to French.",
    "What is photosynthesis?",
    "How many legs does a spider have?",
    "Write a haiku about winter.",
    "What is the largest planet?",
    "Describe a triangle.",
    "What is H2O?",
    "Recommend a breakfast.",
    "What is the opposite of hot?",
    "Summarize: the cat sat on the mat and slept.",
    "Count from one to five.",
)
NUM_TOKENS = 10
TIE = 1e-4
"""Where the two best logits are nearer than this, either may win."""


@pytest.fixture(scope="module")
def model(default_model_files: ModelFiles) -> Model:
    return Model(default_model_files, num_pages=512)


@pytest.fixture(scope="module")
def prompts(default_model_files: ModelFiles) -> list[list[int]]:
    tokenizer = load_tokenizer(default_model_files).build()
    template = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    return [tokenizer.encode(template.format(question)).ids for question in QUESTIONS]


NAMES = {
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


def dequantized_state(path: Path, head_dim: int) -> dict[str, torch.Tensor]:
    """The file's tensors under transformers' names, not through the engine's loader."""
    half = head_dim // 2
    state = {}
    file = open_gguf(path)
    for name in file.tensors:
        values = torch.from_numpy(file.tensor(name))
        parts = name.split(".")
        if parts[0] == "blk":
            if parts[2] in {
                "attn_q",
                "attn_k",
            }:  # row 2i + j of a head in the file is row j * half + i for transformers
                order = [2 * (row % half) + row // half for row in range(head_dim)]
                values = values.view(-1, head_dim, values.shape[-1])[:, order].reshape(values.shape)
            state[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = values
        elif parts[0] == "token_embd":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = values
        else:
            state["model.norm.weight"] = values
    return state


@pytest.fixture(scope="module")
def theirs(default_model_files: ModelFiles) -> transformers.LlamaForCausalLM:
    """transformers' Llama with the file's dequantized weights."""
    config = transformers.LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        llama = transformers.LlamaForCausalLM(config)
    llama.load_state_dict(dequantized_state(default_model_files.path, head_dim=64), strict=True, assign=True)
    llama.model.rotary_emb = type(llama.model.rotary_emb)(config)
    return llama.eval()


def logits_of(theirs: transformers.LlamaForCausalLM, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return theirs(torch.tensor([tokens])).logits[0]


def test_logits_agree_with_transformers(
    model: Model, theirs: transformers.LlamaForCausalLM, prompts: list[list[int]]
) -> None:
    chosen = [prompts[0], prompts[18], list(chain(*prompts))[:300]]
    for prompt, logits in zip(chosen, model.logits(chosen, chunk=128), strict=True):
        torch.testing.assert_close(torch.from_numpy(logits), logits_of(theirs, prompt)[-1], rtol=1e-3, atol=1e-3)


def test_greedy_text_equals_transformers_token_for_token(
    model: Model, theirs: transformers.LlamaForCausalLM, prompts: list[list[int]]
) -> None:
    """One teacher-forced pass of transformers over each answer checks every token of it."""
    answers = model.greedy_batch(prompts, NUM_TOKENS)
    for prompt, answer in zip(prompts, answers, strict=True):
        logits = logits_of(theirs, prompt + answer)[len(prompt) - 1 : -1]
        for position, token in enumerate(answer):
            best = logits[position].argmax()
            assert token == best or logits[position][best] - logits[position][token] < TIE
            if token == 2:
                break


def test_a_batch_gives_what_single_runs_give(model: Model, prompts: list[list[int]]) -> None:
    together = model.greedy_batch(prompts[:6], NUM_TOKENS)
    for prompt, answer in zip(prompts[:6], together, strict=True):
        alone = model.greedy(prompt, NUM_TOKENS)
        if alone != answer:
            cut = int(np.argmax(np.asarray(alone) != np.asarray(answer)))
            logits = np.sort(model.logits([prompt + alone[:cut]])[0])
            assert logits[-1] - logits[-2] < TIE, f"{alone} != {answer} without a tie"
