"""Learning as a part of the cache service: composed here, started and closed with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import grpc

from services.cache.config import CacheConfig
from services.cache.kv_erasure import KvErasure
from services.cache.kv_lookup import KvLookup
from services.cache.kv_protection import KvProtection
from services.cache.learning.background import again_and_again
from services.cache.learning.expectation import Expectation
from services.cache.learning.observer import Observer
from services.cache.learning.prefill import Prefiller
from services.cache.learning.question import holder_of
from services.cache.learning.question_store import QuestionStore
from services.cache.learning.return_store import ReturnStore
from services.cache.learning.servicer import LearningServicer
from services.cache.learning.trainer import Trainer
from services.cache.learning.warmer import Warmer
from services.cache.redis_guard import RedisGuard
from services.cache.resolving import Resolve
from services.cache.root import Root
from stagemesh.api.cache.v1 import learning_pb2, learning_pb2_grpc
from stagemesh.api.cache.v1.cache_pb2 import CommitRequest
from stagemesh.api.engine.v1.engine_pb2_grpc import EngineServiceStub
from stagemesh.api.tokenizer.v1.tokenizer_pb2_grpc import TokenizerServiceStub
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger

SERVICE_NAME = learning_pb2.DESCRIPTOR.services_by_name["LearningService"].full_name

NOWHERE = ("127.0.0.1:1",)
"""Where peers are dialled that are not configured: nothing answers there."""

log = get_logger(__name__)


class Learning:
    """Without engines or a tokenizer it only notes what is asked."""

    def __init__(
        self,
        client: Redis,
        guard: RedisGuard,
        config: CacheConfig,
        root: Callable[[], Awaitable[Root]],
        resolve: Resolve,
        lookup: KvLookup,
        protection: KvProtection,
        erasure: KvErasure,
        expectation: Expectation,
        *,
        tokenizer: Sequence[str],
        engines: Sequence[str],
    ) -> None:
        self._config = config.learning
        self._has_peers = bool(tokenizer and engines)
        self._guard = guard
        self._budget_s = config.redis_timeout_ms / 1000
        self._erasure = erasure
        self._expectation = expectation
        self._returns = ReturnStore(client, config.learning.question_ttl_s)
        self._num_saved = 0
        """Visits that the stored expectation knows of."""
        # One by one: they may serve different models, and a prefix is for one of them.
        self._channels = [dial(tokenizer or NOWHERE), *(dial((address,)) for address in engines or NOWHERE)]
        self._questions = QuestionStore(client, config.learning, root)
        prefiller = Prefiller(
            TokenizerServiceStub(self._channels[0]),
            [EngineServiceStub(channel) for channel in self._channels[1:]],
            lookup,
            resolve,
            config.learning.prefill_timeout_s,
            config.kv.heat_tau_s,
        )
        warmer = Warmer(prefiller, self._is_asked, config.learning)
        self._trainer = Trainer(self._questions, guard, warmer, config.learning, self._budget_s)
        self._observer = Observer(
            self._questions, guard, self._trainer, prefiller, protection, config.learning, self._budget_s
        )
        self._servicer = LearningServicer(self._questions, guard, self._trainer, warmer, protection, config)
        self._is_on = config.kv.enabled and config.learning.enabled
        self._tasks: list[asyncio.Task[None]] = []

    def register(self, server: grpc.aio.Server) -> None:
        learning_pb2_grpc.add_LearningServiceServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Returns when what is kept ready is stored, or after `ready_wait_s`; the rest follows."""
        if not self._is_on:
            return
        await self._carry_on()
        self._tasks = [asyncio.create_task(task, name="learning") for task in (self._observer.run(), self._refits())]
        if not self._has_peers:
            return
        restoring = asyncio.create_task(self._trainer.restore(), name="restore the warm set")
        self._tasks.append(restoring)
        await asyncio.wait({restoring}, timeout=self._config.ready_wait_s)
        if not restoring.done():
            log.warning("ready before the warm set is stored", waited_s=self._config.ready_wait_s)
        self._tasks.append(asyncio.create_task(self._trainer.run(), name="retrain"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._is_on:
            with suppress(Unavailable):  # what was stored a minute ago is nearly as good
                await self._refit()
        for channel in self._channels:
            await channel.close()

    def committed(self, request: CommitRequest) -> None:
        """A turn has ended. Takes microseconds; what follows is done later."""
        if self._is_on:
            self._observer.committed(request)

    async def forget(self, tenant_id: str, *, session_id: str = "", user_id: str = "") -> None:
        """Erase what was learned from a session or user alone. Raises Unavailable where a store is away."""
        await self._observer.forget(tenant_id, session_id=session_id, user_id=user_id)
        going = self._questions.asked_by_nobody_else(tenant_id, session_id=session_id, user_id=user_id)
        # The pages first: while the KV store is away the questions stay, so that a repeated call finds them.
        await self._erase_pages(tenant_id, await self._guard.call(going, self._budget_s))
        forgetting = self._questions.forget(tenant_id, session_id=session_id, user_id=user_id)
        gone = await self._guard.call(forgetting, self._budget_s)
        self._trainer.forget(tenant_id, gone)
        # And again: any process may have had pages computed until the questions were gone.
        await self._erase_pages(tenant_id, gone)

    async def _erase_pages(self, tenant_id: str, keys: Iterable[bytes]) -> None:
        for key in keys:
            await self._erasure.session(tenant_id, holder_of(key).session_id)

    async def _is_asked(self, tenant_id: str, key: bytes) -> bool:
        return await self._guard.call(self._questions.has(tenant_id, key), self._budget_s)

    async def _carry_on(self) -> None:
        try:
            belief = await self._guard.call(self._returns.load(), self._budget_s)
        except Unavailable as error:
            log.warning("begins without what was learned of who comes back", problem=error.message)
            return
        if belief is not None:
            self._expectation.carry_on(belief)

    async def _refits(self) -> None:
        await again_and_again("learning who comes back", self._refit_later)

    async def _refit_later(self) -> None:
        await asyncio.sleep(self._config.refit_interval_s)
        try:
            await self._refit()
        except Unavailable as error:
            log.warning("what was learned of who comes back is not stored", problem=error.message)

    async def _refit(self) -> None:
        """Raises Unavailable where the store is away; what was learned is in use all the same."""
        await self._expectation.refit()
        num_visits = self._expectation.num_visits
        if num_visits > self._num_saved:
            await self._guard.call(self._returns.save(self._expectation.belief), self._budget_s)
            self._num_saved = num_visits
