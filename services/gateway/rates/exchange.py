"""Every ten seconds a gateway tells the others what has come to it, so that limits of rates hold for all together.

    stagemesh:ledger:rates              the gateways that have told something
    stagemesh:ledger:rates:<gateway>    what has come to it, by tenant, as JSON; gone when it falls silent

No request waits for it. Without the ledger each gateway goes by itself, after a while.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.gateway.rates.rate import NOTHING, Window
from services.gateway.rates.tenant_rates import TenantRates
from stagemesh.runtime.telemetry import get_logger

GATEWAYS = "stagemesh:ledger:rates"
SILENT_AFTER = 2.5
"""Intervals after which a gateway counts no more, and after which one that hears nothing goes by itself."""
MAX_TENANTS = 2_000
"""The busiest ones that are told of."""

log = get_logger(__name__)


class RateExchange:
    def __init__(self, redis: Redis, rates: TenantRates, gateway: str, *, every_s: float) -> None:
        """`gateway`: a name that no other one has."""
        self._redis, self._rates, self._gateway, self._every_s = redis, rates, gateway, every_s
        self._num_failed = 0
        self._task = asyncio.create_task(self._keep_exchanging(), name="rate-exchange")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def exchange(self) -> None:
        """Once. Raises RedisError, OSError or TimeoutError."""
        keep_ms = int(SILENT_AFTER * self._every_s * 1000)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(_key(self._gateway), _told(self._rates.windows()), px=keep_ms)
            pipe.sadd(GATEWAYS, self._gateway)
            pipe.pexpire(GATEWAYS, keep_ms)
            pipe.smembers(GATEWAYS)
            *_, members = await pipe.execute()
        names = sorted({member.decode() for member in members} - {self._gateway})
        heard = cast("list[bytes | None]", await self._redis.mget([_key(name) for name in names])) if names else []
        if silent := [name for name, said in zip(names, heard, strict=True) if said is None]:
            await self._redis.srem(GATEWAYS, *silent)
        said = [each for each in heard if each is not None]
        self._rates.refresh(_summed(said), 1 + len(said))

    async def _keep_exchanging(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.exchange()
                self._num_failed = 0
            except (RedisError, OSError, TimeoutError) as error:
                self._num_failed += 1
                log.warning("rates not exchanged", error=str(error))
                if self._num_failed > SILENT_AFTER:
                    self._rates.refresh({}, 1)


def _key(gateway: str) -> str:
    return f"{GATEWAYS}:{gateway}"


def _told(windows: Mapping[str, Window]) -> str:
    busiest = sorted(windows.items(), key=lambda entry: entry[1].asked_per_s, reverse=True)[: MAX_TENANTS + 1]
    return json.dumps({tenant: (each.admitted_per_s, each.asked_per_s) for tenant, each in busiest})


def _summed(said: list[bytes]) -> dict[str, Window]:
    """What all others say together; what another version says counts as nothing."""
    total: dict[str, Window] = {}
    for each in said:
        try:
            windows = {
                str(tenant): Window(admitted_per_s=float(admitted), asked_per_s=float(asked))
                for tenant, (admitted, asked) in json.loads(each).items()
            }
        except (ValueError, TypeError, AttributeError):
            continue
        for tenant, window in windows.items():
            total[tenant] = total.get(tenant, NOTHING) + window
    return total
