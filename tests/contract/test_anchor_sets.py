"""Stored anchor sets over real sockets and a real Valkey: loaded by an operator, used by validator and corrector."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from quality_support import Valkey, refusal, running_valkey, serving

from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.validator.v1 import anchor_sets_pb2, anchor_sets_pb2_grpc, validator_pb2, validator_pb2_grpc
from stagemesh.cli.client.anchor_sets import load
from stagemesh.runtime.errors import from_rpc
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.sets.config import AnchorSetsConfig

SKUS = ("A-1001", "A-1002", "B-7700", "张 三")
SKU = common_pb2.Anchor(pointer="/sku", set="skus")


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture
def url(valkey: Valkey) -> str:
    with valkey.client() as client:
        client.flushall()
    return valkey.url


def sets_config(**sets: Any) -> AnchorSetsConfig:
    return AnchorSetsConfig(**{"wait_ms": 60_000.0, "redis_timeout_ms": 10_000.0, "poll_s": 60.0, **sets})


@contextlib.asynccontextmanager
async def validator(url: str, state_dir: Path | None = None, **sets: Any) -> AsyncIterator[grpc.aio.Channel]:
    config = ValidatorConfig(check_timeout_ms=20_000.0, num_workers=1, anchor_sets=sets_config(**sets))
    async with serving(ValidatorService(config, ledger_url=url, state_dir=state_dir)) as channel:
        yield channel


async def store(
    channel: grpc.aio.Channel, keys: Sequence[str] = SKUS, tenant: str = "acme", **begin: Any
) -> anchor_sets_pb2.AnchorSet:
    stub = anchor_sets_pb2_grpc.AnchorSetServiceStub(channel)
    wanted = anchor_sets_pb2.LoadBegin(tenant_id=tenant, name=begin.pop("name", "skus"), **begin)
    return await load(stub, (), wanted, iter(keys), lambda keys: None)


async def lookup(channel: grpc.aio.Channel, key: str, tenant: str = "acme") -> tuple[int, list[str]]:
    stub = anchor_sets_pb2_grpc.AnchorSetServiceStub(channel)
    found = await stub.Lookup(anchor_sets_pb2.LookupRequest(tenant_id=tenant, name="skus", key=key), timeout=60)
    return found.match, list(found.keys)


async def validate(channel: grpc.aio.Channel, text: str, tenant: str = "acme") -> validator_pb2.Verdict:
    request = validator_pb2.ValidateRequest(text=text, anchors=[SKU], tenant_id=tenant)
    return (await validator_pb2_grpc.ValidatorServiceStub(channel).Validate(request, timeout=60)).verdict


async def test_a_stored_set_is_used_by_its_name(url: str) -> None:
    async with validator(url) as channel:
        stored = await store(channel, [*SKUS, "A-1001"])
        assert (stored.keys, stored.repeated_keys, stored.generation, stored.max_edits) == (4, 1, 1, 1)
        assert (await validate(channel, '{"sku":"A-1002"}')).valid
        verdict = await validate(channel, '{"sku":"B-770O"}')
        assert [(issue.rule, issue.suggestion) for issue in verdict.issues] == [("anchor.near", '"B-7700"')]
        assert '"skus"' in verdict.issues[0].message
        assert await lookup(channel, "张三") == (anchor_sets_pb2.MATCH_NEAR, ["张 三"])
        assert (await lookup(channel, "A-1003"))[0] == anchor_sets_pb2.MATCH_AMBIGUOUS


async def test_the_corrector_uses_the_same_sets(url: str) -> None:
    async with validator(url) as channel:
        await store(channel)
    mesh = MeshConfig(ledger_url=url)
    config = CorrectorConfig(repair_timeout_ms=20_000.0, anchor_sets=sets_config())
    async with serving(CorrectorService(mesh, config)) as channel:
        request = corrector_pb2.CorrectRequest(tenant_id="acme", text="{'sku': 'B-77O0'}", anchors=[SKU])
        done = await corrector_pb2_grpc.CorrectorServiceStub(channel).Correct(request, timeout=60)
    assert (done.valid, done.value) == (True, '{"sku":"B-7700"}')


async def test_a_set_of_another_tenant_is_not_there(url: str) -> None:
    async with validator(url) as channel:
        await store(channel)
        async with refusal() as refused:
            await validate(channel, "{}", tenant="other")
        assert refused.error.reason == "UNKNOWN_ANCHOR_SET"
        async with refusal() as refused:
            await lookup(channel, "A-1001", tenant="other")
        assert refused.error.reason == "ANCHOR_SET_NOT_FOUND"


async def test_a_new_load_replaces_the_keys_in_every_process(url: str) -> None:
    async with validator(url) as first, validator(url) as second:
        await store(first)
        assert (await validate(second, '{"sku":"A-1001"}')).valid
        stored = await store(first, ["C-9"], ignore_case=True)
        assert stored.generation == 2
        for channel in (first, second):
            assert not (await validate(channel, '{"sku":"A-1001"}')).valid
            assert (await validate(channel, '{"sku":"c-9"}')).valid


async def test_a_load_that_breaks_off_changes_nothing(url: str, valkey: Valkey) -> None:
    async with validator(url) as channel:
        await store(channel)
        async with refusal() as refused:
            await store(channel, ["new", "  "])
        assert refused.error.reason == "INVALID_ANCHOR"
        assert "key 2" in refused.error.message
        assert await lookup(channel, "A-1001") == (anchor_sets_pb2.MATCH_EXACT, ["A-1001"])


async def test_sets_are_listed_shown_and_dropped(url: str, valkey: Valkey) -> None:
    async with validator(url) as channel:
        stub = anchor_sets_pb2_grpc.AnchorSetServiceStub(channel)
        await store(channel)
        await store(channel, ["x"], name="others")
        listed = await stub.List(anchor_sets_pb2.ListRequest(tenant_id="acme"), timeout=60)
        assert [one.name for one in listed.sets] == ["others", "skus"]
        shown = await stub.Show(
            anchor_sets_pb2.ShowRequest(tenant_id="acme", name="skus", first_key=1, max_keys=2), timeout=60
        )
        assert list(shown.keys) == ["A-1001", "A-1002"]
        dropped = await stub.Drop(anchor_sets_pb2.DropRequest(tenant_id="acme", name="skus"), timeout=60)
        assert dropped.set.keys == 4
        async with refusal() as refused:
            await validate(channel, "{}")
        assert refused.error.reason == "UNKNOWN_ANCHOR_SET"
    with valkey.client() as client:
        left = sorted(client.scan_iter("stagemesh:anchors:*"))
    assert len(left) == 4, "counter, tenants, manifests, and the one chunk of the other set"


async def test_the_bounds_of_sets_are_kept(url: str) -> None:
    async with validator(url, max_keys=3, max_sets=1, max_key_chars=8) as channel:
        for keys, name, reason in (
            (SKUS, "skus", "ANCHOR_SET_TOO_LARGE"),
            (["a" * 9], "skus", "INVALID_ANCHOR"),
            ([], "skus", "INVALID_ANCHOR"),
            (["a"], "SKUs", "INVALID_SET_NAME"),
        ):
            async with refusal() as refused:
                await store(channel, keys, name=name)
            assert refused.error.reason == reason
        await store(channel, ["a"])
        async with refusal() as refused:
            await store(channel, ["a"], name="second")
        assert refused.error.reason == "TOO_MANY_ANCHOR_SETS"


async def test_without_the_store_a_named_set_is_unavailable_and_everything_else_works() -> None:
    async with validator("redis://127.0.0.1:1/0") as channel:
        async with refusal() as refused:
            await validate(channel, "{}")
        assert refused.error.reason == "ANCHORS_UNAVAILABLE"
        stub = validator_pb2_grpc.ValidatorServiceStub(channel)
        inline = common_pb2.Anchor(pointer="/sku", keys=["a"])
        request = validator_pb2.ValidateRequest(text='{"sku":"a"}', anchors=[inline])
        assert (await stub.Validate(request, timeout=60)).verdict.valid


async def test_a_process_gets_sets_ready_before_they_are_asked_for_and_keeps_one_file_each(
    url: str, tmp_path: Path
) -> None:
    async with validator(url) as loader:
        await store(loader)
        async with validator(url, tmp_path, poll_s=0.05):
            await files(tmp_path, 1)
            await store(loader, ["other"], name="others")
            await files(tmp_path, 2)
            await store(loader, ["x", "y"])
            await files(tmp_path, 2)
    assert not found(tmp_path, "*.idx"), "the folder goes with its process"


async def files(folder: Path, number: int) -> None:
    """Wait until there are so many indexes."""
    async with asyncio.timeout(60):
        while found(folder, "*.idx") != number or found(folder, "*.keys"):
            await asyncio.sleep(0.02)


def found(folder: Path, pattern: str) -> int:
    return len(list(folder.rglob(pattern)))


async def test_a_set_that_is_not_ready_yet_is_asked_for_again_and_never_half_used(url: str) -> None:
    async with validator(url) as loader:
        await store(loader)
    reasons: set[str] = set()
    async with validator(url, wait_ms=0.001) as channel, asyncio.timeout(60):
        while (verdict := await verdict_or_reason(channel, reasons)) is None:
            await asyncio.sleep(0.05)
    assert verdict.valid
    assert reasons <= {"ANCHORS_LOADING"}


async def verdict_or_reason(channel: grpc.aio.Channel, reasons: set[str]) -> validator_pb2.Verdict | None:
    try:
        return await validate(channel, '{"sku":"A-1002"}')
    except grpc.aio.AioRpcError as error:
        reasons.add(from_rpc(error).reason)
        return None
