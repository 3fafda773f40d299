"""Knowledge bases over real sockets and a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from quality_support import Valkey, refusal, running_valkey, serving

from services.cache.config import CacheConfig
from services.cache.knowledge.config import KnowledgeConfig
from services.cache.knowledge.keys import BaseKeys
from services.cache.service import CacheService
from stagemesh.api.cache.v1 import knowledge_pb2, knowledge_pb2_grpc
from stagemesh.cli.client.knowledge import by_shard, digests, sync
from stagemesh.runtime.knowledge import KnowledgeDocument

PATIENT = {"search_budget_ms": 10_000.0}
FAQ = [
    KnowledgeDocument("invoice", "Invoices", "Electronic invoices are sent by e-mail within a day of the order."),
    KnowledgeDocument("refund", "Refunds", "Refunds are paid to the same card within seven days of the return."),
    KnowledgeDocument("发票", "电子发票", "电子发票在订单完成后二十四小时内发送到您的邮箱。"),
    KnowledgeDocument("退货", "退货政策", "商品签收后七天内可以无理由退货，运费由买家承担。"),
]

Stub = knowledge_pb2_grpc.KnowledgeServiceStub


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
async def cache(url: str, **knowledge: Any) -> AsyncIterator[Stub]:
    config = CacheConfig(knowledge=KnowledgeConfig(**{**PATIENT, **knowledge}), redis_timeout_ms=10_000.0)
    async with serving(CacheService(url, config)) as channel:
        yield Stub(channel)


@pytest.fixture
async def stub(empty_valkey: Valkey) -> AsyncIterator[Stub]:
    async with cache(empty_valkey.url) as stub:
        yield stub


async def synced(
    stub: Stub, documents: Sequence[KnowledgeDocument], *, tenant: str = "t", name: str = "faq", exact: bool = False
) -> knowledge_pb2.SyncReport:
    shards = by_shard(documents)
    begin = knowledge_pb2.SyncBegin(tenant_id=tenant, knowledge=name, delete_missing=exact, shards=digests(shards))
    return await sync(stub, (), begin, shards, lambda done, of: None)


async def found(stub: Stub, query: str, *, tenant: str = "t", name: str = "faq", number: int = 4) -> list[str]:
    request = knowledge_pb2.SearchRequest(tenant_id=tenant, knowledge=name, query=query, max_passages=number)
    return [passage.document_id for passage in (await stub.Search(request, timeout=20)).passages]


def counts(report: knowledge_pb2.SyncReport) -> tuple[int, int, int, int]:
    return (report.documents, report.added, report.changed, report.removed)


async def test_documents_are_found_in_english_and_chinese(stub: Stub) -> None:
    report = await synced(stub, FAQ)
    assert counts(report) == (4, 4, 0, 0)
    assert (await found(stub, "When do I get my electronic invoice?"))[0] == "invoice"
    assert (await found(stub, "refunding to which card?"))[0] == "refund"
    assert (await found(stub, "请问电子发票什么时候发送？"))[0] == "发票"
    assert (await found(stub, "签收后几天内可以退货"))[0] == "退货"


async def test_a_question_about_something_else_finds_nothing(stub: Stub) -> None:
    await synced(stub, FAQ)
    assert await found(stub, "Write a poem about the winter sea and a lighthouse.") == []
    assert await found(stub, "太阳系有多少颗行星") == []
    assert await found(stub, "the of and") == []
    assert await found(stub, "") == []


async def test_a_second_sync_of_the_same_changes_nothing(stub: Stub) -> None:
    first = await synced(stub, FAQ)
    again = await synced(stub, FAQ)
    assert counts(again) == (4, 0, 0, 0)
    assert (again.version, again.shards_compared, again.new_bytes) == (first.version, 0, 0)


async def test_only_what_changed_is_indexed_and_the_old_text_is_gone(stub: Stub) -> None:
    await synced(stub, FAQ)
    changed = [KnowledgeDocument("invoice", "Invoices", "Paper bills travel by pigeon."), *FAQ[1:]]
    report = await synced(stub, changed)
    assert counts(report) == (4, 0, 1, 0)
    assert (report.shards_compared, report.shards_changed) == (1, 1)
    assert await found(stub, "pigeon bills") == ["invoice"]
    assert "invoice" not in await found(stub, "electronic e-mail order day")


async def test_documents_that_are_not_sent_stay_unless_the_source_is_exact(stub: Stub) -> None:
    await synced(stub, FAQ)
    assert counts(await synced(stub, FAQ[:1])) == (4, 0, 0, 0)
    assert counts(await synced(stub, FAQ[:1], exact=True)) == (1, 0, 0, 3)
    assert await found(stub, "refunds card") == []
    assert counts(await synced(stub, [], exact=True)) == (0, 0, 0, 1)


async def test_another_tenant_and_another_base_see_nothing(stub: Stub) -> None:
    await synced(stub, FAQ)
    await synced(stub, [KnowledgeDocument("own", "Own", "electronic invoice of the other tenant")], tenant="u")
    assert await found(stub, "electronic invoice", tenant="u") == ["own"]
    for tenant, name in (("v", "faq"), ("t", "other"), ("t:3:faq,", "faq")):
        async with refusal() as refused:
            await found(stub, "electronic invoice", tenant=tenant, name=name)
        assert (refused.error.code, refused.error.reason) == (grpc.StatusCode.NOT_FOUND, "KNOWLEDGE_NOT_FOUND")


async def test_all_cache_processes_give_the_same_passages_with_the_same_scores(empty_valkey: Valkey) -> None:
    documents = [KnowledgeDocument(f"d{i}", f"Part {i}", f"part number {i} of engine {i % 7}") for i in range(300)]
    request = knowledge_pb2.SearchRequest(tenant_id="t", knowledge="faq", query="engine 3 part 17", max_passages=8)
    async with cache(empty_valkey.url) as one, cache(empty_valkey.url) as other:
        await synced(one, documents)
        assert await one.Search(request, timeout=20) == await other.Search(request, timeout=20)
        await synced(other, [KnowledgeDocument("d17", "Gone", "gone"), *documents[:17], *documents[18:]])
        at_one, at_other = await one.Search(request, timeout=20), await other.Search(request, timeout=20)
        assert at_one == at_other
        assert "d17" not in [passage.document_id for passage in at_one.passages]
    async with cache(empty_valkey.url) as later:
        assert await later.Search(request, timeout=20) == at_one


async def test_the_passages_of_a_document_keep_their_ids_while_their_text_stays(stub: Stub) -> None:
    async def ids() -> dict[str, str]:
        request = knowledge_pb2.SearchRequest(tenant_id="t", knowledge="faq", query="electronic invoices refunds card")
        return {p.document_id: p.passage_id for p in (await stub.Search(request, timeout=20)).passages}

    await synced(stub, FAQ)
    before = await ids()
    await synced(stub, [KnowledgeDocument("refund", "Refunds", "Refunds go to another card.")])
    after = await ids()
    assert before["invoice"] == after["invoice"]
    assert before["refund"] != after["refund"]


async def test_a_dropped_base_leaves_nothing_behind(stub: Stub, empty_valkey: Valkey) -> None:
    await synced(stub, FAQ)
    await found(stub, "invoice")
    dropped = await stub.DropBase(knowledge_pb2.DropBaseRequest(tenant_id="t", knowledge="faq"), timeout=10)
    assert dropped.documents == 4
    async with refusal() as refused:
        await found(stub, "invoice")
    assert refused.error.reason == "KNOWLEDGE_NOT_FOUND"
    assert not (await stub.ListBases(knowledge_pb2.ListBasesRequest(tenant_id="t"), timeout=10)).bases
    with empty_valkey.client() as client:
        kept = [key for key in client.scan_iter() if b":kb" in key]
        assert all(client.ttl(key) > 0 for key in kept)  # files that the sync before had replaced
        assert not kept


async def test_listing_counts_what_a_tenant_has(stub: Stub) -> None:
    await synced(stub, FAQ)
    await synced(stub, FAQ[:2], name="small")
    await synced(stub, FAQ, tenant="u", name="theirs")
    listed = await stub.ListBases(knowledge_pb2.ListBasesRequest(tenant_id="t"), timeout=10)
    assert [(base.knowledge, base.documents) for base in listed.bases] == [("faq", 4), ("small", 2)]
    assert all(base.stored_bytes > 0 and base.updated_at.seconds > 0 for base in listed.bases)


async def test_replaced_files_get_a_ttl_and_living_ones_have_none(stub: Stub, empty_valkey: Valkey) -> None:
    await synced(stub, FAQ)
    await synced(stub, [KnowledgeDocument("invoice", "Invoices", "Something else.")])
    with empty_valkey.client() as client:
        files = [key for key in client.scan_iter() if b":kb-file:" in key]
        ttls = [client.ttl(key) for key in files]
        assert any(ttl > 0 for ttl in ttls)
        assert not any(ttl > 300 for ttl in ttls)
        fields = client.hgetall(BaseKeys("t", "faq").base())
        assert sum(ttl == -1 for ttl in ttls) == len(set(fields[b"files"].split(b'"')[3::4]))


async def test_a_base_whose_sync_was_killed_says_when_its_lock_ends(stub: Stub, empty_valkey: Valkey) -> None:
    with empty_valkey.client() as client:
        client.set(BaseKeys("t", "faq").lock(), "dead", px=20_000)
    async with refusal() as refused:
        await synced(stub, FAQ)
    assert refused.error.reason == "KNOWLEDGE_BUSY"
    assert 2_000 < refused.error.retry_after_ms <= 20_000


async def test_two_syncs_of_one_base_do_not_mix(stub: Stub) -> None:
    shards = by_shard(FAQ)
    begin = knowledge_pb2.SyncBegin(tenant_id="t", knowledge="faq", shards=digests(shards))
    first = stub.Sync(timeout=20)
    await first.write(knowledge_pb2.SyncRequest(begin=begin))
    await first.read()
    async with refusal() as refused:
        await synced(stub, FAQ)
    assert (refused.error.reason, refused.error.retry_after_ms > 0) == ("KNOWLEDGE_BUSY", True)
    first.cancel()
    give_up_at_s = time.monotonic() + 20
    while True:
        try:
            assert counts(await synced(stub, FAQ)) == (4, 4, 0, 0)
            break
        except grpc.aio.AioRpcError:
            assert time.monotonic() < give_up_at_s
            await asyncio.sleep(0.05)


async def test_a_sync_that_breaks_off_leaves_the_base_as_it_was(stub: Stub) -> None:
    await synced(stub, FAQ)
    shards = by_shard([KnowledgeDocument("invoice", "Invoices", "Half of a change.")])
    begin = knowledge_pb2.SyncBegin(tenant_id="t", knowledge="faq", shards=digests(shards))
    call = stub.Sync(timeout=20)
    await call.write(knowledge_pb2.SyncRequest(begin=begin))
    await call.read()
    call.cancel()
    assert await found(stub, "electronic invoice e-mail") == ["invoice"]


@pytest.mark.parametrize(
    "document",
    [
        knowledge_pb2.KnowledgeDocument(document_id="", text="x"),
        knowledge_pb2.KnowledgeDocument(document_id="a", text="  "),
        knowledge_pb2.KnowledgeDocument(document_id="a" * 600, text="x"),
        knowledge_pb2.KnowledgeDocument(document_id="invoice", title="t" * 600, text="x"),
        knowledge_pb2.KnowledgeDocument(document_id="of-a-shard-that-was-not-wanted", text="x"),
    ],
)
async def test_documents_that_cannot_be_are_refused(stub: Stub, document: knowledge_pb2.KnowledgeDocument) -> None:
    shards = by_shard(FAQ[:1])
    begin = knowledge_pb2.SyncBegin(tenant_id="t", knowledge="faq", shards=digests(shards))
    call = stub.Sync(timeout=20)
    await call.write(knowledge_pb2.SyncRequest(begin=begin))
    await call.read()
    documents = knowledge_pb2.SyncDocuments(documents=[document])
    await call.write(knowledge_pb2.SyncRequest(documents=documents))
    await call.done_writing()
    async with refusal() as refused:
        await call.read()
    assert refused.error.reason == "INVALID_DOCUMENT"


@pytest.mark.parametrize("name", ["", "none", "UPPER", "a/b", "../x", "a" * 64, "名"])
async def test_names_that_cannot_be_are_refused(stub: Stub, name: str) -> None:
    async with refusal() as refused:
        await found(stub, "x", name=name)
    assert (refused.error.reason, refused.error.field) == ("INVALID_KNOWLEDGE_NAME", "knowledge")


async def test_a_tenant_cannot_have_more_bases_than_its_limit(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, max_bases_per_tenant=1) as stub:
        await synced(stub, FAQ)
        async with refusal() as refused:
            await synced(stub, FAQ, name="second")
        assert refused.error.reason == "TOO_MANY_BASES"
        await synced(stub, FAQ[:1])


async def test_a_sync_cannot_send_more_than_its_limit(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url, max_documents=3) as stub:
        async with refusal() as refused:
            await synced(stub, FAQ)
        assert refused.error.reason == "KNOWLEDGE_TOO_LARGE"


async def test_a_damaged_file_is_noticed_and_the_next_sync_makes_the_base_anew(empty_valkey: Valkey) -> None:
    async with cache(empty_valkey.url) as stub:
        await synced(stub, FAQ)
    with empty_valkey.client() as client:
        store = max((key for key in client.scan_iter() if b":kb-file:" in key), key=client.strlen)
        damaged = bytearray(client.get(store))
        damaged[len(damaged) // 2] ^= 0xFF
        client.set(store, bytes(damaged))
    async with cache(empty_valkey.url) as stub:
        async with refusal() as refused:
            await found(stub, "invoice")
        assert refused.error.reason == "KNOWLEDGE_DAMAGED"
        assert counts(await synced(stub, FAQ)) == (4, 4, 0, 0)
        assert (await found(stub, "electronic invoice e-mail"))[0] == "invoice"
    async with cache(empty_valkey.url) as stub:
        assert (await found(stub, "electronic invoice e-mail"))[0] == "invoice"


async def test_a_base_survives_a_restart_of_store_and_service(tmp_path: Path) -> None:
    with running_valkey(tmp_path, fsync="always") as server:
        async with cache(server.url) as stub:
            await synced(stub, FAQ)
        server.kill()
        server.start()
        async with cache(server.url) as stub:
            assert (await found(stub, "电子发票"))[0] == "发票"


async def test_without_redis_searches_are_refused_at_once(tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    async with cache(server.url) as stub:
        async with refusal() as refused:
            await found(stub, "invoice")
        assert (refused.error.code, refused.error.reason) == (
            grpc.StatusCode.UNAVAILABLE,
            "CACHE_STORE_UNAVAILABLE",
        )


async def test_the_service_leaves_no_files_behind(
    empty_valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGEMESH_INSTANCE", "cache-1")
    config = CacheConfig(knowledge=KnowledgeConfig(**PATIENT), redis_timeout_ms=10_000.0)
    async with serving(CacheService(empty_valkey.url, config, state_dir=tmp_path)) as channel:
        stub = Stub(channel)
        await synced(stub, FAQ)
        await synced(stub, [*FAQ, KnowledgeDocument("more", "More", "more text")])
        copies = list((tmp_path / "knowledge" / "cache-1").glob("*/*"))
        assert [path.name[0] for path in copies] == ["v"]
    assert os.listdir(tmp_path / "knowledge") == []


async def test_searches_go_on_while_another_process_syncs_again_and_again(empty_valkey: Valkey) -> None:
    texts = ["the red boat", "the green boat", "the blue boat"]
    async with cache(empty_valkey.url) as one, cache(empty_valkey.url) as other:
        await synced(one, [KnowledgeDocument("boat", "Boat", texts[0])])
        done = asyncio.Event()
        seen: set[str] = set()

        async def search() -> None:
            request = knowledge_pb2.SearchRequest(tenant_id="t", knowledge="faq", query="boat")
            while not done.is_set():
                answer = await other.Search(request, timeout=20)
                seen.add(answer.passages[0].text)

        searches = [asyncio.create_task(search()) for _ in range(3)]
        for text in texts[1:]:
            await synced(one, [KnowledgeDocument("boat", "Boat", text)])
        request = knowledge_pb2.SearchRequest(tenant_id="t", knowledge="faq", query="boat")
        latest = await other.Search(request, timeout=20)
        done.set()
        await asyncio.gather(*searches)
        assert [passage.text for passage in latest.passages] == [texts[-1]]
        assert seen <= set(texts)
