"""Native decoders of test models, and batches for them without a scheduler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from services.engine.kernels.native.library import Batch, Decoder, load_kernels
from services.engine.weights.native_weights import load_native
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles

PAGES_EACH = 4


def decoder_of(files: ModelFiles, *, threads: int = 1, kv_dtype: str = "bfloat16") -> Decoder:
    return load_native(
        files,
        load_model_config(files),
        load_kernels(files.cache_dir / "kernels"),
        num_positions=512,
        num_pages=64,
        threads=threads,
        kv_dtype=kv_dtype,
    )


def prompt_batch(prompts: Sequence[Sequence[int]], adapters: Sequence[int] | None = None, first: int = 0) -> Batch:
    """Whole prompts, each on pages of its own, sampled at their ends; `adapters`: one for each prompt.

    `first`: how many prompts' pages are left free before these.
    """
    lengths = [len(prompt) for prompt in prompts]
    assert max(lengths) <= PAGES_EACH * 16
    return Batch(
        token_ids=np.concatenate([np.array(prompt, np.int32) for prompt in prompts]),
        positions=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        sequences=np.repeat(np.arange(len(prompts), dtype=np.int32), lengths),
        page_starts=np.arange(len(prompts), dtype=np.int32) * PAGES_EACH,
        pages=1 + np.arange(first * PAGES_EACH, (first + len(prompts)) * PAGES_EACH, dtype=np.int32),
        sample_rows=np.cumsum(lengths, dtype=np.int32) - 1,
        adapters=None if adapters is None else np.repeat(np.array(adapters, np.int32), lengths),
    )
