"""The operator's call of the cache service's LearningService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from stagemesh.api.cache.v1.learning_pb2 import Dialogue, Dialogues, WarmBegin, WarmProgress, WarmReport, WarmRequest
from stagemesh.api.cache.v1.learning_pb2_grpc import LearningServiceStub
from stagemesh.cli.client.cache_channel import cache_channel

BATCH_BYTES = 500_000
MAX_BATCH = 100
TIMEOUT_S = 7_200.0

OnProgress = Callable[[WarmProgress], None]


def run_warm(
    state: Path | None, config: Path | None, tenant_id: str, dialogues: Iterable[Dialogue], on_progress: OnProgress
) -> WarmReport:
    """Raises CommandError."""

    async def call() -> WarmReport:
        async with cache_channel(state, config) as (channel, metadata):
            stub = LearningServiceStub(channel)
            report = WarmReport()
            async for answer in stub.Warm(_requests(tenant_id, dialogues), timeout=TIMEOUT_S, metadata=metadata):
                if answer.WhichOneof("kind") == "report":
                    report = answer.report
                else:
                    on_progress(answer.progress)
            return report

    return asyncio.run(call())


async def _requests(tenant_id: str, dialogues: Iterable[Dialogue]) -> AsyncIterator[WarmRequest]:
    yield WarmRequest(begin=WarmBegin(tenant_id=tenant_id))
    for batch in _batches(dialogues):
        yield WarmRequest(dialogues=batch)


def _batches(dialogues: Iterable[Dialogue]) -> Iterator[Dialogues]:
    batch, size = Dialogues(), 0
    for dialogue in dialogues:
        if batch.dialogues and (size > BATCH_BYTES or len(batch.dialogues) == MAX_BATCH):
            yield batch
            batch, size = Dialogues(), 0
        batch.dialogues.append(dialogue)
        size += dialogue.ByteSize()
    if batch.dialogues:
        yield batch
