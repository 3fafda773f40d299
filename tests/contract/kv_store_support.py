"""Leases over a real KV Redis, and a wire to it that a test can make slow or cut."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import redis
from quality_support import Valkey

from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import Holder, KvDirectory, KvLimits
from stagemesh.runtime.kv_keys import PAGE_TOKENS, chain_key, namespace, page_digests, value_name
from stagemesh.runtime.redis_client import connect

EPOCH = 3
TTL_S = 600
TAU_S = 600.0


def salt_of(tenant_id: str) -> bytes:
    return b"secret of " + tenant_id.encode()


class Store:
    """What the cache service does for engines, in the test's process."""

    def __init__(self, server: Valkey, precision: str) -> None:
        self.server, self._precision = server, precision
        self._num_leases = 0

    async def empty(self, **limits: int) -> None:
        with self.client() as client:
            client.config_set("maxmemory", 0)
            client.flushall()
        async with contextlib.aclosing(connect(self.server.url, purpose="kv")) as client:
            await KvDirectory(client).set_limits(
                KvLimits(
                    epoch=EPOCH,
                    tau_s=TAU_S,
                    **{"total_bytes": 1 << 30, "tenant_bytes": 1 << 30, "pinned_bytes": 1 << 28, **limits},
                )
            )

    def client(self) -> redis.Redis:
        return self.server.client()

    def digests(self, tokens: Sequence[int], tenant_id: str = "tenant") -> list[bytes]:
        return list(page_digests(chain_key(salt_of(tenant_id), tenant_id, self._precision), tokens))

    def value_names(self, tokens: Sequence[int], tenant_id: str = "tenant") -> list[bytes]:
        space = namespace(tenant_id, EPOCH)
        return [value_name(space, digest) for digest in self.digests(tokens, tenant_id)]

    async def lease(self, tokens: Sequence[int], tenant_id: str = "tenant", session_id: str = "s") -> KvLease:
        """What a lookup says of these tokens."""
        self._num_leases += 1
        lease_id, space = f"lease-{self._num_leases}", namespace(tenant_id, EPOCH)
        async with contextlib.aclosing(connect(self.server.url, purpose="kv")) as client:
            found = await KvDirectory(client).lookup(
                space,
                self.digests(tokens, tenant_id),
                ttl_s=TTL_S,
                lease_id=lease_id,
                lease_ttl_s=TTL_S,
                holder=Holder(session_id=session_id),
            )
        return KvLease(
            lease_id=lease_id,
            namespace=space,
            epoch=EPOCH,
            expires_unix_us=int((time.time() + TTL_S) * 1e6),
            stored_tokens=found.pages * PAGE_TOKENS,
            ttl_s=TTL_S,
            tau_s=TAU_S,
        )


class Wire:
    """Forwards connections to a server; what comes back can be delayed, or cut after some bytes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay_s = 0.0
        self.cut_after: int | None = None
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        _shut(*self._ends)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    arguments = (source, target, source is far)
                    self._threads.append(threading.Thread(target=self._forward, args=arguments, daemon=True))
                    self._threads[-1].start()

    def _forward(self, source: socket.socket, target: socket.socket, is_back: bool) -> None:
        num_bytes = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                num_bytes += len(data)
                if is_back:
                    time.sleep(self.delay_s)
                    if self.cut_after is not None and num_bytes > self.cut_after:
                        break
                target.sendall(data)
        _shut(source, target)


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire_to(server: Valkey) -> Iterator[tuple[Wire, str]]:
    """The wire, and the URL by which the server is reached through it."""
    head, port = server.url.rsplit("@", 1)[0], int(server.url.rsplit(":", 1)[1].split("/")[0])
    wire = Wire(port)
    try:
        yield wire, f"{head}@127.0.0.1:{wire.port}/0"
    finally:
        wire.close()
