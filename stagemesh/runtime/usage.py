"""What tenants used, in the ledger Redis: sums by tenant, day and mode, kept for MAX_DAYS.

One hash per tenant and day (UTC), one field per mode and quantity, so that gateways add without reading.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from redis.asyncio import Redis

MAX_DAYS = 92
DAY_S = 86_400


@dataclass(kw_only=True)
class Usage:
    """Sums of one tenant in one mode."""

    requests: float = 0
    """That reached an engine."""
    answered: float = 0
    """Of which complete or degraded."""
    prompt_tokens: float = 0
    cached_tokens: float = 0
    """Of the prompt tokens: reused, not computed."""
    completion_tokens: float = 0
    effective_tokens: float = 0
    """Output tokens of complete answers."""
    seconds: float = 0
    """From acceptance to the end."""
    cost_units: float = 0

    def add(self, other: Usage) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def tokens_per_cost_unit(self) -> float:
        """Effective throughput per cost; 0 where nothing was spent."""
        return self.effective_tokens / self.cost_units if self.cost_units else 0.0


Key = tuple[str, str]
"""Tenant and mode."""


def day_of(unix_s: float) -> str:
    return time.strftime("%Y%m%d", time.gmtime(unix_s))


def _key(day: str, tenant_id: str) -> str:
    return f"stagemesh:tenant-usage:{day}:{tenant_id}"


async def add(redis: Redis, day: str, sums: Mapping[Key, Usage]) -> None:
    """Add to a day's sums, all or nothing."""
    async with redis.pipeline(transaction=True) as pipeline:
        for (tenant_id, mode), usage in sums.items():
            key = _key(day, tenant_id)
            for field in fields(usage):
                if value := getattr(usage, field.name):
                    pipeline.hincrbyfloat(key, f"{mode}:{field.name}", value)
            pipeline.expire(key, MAX_DAYS * DAY_S)
        await pipeline.execute()


async def read(redis: Redis, tenant_ids: Iterable[str], *, num_days: int, now_s: float) -> dict[Key, Usage]:
    """Sums of the last `num_days` days, today included, of these tenants."""
    keys = [
        (tenant_id, day_of(now_s - DAY_S * back)) for tenant_id in tenant_ids for back in range(min(num_days, MAX_DAYS))
    ]
    async with redis.pipeline(transaction=False) as pipeline:
        for tenant_id, day in keys:
            pipeline.hgetall(_key(day, tenant_id))
        replies = cast("list[dict[bytes, bytes]]", await pipeline.execute())
    sums: dict[Key, Usage] = {}
    for (tenant_id, _), reply in zip(keys, replies, strict=True):
        for name, value in reply.items():
            mode, _, field = name.decode().partition(":")
            usage = sums.setdefault((tenant_id, mode), Usage())
            if hasattr(usage, field) and field != "tokens_per_cost_unit":
                setattr(usage, field, getattr(usage, field) + float(value))
    return sums


def as_json(key: Key, usage: Usage) -> dict[str, Any]:
    """One line of the report."""
    numbers = {field.name: _rounded(getattr(usage, field.name)) for field in fields(usage)}
    return {
        "tenant_id": key[0],
        "mode": key[1],
        **numbers,
        "tokens_per_cost_unit": round(usage.tokens_per_cost_unit, 1),
    }


def _rounded(value: float) -> float | int:
    return int(value) if float(value).is_integer() else round(value, 3)
