"""8-bit KV pages against bfloat16 ones, on the default model: memory, error of the next token, processor time.

python benchmarks/kv_formats.py [--tokens 1536] [--json]

One thread. The error is the KL divergence of the next token's distribution, and the change of the loss, on text of this
repository, each chunk of 64 tokens computed on what the pages hold of all before it. Times are the least of five decode
steps of eight sequences of that length, in processor time, formats alternating.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.native.library import KV_FORMATS, Batch, Decoder, load_kernels
from services.engine.weights.native_weights import load_native
from stagemesh.models.model_config import load_model_config
from stagemesh.models.pull import pull
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

TEXTS = ("README.md", "ARCHITECTURE.md", "docs/errors.md", "services/engine/block_manager.py")
CHUNK = 64
NUM_SEQUENCES = 8


def batch(tokens: npt.NDArray[np.int32], start: int, end: int, num_sequences: int = 1) -> Batch:
    """Rows [start, end) of `num_sequences` equal sequences; every row is sampled from."""
    rows, num_pages = end - start, -(-end // PAGE_SIZE)
    return Batch(
        token_ids=np.tile(tokens[start:end], num_sequences),
        positions=np.tile(np.arange(start, end, dtype=np.int32), num_sequences),
        sequences=np.repeat(np.arange(num_sequences, dtype=np.int32), rows),
        page_starts=np.arange(num_sequences, dtype=np.int32) * num_pages,
        pages=1 + np.arange(num_sequences * num_pages, dtype=np.int32),
        sample_rows=np.arange(rows * num_sequences, dtype=np.int32),
    )


def log_probabilities(decoder: Decoder, tokens: npt.NDArray[np.int32], vocab_size: int) -> npt.NDArray[np.float64]:
    parts = [decoder.step(batch(tokens, at, min(at + CHUNK, len(tokens))), None) for at in range(0, len(tokens), CHUNK)]
    logits = np.concatenate(parts)[:, :vocab_size].astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


def errors(decoders: dict[str, Decoder], text: npt.NDArray[np.int32], vocab_size: int) -> dict[str, float]:
    exact, rough = (log_probabilities(decoders[name], text, vocab_size) for name in ("bfloat16", "int8"))
    divergence = (np.exp(exact) * (exact - rough)).sum(-1)
    at = np.arange(len(text) - 1), text[1:]
    return {
        "tokens": len(text),
        "kl_mean": float(divergence.mean()),
        "kl_max": float(divergence.max()),
        "same_winner": float((exact.argmax(-1) == rough.argmax(-1)).mean()),
        "perplexity_change_percent": 100 * float(np.expm1((exact[at] - rough[at]).mean())),
    }


def decode_cpu_ms(decoder: Decoder, tokens: npt.NDArray[np.int32]) -> tuple[float, float]:
    """Milliseconds of one step, the whole and its attention."""
    parts, started_s = np.zeros(5), time.process_time()
    decoder.step(batch(tokens, len(tokens) - 1, len(tokens), NUM_SEQUENCES), parts)
    return 1e3 * (time.process_time() - started_s), 1e3 * float(parts[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1536)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    config, library = load_model_config(files), load_kernels(files.cache_dir / "kernels")
    num_pages = NUM_SEQUENCES * -(-arguments.tokens // PAGE_SIZE)
    decoders = {
        name: load_native(files, config, library, num_positions=8192, num_pages=num_pages, threads=1, kv_dtype=name)
        for name in KV_FORMATS
    }
    tokenizer = load_tokenizer(files).build()
    found: dict[str, object] = {
        f"kv_bytes_a_token_{name}": decoder.kv_bytes() // (num_pages + 1) // PAGE_SIZE
        for name, decoder in decoders.items()
    }
    texts = [np.array(tokenizer.encode(Path(path).read_text()).ids, np.int32)[: arguments.tokens] for path in TEXTS]
    found |= {path: errors(decoders, text, config.vocab_size) for path, text in zip(TEXTS, texts, strict=True)}
    times = [{name: decode_cpu_ms(decoder, texts[0]) for name, decoder in decoders.items()} for _ in range(5)]
    for name in KV_FORMATS:
        found[f"step_cpu_ms_{name}"] = min(time[name][0] for time in times)
        found[f"attend_ms_{name}"] = min(time[name][1] for time in times)
    print(json.dumps(found, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
