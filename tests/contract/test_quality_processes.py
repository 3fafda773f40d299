"""Validator, corrector and cache as processes: they answer, outlive killed children, and stop without a trace."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from quality_support import START_S, running, running_valkey

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1.common_pb2 import OutputConstraint
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc

OBJECT = OutputConstraint(json_object=True)


async def stop(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    return await asyncio.to_thread(process.wait, START_S)


def children_of(process: subprocess.Popen[bytes]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def gone(pids: list[int]) -> None:
    give_up_at_s = time.monotonic() + START_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < give_up_at_s, "children are left over"
        await asyncio.sleep(0.02)


async def validate(channel: grpc.aio.Channel, text: str) -> bool:
    request = validator_pb2.ValidateRequest(text=text, constraint=OBJECT)
    answer = await validator_pb2_grpc.ValidatorServiceStub(channel).Validate(request, timeout=30)
    return bool(answer.verdict.valid)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_validator_outlives_its_killed_children_and_stops_cleanly() -> None:
    async with running("validator", STAGEMESH_VALIDATOR__CHECK_TIMEOUT_MS="20000") as (process, channel):
        assert await validate(channel, "{}")
        children = children_of(process)
        assert len(children) == 2
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        # A call that meets a killed child is refused or repeated; afterwards there is a new one.
        for _ in range(3):
            await asyncio.gather(validate(channel, "{ }"), validate(channel, " {}"), return_exceptions=True)
        assert await validate(channel, "{  }")
        children = children_of(process)
        assert await stop(process) == 0
        await gone(children)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_killed_service_leaves_no_children() -> None:
    async with running("corrector") as (process, channel):
        request = corrector_pb2.CorrectRequest(text="Sure: {}", constraint=OBJECT)
        done = await corrector_pb2_grpc.CorrectorServiceStub(channel).Correct(request, timeout=30)
        assert done.valid
        assert done.text == "{}"
        children = children_of(process)
        assert children
        process.kill()
        await gone(children)


async def test_the_cache_answers_as_a_process_and_stops_cleanly(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as server:
        budget = {"STAGEMESH_CACHE__REDIS_BUDGET_MS": "5000"}
        async with running("cache", STAGEMESH_LEDGER_URL=server.url, **budget) as (process, channel):
            request = cache_pb2.ResolveRequest(tenant_id="t")
            answer = await cache_pb2_grpc.CacheServiceStub(channel).Resolve(request, timeout=30)
            assert len(answer.lease.salt) == 32
            assert await stop(process) == 0


@pytest.mark.parametrize(
    ("name", "environment", "words"),
    [
        ("cache", {}, "ledger_url"),
        ("validator", {"STAGEMESH_VALIDATOR__NUM_WORKERS": "0"}, "STAGEMESH_VALIDATOR__NUM_WORKERS"),
        ("corrector", {"STAGEMESH_CORRECTOR__COLOUR": "red"}, "corrector.colour"),
    ],
)
def test_a_bad_configuration_ends_with_78_and_a_sentence(name: str, environment: dict[str, str], words: str) -> None:
    command = [sys.executable, "-P", "-m", f"services.{name}"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert done.returncode == 78
    assert words in done.stderr
