"""A service for tests of the supervisor: a real health server that can misbehave on request."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


async def serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    try:
        server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    except RuntimeError:
        print("stagemesh: the port is taken", file=sys.stderr)  # noqa: T201  output is what a log is made of
        raise SystemExit(78) from None
    await servicer.set("fake", health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    note(arguments, "start")
    print("fake service is ready", flush=True)  # noqa: T201  output is what a log is made of
    while True:
        await stopped.wait()
        if not arguments.ignore_term:
            break
        stopped.clear()
    note(arguments, "term")
    await asyncio.sleep(arguments.drain_s)
    note(arguments, "end")
    await server.stop(grace=None)


def note(arguments: argparse.Namespace, event: str) -> None:
    if arguments.journal:
        with arguments.journal.open("a") as file:
            file.write(f"{os.environ['STAGEMESH_INSTANCE']} {event}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--drain-s", type=float, default=0.0)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--exit-code", type=int)
    parser.add_argument("--flood-bytes", type=int, default=0)
    arguments = parser.parse_args()
    for _ in range(0, arguments.flood_bytes, 100):
        print("x" * 99)  # noqa: T201  output is what a log is made of
    if arguments.exit_code is not None:
        print("stagemesh: fake.key: is wrong", file=sys.stderr)  # noqa: T201  output is what a log is made of
        time.sleep(0.01)
        raise SystemExit(arguments.exit_code)
    asyncio.run(serve(arguments))


if __name__ == "__main__":
    main()
