"""Reads once a second what the engines say of themselves, for the guards and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.gateway import metrics
from services.gateway.engine_link import EngineLink
from services.gateway.engines import Engines
from services.gateway.rates.guards import EngineReading, Guards

SAMPLE_EVERY_S = 1.0


class LoadSampler:
    def __init__(self, engines: Engines, guards: Guards) -> None:
        self._engines, self._guards = engines, guards
        self._shown: set[str] = set()
        self._task = asyncio.create_task(self._run(), name="load-sampler")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def sample(self) -> None:
        """Once."""
        readings = [reading_of(link) for link in self._engines.links() if link.ready]
        self._guards.observe(readings)
        self._engines.shares = {reading.instance: self._guards.share(reading.instance) for reading in readings}
        self._show(readings)

    def _show(self, readings: Sequence[EngineReading]) -> None:
        hot = {reading.instance: reading.celsius for reading in readings if reading.celsius is not None}
        for instance, celsius in hot.items():
            metrics.DEVICE_TEMPERATURE.labels(instance).set(celsius)
        for gone in self._shown - hot.keys():  # no sensor is no reading, not zero
            metrics.DEVICE_TEMPERATURE.remove(gone)
        self._shown = set(hot)
        metrics.ENGINE_UTILIZATION.clear()
        metrics.ENGINE_WORK_SHARE.clear()
        for reading in readings:
            metrics.ENGINE_UTILIZATION.labels(reading.instance).set(self._guards.utilization(reading.instance))
            metrics.ENGINE_WORK_SHARE.labels(reading.instance).set(self._guards.share(reading.instance))

    async def _run(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_EVERY_S)


def reading_of(link: EngineLink) -> EngineReading:
    """What the engine said last, and what this gateway has given it since."""
    load = link.load
    return EngineReading(
        instance=link.description.instance if link.description else link.address,
        in_flight=max(load.running + load.waiting, link.num_sequences),
        max_running=load.max_running,
        celsius=load.device_temperature_c if load.HasField("device_temperature_c") else None,
    )
