"""A Valkey server for a benchmark, as `stagemesh up` starts it for KV pages."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from stagemesh.embedded import valkey

START_S = 20


@contextlib.contextmanager
def running_valkey(folder: Path) -> Iterator[str]:
    """Gives its URL; its data lies in `folder`. Raises RuntimeError when it does not start."""
    kind = valkey.Kind.KV
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    password = valkey.load_password(folder, kind)
    command = valkey.command(folder, port, password, kind=kind)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = valkey.url(port, password)
        _wait(process, url)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    give_up_at_s = time.monotonic() + START_S
    while time.monotonic() < give_up_at_s and process.poll() is None:
        with contextlib.suppress(redis.exceptions.ConnectionError), redis.Redis.from_url(url) as client:
            client.ping()
            return
        time.sleep(0.05)
    raise RuntimeError("the Valkey server did not start")
