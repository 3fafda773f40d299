"""What 8-bit KV costs in perplexity on texts of 4,000 tokens, on the default model.

python benchmarks/kv_perplexity.py [--tokens 4000] [--texts 6] [--json]

Two ways into 8 bits, each against pages in bfloat16: `pool`, where the pool itself is in 8 bits (`engine.kv_dtype:
int8`); `stored`, where each page of a bfloat16 pool, once it is full, goes through the stored form in 8 bits and comes
back, as a page does that is restored. Each chunk of 64 tokens is computed on what the pages hold of all before it, and
every token but the first is scored. The figures do not depend on what else runs. One thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from benchmarks.kv_formats import CHUNK, batch
from benchmarks.perplexity_texts import texts
from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.native.library import Decoder, load_kernels
from services.engine.kernels.native.page_io import PageIo
from services.engine.weights.native_weights import load_native
from stagemesh.models.model_config import load_model_config
from stagemesh.models.pull import pull
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

Doubles = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int32]
WAYS = ("pool", "stored")


def losses(decoder: Decoder, tokens: Tokens, vocab_size: int, stored_as: str | None = None) -> Doubles:
    """Minus the log-probability of each token but the first; full pages go through `stored_as`, if given."""
    found = []
    for start in range(0, len(tokens) - 1, CHUNK):
        end = min(start + CHUNK, len(tokens) - 1)
        logits = decoder.step(batch(tokens, start, end), None)[:, :vocab_size].astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        found.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(end - start), tokens[start + 1 : end + 1]])
        if stored_as is not None:
            through_store(PageIo(decoder), range(1 + start // PAGE_SIZE, 1 + end // PAGE_SIZE), stored_as)
    return np.concatenate(found)


def through_store(io: PageIo, pages: Sequence[int], format_: str) -> None:
    payloads = np.empty((len(pages), io.page_bytes(format_)), np.uint8)
    assert io.export_pages(pages, format_, payloads).all()
    assert io.import_pages(pages, format_, list(payloads)).all()


def change_percent(exact: Doubles, rough: Doubles) -> float:
    return 100 * float(np.expm1((rough - exact).mean()))


def report_of(name: str, found: Mapping[str, Doubles]) -> dict[str, object]:
    report: dict[str, object] = {"text": name, "perplexity": round(float(np.exp(found["bfloat16"].mean())), 3)}
    return report | {f"{way}_percent": round(change_percent(found["bfloat16"], found[way]), 3) for way in WAYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    config, library = load_model_config(files), load_kernels(files.cache_dir / "kernels")
    sizes = {"num_positions": 8192, "num_pages": -(-arguments.tokens // PAGE_SIZE) + 1, "threads": 1}
    exact, eight = (load_native(files, config, library, kv_dtype=dtype, **sizes) for dtype in ("bfloat16", "int8"))
    tokenizer, every = load_tokenizer(files).build(), []
    reports = []
    for name, text in islice(texts(), arguments.texts):
        tokens = np.array(tokenizer.encode(text).ids, np.int32)[: arguments.tokens]
        if len(tokens) < arguments.tokens:
            print(f"{name} is left out: it has {len(tokens)} tokens", file=sys.stderr)
            continue
        every.append(
            {
                "bfloat16": losses(exact, tokens, config.vocab_size),
                "stored": losses(exact, tokens, config.vocab_size, "int8"),
                "pool": losses(eight, tokens, config.vocab_size),
            }
        )
        reports.append(report_of(name, every[-1]))
        if not arguments.json:
            print(reports[-1], flush=True)
    if not reports:
        raise SystemExit("no text is that long")
    together = report_of("all", {way: np.concatenate([found[way] for found in every]) for way in every[0]})
    print(json.dumps({"tokens": arguments.tokens, "texts": reports, **together}))


if __name__ == "__main__":
    main()
