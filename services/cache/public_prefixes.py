"""What an operator declared public: its tokens for each model, learned from the tokenizer service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import grpc

from stagemesh.api.common.v1.common_pb2 import ChatMessage, ChatMessages, ModelIdentity
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import Precondition, StagemeshError, from_rpc
from stagemesh.runtime.kv_keys import PAGE_TOKENS
from stagemesh.runtime.telemetry import get_logger

CALL_TIMEOUT_S = 5.0
RETRY_AFTER_S = 5.0
ANY_USER = ("a", "Z")
"""What two users may say: behind what both prompts have in common, a prompt is the user's."""

log = get_logger(__name__)
Key = tuple[str, str]


@dataclass
class _Learned:
    prefixes: list[list[int]] = field(default_factory=list)
    """Tokens of each public prefix, in whole pages."""
    task: asyncio.Task[None] | None = None
    tried_at_s: float = float("-inf")


class PublicPrefixes:
    """Learns in the background, at the first lookup of each model; until then nothing of it is public."""

    def __init__(self, texts: Sequence[str], tokenizer: tokenizer_pb2_grpc.TokenizerServiceStub | None) -> None:
        self._texts = texts
        self._tokenizer = tokenizer
        self._learned: dict[Key, _Learned] = {}

    def num_public_pages(self, model: ModelIdentity, tokens: Sequence[int]) -> int:
        """How many leading pages of `tokens` are those of a declared prefix."""
        if not self._texts:
            return 0
        learned = self._learned.setdefault((model.model, model.tokenizer_hash), _Learned())
        if len(learned.prefixes) < len(self._texts):
            self._learn_soon(model, learned)
        return max((common_pages(prefix, tokens) for prefix in learned.prefixes), default=0)

    def prefixes(self, model: ModelIdentity) -> list[list[int]]:
        """The tokens of all prefixes that are known for `model`."""
        learned = self._learned.get((model.model, model.tokenizer_hash))
        return list(learned.prefixes) if learned else []

    async def learn(self, model: ModelIdentity) -> None:
        """Have the tokens of all texts for `model`, or a warning in the log."""
        learned = self._learned.setdefault((model.model, model.tokenizer_hash), _Learned())
        self._learn_soon(model, learned)
        if learned.task is not None:
            await asyncio.wait({learned.task})

    async def close(self) -> None:
        tasks = [learned.task for learned in self._learned.values() if learned.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _learn_soon(self, model: ModelIdentity, learned: _Learned) -> None:
        running = learned.task is not None and not learned.task.done()
        if running or self._tokenizer is None or time.monotonic() - learned.tried_at_s < RETRY_AFTER_S:
            return
        learned.tried_at_s = time.monotonic()
        learned.task = asyncio.create_task(self._learn(model, learned), name="learn public prefixes")

    async def _learn(self, model: ModelIdentity, learned: _Learned) -> None:
        try:
            found = [await self._tokens(model, text) for text in self._texts]
        except (grpc.RpcError, StagemeshError) as error:
            problem = from_rpc(error) if isinstance(error, grpc.RpcError) else error
            log.warning("public prefixes not learned", model=model.model, error=str(problem))
            return
        learned.prefixes = found
        log.info("public prefixes learned", model=model.model, tokens=[len(tokens) for tokens in found])

    async def _tokens(self, model: ModelIdentity, text: str) -> list[int]:
        assert self._tokenizer is not None
        prompts = []
        for said in ANY_USER:
            messages = [ChatMessage(role="system", content=text), ChatMessage(role="user", content=said)]
            request = tokenizer_pb2.PrepareRequest(model=model.model, chat=ChatMessages(messages=messages))
            answer = await self._tokenizer.Prepare(request, timeout=CALL_TIMEOUT_S, metadata=call_metadata())
            if answer.tokenizer_hash != model.tokenizer_hash:
                raise Precondition("MODEL_MISMATCH", "tokenizer and engine serve different models")
            prompts.append(list(answer.token_ids))
        return prompts[0][: common_pages(*prompts) * PAGE_TOKENS]


def common_pages(prefix: Sequence[int], tokens: Sequence[int]) -> int:
    """How many leading pages are equal."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prefix, tokens, strict=False)))
    return same // PAGE_TOKENS
