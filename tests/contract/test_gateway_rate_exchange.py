"""Gateways tell each other over a real Valkey what comes to them, and one that falls silent counts no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from quality_support import Valkey, running_valkey
from redis.exceptions import RedisError

from services.gateway.rates.config import RateConfig
from services.gateway.rates.exchange import GATEWAYS, RateExchange
from services.gateway.rates.tenant_rates import TenantRates
from stagemesh.runtime.redis_client import Redis, connect

OF_ALL, OF_TENANT = RateConfig(floor_per_s=1_000.0), RateConfig(floor_per_s=8.0, ceiling_per_s=8.0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("rates")
    with running_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
async def redis(server: Valkey) -> AsyncIterator[Redis]:
    client = connect(server.url)
    await client.flushall()
    yield client
    await client.aclose()


async def test_a_tenant_has_one_limit_at_two_gateways_until_one_is_gone(redis: Redis) -> None:
    clock = Clock()
    first, second = (TenantRates(OF_ALL, OF_TENANT, clock) for _ in range(2))
    exchanges = [
        RateExchange(redis, rates, name, every_s=3_600) for rates, name in ((first, "g-1/1"), (second, "g-2/1"))
    ]
    try:
        for rates in (first, second):
            for _ in range(500):
                rates.refusal("t")
        clock.now_s += 9.0  # not yet the time at which a limit is set anew by itself
        for each in (*exchanges, exchanges[0]):
            await each.exchange()
        assert [first.state("t").limit, second.state("t").limit] == [40, 40], "half of 8 a second each, for 10 s"
        await redis.set(f"{GATEWAYS}:g-3/1", b"from another version")
        await redis.sadd(GATEWAYS, "g-3/1")
        await redis.delete(f"{GATEWAYS}:g-2/1")
        await exchanges[0].exchange()
        assert first.state("t").limit == 80
        assert await redis.smembers(GATEWAYS) == {b"g-1/1", b"g-3/1"}
        await redis.set(GATEWAYS, "no set")
        with pytest.raises(RedisError):
            await exchanges[0].exchange()
    finally:
        for each in exchanges:
            await each.close()
