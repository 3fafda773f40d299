"""Configuration of admission by rate, utilization and temperature (section `gateway.guards`)."""

from __future__ import annotations

from pydantic import Field, model_validator

from stagemesh.runtime.config import Section
from stagemesh.runtime.config_problems import KeyProblem


class RateConfig(Section):
    """Most requests a second: what the last minute had on average, times a factor, within a floor and a ceiling."""

    floor_per_s: float = Field(default=100.0, gt=0)
    """Requests a second that are always let in."""
    ceiling_per_s: float = Field(default=10_000.0, gt=0)
    """Requests a second that are never exceeded for long."""
    factor: float = Field(default=1.3, gt=1)
    """How much more than in the last minute may come."""
    window_s: int = Field(default=60, ge=1, le=600)
    """Over how long the average is taken."""
    refresh_s: float = Field(default=10.0, gt=0)
    """How often the limit is set anew; as much as it allows in this time may come at once."""

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> RateConfig:
        if self.floor_per_s > self.ceiling_per_s:
            raise KeyProblem(("floor_per_s",), f"is {self.floor_per_s:g}, above ceiling_per_s ({self.ceiling_per_s:g})")
        return self


class HeatConfig(Section):
    """An engine whose device is hot gets 20 % less work, then 40 % less, then none; and more again as it cools."""

    threshold_c: float = Field(default=83.0, gt=0)
    """Degrees Celsius from which on a device gets less work."""
    hysteresis_c: float = Field(default=3.0, ge=0)
    """How far below the threshold it must be to get more again."""
    step_s: float = Field(default=10.0, gt=0)
    """How long one step lasts before the next, in both directions."""


class GuardsConfig(Section):
    """When a request is refused or deferred for what comes in and for how the engines bear it."""

    all_tenants: RateConfig = RateConfig()
    """Limit of all requests together, whichever gateway they come to."""
    tenant: RateConfig = RateConfig(floor_per_s=50.0, ceiling_per_s=5_000.0)
    """Limit of each tenant, whichever gateway its requests come to."""
    max_utilization: float = Field(default=2.0, gt=0)
    """Sequences that run or wait in an engine for each that it can run at once, as the mean of `utilization_window_s`:
    from there on new requests are refused."""
    utilization_window_s: float = Field(default=60.0, gt=0)
    """Over how long utilization is averaged."""
    heat: HeatConfig = HeatConfig()
    """Hot devices. Engines on machines without a sensor say no temperature and are left alone."""
