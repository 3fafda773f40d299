"""The directory of stored KV pages on a real Valkey: what is found, what goes, who may evict whom, what is erased."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kv_directory_support import ONE_PAGE, TTL_S, Bench, bench, digest, limits
from quality_support import Valkey, running_valkey

from stagemesh.runtime.kv_directory import Holder, PublishedPage, publish
from stagemesh.runtime.kv_directory.publish import MAX_PAGES_PER_CALL
from stagemesh.runtime.kv_keys import namespace, value_name
from stagemesh.runtime.kv_value import cost_s

A, B = Holder(session_id="a", user_id="u"), Holder(session_id="b", user_id="u")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("kv")) as valkey:
        yield valkey


@pytest.fixture
async def kv(server: Valkey) -> AsyncIterator[Bench]:
    async with bench(server.url) as found:
        yield found


async def test_published_pages_are_found_up_to_the_first_gap(kv: Bench) -> None:
    lease = await kv.lease("t")
    done = kv.store(lease, [1, 2, 4])
    assert (done.refusal, done.entered, done.missing) == ("", 3, 0)
    assert await kv.found(lease, [1, 2, 3, 4]) == 2
    assert await kv.found(lease, [3, 1]) == 0
    assert not kv.keys_without_ttl()


async def test_a_value_that_is_not_published_is_not_found_and_ends_by_itself(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.write(lease.namespace, [1])
    assert await kv.found(lease, [1]) == 0
    assert 0 < kv.sync.ttl(value_name(lease.namespace, digest(1))) <= 60


async def test_publishing_again_changes_nothing(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, [1, 2])
    before = await kv.directory.stats(lease.namespace)
    again = publish(kv.sync, lease, [PublishedPage(digest(name), 1_000) for name in (1, 2)])
    assert (again.entered, again.known) == (0, 2)
    assert await kv.directory.stats(lease.namespace) == before
    assert before.num_bytes == before.total_bytes == 2 * ONE_PAGE


async def test_a_missing_or_torn_value_is_not_entered(kv: Bench) -> None:
    lease = await kv.lease("t")
    pages = [*kv.write(lease.namespace, [1]), PublishedPage(digest(2), 1_000), PublishedPage(digest(1), 999)]
    done = publish(kv.sync, lease, pages)
    assert (done.entered, done.missing) == (1, 2)
    assert await kv.found(lease, [1]) == 0


@pytest.mark.parametrize("changed", [{"lease_id": "guessed"}, {"epoch": 2}, {"ttl_s": 0}])
async def test_nothing_is_published_under_a_lease_that_was_not_given(kv: Bench, changed: dict[str, object]) -> None:
    lease = await kv.lease("t")
    for field, value in changed.items():
        setattr(lease, field, value)
    assert kv.store(lease, [1]).refusal in {"NO_LEASE", "OTHER_EPOCH"}
    assert await kv.found(lease, [1]) == 0


async def test_a_server_that_nobody_gave_limits_takes_nothing(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.sync.delete("stagemesh:kv:{all}:limits")
    assert kv.store(lease, [1]).refusal == "NO_LIMITS"
    assert not kv.values(lease.namespace)


async def test_another_tenant_finds_nothing_under_the_same_digests(kv: Bench) -> None:
    kv.store(await kv.lease("t"), [1, 2])
    assert await kv.found(await kv.lease("other"), [1, 2]) == 0


async def test_over_its_budget_a_tenant_loses_its_least_used_pages(server: Valkey) -> None:
    async with bench(server.url, tenant_bytes=4 * ONE_PAGE) as kv:
        lease = await kv.lease("t")
        kv.store(lease, [1, 2, 3, 4])
        assert await kv.found(lease, [1]) == await kv.found(lease, [3]) == 1
        done = kv.store(lease, [5])
        assert (done.evicted, done.evicted_bytes) == (1, ONE_PAGE)
        assert kv.values(lease.namespace) == {digest(name) for name in (1, 2, 3, 5)}


async def test_of_pages_worth_the_same_the_end_of_a_chain_goes_first(server: Valkey) -> None:
    async with bench(server.url, tenant_bytes=3 * ONE_PAGE) as kv:
        lease = await kv.lease("t")
        kv.store(lease, [1, 2, 3])
        await kv.found(lease, [1, 2, 3])
        lease.horizon_s = 1_000
        kv.store(lease, ["more"])
        assert kv.values(lease.namespace) == {digest(name) for name in (1, 2, "more")}


@pytest.mark.parametrize("dearer", [{"page_s": 2e-4}, {"page_s": 1e-4, "num_bytes": 500}])
async def test_of_pages_used_alike_those_stay_that_cost_more_to_compute_for_their_bytes(
    server: Valkey, dearer: dict[str, Any]
) -> None:
    async with bench(server.url, tenant_bytes=4 * ONE_PAGE) as kv:
        lease = await kv.lease("t", tau_s=100.0)
        kv.store(lease, ["dear", "dear too"], **dearer)
        kv.store(lease, ["cheap", "cheap too"], page_s=1e-4)
        for names in (["dear", "dear too"], ["cheap", "cheap too"]):
            assert await kv.found(lease, names, horizon_s=0.0) == 2
        kv.store(lease, ["next", "and next"], page_s=1.0)
        assert {digest("dear"), digest("dear too")} <= kv.values(lease.namespace)
        assert digest("cheap too") not in kv.values(lease.namespace)


async def test_a_part_of_a_chain_that_was_measured_dearer_still_goes_before_the_parts_before_it(kv: Bench) -> None:
    lease = await kv.lease("t", tau_s=100.0)
    kv.store(lease, [1, 2], page_s=1e-4)
    kv.store(lease, [3, 4], page_s=1e-3, first_page=2, parent=digest(2))
    kv.store(lease, [5], page_s=1e-5, first_page=4, parent=digest(4))
    terms = [kv.costs(lease.namespace)[digest(name)] for name in (1, 2, 3, 4, 5)]
    assert terms == [cost_s(1e-4, 1_000, 100.0)] * 4 + [cost_s(1e-5, 1_000, 100.0)]
    await kv.found(lease, [1, 2, 3, 4, 5])
    scores = kv.scores(lease.namespace)
    assert sorted(scores, key=lambda name: -scores[name]) == [digest(name) for name in (1, 2, 3, 4, 5)]


async def test_a_page_that_is_written_again_in_fewer_bytes_is_worth_more_by_that(kv: Bench) -> None:
    lease = await kv.lease("t", tau_s=100.0)
    kv.store(lease, [1, 2], page_s=1e-4)
    before = kv.scores(lease.namespace)
    kv.store(lease, [1, 2], page_s=1e-4, num_bytes=500)
    for name, score in kv.scores(lease.namespace).items():
        assert score - before[name] == pytest.approx(100.0 * math.log(2), abs=1e-3)


async def test_pages_that_were_entered_before_there_were_costs_are_used_and_forgotten_as_before(kv: Bench) -> None:
    lease = await kv.lease("t", holder=A)
    kv.store(lease, [1, 2])
    for name in (1, 2):
        kv.sync.hset(lease.namespace + b"pages", digest(name), struct.pack("<2d", ONE_PAGE, 50.0) + A.tag)
    before = kv.scores(lease.namespace)
    assert await kv.found(lease, [1, 2], holder=B) == 2
    assert all(score > before[name] + 50.0 for name, score in kv.scores(lease.namespace).items())
    assert await kv.directory.forget_session(lease.namespace, "b", lease_ttl_s=TTL_S) == 0
    assert await kv.directory.forget_session(lease.namespace, "a", lease_ttl_s=TTL_S) == 2
    assert kv.costs(lease.namespace) == {}


async def test_a_flood_of_one_tenant_leaves_the_others_their_fair_share(server: Valkey) -> None:
    async with bench(server.url, total_bytes=30 * ONE_PAGE) as kv:
        small, large, flood = [await kv.lease(name) for name in ("small", "large", "flood")]
        kv.store(small, [f"s{i}" for i in range(8)])
        kv.store(large, [f"l{i}" for i in range(20)])
        flood.horizon_s = 10_000  # however much its pages are worth
        kv.store(flood, [f"f{i}" for i in range(200)])
        pages = [len(kv.values(lease.namespace)) for lease in (small, large, flood)]
        assert pages == [8, 11, 11]  # the greatest gives, and the flood is among them
        stats = await kv.directory.stats(flood.namespace)
        assert stats.total_bytes == 30 * ONE_PAGE


async def test_nobody_is_evicted_below_the_fair_share_by_another(server: Valkey) -> None:
    async with bench(server.url, total_bytes=20 * ONE_PAGE) as kv:
        fair, flood = await kv.lease("fair"), await kv.lease("flood")
        kv.store(fair, [f"s{i}" for i in range(10)])
        for i in range(30):
            kv.store(flood, [f"f{i}", f"g{i}"], num_bytes=4_000)
        assert len(kv.values(fair.namespace)) == 10
        assert (await kv.directory.stats(fair.namespace)).total_bytes <= 20 * ONE_PAGE


async def test_pinned_pages_stay_as_long_as_they_are_pinned_and_no_more_than_may_be(server: Valkey) -> None:
    async with bench(server.url, tenant_bytes=4 * ONE_PAGE, pinned_bytes=2 * ONE_PAGE) as kv:
        lease = await kv.lease("t")
        kv.store(lease, [1, 2, 3])
        assert await kv.directory.pin(lease.namespace, [digest(i) for i in (1, 2, 3, "absent")], ttl_s=100) == 2
        kv.store(lease, range(10, 20))
        assert {digest(1), digest(2)} < kv.values(lease.namespace)
        assert (await kv.directory.stats(lease.namespace)).pinned_bytes == 2 * ONE_PAGE
        assert await kv.directory.unpin(lease.namespace, [digest(1), digest(2)]) == 2
        lease.horizon_s = 100
        kv.store(lease, range(20, 30))
        assert not {digest(1), digest(2)} & kv.values(lease.namespace)
        assert (await kv.directory.stats(lease.namespace)).pinned_bytes == 0


async def test_public_pages_are_one_for_all_tenants_protected_and_held_by_nobody(kv: Bench) -> None:
    public = namespace("public", 1)
    lease = await kv.lease("t", holder=A, public_namespace=public)
    pages = [PublishedPage(page.digest, page.num_bytes, public=True) for page in kv.write(public, [1, 2])]
    assert publish(kv.sync, lease, [*pages, *kv.write(lease.namespace, [3])]).entered == 3
    other = namespace("other", 1)
    digests = [digest(i) for i in (1, 2, 3)]
    found = await kv.directory.lookup(other, digests, ttl_s=TTL_S, num_public=2, public_space=public)
    assert found.pages == 2
    assert (await kv.directory.stats(public)).pinned_bytes == 2 * ONE_PAGE
    assert await kv.directory.forget_user(lease.namespace, "u", lease_ttl_s=TTL_S) == 1
    assert len(kv.values(public)) == 2


async def test_forgetting_a_session_erases_what_no_other_session_holds(kv: Bench) -> None:
    first, second = await kv.lease("t", "1", A), await kv.lease("t", "2", B)
    kv.store(first, ["shared", "mine"])
    assert await kv.found(second, ["shared"], holder=B) == 1
    assert await kv.directory.forget_session(first.namespace, "a", lease_ttl_s=TTL_S) == 1
    assert kv.values(first.namespace) == {digest("shared")}
    assert await kv.directory.forget_session(first.namespace, "b", lease_ttl_s=TTL_S) == 1
    assert (await kv.directory.stats(first.namespace)).num_bytes == 0


async def test_a_session_whose_time_is_over_holds_nothing_any_more(kv: Bench) -> None:
    first, second = await kv.lease("t", "1", A), await kv.lease("t", "2", B)
    kv.store(first, ["shared"])
    await kv.found(second, ["shared"], holder=B)
    kv.sync.delete(first.namespace + b"held:" + A.tag)  # as its TTL does
    assert await kv.directory.forget_session(first.namespace, "b", lease_ttl_s=TTL_S) == 1


async def test_what_is_published_after_the_session_or_its_user_was_erased_is_refused(kv: Bench) -> None:
    late = await kv.lease("t", "1", A)
    await kv.directory.forget_session(late.namespace, "a", lease_ttl_s=TTL_S)
    assert kv.store(late, [1]).refusal == "FORGOTTEN"
    later = await kv.lease("t", "2", A)
    await kv.directory.forget_user(late.namespace, "u", lease_ttl_s=TTL_S)
    assert kv.store(later, [1]).refusal == "FORGOTTEN"
    assert not kv.values(late.namespace)
    assert kv.store(await kv.lease("t", "3", A), [1]).entered == 1


async def test_forgetting_a_user_erases_all_sessions_and_what_was_asked_without_one(kv: Bench) -> None:
    lease = await kv.lease("t", "1", A)
    kv.store(lease, range(300))
    kv.store(await kv.lease("t", "2", B), ["b"])
    kv.store(await kv.lease("t", "3", Holder(user_id="u")), ["plain"])
    kv.store(await kv.lease("t", "4", Holder(session_id="c", user_id="else")), ["else"])
    assert await kv.directory.forget_user(lease.namespace, "u", lease_ttl_s=TTL_S) == 302
    assert kv.values(lease.namespace) == {digest("else")}


async def test_values_that_vanish_or_end_are_uncounted(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, range(10))
    kv.sync.delete(value_name(lease.namespace, digest(3)))
    assert await kv.found(lease, range(10)) == 3
    assert (await kv.directory.stats(lease.namespace)).num_bytes == 9 * ONE_PAGE
    kv.sync.delete(value_name(lease.namespace, digest(7)))
    assert await kv.directory.sweep(lease.namespace) == 1
    for key in ("expiry",):
        kv.sync.zadd(lease.namespace + key.encode(), {digest(0): 1})  # as if its time had come
    stats = await kv.directory.stats(lease.namespace)
    assert (stats.num_bytes, stats.vanished, stats.expired) == (7 * ONE_PAGE, 2, 1)
    assert digest(0) not in kv.values(lease.namespace)


RANDOM = [b"", b"x", b"\xff" * 24, bytes(range(40)), b"\xff" * 3_000, struct.pack("<3d", math.nan, 0, 0)]


@pytest.mark.parametrize("record", RANDOM)
async def test_a_record_that_cannot_be_read_counts_as_absent_and_is_taken_out(kv: Bench, record: bytes) -> None:
    lease = await kv.lease("t", holder=A)
    kv.store(lease, range(4))
    kv.sync.hset(lease.namespace + b"pages", digest(2), record)
    assert await kv.found(lease, range(4), holder=A) == 2
    stats = await kv.directory.stats(lease.namespace)
    assert (stats.pages, stats.vanished, stats.num_bytes) == (3, 1, 3 * ONE_PAGE)
    kv.sync.hset(lease.namespace + b"pages", digest(0), record)
    assert await kv.directory.sweep(lease.namespace) == 1
    kv.sync.hset(lease.namespace + b"pages", digest(1), record)
    kv.store(lease, [1])
    stats = await kv.directory.stats(lease.namespace)
    assert (stats.pages, stats.num_bytes, stats.total_bytes) == (2, 2 * ONE_PAGE, 2 * ONE_PAGE)
    kv.sync.hset(lease.namespace + b"pages", digest(1), record)
    await kv.directory.forget_session(lease.namespace, "a", lease_ttl_s=TTL_S)
    assert not kv.values(lease.namespace)


async def test_keys_of_another_type_and_counts_that_are_no_numbers_are_taken_away(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, range(4))
    kv.sync.hset(lease.namespace + b"sums", "published", b"\xff\x00")
    kv.sync.set("stagemesh:kv:{all}:bytes", b"\xff")
    for name in (b"order", b"expiry", b"pins", b"pages"):
        kv.sync.delete(lease.namespace + name)
        kv.sync.set(lease.namespace + name, b"\xff\xfe")
    assert (await kv.directory.stats(lease.namespace)).published == 0
    await kv.directory.sweep(lease.namespace)
    assert (await kv.directory.stats(lease.namespace)).num_bytes == 0
    assert kv.store(lease, ["new"]).entered == 1


async def test_an_index_that_is_lost_leaves_no_bytes_counted(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, range(10))
    kv.sync.delete(lease.namespace + b"pages")
    await kv.directory.sweep(lease.namespace)
    stats = await kv.directory.stats(lease.namespace)
    assert (stats.num_bytes, stats.total_bytes, stats.pages) == (0, 0, 0)


async def test_smaller_limits_take_effect_with_the_next_sweep(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, range(10))
    await kv.directory.set_limits(limits(total_bytes=3 * ONE_PAGE))
    await kv.directory.sweep(lease.namespace)
    assert (await kv.directory.stats(lease.namespace)).pages == 3


async def test_a_use_that_is_worth_more_keeps_pages_longer_than_a_later_plain_one(kv: Bench) -> None:
    await kv.directory.set_limits(limits(total_bytes=2 * ONE_PAGE))
    lease = await kv.lease("t")
    kv.store(lease, ["promising", "plain"])
    await kv.found(lease, ["promising"], horizon_s=500.0)
    await kv.found(lease, ["plain"])
    lease.horizon_s = 300.0
    kv.store(lease, ["next"])
    assert kv.values(lease.namespace) == {digest("promising"), digest("next")}


async def test_a_long_chain_is_found_whole_and_touched_to_its_end(kv: Bench) -> None:
    lease = await kv.lease("t")
    names = list(range(1_300))
    kv.store(lease, names, num_bytes=10)
    before = kv.scores(lease.namespace)
    assert await kv.found(lease, names) == 1_300
    after = kv.scores(lease.namespace)
    assert all(after[name] > before[name] for name in before)
    for start in range(0, len(names), MAX_PAGES_PER_CALL):  # between calls, their distance in time counts as well
        run = [digest(name) for name in names[start : start + MAX_PAGES_PER_CALL]]
        assert run == sorted(run, key=lambda name: -after[name])


async def test_a_use_postpones_the_end_of_a_page_once_in_a_while(kv: Bench) -> None:
    lease = await kv.lease("t")
    kv.store(lease, [1])
    name = value_name(lease.namespace, digest(1))
    for left_s, renewed in ((TTL_S * 31 // 32, False), (TTL_S // 2, True)):
        kv.sync.expire(name, left_s)
        kv.sync.zadd(lease.namespace + b"expiry", {digest(1): kv.ends_s(name)})
        await kv.found(lease, [1])
        assert (kv.ends_s(name) - time.time() > left_s + 1) is renewed
        assert kv.sync.zscore(lease.namespace + b"expiry", digest(1)) == kv.ends_s(name)


async def test_entries_that_outlive_what_is_known_of_their_page_are_tidied(kv: Bench) -> None:
    lease = await kv.lease("a")
    kv.store(lease, [1, 2])
    kv.sync.zadd(lease.namespace + b"pins", {digest(1): 1})
    kv.sync.hdel(lease.namespace + b"pages", digest(1), digest(2))
    assert not kv.store(lease, [3]).refusal
    assert kv.sync.zrange(lease.namespace + b"pins", 0, -1) == []
    assert digest(1) not in kv.sync.zrange(lease.namespace + b"order", 0, -1)


async def test_a_refused_save_leaves_no_value_in_either_namespace_and_keeps_what_others_hold(kv: Bench) -> None:
    lease = await kv.lease("a", holder=Holder(session_id="s"), public_namespace=b"stagemesh:kv:{public}:")
    other = await kv.lease("a", "other", Holder(session_id="other"))
    kv.store(other, ["shared"])
    await kv.directory.forget_session(lease.namespace, "s", lease_ttl_s=TTL_S)
    public = [PublishedPage(page.digest, page.num_bytes, public=True) for page in kv.write(lease.public_namespace, [1])]
    pages = [*public, *kv.write(lease.namespace, ["shared", 2])]
    assert publish(kv.sync, lease, pages).refusal == "FORGOTTEN"
    assert kv.values(lease.public_namespace) == set()
    assert kv.values(lease.namespace) == {digest("shared")}
