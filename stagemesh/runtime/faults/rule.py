"""A fault in the configuration."""

from __future__ import annotations

from pydantic import Field, model_validator

from stagemesh.runtime.config import Section
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.faults.fault import Fault, Kind


class FaultRule(Section):
    """A stage that fails on purpose, in every process that runs it, from its start on."""

    stage: str
    """Name of a stage: admit, analyze, tokenize, cache, embed, attend, mlp, norm, sample, detokenize, validate,
    correct."""
    kind: Kind
    """What happens: error, delay, hang, nan (in the engine's stages), oom, kill."""
    rate: float = Field(default=1.0, gt=0, le=1)
    """Probability with which it happens when the stage runs; an engine runs its stages once a step."""
    times: int = Field(default=0, ge=0)
    """How often it happens at most in one process; 0: without end."""
    ms: int = Field(default=0, ge=0)
    """How long `delay` and `hang` take; 0: half a second and a minute."""
    seed: int = Field(default=0, ge=0)
    """Of the draws."""
    layer: int | None = Field(default=None, ge=0)
    """Where in the engine; by default a layer in the middle."""

    @model_validator(mode="after")
    def _can_be(self) -> FaultRule:
        try:
            self.fault()
        except InvalidRequest as error:
            raise ValueError(error.message) from None
        return self

    def fault(self) -> Fault:
        return Fault(
            stage=self.stage,
            kind=self.kind,
            rate=self.rate,
            times=self.times,
            wait_ms=self.ms,
            seed=self.seed,
            layer=self.layer,
        )
