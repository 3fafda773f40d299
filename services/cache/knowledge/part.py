"""Knowledge as a part of the cache process: its connection, its folder, its servicer."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from services.cache.config import CacheConfig
from services.cache.knowledge import local_files
from services.cache.knowledge.base_store import BaseStore
from services.cache.knowledge.copies import Copies, Damaged
from services.cache.knowledge.servicer import KnowledgeServicer
from services.cache.knowledge.sync import SyncTools
from services.cache.redis_guard import RedisGuard
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class Knowledge:
    def __init__(self, client: Redis, guard: RedisGuard, config: CacheConfig, state_dir: Path | None) -> None:
        """`client` and `guard` are this part's own: files on their way must not make sessions wait. They end here."""
        self._client = client
        self._config = config
        self._root = _own_folder(state_dir)
        timeout_s = config.redis_timeout_ms / 1000
        self._guard = guard
        self._store = BaseStore(client)
        max_open = config.knowledge.max_open_bases
        self._copies = Copies(self._root, self._store, self._guard, part_budget_s=timeout_s, max_open=max_open)
        self._preload: asyncio.Task[None] | None = None

    def servicer(self) -> KnowledgeServicer:
        tools = SyncTools(
            store=self._store,
            copies=self._copies,
            guard=self._guard,
            config=self._config.knowledge,
            redis_budget_s=self._config.redis_timeout_ms / 1000,
        )
        return KnowledgeServicer(tools, self._config)

    def start(self) -> None:
        """Make the known bases ready, beside everything else."""
        self._preload = asyncio.create_task(self._load_all(), name="knowledge-preload")

    async def close(self) -> None:
        if self._preload is not None:
            self._preload.cancel()
            await asyncio.gather(self._preload, return_exceptions=True)
        await self._copies.close()
        await self._guard.close()
        await self._client.aclose()
        await asyncio.to_thread(local_files.remove, self._root)

    async def _load_all(self) -> None:
        budget_s = self._config.redis_timeout_ms / 1000
        try:
            bases = await self._guard.call(self._store.all_bases(), budget_s)
            for keys in bases[: self._config.knowledge.max_open_bases]:
                manifest = await self._guard.call(self._store.manifest(keys), budget_s)
                if manifest is not None:
                    await self._copies.load(keys, manifest)
        except (StagemeshError, Damaged) as error:
            log.warning("knowledge bases are loaded when they are asked for", problem=str(error))


def _own_folder(state_dir: Path | None) -> Path:
    """A fresh folder that no other process writes to, with what an earlier life of this one left removed."""
    if state_dir is not None:
        folder = state_dir.expanduser() / "knowledge" / process_identity("cache").instance
        try:
            local_files.remove(folder)
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:  # a container without a volume there; the copies can lie anywhere
            log.warning("knowledge is kept in a temporary folder", problem=str(error))
        else:
            return folder
    return Path(tempfile.mkdtemp(prefix="stagemesh-knowledge-"))
