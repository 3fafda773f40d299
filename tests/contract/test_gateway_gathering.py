"""What the gateway adds to a request, with the services behind it answering, refusing and away."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from quality_support import free_port

from services.gateway.additions import Placed
from services.gateway.config import GatewayConfig, PassagesConfig, RouteConfig
from services.gateway.gathering import Additions, gather, gather_again, tokenize_placed
from services.gateway.job import make_job
from services.gateway.passage_tokens import PassageTokens
from services.gateway.stages import StageLog
from stagemesh.api.cache.v1 import knowledge_pb2, knowledge_pb2_grpc, preferences_pb2, preferences_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import InvalidRequest, NotFound, Precondition, StagemeshError, Unavailable, to_status
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig


class Services(
    knowledge_pb2_grpc.KnowledgeServiceServicer,
    preferences_pb2_grpc.PreferenceServiceServicer,
    tokenizer_pb2_grpc.TokenizerServiceServicer,
):
    """Cache and tokenizer in one; `error` is what searches and observations end with."""

    def __init__(self) -> None:
        self.error: StagemeshError | None = None
        self.asked: list[Any] = []

    async def _answer(self, request: Any, context: Any) -> None:
        self.asked.append(request)
        if self.error is not None:
            await context.abort_with_status(rpc_status.to_status(to_status(self.error)))

    async def Search(self, request: Any, context: Any) -> knowledge_pb2.SearchResponse:
        await self._answer(request, context)
        passages = [knowledge_pb2.Passage(passage_id=f"p{i}", title="T", text="some words " * i) for i in (1, 2)]
        return knowledge_pb2.SearchResponse(passages=passages)

    async def Observe(self, request: Any, context: Any) -> preferences_pb2.ObserveResponse:
        await self._answer(request, context)
        return preferences_pb2.ObserveResponse(preferences=[preferences_pb2.Preference(text="Always tea")])

    async def Encode(self, request: Any, context: Any) -> tokenizer_pb2.EncodeResponse:
        self.asked.append(request)
        results = [tokenizer_pb2.TokenIds(ids=range(len(text.split()))) for text in request.texts]
        return tokenizer_pb2.EncodeResponse(results=results)


@pytest.fixture
async def services() -> AsyncIterator[tuple[Services, Any]]:
    server, servicer = grpc.aio.server(), Services()
    knowledge_pb2_grpc.add_KnowledgeServiceServicer_to_server(servicer, server)
    preferences_pb2_grpc.add_PreferenceServiceServicer_to_server(servicer, server)
    tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with peers(port) as connected:
        yield servicer, connected
    await server.stop(None)


@contextlib.asynccontextmanager
async def peers(port: int) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield SimpleNamespace(
            knowledge=knowledge_pb2_grpc.KnowledgeServiceStub(channel),
            preferences=preferences_pb2_grpc.PreferenceServiceStub(channel),
            passage_tokens=PassageTokens(tokenizer_pb2_grpc.TokenizerServiceStub(channel)),
        )


PATIENT = PassagesConfig(timeout_s=10.0)
CONFIG = GatewayConfig(knowledge=PATIENT, cache_timeout_s=10.0)


def work_for(config: GatewayConfig = CONFIG, *turns: str, **fields: Any) -> Any:
    """A request with the turns `role: content`."""
    messages = [
        common_pb2.ChatMessage(role=role, content=content)
        for role, _, content in (turn.partition(": ") for turn in turns or ("user: hi",))
    ]
    request = gateway_pb2.InferenceRequest(chat=common_pb2.ChatMessages(messages=messages), **fields)
    job = make_job("t", request, MeshConfig(), config)
    return SimpleNamespace(job=job, deadline=Deadline.after(20))


async def test_nothing_is_asked_for_where_nothing_is_to_be_added(services: tuple[Services, Any]) -> None:
    servicer, connected = services
    raw = gateway_pb2.InferenceRequest(prompt="raw", user_id="ann")
    job = make_job("t", raw, MeshConfig(), CONFIG)
    for work in (
        work_for(),
        work_for(CONFIG, knowledge="none"),
        SimpleNamespace(job=job, deadline=Deadline.after(20)),
        work_for(GatewayConfig(preferences=False), user_id="ann"),
    ):
        assert await gather(work, connected, work_config(work)) == Additions()
    assert servicer.asked == []


def work_config(work: Any) -> GatewayConfig:
    return GatewayConfig(preferences=False) if work.job.request.user_id and not work.job.request.prompt else CONFIG


async def test_passages_come_with_their_tokens_which_are_counted_once(services: tuple[Services, Any]) -> None:
    servicer, connected = services
    for _ in range(2):
        found = await gather(work_for(knowledge="faq"), connected, CONFIG)
        assert [(one.passage.passage_id, one.tokens) for one in found.found] == [("p1", 4), ("p2", 6)]
    kinds = [type(request).__name__ for request in servicer.asked]
    assert kinds == ["SearchRequest", "EncodeRequest", "SearchRequest"]
    assert servicer.asked[0].tenant_id == "t"


async def test_the_question_is_the_last_message_and_only_new_ones_are_observed(services: tuple[Services, Any]) -> None:
    servicer, connected = services
    turns = ("system: s", "user: old", "assistant: a", "user: new", "user: newest")
    found = await gather(work_for(CONFIG, *turns, knowledge="faq", user_id="ann"), connected, CONFIG)
    assert [one.text for one in found.preferences or ()] == ["Always tea"]
    by_kind = {type(request).__name__: request for request in servicer.asked}
    assert by_kind["SearchRequest"].query == "newest"
    assert list(by_kind["ObserveRequest"].texts) == ["new", "newest"]


async def test_a_base_that_the_request_names_must_exist(services: tuple[Services, Any]) -> None:
    servicer, connected = services
    servicer.error = NotFound("KNOWLEDGE_NOT_FOUND", "none")
    with pytest.raises(NotFound):
        await gather(work_for(knowledge="faq", user_id="ann"), connected, CONFIG)
    assert [type(request) for request in servicer.asked] == [knowledge_pb2.SearchRequest]  # no wish was counted


async def test_a_base_of_the_route_may_be_missing_and_one_of_the_tenant_is_missed(
    services: tuple[Services, Any],
) -> None:
    servicer, connected = services
    servicer.error = NotFound("KNOWLEDGE_NOT_FOUND", "none")
    routes = {"chat": RouteConfig(knowledge="faq")}
    by_route = GatewayConfig(knowledge=PATIENT, routes=routes)
    assert await gather(work_for(by_route), connected, by_route) == Additions()
    by_tenant = GatewayConfig(knowledge=PATIENT.model_copy(update={"tenants": {"t": "own"}}), routes=routes)
    found = await gather(work_for(by_tenant), connected, by_tenant)
    assert servicer.asked[-1].knowledge == "own"
    assert found.problems == [("without-knowledge", "KNOWLEDGE_NOT_FOUND")]


@pytest.mark.parametrize(
    "error",
    [Unavailable("CACHE_STORE_UNAVAILABLE", "away"), Precondition("KNOWLEDGE_DAMAGED", "damaged")],
)
async def test_a_search_that_fails_leaves_the_request_marked_and_without_passages(
    services: tuple[Services, Any], error: StagemeshError
) -> None:
    servicer, connected = services
    servicer.error = error
    found = await gather(work_for(knowledge="faq", user_id="ann"), connected, CONFIG)
    assert (list(found.found), found.preferences) == ([], None)
    assert sorted(found.problems) == [("without-knowledge", error.reason), ("without-preferences", error.reason)]
    log = StageLog(process_identity("gateway"))
    found.report(log)
    assert log.degraded is not None
    assert (log.degraded.stage, log.degraded.reason) == (common_pb2.STAGE_CACHE, error.reason)


async def test_with_no_cache_service_at_all_the_request_goes_on() -> None:
    async with peers(free_port()) as connected:
        found = await gather(work_for(knowledge="faq", user_id="ann"), connected, GatewayConfig())
    assert {fallback for fallback, _ in found.problems} == {"without-knowledge", "without-preferences"}


async def test_a_turn_that_is_too_long_only_with_its_additions_goes_without_them() -> None:
    log = StageLog(process_identity("gateway"))
    plain, long = common_pb2.ChatMessage(role="user", content="q"), common_pb2.ChatMessage(role="system", content="x")

    async def tokenize(messages: Any) -> int:
        if len(messages) > 1:
            raise InvalidRequest("PROMPT_TOO_LONG", "too long")
        return len(messages)

    tokens, placed = await tokenize_placed(Placed(messages=[long, plain], adds=True), [plain], log, tokenize)
    assert (tokens, list(placed.messages), placed.adds) == (1, [plain], False)
    assert log.degraded is not None
    assert (log.degraded.fallback, log.degraded.reason) == ("without-additions", "PROMPT_TOO_LONG")


async def test_what_is_too_long_without_additions_as_well_is_refused() -> None:
    async def tokenize(messages: Any) -> int:
        raise InvalidRequest("PROMPT_TOO_LONG", "too long")

    log = StageLog(process_identity("gateway"))
    plain = common_pb2.ChatMessage(role="user", content="q")
    for placed in (Placed(messages=[plain]), Placed(messages=[plain, plain], adds=True)):
        with pytest.raises(InvalidRequest):
            await tokenize_placed(placed, [plain], log, tokenize)
    assert log.degraded is None


async def test_a_base_that_was_not_searched_is_named_beside_a_lost_conversation_or_missing_reuse() -> None:
    async with peers(free_port()) as connected:
        found = await gather(work_for(knowledge="faq"), connected, GatewayConfig())
    assert (found.knowledge, found.out_of_reach) == ("", True)
    for first in ("without-conversation", "cold"):
        log = StageLog(process_identity("gateway"))
        log.degrade(common_pb2.STAGE_CACHE, fallback=first, reason="CACHE_UNAVAILABLE", detail="about the first")
        found.report(log)
        assert log.degraded is not None
        assert (log.degraded.fallback, log.degraded.reason) == (f"{first}, without-knowledge", "CACHE_UNAVAILABLE")
        assert log.degraded.detail == "about the first; the knowledge base 'faq' was not searched"


async def test_a_base_is_searched_again_once_the_cache_is_back_and_only_then(services: tuple[Services, Any]) -> None:
    servicer, connected = services
    loading = Additions(problems=[("without-knowledge", "KNOWLEDGE_LOADING")])
    assert await gather_again(loading, work_for(knowledge="faq"), connected, CONFIG) is loading
    assert servicer.asked == []
    away = Additions(problems=[("without-knowledge", "CACHE_UNAVAILABLE")])
    found = await gather_again(away, work_for(knowledge="faq"), connected, CONFIG)
    assert (len(found.found), found.problems, found.knowledge) == (2, [], "faq")
