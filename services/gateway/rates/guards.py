"""May a request come in: how much comes, how much work the engines have had, how hot they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.gateway.rates.config import GuardsConfig
from services.gateway.rates.heat import Heat
from services.gateway.rates.rate import RateState
from services.gateway.rates.tenant_rates import TenantRates
from services.gateway.rates.utilization import Utilization
from stagemesh.runtime.errors import Exhausted, StagemeshError, Unavailable

MIN_RETRY_MS = 1_000
MAX_ENGINES = 1_024


@dataclass(frozen=True, kw_only=True)
class EngineReading:
    """What an engine said of itself last."""

    instance: str
    in_flight: int
    """Sequences that run or wait in it."""
    max_running: int
    celsius: float | None
    """None where it has no sensor."""


class Guards:
    def __init__(self, config: GuardsConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self.rates = TenantRates(config.all_tenants, config.tenant, clock)
        self._utilization: dict[str, Utilization] = {}
        self._heat: dict[str, Heat] = {}

    def observe(self, readings: Sequence[EngineReading]) -> None:
        """What all engines say now; of one that is not among them nothing is remembered."""
        for reading in readings[:MAX_ENGINES]:
            name = reading.instance
            if name not in self._heat:
                self._heat[name] = Heat(self._config.heat, self._clock)
                self._utilization[name] = Utilization(self._config.utilization_window_s, self._clock)
            self._heat[name].observe(reading.celsius)
            self._utilization[name].observe(reading.in_flight / max(1, reading.max_running))
        for gone in self._heat.keys() - {reading.instance for reading in readings}:
            del self._heat[gone], self._utilization[gone]

    def share(self, instance: str) -> float:
        """Of its usual work, for an engine: 1 unless its device is hot."""
        heat = self._heat.get(instance)
        return 1.0 if heat is None else heat.share

    def utilization(self, instance: str) -> float:
        known = self._utilization.get(instance)
        return 0.0 if known is None else known.mean()

    def refusal(self, tenant_id: str, engines: Sequence[EngineReading]) -> StagemeshError | None:
        """Let one request in that any of `engines` may answer; or why not, and when it may come again."""
        return self._too_hot(engines) or self._overloaded(engines) or self.rates.refusal(tenant_id)

    def rate_state(self, tenant_id: str) -> RateState:
        return self.rates.state(tenant_id)

    def _too_hot(self, engines: Sequence[EngineReading]) -> StagemeshError | None:
        """Every engine's device is hot, and has as much work as it may have."""
        if not engines or any(self._may_take(engine) for engine in engines):
            return None
        return Unavailable(
            "DEVICE_TOO_HOT",
            "the devices are too hot for more work",
            retry_after_ms=max(MIN_RETRY_MS, int(self._config.heat.step_s * 1000)),
        )

    def _may_take(self, engine: EngineReading) -> bool:
        share = self.share(engine.instance)
        return share == 1 or engine.in_flight < int(share * engine.max_running)

    def _overloaded(self, engines: Sequence[EngineReading]) -> StagemeshError | None:
        most = self._config.max_utilization
        waits_s = [self._retry_after_s(engine.instance, most) for engine in engines]
        if not waits_s or min(waits_s) == 0:
            return None
        return Exhausted(
            "ENGINE_OVERLOADED",
            f"the engines have had more than {most:g} times the work that they can do at once",
            retry_after_ms=max(MIN_RETRY_MS, int(min(waits_s) * 1000)),
        )

    def _retry_after_s(self, instance: str, most: float) -> float:
        known = self._utilization.get(instance)
        return 0.0 if known is None else known.retry_after_s(most)
