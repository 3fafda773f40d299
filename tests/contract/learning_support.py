"""A cache service that learns, with a tokenizer and an engine that do just enough for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import redis
from quality_support import Valkey, serving

from services.cache.config import CacheConfig
from services.cache.kv_config import KvConfig
from services.cache.kv_lookup import chain
from services.cache.learning.config import LearningConfig
from services.cache.service import CacheService
from stagemesh.api.cache.v1 import cache_pb2_grpc, learning_pb2, learning_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.kv_directory import PublishedPage, publish
from stagemesh.runtime.kv_keys import value_name

MODEL = common_pb2.ModelIdentity(
    model="m", revision="weights", tokenizer_hash="vocab", precision="turbo", kv_layout="bfloat16-p16"
)
TENANT = "acme"
PATIENT: dict[str, Any] = {
    "redis_budget_ms": 5_000.0,
    "session_budget_ms": 5_000.0,
    "commit_budget_ms": 5_000.0,
    "root_refresh_ms": 0.0,
}


def tokens_of(messages: list[common_pb2.ChatMessage]) -> list[int]:
    """A token for each character."""
    return [ord(char) for message in messages for char in f"<{message.role}>{message.content}"]


class Tokenizer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    async def Prepare(self, request: tokenizer_pb2.PrepareRequest, context: Any) -> tokenizer_pb2.PrepareResponse:
        tokens = tokens_of(list(request.chat.messages))
        return tokenizer_pb2.PrepareResponse(token_ids=tokens, tokenizer_hash=MODEL.tokenizer_hash)


@dataclass
class Engine(engine_pb2_grpc.EngineServiceServicer):
    """Stores the pages of what it is given, as an engine does after an answer."""

    store: redis.Redis
    prompts: list[list[int]] = field(default_factory=list)

    async def Describe(self, request: engine_pb2.DescribeRequest, context: Any) -> engine_pb2.DescribeResponse:
        return engine_pb2.DescribeResponse(
            model=MODEL, modes=[engine_pb2.ModeDescription(precision=MODEL.precision)], context_length=8_192
        )

    async def Generate(
        self, request: engine_pb2.GenerateRequest, context: Any
    ) -> AsyncIterator[engine_pb2.GenerateResponse]:
        submit = request.submit
        assert submit.sampling.max_tokens == 1
        self.prompts.append(list(submit.token_ids))
        digests = chain(submit.tenant_id, submit.model, submit.kv, submit.cache_salt, submit.token_ids)
        for digest in digests:
            self.store.set(value_name(submit.kv.namespace, digest), b"x" * 100, ex=60)
        publish(self.store, submit.kv, [PublishedPage(digest, 100) for digest in digests])
        finish = engine_pb2.Finish(reason=common_pb2.FINISH_REASON_LENGTH)
        yield engine_pb2.GenerateResponse(delta=engine_pb2.SequenceDelta(finish=finish))


@contextlib.asynccontextmanager
async def peers(engine: Engine) -> AsyncIterator[str]:
    """The address of both."""
    server = grpc.aio.server()
    tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(Tokenizer(), server)
    engine_pb2_grpc.add_EngineServiceServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


@dataclass(frozen=True)
class Stubs:
    cache: cache_pb2_grpc.CacheServiceStub
    learning: learning_pb2_grpc.LearningServiceStub

    async def warm(self, *dialogues: learning_pb2.Dialogue) -> learning_pb2.WarmReport:
        call = self.learning.Warm()
        await call.write(learning_pb2.WarmRequest(begin=learning_pb2.WarmBegin(tenant_id=TENANT)))
        for dialogue in dialogues:
            await call.write(learning_pb2.WarmRequest(dialogues=learning_pb2.Dialogues(dialogues=[dialogue])))
        await call.done_writing()
        answers = [answer async for answer in call]
        assert all(answer.WhichOneof("kind") == "progress" for answer in answers[:-1])
        return answers[-1].report


@contextlib.asynccontextmanager
async def learning_cache(
    ledger: Valkey, store: Valkey, address: str, *, engines: Sequence[str] = (), **learning: Any
) -> AsyncIterator[Stubs]:
    config = CacheConfig(
        kv=KvConfig(lookup_budget_ms=5_000.0), learning=LearningConfig(**{"ready_wait_s": 30.0, **learning}), **PATIENT
    )
    service = CacheService(ledger.url, config, kv_url=store.url, tokenizer=[address], engines=engines or [address])
    async with serving(service) as channel:
        yield Stubs(cache_pb2_grpc.CacheServiceStub(channel), learning_pb2_grpc.LearningServiceStub(channel))
