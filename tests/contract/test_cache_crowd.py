"""Sixty-four sessions at once: they look up, store, commit and forget, and everything adds up afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
from quality_support import Valkey, running_valkey
from test_cache_stored_pages import cache, commit, open_session, resolve, store_pages

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.runtime.kv_keys import PAGE_TOKENS

NUM_SESSIONS, NUM_TURNS = 64, 4
SHARED = list(range(4 * PAGE_TOKENS))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Valkey, Valkey]]:
    with (
        running_valkey(tmp_path_factory.mktemp("ledger")) as ledger,
        running_valkey(tmp_path_factory.mktemp("kv")) as store,
    ):
        yield ledger, store


async def converse(stub: cache_pb2_grpc.CacheServiceStub, store: Valkey, number: int) -> int:
    """One session's turns; gives how many tokens were found stored at the last."""
    tenant, session, chance = f"t{number % 3}", f"s{number}", random.Random(number)
    tokens, found = list(SHARED), 0
    for turn in range(NUM_TURNS):
        tokens += [chance.randrange(50_000) for _ in range(2 * PAGE_TOKENS)]
        opened = await open_session(stub, session, tenant_id=tenant, user_id=f"u{number % 5}")
        lease = opened.lease if turn else await resolve(stub, tokens, tenant_id=tenant, session_id=session)
        found = lease.kv.stored_tokens
        assert found <= len(tokens)
        refusal = await asyncio.to_thread(store_pages, store, lease, tenant, tokens)
        assert refusal in {"", "FORGOTTEN"}
        await commit(
            stub, opened.lease, session, tenant_id=tenant, token_ids=tokens, request_id=f"r{turn}", base_version=turn
        )
    return found


async def test_64_sessions_store_and_restore_at_once_and_the_counters_agree(servers: tuple[Valkey, Valkey]) -> None:
    ledger, store = servers
    async with cache(ledger, store) as stub:
        found = await asyncio.gather(*(converse(stub, store, number) for number in range(NUM_SESSIONS)))
        assert found == [(4 + 2 * (NUM_TURNS - 1)) * PAGE_TOKENS] * NUM_SESSIONS
        stats = await stub.Stats(cache_pb2.StatsRequest(tenant_id="t0"), timeout=20)
        own = sum(1 for number in range(NUM_SESSIONS) if number % 3 == 0) * 2 * NUM_TURNS
        assert stats.tenants[0].stored.pages == 4 + own
        forgotten = [
            stub.Forget(cache_pb2.ForgetRequest(tenant_id=f"t{n % 3}", session_id=f"s{n}"), timeout=20)
            for n in range(NUM_SESSIONS)
        ]
        await asyncio.gather(*forgotten)
        for tenant in ("t0", "t1", "t2"):
            (entry,) = (await stub.Stats(cache_pb2.StatsRequest(tenant_id=tenant), timeout=20)).tenants
            assert (entry.stored.pages, entry.stored.bytes) == (0, 0)
