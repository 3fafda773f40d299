"""`precise` with drafts by the turbo weights against plain decoding with the precise weights, on the default model.

python benchmarks/progressive_precision.py [--bf16] [--threads 1] [--repeats 5] [--batch 1] [--busy] [--json]

The default model's file holds 4-bit weights, which `precise` reads as they are. With `--bf16` the model is a checkpoint
of floats, written on first use (0.5 GB): `precise` holds it in bfloat16, `turbo` quantizes it when it is loaded.

Both cores run the same requests in turn, in process; the answers are compared token by token. Ratios are of tokens a
second after the first token, `cpu_ratio` of processor time. `--busy` does not wait for other benchmarks: on a machine
that others use as well, look at processor time with one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace

from benchmarks.alternating import Requests, compare, core_with
from benchmarks.extractive_tasks import EXTRACTIVE, FREE
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.peers.checkpoint import default_model, hugging_face_folder
from services.engine.config import EngineConfig
from services.engine.drafting import NoDrafting
from services.engine.engine import load_model
from services.engine.progressive import ProgressiveDrafting
from services.engine.vocabulary import Vocabulary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bf16", action="store_true", help="precise weights in bfloat16, from a checkpoint of floats")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1, help="equal requests at once, sampled with a seed each")
    parser.add_argument("--output", type=int, default=128, help="tokens of an answer at most")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = default_model()
    if args.bf16:
        files = replace(files, kind="hf", path=hugging_face_folder(), pinned_sha256="")
    config = EngineConfig(threads=args.threads, backend="native", modes=("precise", "turbo"))
    model = load_model(files, config)
    vocabulary = Vocabulary(
        model.tokenizer.all_token_bytes, model.tokenizer.special_ids, frozenset(model.config.eos_token_ids)
    )
    encode = model.tokenizer.build().encode
    results: dict[str, dict[str, object]] = {}
    with no_lock() if args.busy else benchmark_lock():
        for name, text in (FREE | EXTRACTIVE).items():
            for temperature in (0.0, 0.7):
                drafting = ProgressiveDrafting(
                    NoDrafting(), model.runner, vocabulary, config.speculation.max_draft_tokens
                )
                requests = Requests(
                    prompt=encode(text).ids,
                    num_output=args.output,
                    temperature=temperature,
                    count=args.batch,
                    mode="precise",
                )
                found = compare(core_with(model, None), core_with(model, drafting), requests, args.repeats)
                results[f"{name}/{temperature:g}"] = found
                if not args.json:
                    print(f"{name}/{temperature:g}", json.dumps(found), flush=True)
    summary: dict[str, object] = {
        "backend": model.backend,
        "bf16": args.bf16,
        "threads": args.threads,
        "batch": args.batch,
    }
    for key in ("ratio", "cpu_ratio"):
        summary[key] = statistics.median(float(str(found[key])) for found in results.values())
    print(json.dumps({**summary, "tasks": results} if args.json else summary))


if __name__ == "__main__":
    main()
