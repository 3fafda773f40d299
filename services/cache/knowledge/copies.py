"""The bases that this process can search: copies of their index files in a folder of its own.

    root/BASE/vVERSION/        a whole version
    root/BASE/.work-RANDOM/    one that is being fetched or made

Any number of cache processes hold the same files, so they all find the same passages with the same scores.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path

from services.cache.knowledge import local_files
from services.cache.knowledge.analysis import ANALYZER
from services.cache.knowledge.base_store import BaseStore
from services.cache.knowledge.keys import BaseKeys
from services.cache.knowledge.manifest import IndexFile, Manifest
from services.cache.knowledge.searching import BaseSearcher
from services.cache.redis_guard import RedisGuard
from stagemesh.runtime.errors import Unavailable


@dataclass(frozen=True)
class Copy:
    manifest: Manifest
    folder: Path
    searcher: BaseSearcher


class Damaged(Exception):
    """Files of the base are lost or changed in Redis, or of another kind: only a sync makes it whole."""


class Copies:
    def __init__(self, root: Path, store: BaseStore, guard: RedisGuard, *, part_budget_s: float, max_open: int) -> None:
        self._root = root
        self._store = store
        self._guard = guard
        self._part_budget_s = part_budget_s
        self._max_open = max_open
        self._open: OrderedDict[BaseKeys, Copy] = OrderedDict()
        self._changing: defaultdict[BaseKeys, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while the folders of a base are linked from, replaced or removed."""
        self._loading: dict[tuple[BaseKeys, int], asyncio.Task[Copy]] = {}

    def current(self, keys: BaseKeys, version: int) -> Copy | None:
        """The copy, if it is there in this version."""
        copy = self._open.get(keys)
        if copy is None or copy.manifest.version != version:
            return None
        self._open.move_to_end(keys)
        return copy

    async def load(self, keys: BaseKeys, manifest: Manifest) -> Copy:
        """The copy in the version of `manifest`, fetched where need be; a caller who leaves does not stop that.

        Raises Unavailable and Damaged.
        """
        if (copy := self.current(keys, manifest.version)) is not None:
            return copy
        key = (keys, manifest.version)
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.create_task(self._load(keys, manifest))
            task.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(task)

    def work_folder(self, keys: BaseKeys) -> Path:
        """An empty folder for making a version; the caller removes it."""
        folder = self._root / keys.folder() / f".work-{secrets.token_hex(8)}"
        folder.mkdir(parents=True, mode=0o700)
        return folder

    async def adopt(self, keys: BaseKeys, manifest: Manifest, made: Path) -> Copy:
        """Take a folder with all files of a version as this process's copy."""
        async with self._changing[keys]:
            return await self._adopt(keys, manifest, made)

    async def _adopt(self, keys: BaseKeys, manifest: Manifest, made: Path) -> Copy:
        folder = self._root / keys.folder() / f"v{manifest.version}"
        copy = Copy(manifest, folder, await asyncio.to_thread(_take, made, folder))
        before = self._open.pop(keys, None)
        self._open[keys] = copy
        if before is not None and before.folder != folder:
            await asyncio.to_thread(local_files.remove, before.folder)
        while len(self._open) > self._max_open:
            _, least_used = self._open.popitem(last=False)
            await asyncio.to_thread(local_files.remove, least_used.folder)
        return copy

    async def forget(self, keys: BaseKeys) -> None:
        """Remove the copy of a base that was dropped, if there is one or one is on its way."""
        if loading := [task for (of, _), task in self._loading.items() if of == keys]:
            await asyncio.wait(loading)  # not cancelled: a thread that moves its folder cannot be
        async with self._changing[keys]:
            if (copy := self._open.pop(keys, None)) is not None:
                await asyncio.to_thread(local_files.remove, copy.folder)

    async def close(self) -> None:
        for task in self._loading.values():
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)

    def _loaded(self, key: tuple[BaseKeys, int], task: asyncio.Task[Copy]) -> None:
        self._loading.pop(key, None)
        if not task.cancelled():
            task.exception()  # marks it as seen: all who waited may have gone on

    async def _load(self, keys: BaseKeys, manifest: Manifest) -> Copy:
        if manifest.analyzer != ANALYZER:
            raise Damaged(f"the index was made under the rules {manifest.analyzer!r}")
        work = self.work_folder(keys)
        try:
            async with self._changing[keys]:
                have = self._open.get(keys)
                known = (have.folder, have.manifest.files) if have else (work, ())
                left = await asyncio.to_thread(local_files.link_known, *known, work, manifest.files)
                for file in left:
                    await self._fetch(keys, file, work / file.name)
                return await self._adopt(keys, manifest, work)
        except (ValueError, OSError) as error:
            raise Damaged(f"the index cannot be opened: {error}") from error
        finally:
            await asyncio.to_thread(local_files.remove, work)

    async def _fetch(self, keys: BaseKeys, file: IndexFile, target: Path) -> None:
        with target.open("wb") as sink:
            for number in range(file.num_parts):
                data = await self._guard.call(self._store.get_part(keys, file, number), self._part_budget_s)
                if data is None:
                    raise Damaged(f"a part of the file {file.name} is lost")
                await asyncio.to_thread(sink.write, data)
        if not await asyncio.to_thread(local_files.is_whole, target, file):
            raise Damaged(f"the file {file.name} is not what was stored")


def _take(made: Path, folder: Path) -> BaseSearcher:
    local_files.remove(folder)  # a copy that a process of this name left behind
    made.rename(folder)
    return BaseSearcher(folder)


def loading() -> Unavailable:
    return Unavailable("KNOWLEDGE_LOADING", "the knowledge base is being loaded", retry_after_ms=500)
