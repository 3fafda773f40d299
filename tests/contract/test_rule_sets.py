"""Stored rules over real sockets and a real Valkey: stored by an operator, named by requests, gone with a tenant."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from quality_support import Valkey, refusal, running_valkey, serving

from services.corrector.adapters.store import AdapterStore
from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.validator.v1 import (
    anchor_sets_pb2,
    anchor_sets_pb2_grpc,
    rule_sets_pb2,
    rule_sets_pb2_grpc,
    validator_pb2,
    validator_pb2_grpc,
)
from stagemesh.cli.client.anchor_sets import load
from stagemesh.cli.client.revocation import Revoked, revoke
from stagemesh.runtime import tenants
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.sets.config import AnchorSetsConfig
from tests.contract.events_support import connected, eventually

SUM = common_pb2.Rule(sum=common_pb2.SumRule(total="/total", of=["/items/*"]))
NAMED = common_pb2.Rule(set="invoice")
WRONG = '{"total": 5, "items": [1, 2]}'


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture
async def channel(valkey: Valkey) -> AsyncIterator[grpc.aio.Channel]:
    with valkey.client() as client:
        client.flushall()
    async with validator(valkey.url, max_sets=2) as opened:
        yield opened


@contextlib.asynccontextmanager
async def validator(url: str, **sets: Any) -> AsyncIterator[grpc.aio.Channel]:
    config = ValidatorConfig(check_timeout_ms=20_000.0, num_workers=1, anchor_sets=sets_config(**sets))
    async with serving(ValidatorService(config, ledger_url=url)) as opened:
        yield opened


def sets_config(**sets: Any) -> AnchorSetsConfig:
    return AnchorSetsConfig(**{"wait_ms": 60_000.0, "redis_timeout_ms": 10_000.0, "poll_s": 60.0, **sets})


async def put(
    channel: grpc.aio.Channel, *rules: common_pb2.Rule, name: str = "invoice", tenant: str = "acme", **more: Any
) -> rule_sets_pb2.RuleSet:
    wanted = rule_sets_pb2.RuleSet(name=name, rules=rules, **more)
    request = rule_sets_pb2.PutRulesRequest(tenant_id=tenant, set=wanted)
    return (await rule_sets_pb2_grpc.RuleSetServiceStub(channel).PutRules(request, timeout=60)).set


async def verdict(channel: grpc.aio.Channel, text: str, *rules: common_pb2.Rule, tenant: str = "acme") -> list[str]:
    request = validator_pb2.ValidateRequest(text=text, rules=rules, tenant_id=tenant)
    found = (await validator_pb2_grpc.ValidatorServiceStub(channel).Validate(request, timeout=60)).verdict
    assert found.valid == (not found.issues)
    return [issue.rule for issue in found.issues]


async def test_stored_rules_are_applied_by_their_name_beside_others(channel: grpc.aio.Channel) -> None:
    stored = await put(channel, SUM, text_rules=[common_pb2.TextRules(pointer="/note", dates=True)])
    assert stored.updated_at.seconds > 1_700_000_000
    assert await verdict(channel, '{"total": 3, "items": [1, 2]}', NAMED) == []
    assert await verdict(channel, WRONG, NAMED) == ["sum"]
    at_most = common_pb2.Rule(number=common_pb2.NumberRule(pointer="/total", at_most=4))
    assert sorted(await verdict(channel, WRONG, at_most, NAMED)) == ["number", "sum"]
    assert await verdict(channel, '{"total": 0, "items": [], "note": "on 2025-02-30"}', NAMED) == ["date.exists"]


async def test_rules_that_replace_others_are_applied_at_once_also_by_the_corrector(
    channel: grpc.aio.Channel, valkey: Valkey
) -> None:
    await put(channel, SUM)
    synonyms = common_pb2.SynonymRule(pointer="/unit", names=[common_pb2.Synonyms(name="piece", also=["pcs"])])
    await put(channel, common_pb2.Rule(synonyms=synonyms))
    assert await verdict(channel, WRONG, NAMED) == []
    config = CorrectorConfig(repair_timeout_ms=20_000.0, anchor_sets=sets_config())
    async with serving(CorrectorService(MeshConfig(ledger_url=valkey.url), config)) as corrector:
        request = corrector_pb2.CorrectRequest(tenant_id="acme", text='{"unit": "pcs"}', rules=[NAMED])
        done = await corrector_pb2_grpc.CorrectorServiceStub(corrector).Correct(request, timeout=60)
    assert (done.valid, done.value) == (True, '{"unit":"piece"}')


async def test_rules_of_another_tenant_are_not_there(channel: grpc.aio.Channel) -> None:
    await put(channel, SUM)
    async with refusal() as refused:
        await verdict(channel, WRONG, NAMED, tenant="globex")
    assert (refused.error.reason, refused.error.field) == ("UNKNOWN_RULE_SET", "rules")
    stub = rule_sets_pb2_grpc.RuleSetServiceStub(channel)
    async with refusal() as refused:
        await stub.ShowRules(rule_sets_pb2.ShowRulesRequest(tenant_id="globex", name="invoice"), timeout=60)
    assert refused.error.reason == "RULE_SET_NOT_FOUND"
    assert not (await stub.ListRules(rule_sets_pb2.ListRulesRequest(tenant_id="globex"), timeout=60)).sets


@pytest.mark.parametrize(
    ("rules", "name", "reason"),
    [
        ([], "invoice", "INVALID_RULE"),
        ([NAMED], "invoice", "INVALID_RULE"),
        ([common_pb2.Rule(sum=common_pb2.SumRule(total="total"))], "invoice", "INVALID_RULE"),
        ([SUM], "In voice", "INVALID_SET_NAME"),
    ],
)
async def test_rules_that_cannot_be_applied_are_refused_and_what_was_stored_stays(
    channel: grpc.aio.Channel, rules: list[common_pb2.Rule], name: str, reason: str
) -> None:
    await put(channel, SUM)
    async with refusal() as refused:
        await put(channel, *rules, name=name)
    assert refused.error.reason == reason
    assert await verdict(channel, WRONG, NAMED) == ["sum"]


async def test_a_tenant_has_so_many_sets_of_rules_and_dropped_ones_make_room(channel: grpc.aio.Channel) -> None:
    for name in ("a", "b"):
        await put(channel, SUM, name=name)
    async with refusal() as refused:
        await put(channel, SUM, name="c")
    assert refused.error.reason == "TOO_MANY_RULE_SETS"
    stub = rule_sets_pb2_grpc.RuleSetServiceStub(channel)
    await stub.DropRules(rule_sets_pb2.DropRulesRequest(tenant_id="acme", name="a"), timeout=60)
    await put(channel, SUM, name="c")
    listed = await stub.ListRules(rule_sets_pb2.ListRulesRequest(tenant_id="acme"), timeout=60)
    assert [each.name for each in listed.sets] == ["b", "c"]


async def test_what_is_stored_of_a_revoked_tenant_goes_with_it(valkey: Valkey, tmp_path: Path) -> None:
    with valkey.client() as client:
        client.flushall()
    config = ValidatorConfig(check_timeout_ms=20_000.0, num_workers=1, anchor_sets=sets_config(poll_s=0.05))
    service = ValidatorService(config, ledger_url=valkey.url, state_dir=tmp_path)
    async with connected(valkey.url) as redis, serving(service) as channel:
        for tenant_id in ("acme", "globex"):
            await tenants.create(redis, tenant_id)
            begin = anchor_sets_pb2.LoadBegin(tenant_id=tenant_id, name="skus")
            stub = anchor_sets_pb2_grpc.AnchorSetServiceStub(channel)
            await load(stub, (), begin, iter(["A-1"]), lambda keys: None)
            await put(channel, SUM, tenant=tenant_id)
        assert num_indexes(tmp_path) == 2
        assert await revoke(redis, "acme") == Revoked(keys=1, anchor_sets=1, rule_sets=1)
        listed = await stub.List(anchor_sets_pb2.ListRequest(tenant_id="acme"), timeout=60)
        assert not listed.sets
        async with refusal() as refused:
            await verdict(channel, WRONG, NAMED)
        assert refused.error.reason == "UNKNOWN_RULE_SET"
        assert await verdict(channel, WRONG, NAMED, tenant="globex") == ["sum"]
        assert await AdapterStore(redis).records() == []
        await one_index_is_left(tmp_path)
        keys = [key.decode() for key in await redis.keys("stagemesh:anchors:*")]
    assert not [key for key in keys if "acme" in key]


async def one_index_is_left(folder: Path) -> None:
    async def is_so() -> bool:
        return num_indexes(folder) == 1

    await eventually(is_so, "the index of the revoked tenant is gone")


def num_indexes(folder: Path) -> int:
    return len(list(folder.rglob("*.idx")))
