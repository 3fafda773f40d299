"""The operator's calls of the cache service's KnowledgeService: they act for a tenant, by the mesh's own token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from stagemesh.api.cache.v1 import knowledge_pb2, knowledge_pb2_grpc
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, require_mesh
from stagemesh.cli.settings_option import read_mesh_config
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc
from stagemesh.runtime.knowledge import KnowledgeDocument, shard_digest

BATCH_BYTES = 1_000_000
TIMEOUT_S = 60.0
SYNC_TIMEOUT_S = 3_600.0

Stub = knowledge_pb2_grpc.KnowledgeServiceStub
OnProgress = Callable[[int, int], None]


@asynccontextmanager
async def knowledge_service(
    state: Path | None, config: Path | None
) -> AsyncIterator[tuple[Stub, tuple[tuple[str, str], ...]]]:
    """A stub and the metadata of its calls. Raises CommandError in words for every failed call."""
    address, token = _where(state, config)
    channel = dial((address,))
    try:
        yield Stub(channel), ((MESH_TOKEN_KEY, token),) if token else ()
    except grpc.aio.AioRpcError as failed:
        error = from_rpc(failed)
        if error.reason == "UNAVAILABLE":
            raise CommandError(f"no cache service answers at {address}; is the mesh up?", Exit.UNREACHABLE) from None
        raise CommandError(f"{error.reason}: {error.message}", Exit.REJECTED) from None
    finally:
        await channel.close()


async def sync(
    stub: Stub,
    metadata: tuple[tuple[str, str], ...],
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


def run_sync(
    state: Path | None,
    config: Path | None,
    begin: knowledge_pb2.SyncBegin,
    documents: Sequence[KnowledgeDocument],
    on_progress: OnProgress,
) -> knowledge_pb2.SyncReport:
    """As `sync`, from the documents alone. Raises CommandError."""
    shards = by_shard(documents)
    begin.shards.extend(digests(shards))

    async def call() -> knowledge_pb2.SyncReport:
        async with knowledge_service(state, config) as (stub, metadata):
            return await sync(stub, metadata, begin, shards, on_progress)

    return asyncio.run(call())


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


def _where(state: Path | None, config: Path | None) -> tuple[str, str]:
    """The cache service's address and the mesh's token: of the running mesh, else of the configuration."""
    where, record = find_mesh(state)
    if record is not None:
        found = [process.address for process in record.processes if process.name.startswith("cache")]
        if found:
            return found[0], record.token
    if config is None:
        require_mesh(where)
    mesh = read_mesh_config(config)
    return mesh.addresses.cache[0], mesh.mesh_token.get_secret_value()
