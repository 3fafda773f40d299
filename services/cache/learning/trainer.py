"""Retraining: brings topics and what is kept ready in line with what users have asked, again and again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from services.cache.learning.background import again_and_again
from services.cache.learning.config import LearningConfig
from services.cache.learning.question_store import QuestionStore
from services.cache.learning.topics_child import find_topics
from services.cache.learning.warm_set import WarmSet, asked_by, choose
from services.cache.learning.warmer import Outcome, Warmer
from services.cache.redis_guard import RedisGuard
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

MAX_TENANTS = 200
"""Tenants whose warm sets are in memory, and that a round looks at: the last active."""
FIRST_RETRY_S, MAX_RETRY_S, MAX_RETRIES = 0.25, 5.0, 60

log = get_logger(__name__)


class Trainer:
    def __init__(
        self, questions: QuestionStore, guard: RedisGuard, warmer: Warmer, config: LearningConfig, budget_s: float
    ) -> None:
        self._questions = questions
        self._guard = guard
        self._warmer = warmer
        self._config = config
        self._budget_s = budget_s
        self._sets: OrderedDict[str, WarmSet] = OrderedDict()
        self._trained_at: dict[str, float] = {}
        self._trainings: list[tuple[str, set[bytes]]] = []
        """Those under way: the tenant, and what was forgotten since they began."""

    def known(self, tenant_id: str) -> WarmSet:
        """As of the last training; empty before."""
        return self._sets.get(tenant_id, WarmSet())

    async def train(self, tenant_id: str) -> WarmSet:
        """Raises Unavailable where the store is away, Internal where topics cannot be made."""
        forgotten: set[bytes] = set()
        training = (tenant_id, forgotten)
        self._trainings.append(training)
        try:
            remembered = await self._guard.call(self._questions.all(tenant_id), self._budget_s)
            built = choose(remembered, await find_topics(asked_by(remembered)), self._config).without(forgotten)
        finally:
            self._trainings = [other for other in self._trainings if other is not training]
        self._sets[tenant_id] = built
        self._sets.move_to_end(tenant_id)
        while len(self._sets) > MAX_TENANTS:
            gone, _ = self._sets.popitem(last=False)
            self._trained_at.pop(gone, None)
        return built

    def forget(self, tenant_id: str, keys: Iterable[bytes]) -> None:
        """Questions that the store has forgotten."""
        gone = set(keys)
        if (known := self._sets.get(tenant_id)) is not None:
            self._sets[tenant_id] = known.without(gone)
        for of_tenant, forgotten in self._trainings:
            if of_tenant == tenant_id:
                forgotten |= gone

    async def round(self, max_prefills: int | None) -> Outcome:
        """Train tenants with new questions, and have what is missing computed: at most `max_prefills` in all."""
        total = Outcome()
        for tenant_id, last_s in await self._tenants():
            left = None if max_prefills is None else max(0, max_prefills - total.computed - total.failed)
            if self._trained_at.get(tenant_id) != last_s or tenant_id not in self._sets:
                await self.train(tenant_id)
                self._trained_at[tenant_id] = last_s
            questions = [entry.question for entry in self.known(tenant_id).questions]
            total = total.plus(await self._warmer.warm_all(tenant_id, questions, left))
        return total

    async def restore(self) -> None:
        """Have everything stored again that is kept ready; tries for some minutes, since engines start meanwhile."""
        wait_s = FIRST_RETRY_S
        for _ in range(MAX_RETRIES):
            try:
                outcome = await self.round(None)
            except StagemeshError as error:
                outcome = Outcome(failed=1, problem=error.reason)
            except Exception:
                log.exception("storing the warm set failed, and is tried again")
                outcome = Outcome(failed=1, problem="INTERNAL")
            if not outcome.failed:
                if outcome.total:
                    log.info("warm set is stored", prefixes=outcome.total, computed=outcome.computed)
                return
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_RETRY_S)
        log.warning("warm set is not stored", failed=outcome.failed, problem=outcome.problem)

    async def run(self) -> None:
        """For good, every `retrain_interval_s`."""
        await again_and_again("retraining", self._retrain)

    async def _retrain(self) -> None:
        await asyncio.sleep(self._config.retrain_interval_s)
        try:
            outcome = await self.round(self._config.max_prefills)
        except StagemeshError as error:
            log.warning("not retrained", problem=error.message)
            return
        if outcome.computed or outcome.failed:
            log.info("retrained", computed=outcome.computed, failed=outcome.failed, problem=outcome.problem)

    async def _tenants(self) -> list[tuple[str, float]]:
        return (await self._guard.call(self._questions.tenants(), self._budget_s))[:MAX_TENANTS]
