"""An engine process of the benchmark's own, on a free port."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.cli.exits import CommandError
from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.runtime.channel import dial

START_TIMEOUT_S = 180.0
POLL_S = 0.1
STOP_TIMEOUT_S = 20.0


@asynccontextmanager
async def engine_process(
    environment: Mapping[str, str],
) -> AsyncIterator[tuple[engine_pb2_grpc.EngineServiceStub, int]]:
    """A stub of an engine that is ready, and its process ID.

    Raises CommandError with the engine's last words when it does not start.
    """
    address = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="stagemesh-bench-") as folder:
        log = Path(folder) / "engine.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: ASYNC220  starting takes a moment, and nothing else runs yet
                [sys.executable, "-P", "-m", "services.engine"],
                env={**os.environ, **environment, "STAGEMESH_ENGINE__LISTEN": address},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        channel = dial([address])
        try:
            stub: engine_pb2_grpc.EngineServiceStub = engine_pb2_grpc.EngineServiceStub(channel)
            await _wait_ready(stub, process, log)
            yield stub, process.pid
        finally:
            await channel.close()
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


async def _wait_ready(stub: engine_pb2_grpc.EngineServiceStub, process: subprocess.Popen[bytes], log: Path) -> None:
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while True:
                try:
                    await stub.Describe(engine_pb2.DescribeRequest(), timeout=START_TIMEOUT_S)
                    return
                except grpc.aio.AioRpcError:
                    if process.poll() is not None:
                        break
                    await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    words = "\n".join(last_lines(log, 5))
    raise CommandError(f"the engine process did not start: {words}")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
