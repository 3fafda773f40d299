"""`python -m services.engine` as an operator sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import grpc
import pytest
from engine_server_support import make_tiny_model
from grpc_health.v1 import health_pb2, health_pb2_grpc

NAME = "stagemesh.api.engine.v1.EngineService"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def start(environ: dict[str, str]) -> asyncio.subprocess.Process:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("STAGEMESH_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.engine", env={**inherited, **environ}, stderr=asyncio.subprocess.PIPE
    )


async def test_it_is_alive_at_once_ready_after_loading_and_leaves_on_sigterm_with_0(tmp_path: Path) -> None:
    make_tiny_model(tmp_path)
    port = free_port()
    process = await start(
        {
            "STAGEMESH_MODELS": f"{{tiny: {{source: {tmp_path}}}}}",
            "STAGEMESH_ENGINE__MODEL": "tiny",
            "STAGEMESH_ENGINE__LISTEN": f"127.0.0.1:{port}",
            "STAGEMESH_ENGINE__THREADS": "1",
        }
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        alive = await health.Check(health_pb2.HealthCheckRequest(service=""), wait_for_ready=True, timeout=60)
        assert alive.status == health_pb2.HealthCheckResponse.SERVING
        async with asyncio.timeout(60):
            async for state in health.Watch(health_pb2.HealthCheckRequest(service=NAME)):
                if state.status == health_pb2.HealthCheckResponse.SERVING:
                    break
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(30):
        _, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"STAGEMESH_ENGINE__MODEL": "nobody"}, "no model named 'nobody'"),
        ({"STAGEMESH_ENGINE__DTYPE": "int3"}, "STAGEMESH_ENGINE__DTYPE: engine.dtype"),
        ({"STAGEMESH_MODELS": "{x: {source: /nowhere}}", "STAGEMESH_ENGINE__MODEL": "x"}, "models.x.source"),
    ],
    ids=["unknown-model", "bad-value", "missing-folder"],
)
async def test_what_it_cannot_run_with_ends_it_with_78_and_a_sentence(environ: dict[str, str], sentence: str) -> None:
    process = await start({"STAGEMESH_ENGINE__LISTEN": f"127.0.0.1:{free_port()}", **environ})
    async with asyncio.timeout(60):
        _, stderr = await process.communicate()
    assert process.returncode == 78
    assert sentence in stderr.decode()
    assert "Traceback" not in stderr.decode()
