"""LearningService: from messages to what is learned, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator

from services.cache.config import CacheConfig
from services.cache.kv_protection import KvProtection
from services.cache.learning.dialogue_log import asked_in
from services.cache.learning.question_store import QuestionStore
from services.cache.learning.trainer import Trainer
from services.cache.learning.warm_set import WarmSet
from services.cache.learning.warmer import Outcome, Warmer
from services.cache.limits import check_name
from services.cache.redis_guard import RedisGuard
from stagemesh.api.cache.v1 import learning_pb2, learning_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest, Precondition
from stagemesh.runtime.interceptors import Context

MAX_TOLD_TOPICS = 20


class LearningServicer(learning_pb2_grpc.LearningServiceServicer):
    """Every method raises InvalidRequest for bad input and Unavailable when a store is away."""

    def __init__(
        self,
        questions: QuestionStore,
        guard: RedisGuard,
        trainer: Trainer,
        warmer: Warmer,
        protection: KvProtection,
        config: CacheConfig,
    ) -> None:
        self._questions = questions
        self._guard = guard
        self._trainer = trainer
        self._warmer = warmer
        self._protection = protection
        self._config = config
        self._budget_s = config.redis_timeout_ms / 1000

    async def Warm(
        self, request_iterator: AsyncIterator[learning_pb2.WarmRequest], context: Context
    ) -> AsyncIterator[learning_pb2.WarmResponse]:
        self._check_enabled()
        tenant_id = await self._begin(request_iterator)
        report = learning_pb2.WarmReport()
        users: set[bytes] = set()
        async for request in request_iterator:
            if request.WhichOneof("kind") != "dialogues":
                raise InvalidRequest("UNEXPECTED_MESSAGE", "conversations follow after the beginning", field="kind")
            await self._learn(tenant_id, request.dialogues, report, users)
            yield learning_pb2.WarmResponse(progress=learning_pb2.WarmProgress(dialogues=report.dialogues))
        warm_set = await self._trainer.train(tenant_id)
        async for outcome in self._warmer.warm(tenant_id, [entry.question for entry in warm_set.questions]):
            _fill(report, outcome)
            progress = learning_pb2.WarmProgress(
                dialogues=report.dialogues, prefixes=outcome.total, of_prefixes=len(warm_set.questions)
            )
            yield learning_pb2.WarmResponse(progress=progress)
        report.users = len(users)
        report.topics.extend(told_topics(warm_set))
        yield learning_pb2.WarmResponse(report=report)

    async def Pin(self, request: learning_pb2.PinRequest, context: Context) -> learning_pb2.PinResponse:
        self._check_enabled()
        tenant_id = check_name(request.tenant_id, "tenant_id")
        pages = await self._protection.protect(tenant_id, request.model, request.token_ids, request.ttl_s)
        return learning_pb2.PinResponse(pages=pages)

    async def _begin(self, requests: AsyncIterator[learning_pb2.WarmRequest]) -> str:
        async for request in requests:
            if request.WhichOneof("kind") == "begin":
                return check_name(request.begin.tenant_id, "tenant_id")
            break
        raise InvalidRequest("UNEXPECTED_MESSAGE", "begin with the tenant", field="kind")

    async def _learn(
        self,
        tenant_id: str,
        dialogues: learning_pb2.Dialogues,
        report: learning_pb2.WarmReport,
        users: set[bytes],
    ) -> None:
        asked = []
        for dialogue in dialogues.dialogues:
            check_name(dialogue.session_id, "session_id")
            check_name(dialogue.user_id, "user_id", required=False)
            asked += list(asked_in(dialogue))
            report.dialogues += 1
            report.turns += len(dialogue.turns)
        users.update(asker.user_tag for _, asker in asked)
        if asked:
            await self._guard.call(self._questions.add(tenant_id, asked), self._budget_s)

    def _check_enabled(self) -> None:
        if not (self._config.kv.enabled and self._config.learning.enabled):
            raise Precondition("KV_DISABLED", "nothing is kept ready: cache.kv or cache.learning is switched off")


def told_topics(warm_set: WarmSet) -> list[learning_pb2.LearnedTopic]:
    return [
        learning_pb2.LearnedTopic(
            topic_id=topic.topic_id,
            words=topic.telling(),
            conversations=topic.num_conversations,
            prefixes=len(warm_set.of_topic(topic.topic_id)),
        )
        for topic in warm_set.topics.found[:MAX_TOLD_TOPICS]
    ]


def _fill(report: learning_pb2.WarmReport, outcome: Outcome) -> None:
    report.already, report.computed, report.failed = outcome.already, outcome.computed, outcome.failed
    report.computed_tokens, report.problem = outcome.computed_tokens, outcome.problem
