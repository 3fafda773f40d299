"""What is believed of who comes back, in the ledger Redis, so that a restart does not begin anew.

Several cache services write the same key: each learns the same from its share of the traffic, and the last one counts.
Every method is one Redis operation in the sense of `RedisGuard`: it raises redis-py's errors.
"""

from __future__ import annotations

from typing import cast

from services.cache.keys import RETURNS
from stagemesh.runtime.kv_value import Belief
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class ReturnStore:
    def __init__(self, client: Redis, ttl_s: int) -> None:
        self._client = client
        self._ttl_s = ttl_s

    async def load(self) -> Belief | None:
        """None where there is nothing, or nothing of use: an earlier version may have had other features."""
        data = await self._client.get(RETURNS)
        if data is None:
            return None
        try:
            return Belief.decode(cast("bytes", data))  # nothing is decoded by this client
        except ValueError as error:
            log.warning("begins without what was learned of who comes back", problem=str(error))
            return None

    async def save(self, belief: Belief) -> None:
        await self._client.set(RETURNS, belief.encode(), ex=self._ttl_s)
