"""The loss of one example: tokens of values, weighted and clipped, and terms for what they cost at inference."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch.nn import functional

from services.corrector.training.decoder import Decoder, Seen, branches_of
from services.corrector.training.examples import Example
from services.corrector.training.recipe import Losses


def loss_of(decoder: Decoder, example: Example, losses: Losses, rng: Random) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss, a scalar, and its terms as they are before their weights."""
    token_ids = torch.tensor(example.token_ids)
    rows = torch.tensor(example.targets) - 1  # [R] each predicts the token after it
    seen = Seen(wants_keys=losses.memory_swing > 0)
    if losses.mask_stability > 0:
        seen.layer, seen.rows = rng.randrange(decoder.config.num_layers), rows
    branches = branches_of(torch.tensor(example.branches))
    hidden = decoder.hidden(token_ids, seen, branches=branches)[rows]  # [R, H]
    if losses.token_clip > 0 and hidden.requires_grad:
        hidden.register_hook(  # type: ignore[no-untyped-call]  # torch has no types for hooks
            lambda gradient: clipped(gradient, losses.token_clip)
        )
    by_token = functional.cross_entropy(decoder.logits(hidden), token_ids[rows + 1], reduction="none")  # [R]
    weights = torch.where(torch.tensor(example.sensitive), losses.sensitive, 1.0)
    weights = weights * torch.where(torch.tensor(example.deciding), 1.0, losses.copied)
    total = (by_token * weights).sum() / weights.sum()
    terms = {"tokens": float(by_token.detach().mean())}
    extras: dict[str, tuple[float, Callable[[], torch.Tensor]]] = {
        "latency": (losses.latency, lambda: refused(by_token)),
        "memory_swing": (losses.memory_swing, lambda: swing(seen.key_scales)),
        "mask_stability": (losses.mask_stability, lambda: unsteadiness(seen.page_mass)),
    }
    for name, (weight, term) in extras.items():
        if weight > 0:
            value = term()
            total = total + weight * value
            terms[name] = float(value.detach())
    return total, terms


def clipped(gradient: torch.Tensor, limit: float) -> torch.Tensor:
    """Each row of a gradient [R, H] with a norm of at most `limit / R`: the loss is a mean over R tokens."""
    norms = gradient.float().norm(dim=-1, keepdim=True).clamp_min(1e-12)
    smaller: torch.Tensor = gradient * (limit / len(gradient) / norms).clamp_max(1.0).to(gradient.dtype)
    return smaller


def refused(by_token: torch.Tensor) -> torch.Tensor:
    """The expected share of right drafts that would not be accepted: 1 - p for each token."""
    share: torch.Tensor = (1 - (-by_token).exp()).mean()
    return share


def swing(key_scales: list[torch.Tensor]) -> torch.Tensor:
    """The mean squared step of the logarithm of the keys' greatest value, over positions and layers."""
    scales = torch.stack(key_scales)  # [layers, S]
    mean: torch.Tensor = (scales[:, 1:] - scales[:, :-1]).pow(2).mean()
    return mean


def unsteadiness(page_mass: torch.Tensor | None) -> torch.Tensor:
    """How much attention moves between pages from one token to the next: half the L1 distance, 0 to 1."""
    assert page_mass is not None, "the pass looked at attention"
    if len(page_mass) < 2:
        return page_mass.sum() * 0
    return (page_mass[1:] - page_mass[:-1]).abs().sum(-1).mean() / 2
