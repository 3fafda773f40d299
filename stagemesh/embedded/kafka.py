"""The embedded Kafka broker: librdkafka's mock cluster behind a fixed port.

It speaks the Kafka protocol (topics, groups, offsets) and keeps everything in memory: about 5 MB a partition, then the
oldest records are gone, and a restart loses all. Nothing may rely on it for durability; the outbox does not.
The cluster listens on a port of the kernel's choice and tells clients so in its metadata; the forwarder gives
clients one address that stays the same over restarts, from which they bootstrap again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from confluent_kafka import KafkaException, Producer

from stagemesh.embedded.child import end_with_parent, fail
from stagemesh.embedded.forwarder import forward

START_TIMEOUT_S = 10.0
PARENT_CHECK_INTERVAL_S = 0.5


def command(port: int) -> list[str]:
    """The command that runs the broker."""
    return [sys.executable, "-P", "-m", "stagemesh.embedded.kafka", "--port", str(port)]


def bootstrap(port: int) -> str:
    """How clients reach the broker."""
    return f"127.0.0.1:{port}"


def start_cluster() -> tuple[Producer, int]:
    """Start the cluster; it lives as long as the client that owns it. Gives that client and the broker's port."""
    owner = Producer({"test.mock.num.brokers": 1, "log_level": 3})
    try:
        (broker,) = owner.list_topics(timeout=START_TIMEOUT_S).brokers.values()
    except KafkaException as error:
        fail(f"the embedded Kafka broker did not start: {error}")
    return owner, broker.port


async def serve(port: int, parent_pid: int) -> None:
    """Run the broker until SIGTERM, SIGINT or the parent's death."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    owner, cluster_port = start_cluster()
    try:
        async with forward(port, cluster_port):
            print(f"embedded Kafka broker ready at {bootstrap(port)}", flush=True)  # noqa: T201  a process of its own
            while not stopped.is_set() and os.getppid() == parent_pid:
                await _wait(stopped, PARENT_CHECK_INTERVAL_S)
    except OSError as error:
        fail(f"the embedded Kafka broker cannot listen on {bootstrap(port)}: {error.strerror}; choose another port")
    del owner


async def _wait(stopped: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await stopped.wait()
    except TimeoutError:
        return


def main(arguments: list[str] | None = None) -> None:
    parent_pid = os.getppid()
    parser = argparse.ArgumentParser(prog="python -m stagemesh.embedded.kafka", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port at which clients bootstrap")
    port: int = parser.parse_args(arguments).port
    end_with_parent(parent_pid)
    asyncio.run(serve(port, parent_pid))


if __name__ == "__main__":
    main()
