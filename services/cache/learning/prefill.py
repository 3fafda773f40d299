"""Having KV computed and stored ahead of time: by the tokenizer and an engine, as for any request.

An engine stores the pages of what it computes under the lease that comes with it. So a prefix is made warm by asking an
engine for one token behind it, with a lease for its tenant; nobody gets that token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import grpc
import uuid_utils

from services.cache.kv_lookup import KvLookup
from services.cache.learning.question import Question
from services.cache.resolving import Resolve
from services.cache.session import Opened
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import Precondition, StagemeshError, from_detail, from_rpc
from stagemesh.runtime.kv_directory import Holder
from stagemesh.runtime.kv_keys import PAGE_TOKENS
from stagemesh.runtime.kv_value import Horizons

DESCRIBE_TIMEOUT_S, TOKENIZER_TIMEOUT_S = 5.0, 10.0
STORED_WAIT_S = 10.0
"""An engine stores pages after it has answered; so long they are waited for."""
FIRST_POLL_S = 0.05
"""Doubled each time."""
LOOKING_COUNTS_FOR_NOTHING = 10
"""Time constants by which a look is worth less than a use: it must not keep alive what nobody asks for."""

IsWanted = Callable[[], Awaitable[bool]]
"""Asked after the lease was given: what is erased later makes that lease void. May raise StagemeshError."""


class State(Enum):
    ALREADY = "already"
    """All full pages were stored."""
    COMPUTED = "computed"
    """They are now."""
    FAILED = "failed"
    UNWANTED = "unwanted"
    """Nothing was computed: the question was forgotten meanwhile."""


@dataclass(frozen=True)
class Prefilled:
    state: State
    tokens: int = 0
    """Prompt tokens that had to be computed."""
    problem: str = ""
    """Why it failed, in UPPER_SNAKE_CASE."""


@dataclass(frozen=True)
class Served:
    """A model, and the engine that serves it."""

    model: common_pb2.ModelIdentity
    engine: engine_pb2_grpc.EngineServiceStub


class Prefiller:
    """Raises StagemeshError for `served` and `tokens`; `prefill` says in its result what went wrong."""

    def __init__(
        self,
        tokenizer: tokenizer_pb2_grpc.TokenizerServiceStub,
        engines: Sequence[engine_pb2_grpc.EngineServiceStub],
        lookup: KvLookup,
        resolve: Resolve,
        timeout_s: float,
        tau_s: float,
    ) -> None:
        self._tokenizer = tokenizer
        self._engines = engines
        self._lookup = lookup
        self._resolve = resolve
        self._timeout_s = timeout_s
        self._tau_s = tau_s

    async def served(self) -> Served:
        """What the first engine that answers serves by default."""
        problem: StagemeshError | None = None
        for engine in self._engines:
            try:
                answer = await engine.Describe(
                    engine_pb2.DescribeRequest(), timeout=DESCRIBE_TIMEOUT_S, metadata=call_metadata()
                )
            except grpc.RpcError as error:
                problem = problem or from_rpc(error)
                continue
            return Served(_identity(answer), engine)
        assert problem is not None
        raise problem

    async def tokens(self, model: common_pb2.ModelIdentity, question: Question) -> list[int]:
        """The prompt that begins with this question, as the gateway would have it made."""
        chat = common_pb2.ChatMessages(messages=question.messages())
        request = tokenizer_pb2.PrepareRequest(model=model.model, chat=chat)
        try:
            answer = await self._tokenizer.Prepare(request, timeout=TOKENIZER_TIMEOUT_S, metadata=call_metadata())
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        if answer.tokenizer_hash != model.tokenizer_hash:
            raise Precondition("MODEL_MISMATCH", "tokenizer and engine serve different models")
        return list(answer.token_ids)

    async def prefill(
        self, tenant_id: str, served: Served, tokens: Sequence[int], holder: Holder, is_wanted: IsWanted
    ) -> Prefilled:
        """Have all full pages of `tokens` stored. `holder` is to whom they belong."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._prefill(tenant_id, served, tokens, holder, is_wanted)
        except StagemeshError as error:
            return Prefilled(State.FAILED, problem=error.reason)
        except grpc.RpcError as error:
            return Prefilled(State.FAILED, problem=from_rpc(error).reason)
        except TimeoutError:
            return Prefilled(State.FAILED, problem="PREFILL_TIMEOUT")

    async def _prefill(
        self, tenant_id: str, served: Served, tokens: Sequence[int], holder: Holder, is_wanted: IsWanted
    ) -> Prefilled:
        model, wanted = served.model, len(tokens) // PAGE_TOKENS * PAGE_TOKENS
        opened = await self._resolve(tenant_id, model)
        answer = await self._lookup.lease(tenant_id, model, opened, tokens, holder, self._worth_of)
        if answer.lease is None:
            return Prefilled(State.FAILED, problem=answer.miss)
        if answer.lease.stored_tokens >= wanted:
            return Prefilled(State.ALREADY)
        if not await is_wanted():
            return Prefilled(State.UNWANTED)
        submit = engine_pb2.Submit(
            sequence_id=f"{tenant_id}/warm-{uuid_utils.uuid7()}",
            tenant_id=tenant_id,
            token_ids=tokens,
            model=model,
            sampling=common_pb2.SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True),
            cache_salt=opened.salt,
            kv=answer.lease,
        )
        computed = await self._compute(served.engine, submit)
        if not await self._is_stored(tenant_id, model, opened, tokens, holder):
            return Prefilled(State.FAILED, computed, "NOT_STORED")
        return Prefilled(State.COMPUTED, computed)

    async def _compute(self, engine: engine_pb2_grpc.EngineServiceStub, submit: engine_pb2.Submit) -> int:
        """Prompt tokens that were computed. Raises StagemeshError or RpcError where the engine fails."""
        request = engine_pb2.GenerateRequest(submit=submit)
        finish = engine_pb2.Finish()
        async for message in engine.Generate(request, timeout=self._timeout_s, metadata=call_metadata()):
            if message.delta.HasField("finish"):
                finish = message.delta.finish
        if finish.HasField("error"):
            raise from_detail(finish.error)
        return len(submit.token_ids) - finish.usage.cached_tokens

    async def _is_stored(
        self,
        tenant_id: str,
        model: common_pb2.ModelIdentity,
        opened: Opened,
        tokens: Sequence[int],
        holder: Holder,
    ) -> bool:
        wait_s, waited_s = FIRST_POLL_S, 0.0
        while waited_s < STORED_WAIT_S:
            await asyncio.sleep(wait_s)
            wait_s, waited_s = 2 * wait_s, waited_s + wait_s
            answer = await self._lookup.lease(tenant_id, model, opened, tokens, holder, self._worth_of)
            if answer.lease is not None and answer.lease.stored_tokens >= len(tokens) // PAGE_TOKENS * PAGE_TOKENS:
                return True
        return False

    def _worth_of(self, pages: Sequence[bytes]) -> Horizons:
        return Horizons(known_s=-LOOKING_COUNTS_FOR_NOTHING * self._tau_s, new_s=0.0)


def _identity(engine: engine_pb2.DescribeResponse) -> common_pb2.ModelIdentity:
    """Of the engine's default mode."""
    identity = common_pb2.ModelIdentity()
    identity.CopyFrom(engine.model)
    if engine.modes:
        identity.precision = engine.modes[0].precision
    return identity
