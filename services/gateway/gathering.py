"""Fetches what is to be added to a request, beside its session: passages for its question, its user's preferences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from services.gateway import metrics, stages
from services.gateway.additions import CountedPassage, PassageLimits, Placed, place
from services.gateway.cache_problem import OUT_OF_REACH, cache_problem
from services.gateway.calls import call
from services.gateway.config import GatewayConfig
from services.gateway.peers import Peers
from services.gateway.service_problem import service_problem
from services.gateway.work import Work
from stagemesh.api.cache.v1 import knowledge_pb2, preferences_pb2
from stagemesh.api.common.v1.common_pb2 import ChatMessage
from stagemesh.runtime.errors import NotFound, StagemeshError
from stagemesh.runtime.knowledge import NO_BASE
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

RETRIES = RetryPolicy(max_attempts=2, first_backoff_s=0.01)
SEARCH_MORE = 2
"""Passages asked for beyond those that may be added: some stand in the session already, some are too long."""
MAX_OBSERVED_TEXTS = 16
WITHOUT_KNOWLEDGE, WITHOUT_PREFERENCES = "without-knowledge", "without-preferences"
TOO_MUCH = frozenset(
    {"PROMPT_TOO_LONG", "PROMPT_TOO_LARGE", "TOO_MANY_MESSAGES", "TEMPLATE_REFUSED", "TEMPLATE_FAILED"}
)
"""Refusals by the tokenizer that may be due to what was added."""

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(frozen=True)
class KnowledgeChoice:
    """Which base a request uses, and who says so."""

    name: str
    asked: bool
    """By the request itself: then it must exist."""
    optional: bool
    """It is the route's, and not every tenant has it."""


@dataclass
class Additions:
    """What was found for one request."""

    knowledge: str = ""
    found: Sequence[CountedPassage] = ()
    preferences: Sequence[preferences_pb2.Preference] | None = None
    """None where they are not known: then the session's stay as they are."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """`(fallback, reason)` of what could not be had."""
    missed: str = ""
    """What became of the base that the answer should draw on, for a reader."""

    def place(self, history: Sequence[ChatMessage], asked: Sequence[ChatMessage], config: GatewayConfig) -> Placed:
        limits = PassageLimits(
            passages=config.knowledge.max_passages,
            tokens=config.knowledge.max_tokens,
            session_passages=config.knowledge.max_session_passages,
        )
        return place(history, asked, self.found, self.preferences, limits)

    def report(self, log_stages: stages.StageLog) -> None:
        """Mark the answer where something is missing; after the session's own report, whose fallback weighs more."""
        for fallback, reason in self.problems:
            detail = self.missed if fallback == WITHOUT_KNOWLEDGE else ""
            log_stages.degrade(stages.CACHE, fallback=fallback, reason=reason, detail=detail)

    def miss(self, choice: KnowledgeChoice, problem: StagemeshError, what: str) -> None:
        """The answer draws on nothing of the chosen base, and says so."""
        log.warning("no passages", knowledge=choice.name, error=str(problem))
        metrics.ADDITIONS.labels("passages", "failed").inc()
        self.problems.append((WITHOUT_KNOWLEDGE, problem.reason))
        self.knowledge, self.missed = "", f"the knowledge base {choice.name!r} {what}"

    @property
    def out_of_reach(self) -> bool:
        """Something is missing only because the cache service was not heard."""
        return any(reason in OUT_OF_REACH for _, reason in self.problems)


def may_add(work: Work, config: GatewayConfig) -> bool:
    """Whether there is anything to gather for a request."""
    if work.job.request.WhichOneof("input") != "chat":
        return False
    return choose_base(work, config) is not None or bool(config.preferences and work.job.request.user_id)


async def gather(work: Work, peers: Peers, config: GatewayConfig) -> Additions:
    """Never fails for a part that is away: then the addition goes without it, and says so.

    Raises NotFound for a knowledge base that the request names and the tenant does not have.
    """
    additions = Additions()
    if work.job.request.WhichOneof("input") != "chat":
        return additions
    parts = []
    choice = choose_base(work, config)
    if choice is not None:
        additions.knowledge = choice.name
        search = _search(additions, choice, work, peers, config)
        if choice.asked:
            await search  # alone: what the user of a refused request says must not be counted
        else:
            parts.append(search)
    if config.preferences and work.job.request.user_id:
        parts.append(_observe(additions, work, peers, config))
    await asyncio.gather(*parts)
    return additions


async def gather_again(additions: Additions, work: Work, peers: Peers, config: GatewayConfig) -> Additions:
    """Once more, for a session that was opened though the cache was out of reach before: it is back. Raises as
    `gather` does."""
    return await gather(work, peers, config) if additions.out_of_reach else additions


def choose_base(work: Work, config: GatewayConfig) -> KnowledgeChoice | None:
    """The request's own base, else its tenant's, else its route's."""
    job = work.job
    if job.request.knowledge:
        return None if job.request.knowledge == NO_BASE else KnowledgeChoice(job.request.knowledge, True, False)
    if (of_tenant := config.knowledge.tenants.get(job.tenant_id)) is not None:
        return KnowledgeChoice(of_tenant, False, False) if of_tenant not in ("", NO_BASE) else None
    return KnowledgeChoice(job.route.knowledge, False, True) if job.route.knowledge else None


async def _search(
    additions: Additions, choice: KnowledgeChoice, work: Work, peers: Peers, config: GatewayConfig
) -> None:
    question = _new_texts(work.job.request.chat.messages)[-1:]
    request = knowledge_pb2.SearchRequest(
        tenant_id=work.job.tenant_id,
        knowledge=choice.name,
        query="".join(question),
        max_passages=config.knowledge.max_passages + SEARCH_MORE,
    )
    try:
        answer = await call(peers.knowledge.Search, request, RETRIES, work.deadline, config.knowledge.timeout_s)
    except grpc.RpcError as error:
        problem = cache_problem(error)
        unknown = isinstance(problem, NotFound) and problem.reason == "KNOWLEDGE_NOT_FOUND"
        if unknown and choice.asked:
            raise problem from error
        if unknown and choice.optional:
            additions.knowledge = ""
            return
        additions.miss(choice, problem, "was not searched")
        return
    try:
        additions.found = await peers.passage_tokens.count(
            answer.response.passages, work.job.model, work.deadline, config.tokenizer_timeout_s
        )
    except grpc.RpcError as error:
        additions.miss(
            choice, service_problem("tokenizer", error), "was not used: the tokenizer did not count its passages"
        )
        return
    metrics.ADDITIONS.labels("passages", "found" if additions.found else "none").inc()


async def _observe(additions: Additions, work: Work, peers: Peers, config: GatewayConfig) -> None:
    request = preferences_pb2.ObserveRequest(
        tenant_id=work.job.tenant_id,
        user_id=work.job.request.user_id,
        request_id=work.job.request_id,
        texts=_new_texts(work.job.request.chat.messages)[-MAX_OBSERVED_TEXTS:],
    )
    try:
        answer = await call(peers.preferences.Observe, request, RETRIES, work.deadline, config.cache_timeout_s)
        additions.preferences = answer.response.preferences
    except grpc.RpcError as error:
        problem = cache_problem(error)
        log.warning("no preferences", error=str(problem))
        additions.problems.append((WITHOUT_PREFERENCES, problem.reason))
        metrics.ADDITIONS.labels("preferences", "failed").inc()
    else:
        metrics.ADDITIONS.labels("preferences", "found" if additions.preferences else "none").inc()


def _new_texts(messages: Sequence[ChatMessage]) -> list[str]:
    """What the user says in this request; a client that sends the whole conversation repeats what came before."""
    new: list[str] = []
    for message in messages:
        if message.role == "assistant":
            new.clear()
        elif message.role == "user":
            new.append(message.content)
    return new


async def tokenize_placed(
    placed: Placed,
    asked: Sequence[ChatMessage],
    log_stages: stages.StageLog,
    tokenize: Callable[[Sequence[ChatMessage]], Awaitable[T]],
) -> tuple[T, Placed]:
    """Tokenize the turn with its additions. Where only they make it too much (its length, or a template that takes no
    system message there), it goes without them, marked; what is refused without them as well is the request's fault.
    """
    try:
        return await tokenize(placed.messages), placed
    except StagemeshError as error:
        if not placed.adds or error.reason not in TOO_MUCH:
            raise
        without = Placed(messages=asked)
        prepared = await tokenize(without.messages)
        log_stages.degrade(stages.TOKENIZE, fallback="without-additions", reason=error.reason)
        return prepared, without
