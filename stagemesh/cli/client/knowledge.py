"""The operator's calls of the cache service's KnowledgeService: they act for a tenant, by the mesh's own token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stagemesh.api.cache.v1 import knowledge_pb2, knowledge_pb2_grpc
from stagemesh.cli.client.cache_channel import cache_channel
from stagemesh.runtime.knowledge import KnowledgeDocument, shard_digest

BATCH_BYTES = 1_000_000
TIMEOUT_S = 60.0
SYNC_TIMEOUT_S = 3_600.0

Stub = knowledge_pb2_grpc.KnowledgeServiceStub
Metadata = tuple[tuple[str, str], ...]
OnProgress = Callable[[int, int], None]


@asynccontextmanager
async def knowledge_service(state: Path | None, config: Path | None) -> AsyncIterator[tuple[Stub, Metadata]]:
    """A stub and the metadata of its calls. Raises CommandError in words for every failed call."""
    async with cache_channel(state, config) as (channel, metadata):
        yield Stub(channel), metadata


async def sync(
    stub: Stub,
    metadata: Metadata,
    begin: knowledge_pb2.SyncBegin,
    shards: Mapping[int, Sequence[KnowledgeDocument]],
    on_progress: OnProgress,
) -> knowledge_pb2.SyncReport:
    """Bring the base to the state of `shards`, whose digests `begin` holds."""
    call = stub.Sync(timeout=SYNC_TIMEOUT_S, metadata=metadata)
    await call.write(knowledge_pb2.SyncRequest(begin=begin))
    report = knowledge_pb2.SyncReport()
    async for response in call:
        match response.WhichOneof("kind"):
            case "wanted":
                for batch in _batches(shards, response.wanted.shards):
                    await call.write(knowledge_pb2.SyncRequest(documents=batch))
                await call.done_writing()
            case "progress":
                on_progress(response.progress.documents, response.progress.of_documents)
            case "report":
                report = response.report
    return report


def by_shard(documents: Sequence[KnowledgeDocument]) -> dict[int, list[KnowledgeDocument]]:
    shards: dict[int, list[KnowledgeDocument]] = {}
    for document in documents:
        shards.setdefault(document.shard, []).append(document)
    return shards


def digests(shards: Mapping[int, Sequence[KnowledgeDocument]]) -> list[knowledge_pb2.ShardDigest]:
    return [
        knowledge_pb2.ShardDigest(shard=shard, digest=shard_digest(document.digest() for document in documents))
        for shard, documents in sorted(shards.items())
    ]


def _batches(
    shards: Mapping[int, Sequence[KnowledgeDocument]], wanted: Sequence[int]
) -> list[knowledge_pb2.SyncDocuments]:
    batches, size = [knowledge_pb2.SyncDocuments()], 0
    for shard in wanted:
        for document in shards.get(shard, ()):
            if size > BATCH_BYTES:
                batches.append(knowledge_pb2.SyncDocuments())
                size = 0
            added = batches[-1].documents.add(
                document_id=document.document_id, title=document.title, text=document.text
            )
            size += added.ByteSize()
    return batches
