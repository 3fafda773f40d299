"""Modes by rule and by limit, and what requests used, over a real Valkey."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from quality_support import Valkey, running_valkey

from services.gateway.alerts import Alerts
from services.gateway.config import GatewayConfig
from services.gateway.job import Job, make_job
from services.gateway.ledger import Ledger
from services.gateway.mode_rules import ModesConfig
from services.gateway.modes import Modes
from services.gateway.store import GuardedLedger
from services.gateway.usage import UsageAccounts, usage_of
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime import precise_limit, usage
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.redis_client import connect as connect_redis
from stagemesh.runtime.topics import ALERTS

PRECISE, STANDARD, TURBO = (
    common_pb2.PRECISION_MODE_PRECISE,
    common_pb2.PRECISION_MODE_STANDARD,
    common_pb2.PRECISION_MODE_TURBO,
)
CONFIG = GatewayConfig()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("usage")
    with running_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
async def redis(server: Valkey) -> AsyncIterator[Redis]:
    client = connect_redis(server.url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def ledger(redis: Redis) -> AsyncIterator[GuardedLedger]:
    guarded = GuardedLedger(Ledger(redis, owner="g/1", lease_s=5, outcome_ttl_s=60), timeout_s=2.0)
    yield guarded
    await guarded.close(1.0)


class Holding:
    """Engines that hold these modes."""

    def __init__(self, *modes: int) -> None:
        self._modes = modes

    def serving(self, model: str, mode: int, adapter: object = None) -> list[str]:
        return ["engine"] if mode in self._modes else []


@dataclass
class Setting:
    modes: Modes
    alerts: Alerts
    outbox: Outbox
    redis: Redis


@pytest.fixture
async def setting(redis: Redis, ledger: GuardedLedger) -> AsyncIterator[Setting]:
    outbox = Outbox(redis, ALERTS, ttl_s=60, max_entries=10)
    alerts = Alerts(outbox)
    engines: Any = Holding(PRECISE, STANDARD, TURBO)
    yield Setting(Modes(ModesConfig(), engines, redis, ledger, alerts), alerts, outbox, redis)
    await alerts.drain(2.0)


def job(text: str = "hello", *, mode: int = 0, tenant: str = "acme", user: str = "", max_tokens: int = 0) -> Job:
    request = gateway_pb2.InferenceRequest(request_id=str(uuid.uuid4()), prompt=text, user_id=user)
    request.policy.precision_mode = mode  # type: ignore[assignment]  a number as it is
    if max_tokens:
        request.sampling.max_tokens = max_tokens
    return make_job(tenant, request, MeshConfig(), CONFIG)


async def asked(setting: Setting, **fields: Any) -> Job:
    return await setting.modes.decide(job(**fields))


async def test_the_fourth_precise_in_a_row_runs_in_standard_with_an_alert_until_released(setting: Setting) -> None:
    for _ in range(3):
        assert (await asked(setting, mode=PRECISE)).request.policy.precision_mode == PRECISE
    for _ in range(2):
        limited = await asked(setting, mode=PRECISE)
        assert limited.request.policy.precision_mode == STANDARD
        assert limited.mode_limited
    await setting.alerts.drain(2.0)
    (entry,) = await setting.outbox.claim_due(10, 10.0)
    envelope = events_pb2.Envelope.FromString(entry.record)
    assert (envelope.tenant_id, envelope.alert.name) == ("acme", "precise-limit")
    assert "stagemesh tenant release acme" in envelope.alert.message
    assert await precise_limit.release(setting.redis, "acme") == 1
    assert not (await asked(setting, mode=PRECISE)).mode_limited


async def test_another_mode_in_between_ends_the_row_but_not_the_limit(setting: Setting) -> None:
    for mode in (PRECISE, PRECISE, PRECISE, TURBO, PRECISE, PRECISE, PRECISE):
        assert not (await asked(setting, mode=mode)).mode_limited
    assert (await asked(setting, mode=PRECISE)).mode_limited
    await asked(setting, mode=TURBO)
    assert (await asked(setting, mode=PRECISE)).mode_limited, "who is limited stays so for the window"


async def test_tenants_and_users_are_counted_apart(setting: Setting) -> None:
    for _ in range(4):
        last = await asked(setting, mode=PRECISE, user="ann")
    assert last.mode_limited
    assert not (await asked(setting, mode=PRECISE, user="bob")).mode_limited
    assert not (await asked(setting, mode=PRECISE, user="ann", tenant="other")).mode_limited


async def test_the_limit_ends_with_its_window(redis: Redis) -> None:
    for number in range(1, 4):
        assert await precise_limit.count(redis, "t", "u", window_s=600, most=2) == number
    seconds, _ = await redis.time()
    (key,) = await redis.keys("stagemesh:tenant-precise:t:*")
    await redis.set(key, f"3:{int(seconds) - 600}")
    assert await precise_limit.count(redis, "t", "u", window_s=600, most=2) == 1


async def test_what_is_held_of_a_user_goes_with_its_window_whoever_else_asks(redis: Redis) -> None:
    await precise_limit.count(redis, "t", "once", window_s=600, most=2)
    (key,) = await redis.keys("stagemesh:tenant-precise:t:*")
    await precise_limit.count(redis, "t", "u" * 10_000, window_s=9_000, most=2)
    await precise_limit.count(redis, "t.2", "u", window_s=600, most=2)
    assert 0 < await redis.ttl(key) <= 600
    assert await precise_limit.release(redis, "t") == 2
    assert await precise_limit.count(redis, "t.2", "u", window_s=600, most=2) == 2, "another tenant's stays"


async def test_rules_choose_a_mode_where_the_caller_names_none(setting: Setting) -> None:
    for text in ("请证明勾股定理", "Prove that 7 is prime.", "a rigorous argument"):
        assert (await asked(setting, text=text)).request.policy.precision_mode == PRECISE
    assert (await asked(setting, text="approve the invoice")).request.policy.precision_mode == 0
    assert (await asked(setting, text="prove it", mode=TURBO)).request.policy.precision_mode == TURBO
    assert (await asked(setting, max_tokens=501)).request.policy.precision_mode == PRECISE
    assert (await asked(setting, max_tokens=500)).request.policy.precision_mode == 0
    for _ in range(5):
        assert not (await asked(setting, text="prove it")).mode_limited, "only what callers ask for is counted"


async def test_a_rule_for_a_mode_that_no_engine_holds_is_passed_over(redis: Redis, ledger: GuardedLedger) -> None:
    engines: Any = Holding(STANDARD)
    modes = Modes(ModesConfig(), engines, redis, ledger, Alerts(Outbox(redis, ALERTS, ttl_s=60, max_entries=10)))
    assert (await modes.decide(job("prove it"))).request.policy.precision_mode == 0


@dataclass
class Prompt:
    mode: int


@dataclass
class Output:
    finish: str | None = "done"


@dataclass
class Work:
    job: Job
    prompt: Prompt | None
    outputs: list[Output] = field(default_factory=lambda: [Output()])


def final(outcome: int = common_pb2.OUTCOME_COMPLETE) -> gateway_pb2.Final:
    made = gateway_pb2.Final(outcome=outcome, total_us=500_000)  # type: ignore[arg-type]  a number as it is
    made.usage.prompt_tokens, made.usage.cached_tokens, made.usage.completion_tokens = 1_000, 400, 200
    return made


async def test_what_requests_used_is_summed_by_tenant_and_mode(redis: Redis, ledger: GuardedLedger) -> None:
    accounts = UsageAccounts(ModesConfig(), redis, ledger)
    worked: list[Any] = [
        (Work(job(), Prompt(STANDARD)), final()),
        (Work(job(), Prompt(STANDARD)), final(common_pb2.OUTCOME_CANCELLED)),
        (Work(job(), Prompt(PRECISE)), final()),
        (Work(job(tenant="other"), None), final(common_pb2.OUTCOME_REJECTED)),
    ]
    for work, ending in worked[:2]:
        accounts.note(work, ending)
    await accounts.flush()
    for work, ending in worked[2:]:
        accounts.note(work, ending)
    await accounts.close(2.0)
    sums = await usage.read(redis, ["acme", "other"], num_days=2, now_s=time.time())
    assert sums.keys() == {("acme", "standard"), ("acme", "precise")}
    standard, precise = sums["acme", "standard"], sums["acme", "precise"]
    assert (standard.requests, standard.answered, standard.prompt_tokens, standard.seconds) == (2, 1, 2_000, 1.0)
    assert standard.effective_tokens == 200
    assert precise.cost_units == pytest.approx(2.5 * (600 + 40 + 400) / 1000)
    assert precise.tokens_per_cost_unit == pytest.approx(200 / precise.cost_units)
    line = usage.as_json(("acme", "precise"), precise)
    assert (line["mode"], line["requests"], line["tokens_per_cost_unit"]) == ("precise", 1, 76.9)


def test_what_an_incomplete_answer_cost_is_no_effective_throughput() -> None:
    used = usage_of(final(common_pb2.OUTCOME_DEGRADED), 1.0)
    assert (used.answered, used.effective_tokens) == (1, 0)
    assert used.cost_units > 0
