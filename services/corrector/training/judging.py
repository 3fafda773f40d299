"""A candidate against what is present, on the same held-out fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.corrector.adapters.judged import Judged
from services.corrector.training.evaluate import Ranked, rankings, sure_margin
from services.corrector.training.examples import Told
from stagemesh.models.store import ModelFiles


def judge(
    files: ModelFiles, candidate: Path, present: Path | None, *, objects: int, seed: int, own: Sequence[Told] = ()
) -> Judged:
    """`present`: None for the model without an adapter. `own`: a tenant's held-out cases, not made-up objects."""
    ones = rankings(files, candidate, objects=objects, seed=seed, own=own)
    others = rankings(files, present, objects=objects, seed=seed, own=own)
    return paired(ones, others)


def paired(ones: Sequence[Ranked], others: Sequence[Ranked]) -> Judged:
    """Of the same fields in the same order."""
    pairs = list(zip(ones, others, strict=True))
    sure, others_sure = _sure(ones), _sure(others)
    return Judged(
        fields=len(pairs),
        candidate_right=sum(one.right for one in ones),
        present_right=sum(other.right for other in others),
        only_candidate=sum(one.right and not other.right for one, other in pairs),
        only_present=sum(other.right and not one.right for one, other in pairs),
        candidate_sure=len(sure),
        candidate_sure_right=sum(one.right for one in sure),
        present_sure=len(others_sure),
        present_sure_right=sum(one.right for one in others_sure),
    )


def _sure(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Those of one half above the margin that was right on the other."""
    margin = sure_margin(ranked[::2])
    return [one for one in ranked[1::2] if one.margin >= margin]
