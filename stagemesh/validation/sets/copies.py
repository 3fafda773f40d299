"""The indexes that this process has ready, one file a set and generation, and who is using them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from stagemesh.runtime.errors import StagemeshError, Unavailable
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.sets.builder import build, head, own_folder, remove
from stagemesh.validation.sets.config import AnchorSetsConfig
from stagemesh.validation.sets.manifest import Manifest
from stagemesh.validation.sets.store import SetStore

log = get_logger(__name__)
T = TypeVar("T")


@dataclass
class Copy:
    tenant_id: str
    manifest: Manifest
    path: Path
    num_bytes: int
    num_users: int = 0
    is_old: bool = False
    """To be removed when nobody uses it."""


@dataclass
class Copies:
    """Used from one event loop."""

    store: SetStore
    config: AnchorSetsConfig
    service: str
    state_dir: Path | None
    _ready: OrderedDict[tuple[str, str], Copy] = field(default_factory=OrderedDict)
    """By tenant and name, the last used at the end."""
    _loading: dict[tuple[str, str, int], asyncio.Task[Copy]] = field(default_factory=dict)
    _one_build: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def __post_init__(self) -> None:
        self.folder = own_folder(self.state_dir, self.service)

    async def get(self, tenant_id: str, manifest: Manifest) -> Copy:
        """The copy of that generation, within `wait_ms`. Raises Unavailable while it is being made.

        Whoever gives up waiting leaves it to be made.
        """
        if self.has(tenant_id, manifest):
            self._ready.move_to_end((tenant_id, manifest.name))
            return self._ready[tenant_id, manifest.name]
        try:
            async with asyncio.timeout(self.config.wait_ms / 1000):
                return await asyncio.shield(self.start_loading(tenant_id, manifest))
        except TimeoutError:
            raise Unavailable(
                "ANCHORS_LOADING",
                f"the anchor set {manifest.name!r} is being made ready; try again",
                retry_after_ms=1_000,
            ) from None

    def has(self, tenant_id: str, manifest: Manifest) -> bool:
        copy = self._ready.get((tenant_id, manifest.name))
        return copy is not None and copy.manifest.generation == manifest.generation

    def start_loading(self, tenant_id: str, manifest: Manifest) -> asyncio.Task[Copy]:
        key = (tenant_id, manifest.name, manifest.generation)
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.create_task(self._load(tenant_id, manifest), name="anchor-set")
            task.add_done_callback(lambda done: self._loaded(key, done))
        return task

    @contextmanager
    def using(self, copy: Copy) -> Iterator[str]:
        """The path of its file, which stays until the end."""
        copy.num_users += 1
        try:
            yield str(copy.path)
        finally:
            copy.num_users -= 1
            self._remove_old(copy)

    def adopt(self, tenant_id: str, manifest: Manifest, path: Path) -> Copy:
        """Take a file that was built elsewhere in the folder as the copy of a set; gives the newest copy."""
        copy = Copy(tenant_id, manifest, path, path.stat().st_size)
        key = (tenant_id, manifest.name)
        before = self._ready.get(key)
        if before is not None and before.manifest.generation > manifest.generation:
            self._retire(copy)  # a later load was faster
            return before
        self._ready[key] = copy
        self._ready.move_to_end(key)
        if before is not None:
            self._retire(before)
        self._make_room(copy)
        return copy

    def forget(self, tenant_id: str, name: str) -> None:
        """Of a set that is no longer there."""
        copy = self._ready.pop((tenant_id, name), None)
        if copy is not None:
            self._retire(copy)

    def keep_only(self, sets: Set[tuple[str, str]]) -> None:
        """Forget those that are not among `sets`, by tenant and name."""
        for key in [key for key in self._ready if key not in sets]:
            self.forget(*key)

    def new_path(self, manifest: Manifest) -> Path:
        return self.folder / f"{manifest.token}-{manifest.generation}.idx"

    async def close(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(remove, self.folder)

    async def _load(self, tenant_id: str, manifest: Manifest) -> Copy:
        source, target = self.folder / f"{manifest.token}.keys", self.new_path(manifest)
        async with self._one_build:
            try:
                await self._fetch(tenant_id, manifest, source)
                await build(source, target, self.config)
            finally:
                source.unlink(missing_ok=True)
        log.info("anchor set is ready", set=manifest.name, keys=manifest.keys, generation=manifest.generation)
        return self.adopt(tenant_id, manifest, target)

    async def _fetch(self, tenant_id: str, manifest: Manifest, path: Path) -> None:
        with path.open("wb") as file:
            file.write(head(ignore_case=manifest.ignore_case, max_edits=manifest.max_edits))
            for number in range(manifest.chunks):
                data = await self.store.chunk(tenant_id, manifest, number)
                if data is None:
                    raise Unavailable("ANCHORS_LOADING", "the anchor set has just been replaced", retry_after_ms=200)
                await asyncio.to_thread(file.write, data)

    def _loaded(self, key: tuple[str, str, int], task: asyncio.Task[Copy]) -> None:
        del self._loading[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            known = isinstance(error, StagemeshError)
            log.warning(
                "anchor set could not be made ready", set=key[1], problem=str(error), exc_info=None if known else error
            )

    def _make_room(self, newest: Copy) -> None:
        used = sum(copy.num_bytes for copy in self._ready.values())
        for key, copy in list(self._ready.items()):
            if used <= self.config.max_local_mb << 20:
                return
            if copy is not newest and not copy.num_users:
                del self._ready[key]
                used -= copy.num_bytes
                self._retire(copy)

    def _retire(self, copy: Copy) -> None:
        copy.is_old = True
        self._remove_old(copy)

    def _remove_old(self, copy: Copy) -> None:
        if copy.is_old and not copy.num_users:
            copy.path.unlink(missing_ok=True)
