"""Has the KV of a warm set computed and stored, and says what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from services.cache.learning.config import LearningConfig
from services.cache.learning.prefill import Prefilled, Prefiller, Served, State
from services.cache.learning.question import Question
from stagemesh.runtime.errors import StagemeshError

IsAsked = Callable[[str, bytes], Awaitable[bool]]
"""Whether a tenant's question of this key is still remembered. May raise StagemeshError."""


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
    def __init__(self, prefiller: Prefiller, is_asked: IsAsked, config: LearningConfig) -> None:
        self._prefiller = prefiller
        self._is_asked = is_asked
        self._config = config

    async def warm(
        self, tenant_id: str, questions: Sequence[Question], max_prefills: int | None = None
    ) -> AsyncIterator[Outcome]:
        """One by one; yields after each. Stops after `max_prefills` that had to be computed. Never raises."""
        outcome = Outcome()
        if not questions:
            return
        try:
            served = await self._prefiller.served()
        except StagemeshError as error:
            yield Outcome(failed=len(questions), problem=error.reason)
            return
        for question in questions:
            if max_prefills is not None and outcome.computed + outcome.failed >= max_prefills:
                return
            outcome.add(await self._one(tenant_id, served, question))
            yield outcome

    async def warm_all(self, tenant_id: str, questions: Sequence[Question], max_prefills: int | None) -> Outcome:
        """As `warm`, to its end."""
        last = Outcome()
        async for outcome in self.warm(tenant_id, questions, max_prefills):
            last = outcome
        return last

    async def _one(self, tenant_id: str, served: Served, question: Question) -> Prefilled:
        try:
            tokens = await self._prefiller.tokens(served.model, question)
        except StagemeshError as error:
            return Prefilled(State.FAILED, problem=error.reason)
        if len(tokens) > self._config.max_prefix_tokens:
            return Prefilled(State.FAILED, problem="PREFIX_TOO_LONG")
        is_wanted = partial(self._is_asked, tenant_id, question.key)
        return await self._prefiller.prefill(tenant_id, served, tokens, question.holder, is_wanted)
