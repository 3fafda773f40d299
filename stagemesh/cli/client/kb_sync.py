"""A whole sync, from documents to the report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.cli.client import kb_warm
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.client.knowledge import OnProgress, by_shard, digests, knowledge_service, sync
from stagemesh.runtime.knowledge import KnowledgeDocument


def run_sync(
    where: tuple[Path | None, Path | None],
    begin: knowledge_pb2.SyncBegin,
    documents: Sequence[KnowledgeDocument],
    questions: Sequence[str],
    gateway: Connection,
    on_progress: OnProgress,
) -> tuple[knowledge_pb2.SyncReport, int]:
    """Bring the base to the state of `documents`, then ask those of `questions` whose passages have changed.

    `where`: the state folder and the configuration that name the mesh. Gives the report and how many were asked.
    Raises CommandError.
    """
    shards = by_shard(documents)
    begin.shards.extend(digests(shards))

    async def call() -> tuple[knowledge_pb2.SyncReport, list[str]]:
        async with knowledge_service(*where) as (stub, metadata):
            before = await kb_warm.passages_of(stub, metadata, begin, questions)
            report = await sync(stub, metadata, begin, shards, on_progress)
            after = await kb_warm.passages_of(stub, metadata, begin, questions)
            return report, kb_warm.changed(before, after)

    report, to_ask = asyncio.run(call())
    return report, asyncio.run(kb_warm.ask_all(gateway, begin.knowledge, to_ask)) if to_ask else 0
