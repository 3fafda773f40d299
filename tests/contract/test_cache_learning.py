"""What users come back to: learned from logs and turns, kept ready, lifted, erased. Real sockets, real Valkey."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from learning_support import MODEL, TENANT, Engine, Stubs, learning_cache, peers, tokens_of
from quality_support import Valkey, refusal, running_valkey

from services.cache.keys import RETURNS
from stagemesh.api.cache.v1 import cache_pb2, learning_pb2
from stagemesh.api.common.v1.common_pb2 import ChatMessage
from stagemesh.runtime.kv_keys import PAGE_TOKENS

INVOICE = "How do I get an electronic invoice for my last order of printer paper?"
LATE_INVOICE = "The invoice of my order was wrong, who corrects an invoice after payment?"
TAX = "Which tax number must an invoice of an order show, and where is it?"
ROUTER = "My router blinks red and the wireless network is gone, what can I do?"
RESTART = "How do I restart the router without losing the password of the network?"
SECRET = "My invoice number is 4711 and my cat is called Schrödinger, is that all right?"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture(scope="module")
def kv_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("kv")) as server:
        yield server


@pytest.fixture
def store(ledger: Valkey, kv_server: Valkey) -> Valkey:
    for server in (ledger, kv_server):
        with server.client() as client:
            client.flushall()
    return kv_server


@pytest.fixture
def engine(store: Valkey) -> Iterator[Engine]:
    with store.client() as client:
        yield Engine(client)


@pytest.fixture
async def address(engine: Engine) -> AsyncIterator[str]:
    async with peers(engine) as found:
        yield found


@pytest.fixture
async def stubs(ledger: Valkey, store: Valkey, address: str) -> AsyncIterator[Stubs]:
    async with learning_cache(ledger, store, address) as found:
        yield found


def dialogue(user: str, *questions: str, system: str = "") -> learning_pb2.Dialogue:
    turns = [learning_pb2.DialogueTurn(q=question, a="Gladly.") for question in questions]
    return learning_pb2.Dialogue(session_id=f"of {user}", user_id=user, turns=turns, system=system)


LOG = [
    dialogue("ann", INVOICE, LATE_INVOICE, TAX),
    dialogue("bob", INVOICE, TAX),
    dialogue("cem", ROUTER),
    dialogue("dot", ROUTER),
    dialogue("eve", SECRET),
    *(dialogue(user, INVOICE, LATE_INVOICE, TAX) for user in ("fay", "gil")),
    *(dialogue(user, ROUTER, RESTART) for user in ("hal", "ida", "jon")),
]


async def stored(stubs: Stubs, question: str) -> int:
    """Tokens that a new user's first turn would find."""
    tokens = tokens_of([ChatMessage(role="user", content=question)])
    request = cache_pb2.ResolveRequest(tenant_id=TENANT, model=MODEL, token_ids=tokens)
    return (await stubs.cache.Resolve(request)).lease.kv.stored_tokens


async def turn(stubs: Stubs, session: str, version: int, question: str, user: str = "zoe") -> None:
    messages = [ChatMessage(role="user", content=question), ChatMessage(role="assistant", content="Gladly.")]
    request = cache_pb2.CommitRequest(
        tenant_id=TENANT,
        session_id=session,
        user_id=user,
        request_id=f"{session}/{version}",
        model=MODEL,
        base_version=version,
        messages=messages,
        token_ids=tokens_of([ChatMessage(role="user", content=INVOICE)]),
    )
    assert (await stubs.cache.Commit(request)).version == version + 1


async def pinned_bytes(stubs: Stubs) -> int:
    answer = await stubs.cache.Stats(cache_pb2.StatsRequest(tenant_id=TENANT))
    return sum(tenant.stored.pinned_bytes for tenant in answer.tenants)


async def test_what_several_users_asked_first_is_computed_ahead_of_time(stubs: Stubs, engine: Engine) -> None:
    report = await stubs.warm(*LOG)
    assert (report.dialogues, report.users, report.turns) == (10, 10, 20)
    assert (report.already, report.computed, report.failed, report.problem) == (0, 2, 0, "")
    assert len(engine.prompts) == 2
    for question in (INVOICE, ROUTER):
        length = len(tokens_of([ChatMessage(role="user", content=question)]))
        assert await stored(stubs, question) == length // PAGE_TOKENS * PAGE_TOKENS


async def test_what_one_user_asked_stays_that_users_own(stubs: Stubs, engine: Engine) -> None:
    await stubs.warm(*LOG)
    assert await stored(stubs, SECRET) == 0
    assert not any(prompt == tokens_of([ChatMessage(role="user", content=SECRET)]) for prompt in engine.prompts)


async def test_warming_again_computes_nothing(stubs: Stubs, engine: Engine) -> None:
    await stubs.warm(*LOG)
    report = await stubs.warm(*LOG)
    assert (report.already, report.computed) == (2, 0)
    assert len(engine.prompts) == 2


async def test_a_system_message_belongs_to_the_beginning(stubs: Stubs) -> None:
    system = "You work for a stationer."
    await stubs.warm(*(dialogue(user, INVOICE, system=system) for user in "ab"))
    messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=INVOICE)]
    request = cache_pb2.ResolveRequest(tenant_id=TENANT, model=MODEL, token_ids=tokens_of(messages))
    assert (await stubs.cache.Resolve(request)).lease.kv.stored_tokens > 0
    assert await stored(stubs, INVOICE) == 0


async def test_topics_are_told_by_their_words(stubs: Stubs) -> None:
    report = await stubs.warm(*LOG)
    invoices, routers = sorted(report.topics, key=lambda topic: "router" in topic.words)
    assert {"tax", "order", "electronic"} & set(invoices.words)
    assert "router" in routers.words
    assert not set(invoices.words) & set(routers.words)
    assert all(topic.prefixes == 1 for topic in report.topics)


async def test_another_tenant_finds_nothing_of_it(stubs: Stubs) -> None:
    await stubs.warm(*LOG)
    tokens = tokens_of([ChatMessage(role="user", content=INVOICE)])
    request = cache_pb2.ResolveRequest(tenant_id="other", model=MODEL, token_ids=tokens)
    assert (await stubs.cache.Resolve(request)).lease.kv.stored_tokens == 0


async def test_questions_of_live_traffic_are_kept_ready_after_the_next_training(
    ledger: Valkey, store: Valkey, address: str
) -> None:
    async with learning_cache(ledger, store, address, retrain_interval_s=0.1) as stubs:
        for user in ("ann", "bob"):
            await turn(stubs, f"session of {user}", 0, INVOICE, user)
        give_up_at_s = time.monotonic() + 30
        while not await stored(stubs, INVOICE):
            assert time.monotonic() < give_up_at_s
            await asyncio.sleep(0.05)


async def test_the_third_turn_in_a_row_on_a_topic_protects_what_its_conversations_share(stubs: Stubs) -> None:
    await stubs.warm(*LOG)
    assert await pinned_bytes(stubs) == 0
    for version, question in enumerate((INVOICE, LATE_INVOICE, TAX)):
        await turn(stubs, "s", version, question)
    give_up_at_s = time.monotonic() + 30
    while not await pinned_bytes(stubs):
        assert time.monotonic() < give_up_at_s
        await asyncio.sleep(0.05)


async def test_a_start_waits_until_what_is_kept_ready_is_stored_again(
    ledger: Valkey, store: Valkey, address: str, engine: Engine
) -> None:
    async with learning_cache(ledger, store, address) as stubs:
        await stubs.warm(*LOG)
    with store.client() as client:
        client.flushall()
    async with learning_cache(ledger, store, address) as stubs:
        assert len(engine.prompts) == 4
        assert await stored(stubs, INVOICE) > 0


async def test_a_start_without_engines_waits_no_longer_than_its_bound(
    ledger: Valkey, store: Valkey, address: str
) -> None:
    async with learning_cache(ledger, store, address) as stubs:
        await stubs.warm(*LOG)
    with store.client() as client:
        client.flushall()
    async with learning_cache(ledger, store, "127.0.0.1:1", ready_wait_s=0.3) as stubs:
        assert await stored(stubs, INVOICE) == 0


async def test_an_engine_that_is_away_is_named_in_the_report(ledger: Valkey, store: Valkey) -> None:
    async with learning_cache(ledger, store, "127.0.0.1:1") as stubs:
        report = await stubs.warm(*LOG)
    assert (report.computed, report.failed, report.problem) == (0, 2, "UNAVAILABLE")


async def test_an_engine_that_is_away_is_passed_over(ledger: Valkey, store: Valkey, address: str) -> None:
    async with learning_cache(ledger, store, address, engines=["127.0.0.1:1", address]) as stubs:
        report = await stubs.warm(*LOG)
    assert (report.computed, report.failed) == (2, 0)


async def test_a_question_is_erased_with_the_last_user_who_asked_it_and_its_pages_too(stubs: Stubs) -> None:
    await stubs.warm(*LOG)
    for user in ("ann", "bob", "fay", "gil"):
        assert await stored(stubs, INVOICE) > 0
        await stubs.cache.Forget(cache_pb2.ForgetRequest(tenant_id=TENANT, user_id=user))
    assert await stored(stubs, INVOICE) == 0
    assert await stored(stubs, ROUTER) > 0
    report = await stubs.warm()
    assert (report.already, report.computed) == (1, 0)


async def test_forgetting_again_erases_the_pages_that_a_store_kept_when_it_was_away(
    ledger: Valkey, store: Valkey, address: str
) -> None:
    async with learning_cache(ledger, store, address, min_users=1) as stubs:
        await stubs.warm(dialogue("eve", SECRET))
        assert await stored(stubs, SECRET) > 0
        forget = cache_pb2.ForgetRequest(tenant_id=TENANT, user_id="eve")
        with store.client() as client:
            client.execute_command("ACL", "SETUSER", "default", "-evalsha")
            try:
                async with refusal() as refused:
                    await stubs.cache.Forget(forget)
            finally:
                client.execute_command("ACL", "SETUSER", "default", "+evalsha")
        assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"
        assert await stored(stubs, SECRET) > 0
        await stubs.cache.Forget(forget)
        assert await stored(stubs, SECRET) == 0


async def test_protecting_pages_while_the_ledger_is_away_says_so(store: Valkey, address: str, tmp_path: Path) -> None:
    with running_valkey(tmp_path) as ledger:
        async with learning_cache(ledger, store, address) as stubs:
            ledger.kill()
            async with refusal() as refused:
                await stubs.learning.Pin(
                    learning_pb2.PinRequest(tenant_id=TENANT, model=MODEL, token_ids=range(64), ttl_s=60)
                )
    assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"


async def test_stored_pages_can_be_protected_and_released(stubs: Stubs) -> None:
    await stubs.warm(*LOG)
    tokens = tokens_of([ChatMessage(role="user", content=INVOICE)])
    request = learning_pb2.PinRequest(tenant_id=TENANT, model=MODEL, token_ids=tokens, ttl_s=60)
    pages = (await stubs.learning.Pin(request)).pages
    assert pages == len(tokens) // PAGE_TOKENS
    assert await pinned_bytes(stubs) > 0
    request.ttl_s = 0
    assert (await stubs.learning.Pin(request)).pages == pages
    assert await pinned_bytes(stubs) == 0


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([], "UNEXPECTED_MESSAGE"),
        ([learning_pb2.WarmRequest()], "UNEXPECTED_MESSAGE"),
        ([learning_pb2.WarmRequest(begin=learning_pb2.WarmBegin())], "MISSING_ID"),
        (
            [
                learning_pb2.WarmRequest(begin=learning_pb2.WarmBegin(tenant_id=TENANT)),
                learning_pb2.WarmRequest(dialogues=learning_pb2.Dialogues(dialogues=[learning_pb2.Dialogue()])),
            ],
            "MISSING_ID",
        ),
    ],
)
async def test_a_warm_call_of_another_form_is_refused(
    stubs: Stubs, requests: list[learning_pb2.WarmRequest], reason: str
) -> None:
    async with refusal() as refused:
        _ = [answer async for answer in stubs.learning.Warm(iter(requests))]
    assert refused.error.reason == reason


async def test_pages_of_a_session_that_goes_on_are_expected_back_more_than_those_of_a_first_turn(stubs: Stubs) -> None:
    async def horizon_s(session: str) -> float:
        tokens = tokens_of([ChatMessage(role="user", content=INVOICE)])
        request = cache_pb2.ResolveRequest(tenant_id=TENANT, model=MODEL, token_ids=tokens, session_id=session)
        return (await stubs.cache.Resolve(request)).lease.kv.horizon_s

    for version, question in enumerate((INVOICE, LATE_INVOICE, TAX)):
        await turn(stubs, "s", version, question)
    request = cache_pb2.OpenSessionRequest(tenant_id=TENANT, session_id="s", user_id="zoe", model=MODEL)
    assert (await stubs.cache.OpenSession(request)).lease.kv.horizon_s > await horizon_s("new")


async def horizon_of(stubs: Stubs, text: str, *, ahead: bool = False, tenant: str = TENANT) -> float:
    """What the new pages of a prompt without a session are worth."""
    tokens = tokens_of([ChatMessage(role="user", content=text)])
    request = cache_pb2.ResolveRequest(tenant_id=tenant, model=MODEL, token_ids=tokens, ahead=ahead)
    return (await stubs.cache.Resolve(request)).lease.kv.horizon_s


async def test_a_prompt_that_holds_an_earlier_one_counts_as_its_next_turn_without_a_session(stubs: Stubs) -> None:
    await horizon_of(stubs, INVOICE)
    alone = await horizon_of(stubs, INVOICE + LATE_INVOICE, tenant="other")
    assert await horizon_of(stubs, INVOICE + LATE_INVOICE) > alone, "another tenant's prompt is not known"


async def test_a_prompt_computed_ahead_of_its_request_is_no_turn(stubs: Stubs) -> None:
    alone = await horizon_of(stubs, INVOICE + LATE_INVOICE, ahead=True)
    await horizon_of(stubs, INVOICE, ahead=True)
    assert await horizon_of(stubs, INVOICE + LATE_INVOICE) == alone


async def test_what_was_learned_of_who_comes_back_outlives_the_service(
    ledger: Valkey, store: Valkey, address: str
) -> None:
    async with learning_cache(ledger, store, address) as stubs:
        before = await horizon_of(stubs, ROUTER)
        for number in range(30):
            text = f"{number} " * 20
            for length in range(4):
                await horizon_of(stubs, text + INVOICE * length)
    async with learning_cache(ledger, store, address) as stubs:
        assert await horizon_of(stubs, ROUTER) > before


async def test_damaged_weights_are_passed_over(ledger: Valkey, store: Valkey, address: str) -> None:
    async with learning_cache(ledger, store, address) as stubs:
        before = await horizon_of(stubs, ROUTER)
    with ledger.client() as client:
        client.set(RETURNS, b"damaged")
    async with learning_cache(ledger, store, address) as stubs:
        assert await horizon_of(stubs, ROUTER) == before
