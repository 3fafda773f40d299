"""How well a model tells which of the source's candidates is a field's value: with an adapter, and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from services.corrector.content.questions import answer, opening, question
from services.corrector.training.adapter_files import Form, load_into, read_form
from services.corrector.training.decoder import Decoder, Past
from services.corrector.training.examples import Told, deciding, made_up, scalars
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

MAX_CANDIDATES = 8
SURE = 0.995
"""Of the rankings above a margin, this share must be right for the margin to count as sure."""


@dataclass(frozen=True)
class Ranked:
    """One field: whether the likeliest candidate was right, and by how many nats it led."""

    right: bool
    margin: float
    nll: float
    """Of the true value, as far as it differs from the others."""


@dataclass(frozen=True)
class Evaluation:
    fields: int
    accuracy: float
    nll: float
    sure_margin: float
    """From which on at least SURE of the rankings are right, on the first half of the fields."""
    sure_share: float
    """Of the other half that is above it."""
    sure_right: float
    """Of those, how many are right."""


def evaluate(
    files: ModelFiles, folder: Path | None, *, objects: int, seed: int, own: Sequence[Told] = ()
) -> Evaluation:
    """Of held-out kinds of objects, or of a tenant's held-out cases. `folder`: of the adapter; None: without one."""
    return summed_up(rankings(files, folder, objects=objects, seed=seed, own=own))


def rankings(
    files: ModelFiles, folder: Path | None, *, objects: int, seed: int, own: Sequence[Told] = ()
) -> list[Ranked]:
    """As `evaluate`, field by field; the same fields in the same order for any adapter."""
    decoder = decoder_with(files, folder)
    tokenizer = load_tokenizer(files).build()
    told = list(own) or list(islice(made_up(seed, "second"), objects))
    with torch.inference_mode():
        return [ranking for each in told for ranking in rank_fields(decoder, tokenizer, each)]


def decoder_with(files: ModelFiles, folder: Path | None) -> Decoder:
    """The model with the adapter in `folder`, or without one."""
    form = Form(1, 1, 0) if folder is None else read_form(folder)  # B is zero: without an adapter it adds nothing
    decoder = Decoder(files, rank=form.rank, alpha=form.alpha, seed=0, first_layer=lambda layers: form.first_layer)
    if folder is not None:
        load_into(decoder, folder)
    return decoder


def summed_up(ranked: Sequence[Ranked]) -> Evaluation:
    count = len(ranked)
    if not count:
        return Evaluation(0, 0.0, 0.0, float("inf"), 0.0, 0.0)
    first, second = ranked[::2], ranked[1::2]
    margin = sure_margin(first)
    above = [one for one in second if one.margin >= margin]
    return Evaluation(
        fields=count,
        accuracy=sum(one.right for one in ranked) / count,
        nll=sum(one.nll for one in ranked) / count,
        sure_margin=margin,
        sure_share=len(above) / max(1, len(second)),
        sure_right=sum(one.right for one in above) / max(1, len(above)),
    )


def sure_margin(ranked: Sequence[Ranked]) -> float:
    """The smallest margin such that of all rankings with at least that, SURE are right; infinite if there is none."""
    found, wrong = float("inf"), 0
    for number, one in enumerate(sorted(ranked, key=lambda one: -one.margin), start=1):
        wrong += not one.right
        if wrong <= (1 - SURE) * number:
            found = one.margin
    return found


def rank_fields(decoder: Decoder, tokenizer: Tokenizer, told: Told) -> list[Ranked]:
    """Every field that another field's value of its type could be confused with."""
    fields = scalars(told)
    past = Past()
    decoder.hidden(torch.tensor(_ids(tokenizer, opening(told.source))), keep=past)
    ranked = []
    for name, value in fields:
        rivals = [other for _, other in fields if other != value and _alike(other, value)][: MAX_CANDIDATES - 1]
        if rivals:
            asked = question(name, told.titles.get(name, ""))
            ranked.append(_ranked(score(decoder, tokenizer, past, asked, [value, *rivals])))
    return ranked


def _ranked(scores: Sequence[float]) -> Ranked:
    true, best_other = scores[0], max(scores[1:])
    return Ranked(right=true > best_other, margin=abs(true - best_other), nll=-true)


def score(decoder: Decoder, tokenizer: Tokenizer, past: Past, asked: str, values: Sequence[Any]) -> list[float]:
    """The log-probability of each value after a question about the source in `past`, as far as it differs."""
    start = _ids(tokenizer, asked)
    each = [_ids(tokenizer, answer(value)) for value in values]
    found = []
    for whole in each:
        ids = whole[: deciding(whole, [other for other in each if other is not whole])]
        hidden = decoder.hidden(torch.tensor(start + ids), past=past)[len(start) - 1 : -1]
        by_token = decoder.logits(hidden).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])
        found.append(float(by_token.sum()))
    return found


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _alike(left: Any, right: Any) -> bool:
    """Whether two values are of one type, as their looks tell."""
    if isinstance(left, str) != isinstance(right, str):
        return False
    if not isinstance(left, str):
        return True
    return [any(map(test, left)) for test in (str.isdigit, str.isalpha)] == [
        any(map(test, right)) for test in (str.isdigit, str.isalpha)
    ] and left.isascii() == right.isascii()
