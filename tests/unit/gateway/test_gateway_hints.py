"""Hints: one at a time of each user and session, bounded, and what an engine is asked for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway import hints as hints_module
from services.gateway.config import GatewayConfig
from services.gateway.hints import Hints, hint_submit
from services.gateway.job import Job, make_job
from services.gateway.running import RunningRequest
from services.gateway.stages import StageLog
from services.gateway.work import Delivered, Work, new_outputs
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.identity import Identity
from stagemesh.runtime.mesh_config import MeshConfig

CONFIG = GatewayConfig(max_hints=3, max_hints_per_tenant=2)


def job(user: str = "", tenant: str = "t") -> Job:
    return make_job(tenant, gateway_pb2.InferenceRequest(prompt="typed", user_id=user), MeshConfig(), CONFIG)


def work_of(made: Job) -> Work:
    return Work(
        job=made,
        running=RunningRequest(made.tenant_id, made.request_id),
        log_stages=StageLog(Identity(instance="g", generation=1)),
        deadline=Deadline.after(10),
        accepted_s=0.0,
        outputs=new_outputs(made, Delivered()),
    )


class Started:
    """Stands in for the stages before the engine: never done, so that hints stay in work."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.ended: list[str] = []

    async def prepare(self, work: Work, peers: object, config: object) -> None:
        user = work.job.request.user_id
        self.users.append(user)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(user)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    made = Started()
    monkeypatch.setattr(hints_module, "prepare", made.prepare)
    return made


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_newer_hint_and_the_request_take_the_place_of_a_hint(started: Started) -> None:
    peers: Any = None
    hints = Hints(peers, CONFIG, work_of)
    assert hints.offer(job("ann"))
    await settle()
    assert hints.offer(job("ann"))
    await settle()
    assert (started.users, started.ended) == (["ann", "ann"], ["ann"])
    hints.supersede("t", gateway_pb2.InferenceRequest(user_id="ann"))
    hints.supersede("t", gateway_pb2.InferenceRequest(user_id="nobody"))
    await settle()
    assert started.ended == ["ann", "ann"]
    await hints.close()


async def test_hints_are_bounded_for_a_tenant_and_in_all(started: Started) -> None:
    peers: Any = None
    hints = Hints(peers, CONFIG, work_of)
    assert [hints.offer(job(user)) for user in ("a", "b", "c")] == [True, True, False]
    assert [hints.offer(job(user, "other")) for user in ("a", "b")] == [True, False]
    await settle()
    await hints.close()
    assert sorted(started.ended) == ["a", "a", "b"]


def prompt(num_tokens: int, salt: bytes = b"s") -> Any:
    return SimpleNamespace(
        token_ids=list(range(num_tokens)),
        model=common_pb2.ModelIdentity(model="m"),
        mode=common_pb2.PRECISION_MODE_STANDARD,
        context_length=8192,
        lease=cache_pb2.Lease(salt=salt),
    )


async def test_an_engine_computes_full_pages_and_one_token(started: Started) -> None:
    work = work_of(job())
    submit = hint_submit(work, prompt(70))
    assert submit is not None
    assert (len(submit.token_ids), submit.sampling.max_tokens) == (65, 1)
    assert submit.sequence_id.startswith("t/hint/")
    exact = hint_submit(work, prompt(64))
    assert exact is not None
    assert len(exact.token_ids) == 64
    assert hint_submit(work, prompt(15)) is None, "no full page"
    assert hint_submit(work, prompt(70, salt=b"")) is None, "nothing may be reused"
