"""Perplexity of each precision mode against the checkpoint's float32 dequantization, on the default model, paired.

python benchmarks/perplexity.py [--modes turbo standard precise] [--windows 6] [--length 1024] [--kv-dtype bfloat16]
    [--other-grid] [--json]

Six texts of different kinds that this machine has anyway (`benchmarks/perplexity_texts.py`); a text that is absent is
left out with a sentence. Of each, `--windows` windows of `--length` tokens; the first 128 tokens of a window are
context, the rest is scored. The reference is PyTorch on the same file's weights in float32; its log-probabilities are
kept in the model folder. A mode's figure is the change of perplexity over all scored tokens, with the standard error
over windows.

`--other-grid`: of the same model as a folder in float32 whose columns stand in another order, so that it computes the
same and its weights lie on no grid of 4 bits: what quantizing a checkpoint at load costs, by the weights' real shape.

`--windows 1 --length 384` is a short form of some 1,500 tokens. One thread; processor time a mode about that of the
reference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.machine import cpu_model
from benchmarks.perplexity_grid import on_another_grid
from benchmarks.perplexity_texts import texts
from services.engine.backend import load_backend
from services.engine.block_manager import BlockManager
from services.engine.config import EngineConfig
from services.engine.modes import MODES, Mode
from services.engine.page_table import Owner
from services.engine.runner import Runner, Sizes
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence as EngineSequence
from services.engine.stages import Probe
from stagemesh.models.model_config import load_model_config
from stagemesh.models.pull import pull
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

CONTEXT = 128
"""Tokens at the start of a window that are not scored."""
CHUNK = 256
"""Rows of a step."""
TARGETS: Mapping[Mode, float] = {"turbo": 0.5, "standard": 0.3, "precise": 0.02}
"""Percent at most."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    text: str
    tokens: tuple[int, ...]


def windows_of(files: ModelFiles, *, count: int, length: int) -> list[Window]:
    """Evenly spread over each text."""
    tokenizer = load_tokenizer(files).build()
    found = []
    for name, text in texts():
        ids = tokenizer.encode(text).ids
        step = max(length, (len(ids) - length) // max(1, count - 1) if count > 1 else length)
        starts = list(range(0, len(ids) - length + 1, step))[:count]
        found += [Window(name, tuple(ids[start : start + length])) for start in starts]
    return found


def log_probabilities(runner: Runner, window: Window) -> Doubles:
    """Of each token of the window after its context."""
    blocks = BlockManager(-(-len(window.tokens) // 16))
    sequence = EngineSequence(
        sequence_id="window",
        owner=Owner("bench", b""),
        tokens=list(window.tokens),
        num_prompt=len(window.tokens),
        num_delivered=0,
        params=SamplingParams(temperature=0.0),
        max_total_tokens=len(window.tokens),
    )
    blocks.allocate(sequence.table, sequence.tokens)
    found = []
    for start in range(0, len(window.tokens) - 1, CHUNK):
        chunk = window.tokens[start : min(start + CHUNK, len(window.tokens) - 1)]
        # All but the first token of a chunk go as drafts: so each row's logits are given.
        logits = runner.run([WorkItem(sequence, start, start + 1, samples=True, drafts=chunk[1:])], Probe())
        wanted = np.array(window.tokens[start + 1 : start + 1 + len(chunk)])
        found.append(_log_softmax_at(logits, wanted))
    return np.concatenate(found)[CONTEXT - 1 :]


def _log_softmax_at(logits: npt.NDArray[np.float32], wanted: npt.NDArray[np.int64]) -> Doubles:
    largest = logits.max(-1).astype(np.float64)
    total = np.array([np.exp(row - top).sum(dtype=np.float64) for row, top in zip(logits, largest, strict=True)])
    chosen = logits[np.arange(len(wanted)), wanted].astype(np.float64)
    return np.asarray(chosen - largest - np.log(total))


def scored(files: ModelFiles, config: EngineConfig, windows: Sequence[Window]) -> list[Doubles]:
    model = load_model_config(files)
    length = len(windows[0].tokens)
    sizes = Sizes(context_length=length, num_pages=-(-length // 16), num_threads=1, kv_dtype=config.kv_dtype)
    runner = load_backend(files, model, config, sizes).runner
    return [log_probabilities(runner, window) for window in windows]


def reference(files: ModelFiles, windows: Sequence[Window]) -> list[Doubles]:
    """PyTorch in float32, from the cache where these windows were scored before."""
    key = hashlib.sha256(f"1 {files.path}{[(w.text, w.tokens) for w in windows]}".encode()).hexdigest()[:24]
    path = files.cache_dir / "perplexity" / f"{key}.npy"
    if path.is_file():
        return list(np.load(path))
    found = scored(files, EngineConfig(backend="torch", threads=1), windows)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.stack(found))
    return found


def change(found: Sequence[Doubles], exact: Sequence[Doubles]) -> tuple[float, float]:
    """Of perplexity in percent, and its standard error over windows."""
    losses = np.array([(one - other).mean() for one, other in zip(exact, found, strict=True)])
    percent = 100 * math.expm1(losses.mean())
    return percent, 100 * float(losses.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan


def by_text(windows: Sequence[Window], found: Sequence[Doubles], exact: Sequence[Doubles]) -> dict[str, float]:
    return {
        name: round(change(*([s[i] for i, w in enumerate(windows) if w.text == name] for s in (found, exact)))[0], 4)
        for name in dict.fromkeys(window.text for window in windows)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--kv-dtype", default="bfloat16", choices=["bfloat16", "int8"])
    parser.add_argument("--other-grid", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    default = pull(read_source(environ={}).shared(MeshConfig))
    windows = windows_of(default, count=args.windows, length=args.length)
    if not windows:
        sys.exit("none of the texts is on this machine")
    exact = reference(default, windows)
    files = on_another_grid(default) if args.other_grid else default
    result: dict[str, object] = {
        "processor": cpu_model(),
        "model": default.name,
        "other_grid": args.other_grid,
        "kv_dtype": args.kv_dtype,
        "scored_tokens": sum(map(len, exact)),
        "texts": sorted({window.text for window in windows}),
        "perplexity": {"float32": round(math.exp(-np.concatenate(exact).mean()), 4)},
        "modes": {},
    }
    for mode in args.modes:
        started_s = time.process_time()
        config = EngineConfig(backend="native", threads=1, modes=(mode,), kv_dtype=args.kv_dtype)
        found = scored(files, config, windows)
        percent, error = change(found, exact)
        result["modes"][mode] = {  # type: ignore[index]  # of the dictionary above
            "change_percent": round(percent, 4),
            "standard_error": round(error, 4),
            "target_percent": TARGETS[mode],
            "by_text": by_text(windows, found, exact),
            "cpu_s": round(time.process_time() - started_s, 1),
        }
    print(json.dumps(result) if args.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
