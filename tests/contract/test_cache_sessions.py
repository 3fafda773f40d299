"""The cache service over a real socket and a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from quality_support import Valkey, free_port, refusal, running_valkey, serving

from services.cache.config import CacheConfig
from services.cache.keys import EPOCH, PREFIX
from services.cache.service import CacheService
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1.common_pb2 import ChatMessage, ModelIdentity

MODEL = ModelIdentity(model="smollm2", revision="weights-1", tokenizer_hash="vocab-1", precision="float32")
PATIENT: dict[str, Any] = {
    "redis_budget_ms": 5_000.0,
    "session_budget_ms": 5_000.0,
    "commit_budget_ms": 5_000.0,
    "root_refresh_ms": 0.0,
}
"""Budgets that a busy test machine cannot exceed by accident."""

Stub = cache_pb2_grpc.CacheServiceStub


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture
def empty_valkey(valkey: Valkey) -> Valkey:
    with valkey.client() as client:
        client.flushall()
    return valkey


@contextlib.asynccontextmanager
async def cache(url: str, **config: Any) -> AsyncIterator[Stub]:
    async with serving(CacheService(url, CacheConfig(**{**PATIENT, **config}))) as channel:
        yield cache_pb2_grpc.CacheServiceStub(channel)


@pytest.fixture
async def stub(empty_valkey: Valkey) -> AsyncIterator[Stub]:
    async with cache(empty_valkey.url) as stub:
        yield stub


def say(*contents: str) -> list[ChatMessage]:
    return [ChatMessage(role=("user", "assistant")[i % 2], content=content) for i, content in enumerate(contents)]


def contents(session: cache_pb2.Session) -> list[str]:
    return [message.content for message in session.messages]


async def open_session(stub: Stub, session: str = "s", **fields: Any) -> cache_pb2.OpenSessionResponse:
    fields = {"tenant_id": "t", "model": MODEL, **fields}
    return await stub.OpenSession(cache_pb2.OpenSessionRequest(session_id=session, **fields), timeout=10)


async def commit(stub: Stub, request_id: str, session: str = "s", **fields: Any) -> cache_pb2.CommitResponse:
    fields = {"tenant_id": "t", "model": MODEL, "messages": say("hi", "hello"), "token_ids": [1, 2, 3], **fields}
    request = cache_pb2.CommitRequest(session_id=session, request_id=request_id, **fields)
    return await stub.Commit(request, timeout=10)


async def test_a_new_session_has_no_content_but_a_lease(stub: Stub) -> None:
    opened = await open_session(stub)
    assert not opened.HasField("session")
    assert opened.lease.lease_id
    assert len(opened.lease.salt) == 32
    assert opened.lease.expires_at.ToSeconds() > time.time()


async def test_a_committed_turn_comes_back_with_its_tokens(stub: Stub) -> None:
    token_ids = [0, 1, 49_151, 2**32 - 1]
    lease = (await open_session(stub)).lease
    done = await commit(stub, "r1", messages=say("名字？", "林"), token_ids=token_ids, lease_id=lease.lease_id)
    assert (done.version, done.conflict, done.dropped_messages) == (1, False, 0)
    session = (await open_session(stub)).session
    assert contents(session) == ["名字？", "林"]
    assert list(session.token_ids) == token_ids
    assert session.version == 1
    assert session.expires_at.ToSeconds() > session.updated_at.ToSeconds() + 86_000


@pytest.mark.parametrize("changed", [{"revision": "weights-2"}, {"tokenizer_hash": "vocab-2"}])
async def test_tokens_of_another_model_are_withheld_but_messages_are_not(stub: Stub, changed: dict[str, str]) -> None:
    await commit(stub, "r1")
    other = ModelIdentity(model="smollm2", revision="weights-1", tokenizer_hash="vocab-1", precision="float32")
    other.MergeFrom(ModelIdentity(**changed))
    session = (await open_session(stub, model=other)).session
    assert contents(session) == ["hi", "hello"]
    assert not session.token_ids


async def test_a_model_without_identity_stores_no_tokens(stub: Stub) -> None:
    nameless = ModelIdentity(model="smollm2")
    await commit(stub, "r1", model=nameless)
    assert not (await open_session(stub, model=nameless)).session.token_ids


async def test_a_repeated_commit_changes_nothing_and_answers_the_same(stub: Stub) -> None:
    first = await commit(stub, "r1")
    await commit(stub, "r2", base_version=1)
    assert await commit(stub, "r1") == first
    assert len((await open_session(stub)).session.messages) == 4


async def test_of_two_turns_on_one_base_the_second_is_appended_without_tokens(stub: Stub) -> None:
    await commit(stub, "r1", messages=say("a", "b"))
    kept = await commit(stub, "r2", base_version=1, messages=say("c", "d"))
    late = await commit(stub, "r3", base_version=1, messages=say("e", "f"))
    assert (kept.version, kept.conflict) == (2, False)
    assert (late.version, late.conflict) == (3, True)
    session = (await open_session(stub)).session
    assert contents(session) == ["a", "b", "c", "d", "e", "f"]
    assert not session.token_ids
    assert await commit(stub, "r3", base_version=1) == late


async def test_concurrent_commits_on_one_base_all_land_and_only_one_wins(stub: Stub) -> None:
    done = await asyncio.gather(*(commit(stub, f"r{i}") for i in range(20)))
    assert sorted(answer.version for answer in done) == list(range(1, 21))
    assert sum(not answer.conflict for answer in done) == 1
    assert len((await open_session(stub)).session.messages) == 40


async def test_a_long_session_drops_its_oldest_turns_and_tokens_but_keeps_the_system_message(
    empty_valkey: Valkey,
) -> None:
    async with cache(empty_valkey.url, max_session_messages=5) as stub:
        system = ChatMessage(role="system", content="be brief")
        await commit(stub, "r1", messages=[system, *say("a", "b")])
        await commit(stub, "r2", base_version=1, messages=say("c", "d"))
        cut = await commit(stub, "r3", base_version=2, messages=say("e", "f"))
        assert cut.dropped_messages == 2
        session = (await open_session(stub)).session
        assert contents(session) == ["be brief", "c", "d", "e", "f"]
        assert not session.token_ids
        await commit(stub, "r4", base_version=3, messages=say("g", "h"), token_ids=[7])
        listed = await stub.ListSessions(cache_pb2.ListSessionsRequest(tenant_id="t"), timeout=10)
        assert [(entry.num_messages, entry.num_tokens) for entry in listed.sessions] == [(5, 0)]


async def test_a_session_is_bounded_in_bytes_and_a_turn_over_the_bound_is_refused(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, max_session_bytes=2_000) as stub:
        for i in range(10):
            await commit(stub, f"r{i}", base_version=i, messages=say("x" * 400, "y" * 400))
        assert len((await open_session(stub)).session.messages) == 4
        async with refusal() as refused:
            await commit(stub, "big", base_version=10, messages=say("x" * 2_001))
        assert (refused.error.reason, refused.error.field) == ("TURN_TOO_LARGE", "messages")


async def test_too_many_tokens_are_not_stored(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, max_session_tokens=2) as stub:
        await commit(stub, "r1", token_ids=[1, 2, 3])
        assert not (await open_session(stub)).session.token_ids


async def test_the_same_session_id_under_two_tenants_never_meets(stub: Stub) -> None:
    await commit(stub, "r1", tenant_id="a", messages=say("secret of a"))
    other = await open_session(stub, tenant_id="b")
    assert not other.HasField("session")
    mine = await open_session(stub, tenant_id="a")
    assert mine.lease.salt != other.lease.salt
    listed = await stub.ListSessions(cache_pb2.ListSessionsRequest(tenant_id="b"), timeout=10)
    assert not listed.sessions
    erased = await stub.Forget(cache_pb2.ForgetRequest(tenant_id="b", session_id="s"), timeout=10)
    assert erased.sessions == 0
    assert contents((await open_session(stub, tenant_id="a")).session) == ["secret of a"]


async def test_ids_that_imitate_the_key_format_stay_apart(stub: Stub) -> None:
    pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a,1:b", "c"),
        ("a", "b,1:c"),
        ("a\0", "b"),
        ("a", "\0b"),
        ("a\n", "}b{"),
        ("*", "?"),
    ]
    for tenant, session in pairs:
        await commit(stub, "r", session, tenant_id=tenant, messages=say(f"{tenant}|{session}"))
    for tenant, session in pairs:
        assert contents((await open_session(stub, session, tenant_id=tenant)).session) == [f"{tenant}|{session}"]


@pytest.mark.parametrize("field", ["tenant_id", "session_id", "user_id", "request_id"])
async def test_an_overlong_id_is_refused_by_name(stub: Stub, field: str) -> None:
    ids = {"tenant_id": "t", "session_id": "s", "user_id": "u", "request_id": "r", field: "林" * 3_400}
    async with refusal() as refused:
        await stub.Commit(cache_pb2.CommitRequest(**ids, messages=say("x")), timeout=10)
    assert (refused.error.reason, refused.error.field) == ("ID_TOO_LONG", field)


@pytest.mark.parametrize("field", ["tenant_id", "session_id"])
async def test_a_missing_id_is_refused_by_name(stub: Stub, field: str) -> None:
    async with refusal() as refused:
        await stub.OpenSession(
            cache_pb2.OpenSessionRequest(**{"tenant_id": "t", "session_id": "s", field: ""}), timeout=10
        )
    assert (refused.error.reason, refused.error.field) == ("MISSING_ID", field)


async def test_a_session_of_another_user_is_refused(stub: Stub) -> None:
    await commit(stub, "r1", user_id="ann")
    for call in (open_session(stub, user_id="bob"), commit(stub, "r2", base_version=1, user_id="bob")):
        async with refusal() as refused:
            await call
        assert refused.error.reason == "SESSION_OF_ANOTHER_USER"
    assert (await open_session(stub)).session.user_id == "ann"


async def test_salts_follow_tenant_and_model_and_nothing_else(stub: Stub) -> None:
    async def salt(tenant: str, **identity: str) -> bytes:
        model = ModelIdentity(model="m", revision="r", tokenizer_hash="t", precision="float32", kv_layout="l")
        model.MergeFrom(ModelIdentity(**identity))
        answer = await stub.Resolve(cache_pb2.ResolveRequest(tenant_id=tenant, model=model, token_ids=[1]), timeout=10)
        return answer.lease.salt

    assert await salt("a") == await salt("a")
    others = [
        await salt("b"),
        *[await salt("a", **{name: "x"}) for name in ("model", "revision", "tokenizer_hash", "precision", "kv_layout")],
    ]
    assert len({await salt("a"), *others}) == 7


async def test_raising_the_epoch_invalidates_sessions_leases_and_salts(stub: Stub, empty_valkey: Valkey) -> None:
    await commit(stub, "r1")
    before = (await open_session(stub)).lease
    with empty_valkey.client() as client:
        client.incr(EPOCH)
    after = await open_session(stub)
    assert not after.HasField("session")
    assert after.lease.epoch == before.epoch + 1
    assert after.lease.salt != before.salt
    async with refusal() as refused:
        await commit(stub, "r2", base_version=1, lease_id=before.lease_id)
    assert refused.error.reason == "SESSION_ERASED"


async def test_listing_pages_through_all_sessions_last_active_first(stub: Stub) -> None:
    for i in range(25):
        await commit(stub, "r", f"s{i}", user_id=("ann", "bob")[i % 2])
    await open_session(stub, "s3")

    async def listed(user_id: str) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            request = cache_pb2.ListSessionsRequest(tenant_id="t", user_id=user_id, page_size=4, page_token=token)
            page = await stub.ListSessions(request, timeout=10)
            found += [entry.session_id for entry in page.sessions]
            token = page.next_page_token
            if not token:
                return found

    everything = await listed("")
    assert everything[0] == "s3"
    assert sorted(everything) == sorted(f"s{i}" for i in range(25))
    assert sorted(await listed("ann")) == sorted(f"s{i}" for i in range(0, 25, 2))


@pytest.mark.parametrize("token", ["x", "bnVsbA==", "WzEsIDJd", "W1tbW1tb", "林"])
async def test_a_made_up_page_token_is_refused(stub: Stub, token: str) -> None:
    async with refusal() as refused:
        await stub.ListSessions(cache_pb2.ListSessionsRequest(tenant_id="t", page_token=token), timeout=10)
    assert (refused.error.reason, refused.error.field) == ("INVALID_PAGE_TOKEN", "page_token")


async def test_forgetting_a_user_leaves_no_trace_of_content(stub: Stub, empty_valkey: Valkey) -> None:
    for i in range(120):
        await commit(stub, "r", f"s{i}", user_id="ann", messages=say("ann's words"))
    await commit(stub, "r", "other", user_id="bob")
    erased = await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", user_id="ann"), timeout=10)
    assert erased.sessions == 120
    with empty_valkey.client() as client:
        kinds = {key.removeprefix(PREFIX).split(b"}:")[1].split(b":")[0] for key in client.scan_iter() if b"}:" in key}
        kept = [key for key in client.scan_iter() if b"3:ann," in key]
    assert kinds >= {b"session", b"turns", b"gone"}
    assert all(b":gone-user:" in key for key in kept)
    listed = await stub.ListSessions(cache_pb2.ListSessionsRequest(tenant_id="t"), timeout=10)
    assert [entry.session_id for entry in listed.sessions] == ["other"]


@pytest.mark.parametrize("what", [{"session_id": "s"}, {"user_id": "ann"}])
async def test_a_turn_under_way_does_not_bring_back_what_was_erased(stub: Stub, what: dict[str, str]) -> None:
    lease = (await open_session(stub, user_id="ann")).lease
    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", **what), timeout=10)
    async with refusal() as refused:
        await commit(stub, "r1", user_id="ann", lease_id=lease.lease_id)
    assert (refused.error.code, refused.error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ERASED")
    assert not (await open_session(stub, user_id="ann")).HasField("session")


async def test_get_session_gives_messages_or_says_that_there_are_none(stub: Stub) -> None:
    await commit(stub, "r1")
    request = cache_pb2.GetSessionRequest(tenant_id="t", session_id="s")
    assert contents((await stub.GetSession(request, timeout=10)).session) == ["hi", "hello"]
    async with refusal() as refused:
        await stub.GetSession(cache_pb2.GetSessionRequest(tenant_id="t", session_id="none"), timeout=10)
    assert refused.error.reason == "SESSION_NOT_FOUND"


async def test_every_key_has_a_ttl_and_activity_postpones_it(stub: Stub, empty_valkey: Valkey) -> None:
    await commit(stub, "r1", user_id="ann")
    await stub.Forget(cache_pb2.ForgetRequest(tenant_id="t", session_id="none"), timeout=10)
    with empty_valkey.client() as client:
        assert all(client.ttl(key) > 0 for key in client.scan_iter())
        content = [key for key in client.scan_iter() if b"{root}" not in key and b":gone" not in key]
        for key in content:
            client.expire(key, 100)
        await open_session(stub, user_id="ann")
        assert all(client.ttl(key) > 80_000 for key in content)


async def test_a_session_ends_after_its_ttl(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, session_ttl_s=1) as stub:
        await commit(stub, "r1")
        give_up_at_s = time.monotonic() + 10
        while (await stub.ListSessions(cache_pb2.ListSessionsRequest(tenant_id="t"), timeout=10)).sessions:
            assert time.monotonic() < give_up_at_s
            await asyncio.sleep(0.05)
        assert not (await open_session(stub)).HasField("session")


async def test_a_tenant_cannot_keep_more_sessions_than_its_limit(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, max_sessions_per_tenant=2) as stub:
        await commit(stub, "r", "s1")
        await commit(stub, "r", "s2")
        async with refusal() as refused:
            await commit(stub, "r", "s3")
        assert refused.error.reason == "TOO_MANY_SESSIONS"
        await commit(stub, "r", "s3", tenant_id="other")
        await commit(stub, "r2", "s1", base_version=1)


async def test_sessions_and_salts_survive_a_restart_of_store_and_service(tmp_path: Path) -> None:
    with running_valkey(tmp_path, fsync="always") as server:
        async with cache(server.url) as stub:
            await commit(stub, "r1", messages=say("my name is Lin", "hello Lin"), token_ids=[5, 6])
            salt = (await open_session(stub)).lease.salt
        server.kill()
        server.start()
        async with cache(server.url) as stub:
            again = await open_session(stub)
            assert contents(again.session) == ["my name is Lin", "hello Lin"]
            assert list(again.session.token_ids) == [5, 6]
            assert again.lease.salt == salt


async def test_without_redis_the_service_starts_refuses_and_recovers_by_itself(tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    async with cache(server.url, breaker_open_ms=50.0) as stub:
        for _ in range(5):
            async with refusal() as refused:
                await open_session(stub)
            assert refused.error.code is grpc.StatusCode.UNAVAILABLE
            assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"
            assert refused.error.retry_after_ms > 0
        server.start()
        try:
            await eventually_opens(stub)
        finally:
            server.kill()


async def test_a_redis_that_hangs_holds_up_nobody_and_is_used_again_afterwards(empty_valkey: Valkey) -> None:
    config = {"session_budget_ms": 50.0, "breaker_open_ms": 50.0, "redis_timeout_ms": 500.0, "max_redis_calls": 4}
    async with cache(empty_valkey.url, **config) as stub:
        await eventually_opens(stub)
        os.kill(empty_valkey.pid, signal.SIGSTOP)
        try:
            for _ in range(12):
                async with refusal() as refused:
                    await stub.OpenSession(
                        cache_pb2.OpenSessionRequest(tenant_id="t", session_id="s", model=MODEL), timeout=2
                    )
                assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"
        finally:
            os.kill(empty_valkey.pid, signal.SIGCONT)
        await eventually_opens(stub)


async def test_an_unused_port_is_no_redis() -> None:
    async with cache(f"redis://127.0.0.1:{free_port()}/0") as stub:
        async with refusal() as refused:
            await stub.Resolve(cache_pb2.ResolveRequest(tenant_id="t", model=MODEL), timeout=10)
        assert refused.error.reason == "CACHE_STORE_UNAVAILABLE"


async def eventually_opens(stub: Stub) -> None:
    give_up_at_s = time.monotonic() + 10
    while True:
        try:
            await open_session(stub)
            return
        except grpc.RpcError:
            assert time.monotonic() < give_up_at_s
            await asyncio.sleep(0.02)
