"""What screening the head saves in a decoding step, on texts that this machine has anyway.

python benchmarks/head_screen.py [--threads 1] [--rows 1 2 4] [--temperature 0] [--mode turbo] [--steps 120] [--busy]

Each step of some sequences is computed twice in turn: with all logits, and with those that can win. The winners are
compared. Times are medians; `cpu` is the process's processor time, which bears company with one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.perplexity_texts import texts
from services.engine.choices import ALL_LOGITS
from services.engine.config import EngineConfig
from services.engine.engine import LoadedModel, load_model
from services.engine.kernels.native.library import BLOCK_ROWS, OUT_OF_REACH, Batch, Choice, Decoder
from services.engine.native_runner import NativeRunner
from services.engine.stages import Part
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

PAGE_TOKENS = 16
SKIPPED_CHARACTERS = 3000


@dataclass
class Times:
    """Of steps, in milliseconds."""

    head: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        return {"head_ms": round(statistics.median(self.head), 2), "cpu_ms": round(statistics.median(self.cpu), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--mode", default="turbo", choices=["turbo", "standard", "precise"])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    model = load_model(files, EngineConfig(threads=args.threads, modes=(args.mode,), backend="native"))
    assert isinstance(model.runner, NativeRunner)
    results = {}
    with no_lock() if args.busy else benchmark_lock():
        for rows in args.rows:
            prompts = sequences(model, rows, args.steps)
            results[rows] = measure(model.runner.decoder, prompts, args.temperature)
            if not args.json:
                print(rows, json.dumps(results[rows]), flush=True)
    if args.json:
        print(json.dumps({"threads": args.threads, "mode": args.mode, "rows": results}))


def sequences(model: LoadedModel, count: int, length: int) -> list[list[int]]:
    """Passages of different texts in turn."""
    encode = model.tokenizer.build().encode
    passages = [encode(text[SKIPPED_CHARACTERS:]).ids for _, text in texts()]
    found = [passages[number % len(passages)][number // len(passages) * length :][:length] for number in range(count)]
    assert all(len(passage) == length for passage in found), "the texts are too short for so many"
    return found


def measure(decoder: Decoder, prompts: Sequence[Sequence[int]], temperature: float) -> dict[str, object]:
    whole, screened, computed = Times(), Times(), []
    for position in range(len(prompts[0])):
        choices = [Choice(temperature, position * 977 + number) for number in range(len(prompts))]
        timed_step(decoder, prompts, position, [ALL_LOGITS] * len(prompts), Times())  # warms what both read
        expected = timed_step(decoder, prompts, position, [ALL_LOGITS] * len(prompts), whole)
        found = timed_step(decoder, prompts, position, choices, screened)
        assert ((found == expected) | (found == np.float32(OUT_OF_REACH))).all(), "a logit differs"
        assert temperature or (found.argmax(axis=1) == expected.argmax(axis=1)).all(), "another token wins"
        blocks = (found != np.float32(OUT_OF_REACH)).reshape(len(prompts), -1, BLOCK_ROWS).any(axis=2)
        computed.append(float(blocks.mean()))
    share = {"median": round(statistics.median(computed), 3), "mean": round(statistics.mean(computed), 3)}
    return {"all": whole.medians(), "screened": screened.medians(), "computed": share}


def timed_step(
    decoder: Decoder, prompts: Sequence[Sequence[int]], position: int, choices: Sequence[Choice], times: Times
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    count, pages = len(prompts), -(-len(prompts[0]) // PAGE_TOKENS)
    batch = Batch(
        token_ids=np.array([prompt[position] for prompt in prompts], dtype=np.int32),
        positions=np.full(count, position, dtype=np.int32),
        sequences=np.arange(count, dtype=np.int32),
        page_starts=np.arange(count, dtype=np.int32) * pages,
        pages=np.arange(1, count * pages + 1, dtype=np.int32),
        sample_rows=np.arange(count, dtype=np.int32),
        choices=choices,
    )
    seconds, started_s = np.zeros(len(Part)), time.process_time()
    logits = decoder.step(batch, seconds).copy()
    times.cpu.append(1e3 * (time.process_time() - started_s))
    times.head.append(1e3 * float(seconds[Part.SAMPLE]))
    return logits


if __name__ == "__main__":
    main()
