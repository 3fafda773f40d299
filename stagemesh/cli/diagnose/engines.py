"""Engines and tokenizer, asked for a little work each; and how many requests wait."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Sequence
from statistics import median

import grpc
import httpx

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.cli.client.engine_tiers import loads_of
from stagemesh.cli.diagnose.evidence import EngineEvidence
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc

PROBE_S = 10.0
TOKENIZER_S = 4.0
NUM_PROBES, NUM_TOKENS = 3, 6
PROMPT_TOKENS = (1, 2, 3, 4)
WAITING = re.compile(r"^stagemesh_requests_waiting\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


async def look_at_engines(named: Sequence[tuple[str, str]], token: str) -> tuple[EngineEvidence, ...]:
    """`named`: `(instance, address)`. They are asked at the same time, so that a busy machine slows all of them."""
    return tuple(await asyncio.gather(*(_look(name, address, token) for name, address in named)))


async def _look(instance: str, address: str, token: str) -> EngineEvidence:
    loads = await loads_of([address], token)
    load = loads[0] if loads else engine_pb2.WatchLoadResponse()
    channel = dial((address,))
    model, error, reasons, times_ms = "", "", set[str](), list[float]()
    try:
        async with asyncio.timeout(PROBE_S):
            stub = engine_pb2_grpc.EngineServiceStub(channel)
            metadata = _metadata(token)
            described = await stub.Describe(engine_pb2.DescribeRequest(), timeout=PROBE_S, metadata=metadata)
            model = described.model.model
            for _ in range(NUM_PROBES):
                started_s = time.perf_counter()
                finish = await _generate(stub, metadata)
                times_ms.append(1e3 * (time.perf_counter() - started_s))
                error = finish.error.reason
                reasons |= {report.reason for report in finish.stages if report.reason}
                if error:
                    break
    except grpc.aio.AioRpcError as failed:
        error = from_rpc(failed).reason
    except TimeoutError:
        error = "DEADLINE_EXCEEDED"
    finally:
        await channel.close()
    return EngineEvidence(
        instance=instance,
        model=model,
        error=error,
        reasons=tuple(sorted(reasons)),
        probe_ms=median(times_ms) if times_ms else 0.0,
        waiting=load.waiting,
        running=load.running,
        max_running=load.max_running,
        celsius=load.device_temperature_c if load.HasField("device_temperature_c") else None,
    )


async def _generate(
    stub: engine_pb2_grpc.EngineServiceStub, metadata: tuple[tuple[str, str], ...]
) -> engine_pb2.Finish:
    """A few tokens of a sequence that belongs to no tenant; its end."""
    submit = engine_pb2.Submit(
        sequence_id=f"diagnose:{uuid.uuid4()}",
        tenant_id="diagnose",
        token_ids=PROMPT_TOKENS,
        sampling=common_pb2.SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True),
    )
    finish = engine_pb2.Finish()
    async for reply in stub.Generate(engine_pb2.GenerateRequest(submit=submit), timeout=PROBE_S, metadata=metadata):
        if reply.delta.HasField("finish"):
            finish = reply.delta.finish
    return finish


async def look_at_tokenizer(address: str, model: str, token: str) -> str:
    """Reason for which a short prompt does not come back; empty when it does."""
    channel = dial((address,))
    try:
        stub = tokenizer_pb2_grpc.TokenizerServiceStub(channel)
        request = tokenizer_pb2.PrepareRequest(model=model, prompt="Is anybody there?")
        await stub.Prepare(request, timeout=TOKENIZER_S, metadata=_metadata(token))
    except grpc.aio.AioRpcError as failed:
        return from_rpc(failed).reason
    finally:
        await channel.close()
    return ""


async def gateway_waiting(http_address: str) -> int:
    """Requests that wait in the gateway. Raises httpx.HTTPError."""
    async with httpx.AsyncClient(timeout=5.0) as client:
        text = (await client.get(f"http://{http_address}/metrics")).text
    return int(sum(float(value) for value in WAITING.findall(text)))


def _metadata(token: str) -> tuple[tuple[str, str], ...]:
    return ((MESH_TOKEN_KEY, token),) if token else ()
