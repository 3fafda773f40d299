"""Everything that decides what a training run does, so that it can be done again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stagemesh.runtime.errors import InvalidRequest

MAX_RANK = 16
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Terms of the loss; 0 leaves one out. See decision 0247."""

    sensitive: float = 2.0
    """Weight of tokens with digits, signs of currencies or percent; others weigh 1."""
    copied: float = 0.3
    """Weight of the tokens that follow once a value differs from all others of its type: they are only copied."""
    token_clip: float = 0.0
    """Largest norm of the gradient that one token sends into the model; 0: no limit."""
    latency: float = 0.0
    """Of the share of drafted tokens that would be refused, if the value is drafted from the source."""
    memory_swing: float = 0.0
    """Of the change of the keys' scale from one token to the next: each is stored in 8 bits with its own scale."""
    mask_stability: float = 0.0
    """Of the change of attention over pages from one token to the next: pages chosen for one then serve the next."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    seed: int = 1
    adapted: float = 0.75
    """Share of the layers that have a LoRA, from the top; no gradient goes below."""
    rank: int = 8
    alpha: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 15
    steps: int = 300
    batch: int = 4
    """Objects in one step."""
    composed: float = 0.8
    """Share of matters composed of any roles among the examples that are made up; the others are of fixed kinds."""
    max_tokens: int = 640
    """Of one object with its source; longer ones are left out."""
    weight_decay: float = 0.0
    losses: Losses = Losses()

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= MAX_RANK:
            raise InvalidRequest("INVALID_RECIPE", f"rank must be 1 to {MAX_RANK}, not {self.rank}", field="rank")
        if not 0 < self.adapted <= 1:
            raise InvalidRequest("INVALID_RECIPE", "adapted must be above 0 and at most 1", field="adapted")
        if self.steps < 1 or self.batch < 1:
            raise InvalidRequest("INVALID_RECIPE", "steps and batch must be at least 1", field="steps")

    def first_layer(self, num_layers: int) -> int:
        """The first that has a LoRA."""
        return num_layers - max(1, round(self.adapted * num_layers))

    def data(self) -> dict[str, Any]:
        return asdict(self)


def recipe_from(data: dict[str, Any]) -> Recipe:
    return Recipe(**{**data, "losses": Losses(**data["losses"])})
