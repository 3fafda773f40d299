"""Prompt lookup against none on the default model: extractive tasks, and free text, which it must not slow down.

python benchmarks/speculation.py [--threads 1] [--repeats 5] [--batch 1] [--busy] [--json]

Both cores run the same requests in turn, in process; the answers are compared token by token. Ratios are of tokens a
second after the first token, `cpu_ratio` of processor time. `--busy` does not wait for other benchmarks: on a machine
that others use as well, look at processor time with one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics

from benchmarks.alternating import Requests, compare, core_with
from benchmarks.extractive_tasks import EXTRACTIVE, FREE
from benchmarks.lock import benchmark_lock, no_lock
from services.engine.config import EngineConfig
from services.engine.engine import load_model
from services.engine.speculation import Speculation
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="native", choices=["torch", "native"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1, help="equal requests at once, sampled with a seed each")
    parser.add_argument("--output", type=int, default=192, help="tokens of an answer at most")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    config = EngineConfig(threads=args.threads, backend=args.backend)
    model = load_model(files, config)
    encode = model.tokenizer.build().encode
    results: dict[str, dict[str, object]] = {}
    with no_lock() if args.busy else benchmark_lock():
        for kind, tasks in (("extractive", EXTRACTIVE), ("free", FREE)):
            for name, text in tasks.items():
                for temperature in (0.0, 0.7):
                    plain = core_with(model, None)
                    other = core_with(model, Speculation(config.speculation.max_draft_tokens))
                    requests = Requests(
                        prompt=encode(text).ids,
                        num_output=args.output,
                        temperature=temperature,
                        count=args.batch,
                        ends=kind == "free",
                    )
                    found = compare(plain, other, requests, args.repeats)
                    results[f"{kind}/{name}/{temperature:g}"] = found
                    if not args.json:
                        print(f"{kind}/{name}/{temperature:g}", json.dumps(found), flush=True)
    summary = {"backend": model.backend, "threads": args.threads, "batch": args.batch} | _summary(results)
    print(json.dumps({**summary, "tasks": results} if args.json else summary))


def _summary(results: dict[str, dict[str, object]]) -> dict[str, object]:
    """The median over greedy extractive tasks, over sampled ones, and the worst of free text."""
    free = [found for name, found in results.items() if name.startswith("free")]
    greedy, sampled = (
        [found for name, found in results.items() if name.startswith("extractive") and name.endswith(end)]
        for end in ("/0", "/0.7")
    )
    return {
        "extractive_ratio": statistics.median(float(str(found["ratio"])) for found in greedy),
        "extractive_cpu_ratio": statistics.median(float(str(found["cpu_ratio"])) for found in greedy),
        "sampled_extractive_cpu_ratio": statistics.median(float(str(found["cpu_ratio"])) for found in sampled),
        "free_worst_ratio": min(float(str(found["ratio"])) for found in free),
        "free_worst_cpu_ratio": min(float(str(found["cpu_ratio"])) for found in free),
    }


if __name__ == "__main__":
    main()
