"""A process that stands still keeps its connection: whoever waits for it is sent elsewhere all the same."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from quality_support import free_port

from stagemesh.runtime.channel import dial

SERVICE = Path(__file__).with_name("fake_service.py")
PATIENT_S = 120.0
SOON_S = 10.0


@contextmanager
def replica(port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, SERVICE, "--port", str(port)], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


async def test_calls_that_wait_for_a_stopped_replica_end_and_the_next_go_to_the_other_one() -> None:
    ports = [free_port(), free_port()]
    with ExitStack() as stack:
        stopped, _ = [stack.enter_context(replica(port)) for port in ports]
        async with dial([f"127.0.0.1:{port}" for port in ports]) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)

            async def ask() -> grpc.StatusCode:
                try:
                    await stub.Check(health_pb2.HealthCheckRequest(service="fake"), timeout=PATIENT_S)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

            while {await ask() for _ in range(4)} != {grpc.StatusCode.OK}:
                await asyncio.sleep(0.01)  # both are connected
            stopped.send_signal(signal.SIGSTOP)
            waiting = await asyncio.gather(*(ask() for _ in range(8)))
            assert set(waiting) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}, "not one used up its time"
            async with asyncio.timeout(SOON_S):  # the channel's own threads take the lost connection out of its turns
                while {await ask() for _ in range(8)} != {grpc.StatusCode.OK}:
                    await asyncio.sleep(0.01)
