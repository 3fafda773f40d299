"""What each term of the correction adapter's loss is worth: short runs of training, alike but for one term.

    python benchmarks/correction_losses.py --results losses.jsonl            # eight runs; minutes each
    python benchmarks/correction_losses.py --results losses.jsonl --only memory_swing --json
    python benchmarks/correction_losses.py --quick --json                    # too short to say anything; seconds

Each run trains a LoRA from one seed on the same objects in the same order, then is measured on kinds of objects that
were not trained on. `none` has no term but the likelihood of tokens, `none, other seed` shows what chance does, and
`all` has all terms. With --results, runs that the file holds with the same settings are not made again, so that they
can be made one by one. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import describe_machine
from services.corrector.training.recipe import Losses, Recipe
from stagemesh.models.store import ModelFiles, locate
from stagemesh.runtime.mesh_config import MeshConfig

NONE = Losses(sensitive=1.0)
TERMS: dict[str, float] = {
    "sensitive": 2.0, "token_clip": 1.0, "latency": 0.5, "memory_swing": 2.0, "mask_stability": 0.5,
}  # fmt: skip
"""Each term's weight where it is on; `sensitive` is off at 1, the others at 0."""
LOOKS = Losses(sensitive=1.0, latency=1.0, memory_swing=1.0, mask_stability=1.0)
"""Has everything measured; nothing is trained by it."""
OTHER_SEED = "none, other seed"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run of training came to, on kinds of objects that it was not trained on."""

    variant: str
    settings: dict[str, Any]
    """With other settings it says nothing about this one."""
    nats_per_token: float
    """Of the true values."""
    right_share: float
    """Of the fields that have rivals of their type in the same object: the true value is likeliest."""
    fields: int
    acceptance: float
    """Expected share of tokens accepted of right drafts."""
    memory_swing: float
    """Mean squared step of the logarithm of the keys' greatest value from one token to the next."""
    mask_stability: float
    """Share of attention that stays in its page of 16 tokens from one token to the next."""
    trained_cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(variants()), help="this run; may be repeated")
    parser.add_argument("--results", type=Path, help="a file that keeps runs, one a line")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch", type=int, default=1, help="objects in a step (default: 1)")
    parser.add_argument("--objects", type=int, default=8, help="objects that are measured (default: 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two runs of two steps")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    if given.quick:
        given.steps, given.objects, given.only = 2, 1, ["none", "all"]
    kept = given.results.read_text().splitlines() if given.results and given.results.exists() else ()
    mesh = MeshConfig()
    runs = measured(given, kept, locate(mesh, mesh.default_model))
    if given.json:
        print(json.dumps({"machine": describe_machine(), "runs": [asdict(run) for run in runs]}))
    else:
        print(table(runs))


def variants() -> dict[str, Losses]:
    """Name → terms: none, each alone, all."""
    alone = {name: replace(NONE, **{name: weight}) for name, weight in TERMS.items()}
    return {"none": NONE, OTHER_SEED: NONE, **alone, "all": replace(NONE, **TERMS)}


def measured(given: argparse.Namespace, kept: Sequence[str], files: ModelFiles) -> list[Run]:
    """The runs that are asked for, from what was kept, else made now."""
    found = {(run.variant, json.dumps(run.settings)): run for run in (Run(**json.loads(line)) for line in kept)}
    runs = []
    for variant, losses in variants().items():
        seed = given.seed + (variant == OTHER_SEED)
        recipe = Recipe(seed=seed, steps=given.steps, batch=given.batch, warmup_steps=given.steps // 4, losses=losses)
        settings = {"recipe": recipe.data(), "objects": given.objects}
        run = found.get((variant, json.dumps(settings)))
        if run is None and (not given.only or variant in given.only):
            run = _run(variant, recipe, settings, given, files)
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps(asdict(run)) + "\n")
        if run is not None:
            runs.append(run)
    return runs


def table(runs: Sequence[Run]) -> str:
    """In Markdown."""
    head = (
        "terms",
        "nats a token",
        "right of fields with rivals",
        "drafts accepted",
        "memory swing",
        "attention stays",
    )
    rows = [
        (
            run.variant, f"{run.nats_per_token:.3f}", f"{run.right_share:.0%} of {run.fields}", f"{run.acceptance:.1%}",
            f"{run.memory_swing:.4f}", f"{run.mask_stability:.1%}",
        )
        for run in runs
    ]  # fmt: skip
    lines = [" | ".join(row) for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def _run(variant: str, recipe: Recipe, settings: dict[str, Any], given: argparse.Namespace, files: ModelFiles) -> Run:
    import torch

    from services.corrector.training.train import train

    torch.set_num_threads(given.threads)
    with TemporaryDirectory() as folder:
        started_s = time.process_time()
        train(files, Path(folder), recipe)
        trained_cpu_s = time.process_time() - started_s
        terms, right_share, fields = _held_out(files, Path(folder), given.objects)
    return Run(
        variant=variant,
        settings=settings,
        nats_per_token=round(terms["tokens"], 4),
        right_share=round(right_share, 4),
        fields=fields,
        acceptance=round(1 - terms["latency"], 4),
        memory_swing=round(terms["memory_swing"], 5),
        mask_stability=round(1 - terms["mask_stability"], 4),
        trained_cpu_s=round(trained_cpu_s, 1),
    )


def _held_out(files: ModelFiles, folder: Path, objects: int) -> tuple[dict[str, float], float, int]:
    """The terms of the loss, means over objects; the share of right rankings, and of how many."""
    import torch

    from services.corrector.training.evaluate import decoder_with, rank_fields
    from services.corrector.training.examples import example_of, made_up
    from services.corrector.training.losses import loss_of
    from stagemesh.models.tokenizer_file import load_tokenizer

    decoder, tokenizer = decoder_with(files, folder), load_tokenizer(files).build()
    rng, layers = Random("order of fields"), Random("layers")
    sums: dict[str, float] = {}
    ranked = []
    with torch.inference_mode():
        for told in islice(made_up(9, "second"), objects):
            example = example_of(told, tokenizer, rng, 4_096)
            assert example is not None, "made-up objects are short"
            for name, value in loss_of(decoder, example, LOOKS, layers)[1].items():
                sums[name] = sums.get(name, 0.0) + value / objects
            ranked += rank_fields(decoder, tokenizer, told)
    return sums, sum(one.right for one in ranked) / max(1, len(ranked)), len(ranked)


if __name__ == "__main__":
    main()
