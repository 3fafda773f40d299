"""From which likelihood on an adapter's judgement is sure: on faulty objects of held-out kinds, as the service asks."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer

from services.corrector.chain import RepairChain
from services.corrector.content.judge import judge
from services.corrector.ranking.ask import ask
from services.corrector.ranking.calibration import CALIBRATION_FILE
from services.corrector.ranking.decide import Ranking, rank
from services.corrector.ranking.likelihood import probabilities, prompt_of
from services.corrector.ranking.question import Question, key_of
from services.corrector.repair import problem_of
from services.corrector.training.decoder import Decoder, Past
from services.corrector.training.evaluate import decoder_with
from services.corrector.training.prose.kinds import KINDS
from services.corrector.training.prose.objects import instance, prose, schema, sort_of
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

SURE = 0.995
"""Of what is at or above a threshold, this share must be right."""
MIN_COUNT = 50
"""Fields above a threshold, without which it is not known well enough."""
LOWEST = 0.5


@dataclass(frozen=True)
class Counted:
    """A field that the service would have asked about."""

    probability: float
    right: bool
    is_present: bool


def calibrate(files: ModelFiles, folder: Path, *, objects: int, seed: int) -> dict[str, Any]:
    """Measure, and write `calibration.json` into the adapter's folder; gives what stands under `ranking` there."""
    decoder, tokenizer = decoder_with(files, folder), load_tokenizer(files).build()
    with torch.inference_mode():
        counted = [one for case in _cases(objects, seed) for one in _count(decoder, tokenizer, *case)]
    ranking = thresholds(counted) | {"fields": len(counted), "objects": objects, "seed": seed}
    path = folder / CALIBRATION_FILE
    told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**told, "ranking": ranking}, indent=1) + "\n", encoding="utf-8")
    return ranking


def thresholds(counted: Sequence[Counted]) -> dict[str, Any]:
    """`confirm` and `change`, None where nothing is sure, with how many fields are above each."""
    found: dict[str, Any] = {}
    for name, is_present in (("confirm", True), ("change", False)):
        own = sorted((one for one in counted if one.is_present is is_present), key=lambda one: -one.probability)
        found[name], found[f"{name}_fields"] = _threshold(own)
    return found


def _threshold(counted: Sequence[Counted]) -> tuple[float | None, int]:
    best: tuple[float | None, int] = (None, 0)
    wrong = 0
    for number, one in enumerate(counted, start=1):
        wrong += not one.right
        if one.probability < LOWEST:
            break
        if wrong <= (1 - SURE) * number and number >= MIN_COUNT:
            best = (round(one.probability, 4), number)
    return best


Case = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]
"""Source, truth, what is given instead, schema."""


def _cases(objects: int, seed: int) -> list[Case]:
    rng = Random(f"calibrate {seed}")
    kinds = [kind for kind in KINDS if kind.part == "second"]
    made: list[Case] = []
    for kind in islice((rng.choice(kinds) for _ in range(objects)), objects):
        truth = instance(rng, kind)
        given = copy.deepcopy(truth)
        names = [name for name in truth if not isinstance(truth[name], list)]
        pairs = [(a, b) for a in names for b in names if a < b and sort_of(kind, a) == sort_of(kind, b)]
        fault = rng.choice(("clean", "missing", "swapped", "misplaced"))
        if fault == "missing" or (fault != "clean" and not pairs):
            del given[rng.choice(names)]
        elif fault != "clean":
            first, second = rng.choice(pairs)
            given[first], given[second] = truth[second], truth[first if fault == "swapped" else second]
        made.append((prose(rng, kind, truth), truth, given, schema(kind)))
    return made


def _count(
    decoder: Decoder, tokenizer: Tokenizer, source: str, truth: dict[str, Any], given: dict[str, Any],
    of: dict[str, Any],
) -> list[Counted]:  # fmt: skip
    constraint = Constraint(Kind.JSON_SCHEMA, json.dumps(of))
    text = json.dumps(given, ensure_ascii=False)
    repair = RepairChain(Limits(), judge).repair(text, constraint, (), source)
    questions = ask(problem_of(text, repair, constraint, (), source))
    if not questions:
        return []
    ranked = rank(questions, likelihoods(decoder, tokenizer, source, questions))
    return [_counted(one, truth) for one in ranked if not one.best.is_barred]


def _counted(one: Ranking, truth: dict[str, Any]) -> Counted:
    told = truth.get(one.question.name)
    return Counted(one.probability, key_of(one.best.value) == key_of(told), one.is_present)


def likelihoods(
    decoder: Decoder, tokenizer: Tokenizer, source: str, questions: Sequence[Question]
) -> list[dict[str, float]]:
    """As an engine's `Score` gives them."""

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    prompt, past = prompt_of(source, questions, encode), Past()
    decoder.hidden(torch.tensor(prompt.token_ids), keep=past)
    each = []
    for one in prompt.continuations:
        ids = torch.tensor(one.token_ids)
        hidden = decoder.hidden(ids, past=past)[one.num_asking - 1 : -1]
        by_token = decoder.logits(hidden).log_softmax(-1).gather(1, ids[one.num_asking :, None])
        each.append([0.0] * one.num_asking + by_token[:, 0].tolist())
    return probabilities(prompt, len(questions), each)
