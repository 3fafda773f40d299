"""A stage whose work was done by its fallback."""

from __future__ import annotations

from dataclasses import dataclass

from services.engine.stages import Part

FALLBACK = {
    Part.EMBED: "reference",
    Part.ATTEND: "reference",
    Part.MLP: "low-rank",
    Part.NORM: "reference",
    Part.SAMPLE: "reference",
}
"""What does the work of a stage that fails. `sample` is the output head with the choice of the token."""


@dataclass(frozen=True)
class Degradation:
    part: Part
    layer: int | None
    """None outside the layers."""
    reason: str
    """NON_FINITE, STAGE_FAILED or OUT_OF_MEMORY."""

    @property
    def fallback(self) -> str:
        return FALLBACK[self.part]


class HealingFailed(Exception):
    """The fallback of a stage fails as well."""

    def __init__(self, part: Part, layer: int | None, why: str) -> None:
        place = "" if layer is None else f" in layer {layer}"
        super().__init__(f"{part.name.lower()}{place}: {why}")
        self.part, self.layer = part, layer
