"""Leases that speak of stored KV pages, over real sockets and real Valkey servers: who finds what, and who does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import grpc
import pytest
import redis
from quality_support import Valkey, refusal, running_valkey, serving

from services.cache.config import CacheConfig
from services.cache.keys import EPOCH
from services.cache.kv_config import KvConfig
from services.cache.kv_lookup import chain
from services.cache.service import CacheService
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1.common_pb2 import ChatMessage, KvReport, ModelIdentity
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.kv_directory import PublishedPage, publish
from stagemesh.runtime.kv_keys import PAGE_TOKENS, value_name

MODEL = ModelIdentity(
    model="m", revision="weights", tokenizer_hash="vocab", precision="float32", kv_layout="bfloat16-p16"
)
TOKENS = list(range(100, 100 + 5 * PAGE_TOKENS))
PATIENT: dict[str, Any] = {
    "redis_budget_ms": 5_000.0,
    "session_budget_ms": 5_000.0,
    "commit_budget_ms": 5_000.0,
    "root_refresh_ms": 0.0,
}

Stub = cache_pb2_grpc.CacheServiceStub


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
    """The KV Redis, empty, as the ledger is; a test that kills it starts it again."""
    for server in (ledger, kv_server):
        with server.client() as client:
            client.config_set("maxmemory", 0)
            client.flushall()
    return kv_server


@contextlib.asynccontextmanager
async def cache(ledger: Valkey, store: Valkey, *, tokenizer: str = "", **config: Any) -> AsyncIterator[Stub]:
    kv = KvConfig(**{"lookup_budget_ms": 5_000.0, **config.pop("kv", {})})
    service = CacheService(
        ledger.url,
        CacheConfig(kv=kv, **{**PATIENT, **config}),
        kv_url=store.url,
        tokenizer=[tokenizer] if tokenizer else [],
    )
    async with serving(service) as channel:
        stub = cache_pb2_grpc.CacheServiceStub(channel)
        await until_ready(stub)
        yield stub


@pytest.fixture
async def stub(ledger: Valkey, store: Valkey) -> AsyncIterator[Stub]:
    async with cache(ledger, store) as stub:
        yield stub


async def until_ready(stub: Stub) -> None:
    """Wait for the service's limits in the KV Redis."""
    async with asyncio.timeout(20):
        while (await resolve(stub, [], tenant_id="probe")).kv_miss == "KV_NOT_READY":
            await asyncio.sleep(0.02)


async def resolve(stub: Stub, tokens: Sequence[int] = TOKENS, **fields: Any) -> cache_pb2.Lease:
    fields = {"tenant_id": "t", "model": MODEL, **fields}
    return (await stub.Resolve(cache_pb2.ResolveRequest(token_ids=tokens, **fields), timeout=20)).lease


async def open_session(stub: Stub, session: str = "s", **fields: Any) -> cache_pb2.OpenSessionResponse:
    fields = {"tenant_id": "t", "model": MODEL, **fields}
    return await stub.OpenSession(cache_pb2.OpenSessionRequest(session_id=session, **fields), timeout=20)


async def commit(stub: Stub, lease: cache_pb2.Lease, session: str = "s", **fields: Any) -> None:
    fields = {"tenant_id": "t", "model": MODEL, "token_ids": TOKENS, "request_id": "r1", **fields}
    messages = [ChatMessage(role="user", content="hi"), ChatMessage(role="assistant", content="hello")]
    await stub.Commit(
        cache_pb2.CommitRequest(session_id=session, messages=messages, lease_id=lease.lease_id, **fields),
        timeout=20,
    )


def store_pages(store: Valkey, lease: cache_pb2.Lease, tenant: str = "t", tokens: Sequence[int] = TOKENS) -> str:
    """What an engine does after an answer; gives the refusal, if any."""
    digests = chain(tenant, MODEL, lease.kv, lease.salt, tokens)
    num_public = lease.kv.public_tokens // PAGE_TOKENS
    with store.client() as client:
        for i, digest in enumerate(digests):
            space = lease.kv.public_namespace if i < num_public else lease.kv.namespace
            client.set(value_name(space, digest), b"page", ex=60)
        pages = [PublishedPage(digest, 4, public=i < num_public) for i, digest in enumerate(digests)]
        return publish(client, lease.kv, pages).refusal


async def test_stored_pages_of_a_prompt_are_promised_again_up_to_the_first_difference(
    stub: Stub, store: Valkey
) -> None:
    lease = await resolve(stub)
    assert (lease.kv.stored_tokens, lease.kv_miss) == (0, "NEVER_STORED")
    assert lease.kv.tau_s == KvConfig().heat_tau_s, "for the cost of what is stored under it"
    assert store_pages(store, lease) == ""
    again = await resolve(stub)
    assert (again.kv.stored_tokens, again.kv_miss) == (5 * PAGE_TOKENS, "")
    assert (await resolve(stub, [*TOKENS[:40], 7, *TOKENS[41:]])).kv.stored_tokens == 2 * PAGE_TOKENS
    assert (await resolve(stub, TOKENS[:-1])).kv.stored_tokens == 4 * PAGE_TOKENS


async def test_a_session_that_comes_back_is_told_at_its_opening_what_is_stored(stub: Stub, store: Valkey) -> None:
    opened = await open_session(stub)
    assert not opened.lease.HasField("kv")  # nobody knows the tokens yet
    first = await resolve(stub, session_id="s")
    store_pages(store, first)
    await commit(stub, opened.lease)
    assert (await open_session(stub)).lease.kv.stored_tokens == 5 * PAGE_TOKENS


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant_id": "other"},
        {"tenant_id": "t\0"},
        *({"model": {field: "another"}} for field in ("model", "revision", "tokenizer_hash", "precision", "kv_layout")),
    ],
)
async def test_another_tenant_or_model_finds_nothing_of_the_same_prompt(
    stub: Stub, store: Valkey, changed: dict[str, Any]
) -> None:
    store_pages(store, await resolve(stub))
    if isinstance(fields := changed.get("model"), dict):
        model = ModelIdentity()
        model.CopyFrom(MODEL)
        model.MergeFrom(ModelIdentity(**fields))
        changed = {"model": model}
    assert (await resolve(stub, **changed)).kv.stored_tokens == 0


@pytest.mark.parametrize("evil", ["t", "{t}", "stagemesh:kv:", "*", "1:t,", "\r\nFLUSHALL\r\n", "../t", "t,0:,"])
async def test_ids_that_look_like_keys_reach_no_other_tenants_pages(stub: Stub, store: Valkey, evil: str) -> None:
    victim = await resolve(stub, tenant_id="victim", session_id="s", user_id="u")
    store_pages(store, victim, "victim")
    lease = await resolve(stub, tenant_id="t", session_id=evil, user_id=evil)
    assert lease.kv.stored_tokens == 0
    assert lease.kv.namespace != victim.kv.namespace
    assert lease.salt != victim.salt
    for what in ({"session_id": evil}, {"session_id": "s"}, {"user_id": "u"}, {"user_id": evil}):
        await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", **what), timeout=20)
    assert (await resolve(stub, tenant_id="victim")).kv.stored_tokens == 5 * PAGE_TOKENS


async def test_pages_under_a_guessed_name_are_not_found(stub: Stub, store: Valkey) -> None:
    """Who may write into the KV Redis but knows no salt cannot name a page that somebody looks up."""
    lease = await resolve(stub)
    for salt in (b"", b"\0" * 32, lease.kv.lease_id.encode()):
        forged = cache_pb2.Lease()
        forged.CopyFrom(lease)
        forged.salt = salt
        store_pages(store, forged)
    assert (await resolve(stub)).kv.stored_tokens == 0


@pytest.mark.parametrize("lease_id", ["", "guessed", "*", "l:1"])
async def test_nothing_is_stored_under_a_forged_lease(stub: Stub, store: Valkey, lease_id: str) -> None:
    lease = await resolve(stub)
    lease.kv.lease_id = lease_id
    assert store_pages(store, lease) == "NO_LEASE"


async def test_a_lease_of_one_tenant_stores_nothing_in_another_tenants_namespace(stub: Stub, store: Valkey) -> None:
    mine, victim = await resolve(stub), await resolve(stub, tenant_id="victim")
    victim.kv.lease_id = mine.kv.lease_id
    assert store_pages(store, victim, "victim") == "NO_LEASE"


async def test_forgetting_a_session_or_user_erases_the_pages_and_what_is_still_to_come(
    stub: Stub, store: Valkey
) -> None:
    lease = await resolve(stub, session_id="s", user_id="u")
    store_pages(store, lease)
    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="s"), timeout=20)
    assert (await resolve(stub)).kv.stored_tokens == 0
    assert store_pages(store, lease) == "FORGOTTEN"
    with store.client() as client:
        assert not list(client.scan_iter(value_name(lease.kv.namespace, b"") + b"*"))
    store_pages(store, await resolve(stub, session_id="s2", user_id="u"))
    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", user_id="u"), timeout=20)
    assert (await resolve(stub)).kv.stored_tokens == 0


async def test_an_erasure_says_so_when_the_kv_store_is_away_and_can_be_repeated(ledger: Valkey, store: Valkey) -> None:
    async with cache(ledger, store, redis_timeout_ms=500.0, breaker_open_ms=10.0) as stub:
        store.kill()
        async with refusal() as refused:
            await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="s"), timeout=20)
        assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"
        store.start()
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="s"), timeout=20)
                    return
                await asyncio.sleep(0.05)


async def test_an_epoch_raised_by_an_operator_makes_all_pages_unreachable(
    stub: Stub, ledger: Valkey, store: Valkey
) -> None:
    old = await resolve(stub)
    store_pages(store, old)
    with ledger.client() as client:
        client.incr(EPOCH)
    fresh = await resolve(stub)
    assert fresh.kv.stored_tokens == 0
    assert fresh.kv.namespace != old.kv.namespace


async def test_without_the_kv_store_requests_run_cold_at_once_and_warm_again_when_it_is_back(
    ledger: Valkey, store: Valkey
) -> None:
    async with cache(ledger, store, redis_timeout_ms=500.0, breaker_open_ms=10.0) as stub:
        store_pages(store, await resolve(stub))
        store.kill()
        causes = {(await resolve(stub)).kv_miss for _ in range(10)}
        assert causes <= {"KV_STORE_AWAY", "KV_STORE_LEFT_ALONE", "KV_STORE_SLOW"}
        assert causes
        store.start()
        await until_found(stub, store)


async def until_found(stub: Stub, store: Valkey) -> None:
    async with asyncio.timeout(30):
        while not (lease := await resolve(stub)).kv.stored_tokens:
            if lease.HasField("kv"):
                store_pages(store, lease)
            await asyncio.sleep(0.05)


async def test_a_kv_store_that_hangs_costs_the_lookup_budget_and_then_nothing(ledger: Valkey, store: Valkey) -> None:
    async with cache(ledger, store, kv={"lookup_budget_ms": 200.0}, breaker_open_ms=60_000.0) as stub:
        with store.client() as client:
            pid = client.info("server")["process_id"]
        os.kill(pid, signal.SIGSTOP)
        try:
            causes = [(await resolve(stub)).kv_miss for _ in range(6)]
        finally:
            os.kill(pid, signal.SIGCONT)
        assert causes == ["KV_STORE_SLOW"] * 3 + ["KV_STORE_LEFT_ALONE"] * 3


async def test_a_full_kv_store_still_finds_erases_and_counts(stub: Stub, store: Valkey) -> None:
    lease = await resolve(stub, session_id="s")
    store_pages(store, lease)
    with store.client() as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("more", "x")
        assert (await resolve(stub)).kv.stored_tokens == 5 * PAGE_TOKENS
        await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="s"), timeout=20)
        answer = await stub.Stats(cache_pb2.StatsRequest(tenant_id="t"), timeout=20)
        assert (answer.tenants[0].stored.pages, answer.tenants[0].stored.bytes) == (0, 0)


async def test_switched_off_it_promises_nothing(ledger: Valkey, store: Valkey) -> None:
    async with cache(ledger, store, kv={"enabled": False}) as stub:
        lease = await resolve(stub)
        assert not lease.HasField("kv")
        assert lease.kv_miss == "KV_DISABLED"
        assert len(lease.salt) == 32


async def test_no_key_of_either_store_is_without_a_ttl(stub: Stub, ledger: Valkey, store: Valkey) -> None:
    opened = await open_session(stub, user_id="u")
    store_pages(store, await resolve(stub, session_id="s", user_id="u"))
    await commit(stub, opened.lease, user_id="u")
    await release(stub, "r1", KvReport(computed_tokens=80))
    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="gone"), timeout=20)
    await stub.Stats(cache_pb2.StatsRequest(), timeout=20)
    for server in (ledger, store):
        with server.client() as client:
            assert [key for key in client.scan_iter() if client.ttl(key) == -1] == []


async def release(stub: Stub, request_id: str, kv: KvReport, **fields: Any) -> None:
    tenant = fields.pop("tenant_id", "t")
    use = cache_pb2.CacheUse(request_id=request_id, kv=kv, prompt_tokens=80, model="m", **fields)
    await stub.Release(cache_pb2.ReleaseRequest(tenant_id=tenant, use=use), timeout=20)


async def test_what_became_of_a_request_can_be_explained_and_counts_once(stub: Stub) -> None:
    missed = KvReport(computed_tokens=80, miss_cause="CHECKSUM")
    await release(stub, "r1", missed, session_id="s", session_tokens=64, stored_tokens=64)
    await release(stub, "r1", missed, session_id="s")
    await release(stub, "r2", KvReport(store_tokens=64, computed_tokens=16), session_id="s", session_tokens=64)
    await release(stub, "r3", KvReport(pool_tokens=32, host_tokens=16, computed_tokens=32))
    explained = await stub.Explain(cache_pb2.ExplainRequest(request_id="r1"), timeout=20)
    assert explained.tenant_id == "t"
    assert (explained.use.kv.miss_cause, explained.use.stored_tokens) == ("CHECKSUM", 64)
    (tenant,) = (await stub.Stats(cache_pb2.StatsRequest(), timeout=20)).tenants
    counts = tenant.counts
    assert (counts.requests, counts.hits, counts.session_requests, counts.session_hits) == (3, 2, 2, 1)
    assert (counts.store_tokens, counts.pool_tokens, counts.host_tokens, counts.prompt_tokens) == (64, 32, 16, 240)
    assert dict(counts.misses) == {"CHECKSUM": 1}
    (hot,) = (await stub.Top(cache_pb2.TopRequest(), timeout=20)).sessions
    assert hot.session_id == "s"
    assert 1.9 < hot.heat <= 2.0
    assert hot.counts.requests == 2


async def test_the_last_requests_only_are_remembered_and_forgotten_ones_are_not(ledger: Valkey, store: Valkey) -> None:
    async with cache(ledger, store, explain_requests=2) as stub:
        for i in range(3):
            await release(stub, f"r{i}", KvReport(), session_id=f"s{i}")
        for i, remembered in enumerate((False, True, True)):
            assert await is_explained(stub, f"r{i}") is remembered
        assert not await is_explained(stub, "r2", tenant_id="other")
        await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="s2"), timeout=20)
        assert not await is_explained(stub, "r2")
        assert [hot.session_id for hot in (await stub.Top(cache_pb2.TopRequest(), timeout=20)).sessions] == ["s1", "s0"]


async def is_explained(stub: Stub, request_id: str, tenant_id: str = "") -> bool:
    request = cache_pb2.ExplainRequest(tenant_id=tenant_id, request_id=request_id)
    try:
        await stub.Explain(request, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.NOT_FOUND
    return True


class WordTokenizer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """A token for each character."""

    async def Prepare(
        self, request: tokenizer_pb2.PrepareRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tokenizer_pb2.PrepareResponse:
        return tokenizer_pb2.PrepareResponse(token_ids=render(*request.chat.messages), tokenizer_hash="vocab")


def render(*messages: ChatMessage) -> list[int]:
    return [ord(char) for message in messages for char in f"<{message.role}>{message.content}</>"]


@contextlib.asynccontextmanager
async def word_tokenizer() -> AsyncIterator[str]:
    server = grpc.aio.server()
    tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(WordTokenizer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_declared_prefixes_are_shared_by_all_tenants_and_nothing_else_is(ledger: Valkey, store: Valkey) -> None:
    public = "You are the help desk of Example Ltd. Answer briefly."
    prompt = render(
        ChatMessage(role="system", content=public), ChatMessage(role="user", content="My PIN is 1234. " * 4)
    )
    async with word_tokenizer() as address, cache(ledger, store, tokenizer=address, public_prefixes=(public,)) as stub:
        async with asyncio.timeout(20):
            while not (lease := await resolve(stub, prompt)).kv.public_tokens:
                await asyncio.sleep(0.02)
        store_pages(store, lease, tokens=prompt)
        assert lease.kv.public_tokens == len(f"<system>{public}</><user>") // PAGE_TOKENS * PAGE_TOKENS
        mine = await resolve(stub, prompt)
        assert mine.kv.stored_tokens == len(prompt) // PAGE_TOKENS * PAGE_TOKENS
        theirs = await resolve(stub, prompt, tenant_id="other")
        assert theirs.kv.stored_tokens == lease.kv.public_tokens
        assert (theirs.kv.public_salt, theirs.kv.public_namespace) == (mine.kv.public_salt, mine.kv.public_namespace)
        assert theirs.salt != mine.salt
        own = render(ChatMessage(role="system", content="Another. " * 8), ChatMessage(role="user", content=public))
        assert (await resolve(stub, own)).kv.public_tokens == 0
        (stats,) = (await stub.Stats(cache_pb2.StatsRequest(), timeout=20)).tenants
        assert stats.tenant_id == ""
        assert stats.stored.pages == lease.kv.public_tokens // PAGE_TOKENS
