"""One sync of one base: compare shards, take the documents of those that differ, index, store, publish."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from services.cache.knowledge import job, local_files
from services.cache.knowledge.analysis import ANALYZER
from services.cache.knowledge.base_store import LOCK_MS, BaseStore
from services.cache.knowledge.builder_process import run_builder
from services.cache.knowledge.config import KnowledgeConfig
from services.cache.knowledge.copies import Copies, Copy, Damaged
from services.cache.knowledge.keys import BaseKeys
from services.cache.knowledge.manifest import IndexFile, Manifest, missing
from services.cache.redis_guard import RedisGuard
from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.runtime.errors import Exhausted, InvalidRequest, StagemeshError
from stagemesh.runtime.knowledge import DIGEST_BYTES, NUM_SHARDS
from stagemesh.runtime.telemetry import get_logger

Requests = AsyncIterator[knowledge_pb2.SyncRequest]

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class SyncTools:
    """What a sync works with."""

    store: BaseStore
    copies: Copies
    guard: RedisGuard
    config: KnowledgeConfig
    redis_budget_s: float


class Sync:
    def __init__(self, tools: SyncTools, keys: BaseKeys, begin: knowledge_pb2.SyncBegin) -> None:
        """Raises InvalidRequest for digests that are none."""
        self._tools = tools
        self._keys = keys
        self._delete_missing = begin.delete_missing
        self._given = _shards(begin)

    async def run(self, requests: Requests) -> AsyncGenerator[knowledge_pb2.SyncResponse]:
        """Raises StagemeshError; until the last step the base stays as it was."""
        tools, keys = self._tools, self._keys
        token = await tools.guard.call(tools.store.lock(keys), tools.redis_budget_s)
        prolonging = asyncio.create_task(self._prolong(token))
        work: Path | None = None
        try:
            work = await asyncio.to_thread(tools.copies.work_folder, keys)
            async with aclosing(self._run(requests, token, work)) as responses:
                async for response in responses:
                    yield response
        finally:
            prolonging.cancel()
            if work is not None:
                await asyncio.to_thread(local_files.remove, work)
            with suppress(StagemeshError):  # it ends by itself after LOCK_MS
                await tools.guard.call(tools.store.unlock(keys, token), tools.redis_budget_s)

    async def _run(self, requests: Requests, token: str, work: Path) -> AsyncGenerator[knowledge_pb2.SyncResponse]:
        before, copy = await self._before()
        wanted = self._wanted(await self._link(copy, work / job.INDEX))
        yield knowledge_pb2.SyncResponse(wanted=knowledge_pb2.SyncWanted(shards=sorted(wanted)))
        number = await self._spool(requests, work / job.DOCUMENTS)
        if before is not None and copy is not None and not wanted:
            yield knowledge_pb2.SyncResponse(report=_report(before, None, 0, 0))
            return
        await asyncio.to_thread(job.write_task, work, self._task(copy, wanted))
        async with aclosing(run_builder(work)) as said:
            async for news in said:
                if isinstance(news, job.Built):
                    after, num_new_bytes = await self._publish(token, before, copy, news, work / job.INDEX)
                    yield knowledge_pb2.SyncResponse(report=_report(after, news, len(wanted), num_new_bytes))
                else:
                    progress = knowledge_pb2.SyncProgress(documents=news, of_documents=number)
                    yield knowledge_pb2.SyncResponse(progress=progress)

    async def _link(self, copy: Copy | None, index: Path) -> dict[int, job.Mark]:
        """Begin with the present version's files, if there are any; gives what its syncs saw of each shard."""
        await asyncio.to_thread(index.mkdir)
        if copy is None:
            return {}
        files = copy.manifest.files
        await asyncio.to_thread(local_files.link_known, copy.folder, files, index, files)
        return await asyncio.to_thread(job.read_marks, index)

    def _task(self, copy: Copy | None, wanted: dict[int, str]) -> job.Task:
        return job.Task(
            create=copy is None,
            delete_missing=self._delete_missing,
            documents=copy.manifest.documents if copy else 0,
            wanted=wanted,
        )

    async def _before(self) -> tuple[Manifest | None, Copy | None]:
        """The base as it is; without a copy where it has to be made anew."""
        tools = self._tools
        before = await tools.guard.call(tools.store.manifest(self._keys), tools.redis_budget_s)
        if before is None:
            return None, None
        try:
            return before, await tools.copies.load(self._keys, before)
        except Damaged as error:
            log.warning("knowledge base is made anew", knowledge=self._keys.name, problem=str(error))
            return before, None

    def _wanted(self, marks: dict[int, job.Mark]) -> dict[int, str]:
        """Shards to be compared document by document, with the digest of what the caller has of them."""
        wanted = {}
        for shard, digest in self._given.items():
            mark = marks.get(shard)
            if mark is None or mark.digest != digest or (mark.has_others and self._delete_missing):
                wanted[shard] = digest
        if self._delete_missing:
            wanted.update({shard: "" for shard in marks if shard not in self._given})
        return wanted

    async def _spool(self, requests: Requests, path: Path) -> int:
        """Write the caller's documents to a file; gives their number. Raises Exhausted and InvalidRequest."""
        config = self._tools.config
        number = size = 0
        with path.open("wb") as file:
            while True:
                try:
                    async with asyncio.timeout(config.idle_timeout_s):
                        request = await anext(requests, None)
                except TimeoutError:
                    raise InvalidRequest("SYNC_STALLED", "the sync's caller sent nothing for too long") from None
                if request is None:
                    return number
                if request.WhichOneof("kind") != "documents":
                    raise InvalidRequest("INVALID_SYNC", "after the begin of a sync come documents", field="kind")
                number += len(request.documents.documents)
                size += request.documents.ByteSize()
                if number > config.max_documents or size > config.max_sync_bytes:
                    raise Exhausted(
                        "KNOWLEDGE_TOO_LARGE",
                        f"one sync may send {config.max_documents:,} documents and {config.max_sync_bytes:,} bytes",
                    )
                await asyncio.to_thread(job.append_documents, file, request.documents)

    async def _publish(
        self, token: str, before: Manifest | None, copy: Copy | None, built: job.Built, index: Path
    ) -> tuple[Manifest, int]:
        tools, keys = self._tools, self._keys
        known = copy.manifest.files if copy else ()
        files = await asyncio.to_thread(local_files.list_files, index, known)
        new = missing(files, known)  # of a base that could not be read, nothing counts as stored
        for file in new:
            await self._store(file, index / file.name)
        now_ms = time.time_ns() // 1_000_000
        after = Manifest(
            version=max(now_ms, before.version + 1 if before else 0),
            documents=built.documents,
            passages=built.passages,
            updated_ms=now_ms,
            analyzer=ANALYZER,
            files=files,
        )
        publish = tools.store.publish(keys, token, before, after, new, tools.config.max_bases_per_tenant)
        await tools.guard.call(publish, tools.redis_budget_s)
        await tools.copies.adopt(keys, after, index)
        return after, sum(file.size for file in new)

    async def _store(self, file: IndexFile, path: Path) -> None:
        tools = self._tools
        for number in range(file.num_parts):
            data = await asyncio.to_thread(local_files.read_part, path, number)
            await tools.guard.call(tools.store.put_part(self._keys, file, number, data), tools.redis_budget_s)

    async def _prolong(self, token: str) -> None:
        """Keep the lock; if it is lost, publishing will say so."""
        tools = self._tools
        while True:
            await asyncio.sleep(LOCK_MS / 3_000)
            try:
                await tools.guard.call(tools.store.prolong(self._keys, token), tools.redis_budget_s)
            except StagemeshError as error:
                log.warning("lock of a sync not prolonged", knowledge=self._keys.name, problem=str(error))


def _shards(begin: knowledge_pb2.SyncBegin) -> dict[int, str]:
    given = {shard.shard: shard.digest.hex() for shard in begin.shards}
    sound = all(shard.shard < NUM_SHARDS and len(shard.digest) == DIGEST_BYTES for shard in begin.shards)
    if not sound or len(given) != len(begin.shards):
        raise InvalidRequest(
            "INVALID_SYNC",
            f"each shard below {NUM_SHARDS} has one digest of {DIGEST_BYTES} bytes",
            field="shards",
        )
    return given


def _report(
    manifest: Manifest, built: job.Built | None, num_compared: int, num_new_bytes: int
) -> knowledge_pb2.SyncReport:
    return knowledge_pb2.SyncReport(
        version=manifest.version,
        documents=manifest.documents,
        passages=manifest.passages,
        added=built.added if built else 0,
        changed=built.changed if built else 0,
        removed=built.removed if built else 0,
        shards_compared=num_compared,
        shards_changed=built.shards_changed if built else 0,
        stored_bytes=manifest.num_bytes,
        new_bytes=num_new_bytes,
    )
