"""Stored anchor sets as the services use them: from names in a request to files that a sandboxed child maps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from stagemesh.runtime import redis_client
from stagemesh.runtime.errors import InvalidRequest, StagemeshError
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.rule import Rule
from stagemesh.validation.sets.config import AnchorSetsConfig
from stagemesh.validation.sets.copies import Copies
from stagemesh.validation.sets.manifest import Manifest
from stagemesh.validation.sets.rule_store import RuleStore, names_stored
from stagemesh.validation.sets.store import SetStore

INDEX_BYTES_PER_BYTE = 12
"""About what an index takes for each byte of keys."""

log = get_logger(__name__)


class AnchorSets:
    """One for a process. Must be made inside the running event loop."""

    def __init__(self, ledger_url: str, config: AnchorSetsConfig, *, service: str, state_dir: Path | None) -> None:
        self._client = redis_client.connect(ledger_url, command_timeout_s=config.redis_timeout_ms / 1000)
        self.config = config
        self.store = SetStore(self._client)
        self.rules = RuleStore(self._client)
        self.copies = Copies(self.store, config, service, state_dir)
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Make the known sets ready, beside everything else, and those that change."""
        self._watch = asyncio.create_task(self._keep_ready(), name="anchor-sets")

    @asynccontextmanager
    async def using(self, tenant_id: str, demands: Sequence[Anchor | Rule]) -> AsyncIterator[list[Anchor | Rule]]:
        """`demands` with the files of the sets that they name, and with stored rules in place of their names.

        Raises InvalidRequest for a set that the tenant does not have, Unavailable while one is being made ready or
        the store is away.
        """
        demands = await self.rules.with_stored(tenant_id, demands)
        async with AsyncExitStack() as stack:
            paths: dict[str, str] = {}
            for name in dict.fromkeys(demand.set_name for demand in demands if demand.set_name):
                copy = await self.copies.get(tenant_id, await self._known(tenant_id, name))
                paths[name] = stack.enter_context(self.copies.using(copy))
            yield [replace(it, index=paths[it.set_name]) if it.set_name else it for it in demands]

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self.copies.close()
        await self._client.aclose()

    async def _known(self, tenant_id: str, name: str) -> Manifest:
        manifest = await self.store.manifest(tenant_id, name)
        if manifest is None:
            self.copies.forget(tenant_id, name)
            raise unknown(name)
        return manifest

    async def _keep_ready(self) -> None:
        seen = -1
        while True:
            try:
                generation = await self.store.generation()
                if generation != seen:
                    await self._load_all()
                    seen = generation
            except StagemeshError as error:
                log.warning("anchor sets are made ready when they are asked for", problem=str(error))
            except Exception:  # whoever asks for a set has it loaded, and told what fails
                log.exception("looking for anchor sets to make ready failed")
            await asyncio.sleep(self.config.poll_s)

    async def _load_all(self) -> None:
        """The latest first, as many as may lie here; a set that cannot be made ready does not hold up the others."""
        left_bytes = self.config.max_local_mb << 20
        manifests = await self.store.all_manifests()
        self.copies.keep_only({(tenant_id, manifest.name) for tenant_id, manifest in manifests})
        for tenant_id, manifest in manifests:
            left_bytes -= INDEX_BYTES_PER_BYTE * manifest.key_bytes
            if left_bytes < 0:
                return
            if not self.copies.has(tenant_id, manifest):
                await asyncio.wait({self.copies.start_loading(tenant_id, manifest)})


@asynccontextmanager
async def with_sets(
    sets: AnchorSets | None, tenant_id: str, demands: Sequence[Anchor | Rule]
) -> AsyncIterator[Sequence[Anchor | Rule]]:
    """`AnchorSets.using`; without stored sets, the demands as they are."""
    if sets is None or not (names_stored(demands) or any(demand.set_name for demand in demands)):
        yield demands
        return
    async with sets.using(tenant_id, demands) as found:
        yield found


def unknown(name: str) -> InvalidRequest:
    return InvalidRequest("UNKNOWN_ANCHOR_SET", f"there is no anchor set {name[:80]!r} here", field="anchors")
