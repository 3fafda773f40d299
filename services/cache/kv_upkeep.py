"""Keeps the KV Redis in order: its limits are written, its index is compared with what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError

from services.cache.config import CacheConfig
from services.cache.root import Root
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.kv_directory import KvDirectory, KvLimits
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class KvUpkeep:
    def __init__(self, directory: KvDirectory, config: CacheConfig, root: Callable[[], Awaitable[Root]]) -> None:
        self._directory = directory
        self._config = config
        self._root = root
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._config.kv.enabled:
            self._task = asyncio.create_task(self._run(), name="kv-upkeep")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def ask(self) -> None:
        """The limits are missing or old: write them now."""
        self._asked.set()

    async def once(self) -> None:
        """Write the limits, then sweep all namespaces. Raises redis-py's errors."""
        kv = self._config.kv
        await self._directory.set_limits(
            KvLimits(
                epoch=(await self._root()).epoch,
                total_bytes=kv.total_bytes(),
                tenant_bytes=kv.tenant_bytes(),
                pinned_bytes=round(kv.tenant_bytes() * kv.pinned_percent / 100),
                tau_s=kv.heat_tau_s,
            )
        )
        wrong = 0
        for space in await self._directory.spaces():
            wrong += await self._directory.sweep(space)
        if wrong:
            log.info("stored pages had vanished", pages=wrong)

    async def _run(self) -> None:
        while True:
            self._asked.clear()
            try:
                await self.once()
            except (RedisError, OSError, TimeoutError, StagemeshError) as error:
                log.warning("KV store not kept in order; if this goes on, empty the KV Redis", error=str(error))
            await self._wait()

    async def _wait(self) -> None:
        """Until it is time, or somebody asks; asking is heard once a second at most."""
        try:
            async with asyncio.timeout(self._config.kv.sweep_interval_s):
                await asyncio.sleep(min(1.0, self._config.kv.sweep_interval_s / 2))
                await self._asked.wait()
        except TimeoutError:
            return
