"""Whatever tenants publish, use, pin, lose and forget: the directory of KV pages counts right and stays fair."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from kv_directory_support import TTL_S, Record, digest, limits, records
from quality_support import Valkey, running_valkey

from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import Holder, KvDirectory, PublishedPage, publish
from stagemesh.runtime.kv_keys import namespace, value_name
from stagemesh.runtime.kv_value import cost_s, touched
from stagemesh.runtime.redis_client import connect

TENANTS = ("a", "b", "c")
PROTECTED = 2.0**40
TOTAL_BYTES, TENANT_BYTES, PINNED_BYTES = 18_000, 12_000, 4_000
SIZES = (100, 1_000, 2_000)
TAU_S, DEPTH_STEP_S, ROUNDING_S = 100.0, 0.01, 0.005
PAGE_SECONDS = (0.0, 1e-6, 3e-5, 1e-3)

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
    records: dict[bytes, Record] = field(default_factory=dict)

    def worth(self, name: bytes, depth: int = 0) -> float:
        """The score, but for protection and depth."""
        protected = PROTECTED if name not in self.evictable else 0.0
        return self.scores[name] - protected + depth * DEPTH_STEP_S

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

    @rule(
        tenant=tenants,
        session=sessions,
        names=names,
        size=st.sampled_from(SIZES),
        horizon=st.integers(-3, 3),
        page_s=st.sampled_from(PAGE_SECONDS),
        parent=st.none() | st.integers(0, 12),
    )
    def publish(
        self, tenant: str, session: str, names: list[int], size: int, horizon: int, page_s: float, parent: int | None
    ) -> None:
        before, start_s = self.pages(), self.server_s()
        lease = self.lease(tenant, session, horizon_s=horizon * 1000.0, tau_s=TAU_S)
        for name in names:
            self.sync.set(value_name(lease.namespace, digest(name)), b"x" * size, ex=60)
        pages = [PublishedPage(digest(name), size) for name in names]
        name_before = b"" if parent is None else digest(parent)
        done = publish(self.sync, lease, pages, parent=name_before, page_s=page_s)
        assert done.entered + done.known + done.missing == len(names)
        self.held.setdefault((tenant, session), set()).update(map(digest, names))
        after = self.pages()
        self.check_evictions(tenant, before, after, {digest(name) for name in names})
        costs = self.expected_costs(before[tenant], pages, name_before, cost_s(page_s, size, TAU_S))
        for depth, page in enumerate(pages):
            if page.digest not in after[tenant].scores:
                continue
            assert after[tenant].records[page.digest].cost_s == costs[depth]
            worth_s = after[tenant].worth(page.digest, depth) - costs[depth]
            if old := before[tenant].records.get(page.digest):
                assert abs(worth_s - before[tenant].worth(page.digest, depth) + old.cost_s) < ROUNDING_S
            else:
                assert start_s - ROUNDING_S <= worth_s - lease.horizon_s <= self.server_s() + ROUNDING_S

    @rule(tenant=tenants, session=sessions, names=names, horizon=st.none() | st.integers(-3, 3))
    def use(self, tenant: str, session: str, names: list[int], horizon: int | None) -> None:
        space, digests = namespace(tenant, 1), [digest(name) for name in names]
        before, start_s = self.pages()[tenant], self.server_s()
        known = before.scores
        expected = next((i for i, name in enumerate(digests) if name not in known), len(digests))
        gone = next(
            (i for i, name in enumerate(digests) if not self.sync.exists(value_name(space, name))), len(digests)
        )
        horizon_s = None if horizon is None else horizon * TAU_S
        holder = Holder(session_id=session)
        found = self.run(self.directory.lookup(space, digests, ttl_s=TTL_S, holder=holder, horizon_s=horizon_s))
        assert found.pages == min(expected, gone)
        self.held.setdefault((tenant, session), set()).update(digests[: found.pages])
        after, end_s = self.pages()[tenant], self.server_s()
        for depth, name in enumerate(digests[: found.pages]):
            noted = before.records[name]
            use_s = (noted.horizon_s if horizon_s is None else horizon_s) + noted.cost_s
            low, high = (touched(before.worth(name, depth), now_s, use_s, TAU_S) for now_s in (start_s, end_s))
            assert low - ROUNDING_S <= after.worth(name, depth) <= high + ROUNDING_S
            assert after.records[name] == noted

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

    def expected_costs(self, before: Pages, pages: list[PublishedPage], parent: bytes, term_s: float) -> list[float]:
        """Each page keeps its cost unless its size changes, and none is dearer than the one before it."""
        highest = before.records[parent].cost_s if parent in before.records else math.inf
        costs: list[float] = []
        for page in pages:
            old = before.records.get(page.digest)
            kept = old is not None and old.num_bytes == footprint(page.num_bytes)
            highest = min(old.cost_s if old and kept else term_s, highest)
            costs.append(highest)
        return costs

    def server_s(self) -> float:
        seconds, microseconds = self.sync.time()  # type: ignore[misc]  # redis-py types sync and async alike
        return float(seconds + microseconds / 1e6)

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
            found[tenant] = Pages(dict(order), int(used or 0), records(self.sync, space))
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
