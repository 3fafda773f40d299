"""KnowledgeService: from messages to bases and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from google.protobuf.timestamp_pb2 import Timestamp

from services.cache.config import CacheConfig
from services.cache.knowledge.copies import Copy, Damaged, loading
from services.cache.knowledge.keys import BaseKeys
from services.cache.knowledge.manifest import Manifest
from services.cache.knowledge.searching import Found
from services.cache.knowledge.sync import Sync, SyncTools
from services.cache.limits import check_name
from stagemesh.api.cache.v1 import knowledge_pb2, knowledge_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest, NotFound, Precondition
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.knowledge import check_base_name
from stagemesh.runtime.telemetry import get_logger

DEFAULT_PASSAGES = 4
MAX_PASSAGES = 32

log = get_logger(__name__)


class KnowledgeServicer(knowledge_pb2_grpc.KnowledgeServiceServicer):
    """Every method raises InvalidRequest for bad names and Unavailable when the store is away or slow."""

    def __init__(self, tools: SyncTools, config: CacheConfig) -> None:
        self._tools = tools
        self._store, self._copies, self._guard = tools.store, tools.copies, tools.guard
        self._config = config
        self._search_s = config.knowledge.search_budget_ms / 1000
        self._change_s = config.redis_timeout_ms / 1000

    async def Sync(
        self, request_iterator: AsyncIterator[knowledge_pb2.SyncRequest], context: Context
    ) -> AsyncGenerator[knowledge_pb2.SyncResponse]:
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("kind") != "begin":
            raise InvalidRequest("INVALID_SYNC", "a sync begins with `begin`", field="kind")
        keys = self._keys(first.begin.tenant_id, first.begin.knowledge)
        sync = Sync(self._tools, keys, first.begin)
        async with aclosing(sync.run(request_iterator)) as responses:
            async for response in responses:
                if response.HasField("report"):
                    log.info("knowledge synced", knowledge=keys.name, documents=response.report.documents)
                yield response

    async def Search(self, request: knowledge_pb2.SearchRequest, context: Context) -> knowledge_pb2.SearchResponse:
        keys = self._keys(request.tenant_id, request.knowledge)
        number = min(request.max_passages or DEFAULT_PASSAGES, MAX_PASSAGES)
        copy = await self._copy(keys)
        found = await asyncio.to_thread(
            copy.searcher.search, request.query, number, self._config.knowledge.min_coverage
        )
        return knowledge_pb2.SearchResponse(passages=[_passage(one) for one in found], version=copy.manifest.version)

    async def ListBases(
        self, request: knowledge_pb2.ListBasesRequest, context: Context
    ) -> knowledge_pb2.ListBasesResponse:
        tenant_id = check_name(request.tenant_id, "tenant_id")
        names = await self._guard.call(self._store.names(tenant_id), self._change_s)
        bases = []
        for name in names:
            manifest = await self._guard.call(self._store.manifest(BaseKeys(tenant_id, name)), self._change_s)
            if manifest is not None:
                bases.append(_base(tenant_id, name, manifest))
        return knowledge_pb2.ListBasesResponse(bases=bases)

    async def DropBase(
        self, request: knowledge_pb2.DropBaseRequest, context: Context
    ) -> knowledge_pb2.DropBaseResponse:
        keys = self._keys(request.tenant_id, request.knowledge)
        dropped = await self._guard.call(self._store.drop(keys), self._change_s)
        await self._copies.forget(keys)
        if dropped is None:
            raise _unknown(keys)
        log.info("knowledge dropped", knowledge=keys.name, documents=dropped.documents)
        return knowledge_pb2.DropBaseResponse(documents=dropped.documents)

    def _keys(self, tenant_id: str, name: str) -> BaseKeys:
        return BaseKeys(check_name(tenant_id, "tenant_id"), check_base_name(name))

    async def _copy(self, keys: BaseKeys) -> Copy:
        """The base in its present version, within the budget of a search."""
        version = await self._guard.call(self._store.version(keys), self._search_s)
        if not version:
            await self._copies.forget(keys)
            raise _unknown(keys)
        if (copy := self._copies.current(keys, version)) is not None:
            return copy
        try:
            async with asyncio.timeout(self._search_s):
                manifest = await self._guard.call(self._store.manifest(keys), self._search_s)
                if manifest is None:
                    raise _unknown(keys)
                return await self._copies.load(keys, manifest)
        except TimeoutError:
            raise loading() from None
        except Damaged as error:
            log.warning("knowledge base is damaged", knowledge=keys.name, problem=str(error))
            raise Precondition(
                "KNOWLEDGE_DAMAGED", f"{error}; `stagemesh kb sync` makes the base anew", field="knowledge"
            ) from None


def _unknown(keys: BaseKeys) -> NotFound:
    return NotFound("KNOWLEDGE_NOT_FOUND", f"there is no knowledge base {keys.name!r} here", field="knowledge")


def _passage(found: Found) -> knowledge_pb2.Passage:
    entry = found.entry
    return knowledge_pb2.Passage(
        passage_id=entry.passage_id,
        document_id=entry.document_id,
        title=entry.title,
        text=entry.text,
        score=found.score,
        coverage=found.coverage,
    )


def _base(tenant_id: str, name: str, manifest: Manifest) -> knowledge_pb2.KnowledgeBase:
    seconds, milliseconds = divmod(manifest.updated_ms, 1_000)
    return knowledge_pb2.KnowledgeBase(
        knowledge=name,
        tenant_id=tenant_id,
        version=manifest.version,
        documents=manifest.documents,
        passages=manifest.passages,
        stored_bytes=manifest.num_bytes,
        updated_at=Timestamp(seconds=seconds, nanos=milliseconds * 1_000_000),
    )
