"""A stage whose work was done by its fallback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.engine.adapter import LoadedAdapter
from services.engine.stages import Part

FALLBACK = {
    Part.EMBED: "reference",
    Part.ATTEND: "reference",
    Part.MLP: "low-rank",
    Part.NORM: "reference",
    Part.SAMPLE: "reference",
}
"""What does the work of a stage that fails. `sample` is the output head with the choice of the token."""

ADAPTED: Mapping[Part, frozenset[str]] = {
    Part.ATTEND: frozenset({"q_proj", "k_proj", "v_proj", "o_proj"}),
    Part.MLP: frozenset({"gate_proj", "up_proj", "down_proj"}),
}
"""What of a stage adapters add to, by PEFT's names."""


@dataclass(frozen=True)
class Degradation:
    part: Part
    layer: int | None
    """None outside the layers."""
    reason: str
    """NON_FINITE, STAGE_FAILED or OUT_OF_MEMORY."""
    leaves_adapter_out: bool = False
    """The fallback knows nothing of the sequence's adapter, which adds to this stage."""

    @property
    def fallback(self) -> str:
        return FALLBACK[self.part]


def is_adapted(part: Part, adapter: LoadedAdapter | None) -> bool:
    """Whether the adapter adds to what the stage computes."""
    return adapter is not None and not ADAPTED.get(part, frozenset()).isdisjoint(adapter.targets)


class HealingFailed(Exception):
    """The fallback of a stage fails as well."""

    def __init__(self, part: Part, layer: int | None, why: str) -> None:
        place = "" if layer is None else f" in layer {layer}"
        super().__init__(f"{part.name.lower()}{place}: {why}")
        self.part, self.layer = part, layer
