"""Has the KV of a warm set computed and stored, and says what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from services.cache.learning.config import LearningConfig
from services.cache.learning.prefill import Prefilled, Prefiller, State
from services.cache.learning.question import Question
from stagemesh.api.common.v1.common_pb2 import ModelIdentity
from stagemesh.runtime.errors import StagemeshError


@dataclass
class Outcome:
    """So far."""

    already: int = 0
    computed: int = 0
    failed: int = 0
    computed_tokens: int = 0
    problem: str = ""

    @property
    def total(self) -> int:
        return self.already + self.computed + self.failed

    def plus(self, other: Outcome) -> Outcome:
        return Outcome(
            self.already + other.already,
            self.computed + other.computed,
            self.failed + other.failed,
            self.computed_tokens + other.computed_tokens,
            self.problem or other.problem,
        )

    def add(self, done: Prefilled) -> None:
        self.already += done.state is State.ALREADY
        self.computed += done.state is State.COMPUTED
        self.failed += done.state is State.FAILED
        self.computed_tokens += done.tokens
        self.problem = self.problem or done.problem


class Warmer:
    def __init__(self, prefiller: Prefiller, config: LearningConfig) -> None:
        self._prefiller = prefiller
        self._config = config

    async def warm(
        self, tenant_id: str, questions: Sequence[Question], max_prefills: int | None = None
    ) -> AsyncIterator[Outcome]:
        """One by one; yields after each. Stops after `max_prefills` that had to be computed. Never raises."""
        outcome = Outcome()
        if not questions:
            return
        try:
            model = await self._prefiller.model()
        except StagemeshError as error:
            yield Outcome(failed=len(questions), problem=error.reason)
            return
        for question in questions:
            if max_prefills is not None and outcome.computed + outcome.failed >= max_prefills:
                return
            outcome.add(await self._one(tenant_id, model, question))
            yield outcome

    async def warm_all(self, tenant_id: str, questions: Sequence[Question], max_prefills: int | None) -> Outcome:
        """As `warm`, to its end."""
        last = Outcome()
        async for outcome in self.warm(tenant_id, questions, max_prefills):
            last = outcome
        return last

    async def _one(self, tenant_id: str, model: ModelIdentity, question: Question) -> Prefilled:
        try:
            tokens = await self._prefiller.tokens(model, question)
        except StagemeshError as error:
            return Prefilled(State.FAILED, problem=error.reason)
        if len(tokens) > self._config.max_prefix_tokens:
            return Prefilled(State.FAILED, problem="PREFIX_TOO_LONG")
        return await self._prefiller.prefill(tenant_id, model, tokens, question.holder)
