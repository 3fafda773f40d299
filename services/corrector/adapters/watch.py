"""The adapters in use as this process knows them: read beside the calls, so that none of them waits for the ledger."""

from __future__ import annotations

import asyncio

from services.corrector.adapters.config import AdaptersConfig
from services.corrector.adapters.in_use import InUse
from services.corrector.adapters.store import AdapterStore
from services.corrector.adapters.tallies import Tallies
from stagemesh.runtime import redis_client
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class AdapterWatch:
    """One for a process. Must be made inside the running event loop."""

    def __init__(self, ledger_url: str, config: AdaptersConfig) -> None:
        self._client = redis_client.connect(ledger_url, command_timeout_s=config.redis_timeout_ms / 1000)
        self._config = config
        self._store = AdapterStore(self._client)
        self._task: asyncio.Task[None] | None = None
        self.tallies = Tallies(self._store)
        self.in_use = InUse()
        """As it was when the ledger last answered; none before it did."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_fresh(), name="adapters-in-use")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.tallies.flush()
        await self._client.aclose()

    async def refresh(self) -> None:
        """Raises Unavailable."""
        found = await self._store.in_use()
        if found != self.in_use:
            log.info("adapters in use changed", tenants=len(found.lineups))
        self.in_use = found

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self.refresh()
                await self.tallies.flush()
            except StagemeshError as error:
                log.warning("adapters in use are those known before", problem=str(error))
            except Exception:  # one bad record must not end the watch
                log.exception("looking for adapters in use failed")
            await asyncio.sleep(self._config.poll_s)
