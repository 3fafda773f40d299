"""How often in a row a user asked for `precise`: gateways count in the ledger, `stagemesh tenant release` forgets.

One key for each user of a tenant, which goes when that user has not asked for a window's length.
"""

from __future__ import annotations

import hashlib
from typing import cast

from redis.asyncio import Redis

_COUNT = """
local now = redis.call('TIME')
local now_s = tonumber(now[1])
local window_s, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local held = redis.call('GET', KEYS[1])
local count, since = 0, now_s
if held then
  local sep = string.find(held, ':')
  count, since = tonumber(string.sub(held, 1, sep - 1)), tonumber(string.sub(held, sep + 1))
end
if now_s - since >= window_s then count, since = 0, now_s end
if count < most then since = now_s end
count = count + 1
redis.call('SET', KEYS[1], count .. ':' .. since, 'EX', window_s)
return count
"""
"""The window begins anew with each counted request; once the limit is reached it runs out, whatever is asked."""


BATCH = 1_000


def _key(tenant_id: str, user_id: str) -> str:
    """Of one length, however long the user's name is."""
    return f"{_prefix(tenant_id)}{hashlib.sha256(user_id.encode()).hexdigest()}"


def _prefix(tenant_id: str) -> str:
    return f"stagemesh:tenant-precise:{tenant_id}:"


async def count(redis: Redis, tenant_id: str, user_id: str, *, window_s: int, most: int) -> int:
    """Note one more request for `precise`; gives how many in a row that makes, `most` + 1 or more above the limit."""
    reply = redis.eval(_COUNT, 1, _key(tenant_id, user_id), str(window_s), str(most))
    return int(await reply)


async def interrupt(redis: Redis, tenant_id: str, user_id: str, *, most: int) -> None:
    """A request that asked for something else ends the row, unless the limit has been reached."""
    key = _key(tenant_id, user_id)
    held = cast("bytes | None", await redis.get(key))
    if held is not None and int(held.partition(b":")[0]) <= most:
        await redis.delete(key)


async def release(redis: Redis, tenant_id: str) -> int:
    """Let all users of a tenant ask for `precise` again; gives how many had asked lately."""
    num_released = 0
    async for key in redis.scan_iter(match=f"{_prefix(tenant_id)}*", count=BATCH):
        num_released += int(await redis.delete(key))
    return num_released
