"""Whatever tenants publish, use, pin, lose and forget: the directory of KV pages counts right and stays fair."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from kv_directory_support import TTL_S, digest, limits
from quality_support import Valkey, running_valkey

from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import Holder, KvDirectory, PublishedPage, publish
from stagemesh.runtime.kv_keys import namespace, value_name
from stagemesh.runtime.redis_client import connect

TENANTS = ("a", "b", "c")
PROTECTED = 2.0**40
TOTAL_BYTES, TENANT_BYTES, PINNED_BYTES = 18_000, 12_000, 4_000
SIZES = (100, 1_000, 2_000)

tenants = st.sampled_from(TENANTS)
sessions = st.sampled_from(("s1", "s2", "s3"))
names = st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("kv")) as valkey:
        yield valkey


@dataclass
class Pages:
    """What the directory says of one namespace."""

    scores: dict[bytes, float] = field(default_factory=dict)
    num_bytes: int = 0

    @property
    def evictable(self) -> dict[bytes, float]:
        return {name: score for name, score in self.scores.items() if score < PROTECTED / 2}


def footprint(num_bytes: int) -> int:
    """What an allocator with four size classes per doubling takes for a value, and the entries about it."""
    num_bytes += 32
    step = 16
    while step * 8 < num_bytes:
        step *= 2
    return -(-num_bytes // step) * step + 512


class Machine(RuleBasedStateMachine):
    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.client = connect(self.url)
        self.sync = redis.Redis.from_url(self.url)
        self.directory = KvDirectory(self.client)
        self.held: dict[tuple[str, str], set[bytes]] = {}
        self.num_leases = 0

    @initialize()
    def begin(self) -> None:
        self.sync.flushall()
        budget = limits(total_bytes=TOTAL_BYTES, tenant_bytes=TENANT_BYTES, pinned_bytes=PINNED_BYTES)
        self.run(self.directory.set_limits(budget))

    @rule(tenant=tenants, session=sessions, names=names, size=st.sampled_from(SIZES), horizon=st.integers(-3, 3))
    def publish(self, tenant: str, session: str, names: list[int], size: int, horizon: int) -> None:
        before = self.pages()
        lease = self.lease(tenant, session, horizon_s=horizon * 1000.0)
        for name in names:
            self.sync.set(value_name(lease.namespace, digest(name)), b"x" * size, ex=60)
        done = publish(self.sync, lease, [PublishedPage(digest(name), size) for name in names])
        assert done.entered + done.known + done.missing == len(names)
        self.held.setdefault((tenant, session), set()).update(map(digest, names))
        self.check_evictions(tenant, before, self.pages(), {digest(name) for name in names})

    @rule(tenant=tenants, session=sessions, names=names)
    def use(self, tenant: str, session: str, names: list[int]) -> None:
        space, digests = namespace(tenant, 1), [digest(name) for name in names]
        known = self.pages()[tenant].scores
        expected = next((i for i, name in enumerate(digests) if name not in known), len(digests))
        gone = next(
            (i for i, name in enumerate(digests) if not self.sync.exists(value_name(space, name))), len(digests)
        )
        found = self.run(self.directory.lookup(space, digests, ttl_s=TTL_S, holder=Holder(session_id=session)))
        assert found.pages == min(expected, gone)
        self.held.setdefault((tenant, session), set()).update(digests[: found.pages])
        after = self.pages()[tenant].scores
        assert all(after[name] > known[name] for name in digests[: found.pages])

    @rule(tenant=tenants, names=names)
    def pin(self, tenant: str, names: list[int]) -> None:
        self.run(self.directory.pin(namespace(tenant, 1), list(map(digest, names)), ttl_s=100))

    @rule(tenant=tenants, names=names)
    def unpin(self, tenant: str, names: list[int]) -> None:
        self.run(self.directory.unpin(namespace(tenant, 1), list(map(digest, names))))

    @rule(tenant=tenants, names=names)
    def lose(self, tenant: str, names: list[int]) -> None:
        """Values go without the directory being told, as when their time is over."""
        for name in names:
            self.sync.delete(value_name(namespace(tenant, 1), digest(name)))
        self.run(self.directory.sweep(namespace(tenant, 1)))

    @rule(tenant=tenants, session=sessions)
    def forget(self, tenant: str, session: str) -> None:
        late = self.lease(tenant, session)
        before = set(self.pages()[tenant].scores)
        self.run(self.directory.forget_session(namespace(tenant, 1), session, lease_ttl_s=TTL_S))
        mine = self.held.pop((tenant, session), set())
        others = set().union(*(held for (owner, _), held in self.held.items() if owner == tenant), set())
        gone = before - set(self.pages()[tenant].scores)
        assert mine & before - others <= gone <= mine
        assert publish(self.sync, late, [PublishedPage(digest("late"), 1)]).refusal == "FORGOTTEN"

    @invariant()
    def counters_are_those_of_the_values(self) -> None:
        pages = self.pages()
        for tenant, found in pages.items():
            space = namespace(tenant, 1)
            sizes = [int(self.sync.strlen(value_name(space, name))) for name in found.scores]  # type: ignore[arg-type]  # sync
            assert found.num_bytes == sum(map(footprint, sizes))
            assert 0 not in sizes
            members = [set(self.sync.hkeys(space + b"pages")), set(self.sync.zrange(space + b"expiry", 0, -1))]  # type: ignore[arg-type]  # sync
            assert members == [set(found.scores)] * 2
            stats = self.run(self.directory.stats(space))
            protected = found.scores.keys() - found.evictable.keys()
            strlen = {name: int(self.sync.strlen(value_name(space, name))) for name in protected}  # type: ignore[arg-type]  # sync
            assert stats.pinned_bytes == sum(map(footprint, strlen.values())) <= PINNED_BYTES
            assert found.num_bytes <= TENANT_BYTES
        assert int(self.sync.get("stagemesh:kv:{all}:bytes") or 0) == sum(found.num_bytes for found in pages.values())  # type: ignore[arg-type]  # sync
        assert sum(found.num_bytes for found in pages.values()) <= TOTAL_BYTES

    @invariant()
    def every_key_has_a_ttl(self) -> None:
        assert [key for key in self.sync.scan_iter() if self.sync.ttl(key) == -1] == []

    def check_evictions(
        self, publisher: str, before: dict[str, Pages], after: dict[str, Pages], published: set[bytes]
    ) -> None:
        """Less valuable pages went first, and nobody was evicted below the fair share by another."""
        spaces = sum(1 for tenant in TENANTS if before[tenant].num_bytes or tenant == publisher)
        for tenant in TENANTS:
            gone = before[tenant].evictable.keys() - after[tenant].scores.keys()
            old = {name: score for name, score in after[tenant].evictable.items() if name not in published}
            gone -= published  # written anew in another size, and refused
            if gone:
                assert max(before[tenant].scores[name] for name in gone) <= min(old.values(), default=PROTECTED)
            if tenant != publisher and gone:
                assert after[tenant].num_bytes >= TOTAL_BYTES / spaces
            protected = before[tenant].scores.keys() - before[tenant].evictable.keys()
            assert protected - published <= after[tenant].scores.keys()

    def lease(self, tenant: str, session: str, **fields: Any) -> KvLease:
        space, self.num_leases = namespace(tenant, 1), self.num_leases + 1
        lease_id, holder = f"lease-{self.num_leases}", Holder(session_id=session)
        self.run(self.directory.lookup(space, [], ttl_s=TTL_S, lease_id=lease_id, lease_ttl_s=TTL_S, holder=holder))
        return KvLease(lease_id=lease_id, namespace=space, epoch=1, ttl_s=TTL_S, **fields)

    def pages(self) -> dict[str, Pages]:
        found = {}
        for tenant in TENANTS:
            space = namespace(tenant, 1)
            order: Any = self.sync.zrange(space + b"order", 0, -1, withscores=True)
            used: Any = self.sync.zscore("stagemesh:kv:{all}:spaces", space)
            found[tenant] = Pages(dict(order), int(used or 0))
        return found

    def run(self, operation: Any) -> Any:
        return self.loop.run_until_complete(operation)

    def teardown(self) -> None:
        self.run(self.client.aclose())
        self.sync.close()
        self.loop.close()


def test_counters_budgets_fairness_and_order_hold_under_any_history(server: Valkey) -> None:
    Machine.url = server.url
    run_state_machine_as_test(  # type: ignore[no-untyped-call]  # hypothesis gives it no types
        Machine,
        settings=settings(
            max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
