"""Live traffic: finished turns are noted, and a conversation that stays on a topic lifts what the topic shares.

Never on a caller's path: turns wait in a bounded buffer, and what does not fit is dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from services.cache.kv_protection import KvProtection
from services.cache.learning.background import again_and_again
from services.cache.learning.config import LearningConfig
from services.cache.learning.prefill import Prefiller
from services.cache.learning.question import Asker, Question
from services.cache.learning.question_store import QuestionStore
from services.cache.learning.streaks import KEPT_TOKENS, Beginnings, Streaks
from services.cache.learning.trainer import Trainer
from services.cache.learning.warm_set import words_of
from services.cache.redis_guard import RedisGuard
from stagemesh.api.cache.v1.cache_pb2 import CommitRequest
from stagemesh.api.common.v1.common_pb2 import ChatMessage, ModelIdentity
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

MAX_WAITING = 1_000
MAX_AT_ONCE = 100
MAX_LIFTED = 16
"""Beginnings of conversations on a topic that are protected with it, the hottest."""

log = get_logger(__name__)


@dataclass(frozen=True)
class SeenTurn:
    tenant_id: str
    asker: Asker
    session_id: str
    user_id: str
    question: Question
    model: ModelIdentity
    tokens: Sequence[int]
    """How the conversation begins."""


def seen_turn(request: CommitRequest) -> SeenTurn | None:
    """What a committed turn asked; None if it asked nothing that is remembered."""
    question = question_of(request.messages, begins=request.base_version == 0)
    if question is None or not question.is_rememberable():
        return None
    return SeenTurn(
        tenant_id=request.tenant_id,
        asker=Asker(request.session_id, request.user_id),
        session_id=request.session_id,
        user_id=request.user_id,
        question=question,
        model=request.model,
        tokens=list(request.token_ids[:KEPT_TOKENS]),
    )


def question_of(messages: Sequence[ChatMessage], *, begins: bool) -> Question | None:
    """The last user message. It begins a conversation only if nothing but a system message stands before it."""
    said = [message for message in messages if message.role in {"user", "assistant"}]
    asked = [message for message in said if message.role == "user"]
    if not asked:
        return None
    system = [message.content for message in messages if message.role == "system"]
    if not begins or len(asked) > 1 or len(system) > 1 or said[0].role != "user":
        return Question(asked[-1].content)
    return Question(asked[0].content, begins=True, system="".join(system))


class Observer:
    def __init__(
        self,
        questions: QuestionStore,
        guard: RedisGuard,
        trainer: Trainer,
        prefiller: Prefiller,
        protection: KvProtection,
        config: LearningConfig,
        budget_s: float,
    ) -> None:
        self._questions = questions
        self._guard = guard
        self._trainer = trainer
        self._prefiller = prefiller
        self._protection = protection
        self._config = config
        self._budget_s = budget_s
        self._streaks, self._beginnings = Streaks(), Beginnings()
        self._waiting: deque[SeenTurn] = deque()
        self._taken: list[SeenTurn] = []
        """Turns that are being learned from; `forget` takes them out, so they are looked at anew after each wait."""
        self._writing_of = ""
        """The tenant whose questions are on their way to the store."""
        self._writing = asyncio.Lock()
        self._added = asyncio.Event()
        self.num_dropped = 0
        """Turns from which nothing was learned: too many waited, or the store was away."""

    def committed(self, request: CommitRequest) -> None:
        turn = seen_turn(request)
        if turn is None:
            return
        if len(self._waiting) >= MAX_WAITING:
            self.num_dropped += 1
            return
        self._waiting.append(turn)
        self._added.set()

    async def forget(self, tenant_id: str, *, session_id: str = "", user_id: str = "") -> None:
        """Nothing of them is written from now on, and nothing is left in memory."""
        kept = [turn for turn in self._waiting if not _is_of(turn, tenant_id, session_id, user_id)]
        self._waiting = deque(kept)
        self._taken = [turn for turn in self._taken if not _is_of(turn, tenant_id, session_id, user_id)]
        if session_id:
            self._streaks.forget(tenant_id, session_id)
        self._beginnings.forget(tenant_id, session_id=session_id, user_id=user_id)
        if self._writing_of == tenant_id:
            async with self._writing:  # what is on its way has arrived then, and the store can forget it
                pass

    async def run(self) -> None:
        """For good."""
        await again_and_again("learning from turns", self._learn)

    async def _learn(self) -> None:
        """From what waits, or comes next."""
        if not (self._waiting or self._taken):
            self._added.clear()
            await self._added.wait()
        if not self._taken:
            self._taken = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
        while self._taken:
            await self._learn_of(self._taken[0].tenant_id)

    async def _learn_of(self, tenant_id: str) -> None:
        """From the turns of one tenant, which are taken off whatever happens."""
        num_turns = sum(turn.tenant_id == tenant_id for turn in self._taken)
        try:
            await self._write(tenant_id)
            while (turn := next((turn for turn in self._taken if turn.tenant_id == tenant_id), None)) is not None:
                self._taken.remove(turn)
                await self._follow(turn)
        except StagemeshError as error:
            self.num_dropped += num_turns
            log.warning("nothing learned from turns", turns=num_turns, problem=error.message)
        finally:
            self._taken = [turn for turn in self._taken if turn.tenant_id != tenant_id]

    async def _write(self, tenant_id: str) -> None:
        async with self._writing:
            self._writing_of = tenant_id
            asked = [(turn.question, turn.asker) for turn in self._taken if turn.tenant_id == tenant_id]
            try:
                await self._guard.call(self._questions.add(tenant_id, asked), self._budget_s)
            finally:
                self._writing_of = ""

    async def _follow(self, turn: SeenTurn) -> None:
        topic = self._trainer.known(turn.tenant_id).topics.classify(words_of(turn.question.text))
        topic_id = topic.topic_id if topic else ""
        length = self._streaks.turn(turn.tenant_id, turn.session_id, topic_id)
        if not topic_id:
            return
        shared = self._beginnings.shared(turn.tenant_id, topic_id, turn.session_id, turn.user_id, turn.tokens)
        if length == self._config.lift_after_turns:
            await self._lift(turn, topic_id, shared)

    async def _lift(self, turn: SeenTurn, topic_id: str, shared: int) -> None:
        """Protect what this conversation shares with others on the topic, and how the likely ones begin."""
        lift_s = self._config.lift_s
        pages = await self._protection.protect(turn.tenant_id, turn.model, turn.tokens[:shared], lift_s)
        for question in self._trainer.known(turn.tenant_id).of_topic(topic_id)[:MAX_LIFTED]:
            tokens = await self._prefiller.tokens(turn.model, question)
            pages += await self._protection.protect(turn.tenant_id, turn.model, tokens, lift_s)
        log.info("topic lifted", topic=topic_id, pages=pages, seconds=lift_s)


def _is_of(turn: SeenTurn, tenant_id: str, session_id: str, user_id: str) -> bool:
    if turn.tenant_id != tenant_id:
        return False
    return bool((session_id and turn.session_id == session_id) or (user_id and turn.user_id == user_id))
