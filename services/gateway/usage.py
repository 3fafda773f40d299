"""Accounting of what requests used, by tenant and mode: summed here, added to the ledger Redis every second."""

from __future__ import annotations

import asyncio
import time

from services.gateway import metrics
from services.gateway.mode_rules import ModesConfig
from services.gateway.store import GuardedLedger
from services.gateway.work import Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime import usage as store
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.precision_mode import mode_name
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.usage import Key, Usage

FLUSH_S = 1.0
OUTPUT_WEIGHT, CACHED_WEIGHT = 2.0, 0.1
"""What an output token, and a prompt token that was reused, cost by one that was computed."""
ANSWERED = frozenset({common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED})


def usage_of(final: gateway_pb2.Final, cost_per_1k: float) -> Usage:
    """What one request used."""
    prompt, cached, output = final.usage.prompt_tokens, final.usage.cached_tokens, final.usage.completion_tokens
    weighted = max(0, prompt - cached) + CACHED_WEIGHT * min(cached, prompt) + OUTPUT_WEIGHT * output
    return Usage(
        requests=1,
        answered=final.outcome in ANSWERED,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=output,
        effective_tokens=output if final.outcome == common_pb2.OUTCOME_COMPLETE else 0,
        seconds=final.total_us / 1e6,
        cost_units=cost_per_1k * weighted / 1000,
    )


class UsageAccounts:
    """A gateway that is killed loses what the last second brought; with the ledger away sums wait in memory."""

    def __init__(self, config: ModesConfig, redis: Redis, ledger: GuardedLedger) -> None:
        self._config, self._redis, self._ledger = config, redis, ledger
        self._sums: dict[str, dict[Key, Usage]] = {}
        """By day."""
        self._task = asyncio.create_task(self._keep_flushing(), name="usage")

    def note(self, work: Work, final: gateway_pb2.Final) -> None:
        """Count a request that has ended; one that never got to an engine used nothing."""
        finish = work.outputs[0].finish
        if work.prompt is None or finish is None:
            return
        mode = mode_name(work.prompt.mode) or "standard"
        used = usage_of(final, self._config.cost_per_1k.get(mode, 1.0))
        key = (work.job.tenant_id, mode)
        self._sums.setdefault(store.day_of(time.time()), {}).setdefault(key, Usage()).add(used)
        metrics.COST_UNITS.labels(mode).inc(used.cost_units)
        metrics.EFFECTIVE_TOKENS.labels(mode).inc(used.effective_tokens)

    async def flush(self) -> None:
        """Add the sums to the ledger's. Raises Unavailable; they are kept then."""
        for day in list(self._sums):
            taken = self._sums.pop(day)
            try:
                await self._ledger.call(store.add(self._redis, day, taken))
            except BaseException:
                for key, usage in taken.items():
                    self._sums.setdefault(day, {}).setdefault(key, Usage()).add(usage)
                raise

    async def close(self, grace_s: float) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(grace_s):
                await self.flush()
        except (Unavailable, TimeoutError):
            metrics.USAGE_LOST.inc(sum(len(sums) for sums in self._sums.values()))

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await self.flush()
            except Unavailable:
                continue  # the sums stay where they are
