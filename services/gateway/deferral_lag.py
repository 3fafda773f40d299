"""The lag of deferred requests as metrics: how many wait, and for how long the oldest has."""

from __future__ import annotations

import asyncio
import math

from services.gateway import metrics
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.outbox import Outbox

LOOK_EVERY_S = 1.0


class DeferralLag:
    """Looks at the outbox every second. While the ledger is away nothing is known, and the metrics say so (NaN)."""

    def __init__(self, outbox: Outbox, every_s: float = LOOK_EVERY_S) -> None:
        self._outbox = outbox
        self._every_s = every_s
        self._task = asyncio.create_task(self._run(), name="deferral-lag")

    async def look(self) -> None:
        """Set the metrics once."""
        try:
            lag = await self._outbox.lag()
        except StagemeshError:
            metrics.DEFERRED_WAITING.set(math.nan)
            metrics.DEFERRAL_LAG.set(math.nan)
            return
        metrics.DEFERRED_WAITING.set(lag.count)
        metrics.DEFERRAL_LAG.set(lag.oldest_s)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)
