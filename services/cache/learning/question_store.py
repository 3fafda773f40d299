"""The questions of each tenant, in the ledger Redis: a heat map that decays.

Every method is one Redis operation in the sense of `RedisGuard`: it raises redis-py's errors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, cast

from services.cache.keys import LEARNED_TENANTS, TenantKeys
from services.cache.learning.config import LearningConfig
from services.cache.learning.question import TAG_BYTES, Asker, Question, Remembered, tag, unpack
from services.cache.root import Root
from stagemesh.runtime.redis_client import Redis

BATCH = 256


class QuestionStore:
    def __init__(self, client: Redis, config: LearningConfig, root: Callable[[], Awaitable[Root]]) -> None:
        def script(name: str) -> Any:
            return client.register_script(files("services.cache").joinpath("scripts", f"{name}.lua").read_text("utf-8"))

        self._add, self._forget = script("question"), script("question_forget")
        self._client = client
        self._config = config
        self._root = root

    async def add(self, tenant_id: str, asked: Sequence[tuple[Question, Asker]]) -> None:
        keys, config = await self._keys(tenant_id), self._config
        head: list[Any] = [tenant_id, config.question_tau_s, config.max_questions, config.question_ttl_s, time.time()]
        for start in range(0, len(asked), BATCH):
            flat = [part for question, asker in asked[start : start + BATCH] for part in _flat(question, asker)]
            await self._add(keys=[*keys, LEARNED_TENANTS], args=[*head, *flat])

    async def all(self, tenant_id: str) -> list[Remembered]:
        """The hottest first."""
        heat, texts, askers = await self._keys(tenant_id)
        pipeline = self._client.pipeline(transaction=False)
        pipeline.zrange(heat, 0, -1, desc=True, withscores=True)
        pipeline.hgetall(texts)
        pipeline.hgetall(askers)
        scores, packed, tags = await pipeline.execute()
        now_s, tau_s = time.time(), self._config.question_tau_s
        found = []
        for key, score in scores:
            with suppress(KeyError, ValueError):  # damaged, or erased meanwhile
                count = math.exp(min((score - now_s) / tau_s, 700.0))
                found.append(Remembered(unpack(packed[key]), count, tags.get(key, b"")))
        return found

    async def tenants(self) -> list[tuple[str, float]]:
        """The last active first, each with when something was added or erased last."""
        found = await self._client.zrange(LEARNED_TENANTS, 0, -1, desc=True, withscores=True)
        return [(tenant.decode(), last_s) for tenant, last_s in cast("list[tuple[bytes, float]]", found)]

    async def has(self, tenant_id: str, key: bytes) -> bool:
        _, texts, _ = await self._keys(tenant_id)
        return bool(await self._client.hexists(texts, cast("str", key)))

    async def asked_by_nobody_else(self, tenant_id: str, *, session_id: str = "", user_id: str = "") -> list[bytes]:
        """Keys of the questions that `forget` would erase."""
        gone = _tag_of(session_id, user_id)
        _, _, askers = await self._keys(tenant_id)
        entries = self._client.hscan_iter(askers, count=BATCH)
        return [key async for key, tags in entries if all(gone in pair for pair in _pairs(tags))]

    async def forget(self, tenant_id: str, *, session_id: str = "", user_id: str = "") -> list[bytes]:
        """Take an asker away; gives the keys of the questions that are erased with it."""
        gone = _tag_of(session_id, user_id)
        heat, texts, askers = await self._keys(tenant_id)
        entries = self._client.hscan_iter(askers, count=BATCH)
        asked = [key async for key, tags in entries if any(gone in pair for pair in _pairs(tags))]
        erased: list[bytes] = []
        for start in range(0, len(asked), BATCH):
            args: list[Any] = [gone, tenant_id, time.time(), *asked[start : start + BATCH]]
            erased += await self._forget(keys=[heat, texts, askers, LEARNED_TENANTS], args=args)
        return erased

    async def _keys(self, tenant_id: str) -> tuple[bytes, bytes, bytes]:
        return TenantKeys(tenant_id, (await self._root()).epoch).questions()


def _flat(question: Question, asker: Asker) -> tuple[bytes, bytes, bytes]:
    return question.key, question.pack(), asker.tags


def _tag_of(session_id: str, user_id: str) -> bytes:
    return tag("user", user_id) if user_id else tag("session", session_id)


def _pairs(tags: bytes) -> list[tuple[bytes, bytes]]:
    """Session and user of each asker."""
    starts = range(0, len(tags), 2 * TAG_BYTES)
    return [(tags[at : at + TAG_BYTES], tags[at + TAG_BYTES : at + 2 * TAG_BYTES]) for at in starts]
