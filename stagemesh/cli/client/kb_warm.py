"""Ask the questions whose passages a sync has changed, so that the pages of their prompts are there before users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc

from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.client.knowledge import TIMEOUT_S, Metadata, Stub
from stagemesh.cli.client.request import chat
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.runtime.errors import from_rpc

MAX_QUESTIONS = 10_000
MAX_QUESTION_CHARS = 4_000
MAX_PASSAGES = 32

Found = Mapping[str, tuple[str, ...]]
"""Question → the IDs of its passages."""


def read_questions(path: Path) -> list[str]:
    """One a line. Raises CommandError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", Exit.USAGE) from None
    questions = list(dict.fromkeys(line.strip()[:MAX_QUESTION_CHARS] for line in lines if line.strip()))
    if len(questions) > MAX_QUESTIONS:
        raise CommandError(f"{path} has more than {MAX_QUESTIONS:,} questions", Exit.USAGE)
    return questions


async def passages_of(
    stub: Stub, metadata: Metadata, begin: knowledge_pb2.SyncBegin, questions: Sequence[str]
) -> Found:
    """What each question finds now; nothing where the base does not exist. Raises grpc.aio.AioRpcError."""
    found = {}
    for question in questions:
        request = knowledge_pb2.SearchRequest(
            tenant_id=begin.tenant_id, knowledge=begin.knowledge, query=question, max_passages=MAX_PASSAGES
        )
        try:
            answer = await stub.Search(request, timeout=TIMEOUT_S, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if from_rpc(error).reason != "KNOWLEDGE_NOT_FOUND":
                raise
            return {}
        found[question] = tuple(passage.passage_id for passage in answer.passages)
    return found


def changed(before: Found, after: Found) -> list[str]:
    """The questions whose passages are others now."""
    return [question for question, passages in after.items() if passages and passages != before.get(question)]


async def ask_all(connection: Connection, knowledge: str, questions: Sequence[str]) -> int:
    """Have one token answered to each; gives how many were. Raises CommandError for a wrong key or no gateway."""
    async with connection.open() as stub:
        for question in questions:
            request = gateway_pb2.InferenceRequest(
                chat=chat(question), knowledge=knowledge, sampling=common_pb2.SamplingParams(max_tokens=1)
            )
            try:
                await stub.Complete(
                    gateway_pb2.CompleteRequest(request=request),
                    timeout=connection.timeout_s,
                    metadata=connection.metadata,
                )
            except grpc.aio.AioRpcError as error:
                raise connection.explain(error) from None
    return len(questions)
