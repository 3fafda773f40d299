"""The embedded Redis and Kafka servers: started where no URL of a real one is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import RedisError

from stagemesh.cli.supervisor.probe import Health
from stagemesh.cli.supervisor.spec import Phase, ProcessSpec
from stagemesh.cli.supervisor.state_dir import StateDir
from stagemesh.embedded import acl, kafka, valkey
from stagemesh.embedded.valkey_kind import Kind
from stagemesh.runtime.mesh_config import MeshConfig

VALKEY, VALKEY_KV, KAFKA = Kind.LEDGER.value, Kind.KV.value, "kafka"
"""Names of the three as processes: the ledger, the store of KV pages, the broker."""
KV_WAIT_S = 10.0
"""Without stored pages a mesh works as well."""
KV_SLACK, KV_BASE_MB = 1.25, 64
"""Memory of the store beyond its budget: values that are being written, the allocator's gaps, the indexes."""


@dataclass(frozen=True)
class RedisProbe:
    """PING; a server that still loads its append-only file is alive."""

    url: str

    async def check(self, timeout_s: float) -> Health:
        client = Redis.from_url(self.url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=None)
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            return Health.ALIVE if "LOADING" in str(error) else Health.SILENT
        finally:
            await client.aclose()
        return Health.READY

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class TcpProbe:
    """Ready when it takes connections."""

    port: int

    async def check(self, timeout_s: float) -> Health:
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except (OSError, TimeoutError):
            return Health.SILENT
        writer.close()
        return Health.READY

    async def close(self) -> None:
        return


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Where the mesh's servers are, and the processes to start for those that are not given."""

    ledger_url: str
    kv_url: str
    kafka_bootstrap: str
    specs: tuple[ProcessSpec, ...]
    passwords: Mapping[Kind, str]
    """Of the embedded ones."""

    def urls_of(self, service: str) -> tuple[str, str]:
        """Ledger and KV Redis as `service` is to use them; empty for an embedded one that it needs not."""
        return (
            self._url_of(Kind.LEDGER, self.ledger_url, service),
            self._url_of(Kind.KV, self.kv_url, service),
        )

    def _url_of(self, kind: Kind, whole: str, service: str) -> str:
        if kind not in self.passwords:
            return whole
        if not acl.may_use(kind, service):
            return ""
        return valkey.url(int(whole.rpartition(":")[2].partition("/")[0]), self.passwords[kind], service)


def needed_servers(mesh: MeshConfig) -> list[str]:
    """Names of the embedded servers that this configuration needs."""
    given = {VALKEY: mesh.ledger_url, VALKEY_KV: mesh.kv_url, KAFKA: mesh.kafka_bootstrap}
    return [name for name, url in given.items() if not url]


def plan_servers(mesh: MeshConfig, state: StateDir, ports: Mapping[str, int], *, kv_budget_mb: int) -> Servers:
    """The servers of a mesh, with an embedded one for each that is not configured; writes its files into the state."""
    needed = needed_servers(mesh)
    specs: list[ProcessSpec] = []
    passwords: dict[Kind, str] = {}
    urls = {VALKEY: mesh.ledger_url, VALKEY_KV: mesh.kv_url}
    bootstrap = mesh.kafka_bootstrap
    for kind, memory_mb in (
        (Kind.LEDGER, valkey.DEFAULT_MAX_MEMORY_MB),
        (Kind.KV, KV_BASE_MB + round(kv_budget_mb * KV_SLACK)),
    ):
        if kind.value in needed:
            password, port = valkey.load_password(state.path, kind), ports[kind.value]
            passwords[kind] = password
            urls[kind.value] = valkey.url(port, password)
            command = valkey.command(state.path, port, password, kind=kind, max_memory_mb=memory_mb)
            max_wait_s = KV_WAIT_S if kind is Kind.KV else None
            specs.append(_server(kind.value, command, ports, RedisProbe(urls[kind.value]), max_wait_s))
    if KAFKA in needed:
        bootstrap = kafka.bootstrap(ports[KAFKA])
        specs.append(_server(KAFKA, kafka.command(ports[KAFKA]), ports, TcpProbe(ports[KAFKA])))
    return Servers(
        ledger_url=urls[VALKEY],
        kv_url=urls[VALKEY_KV],
        kafka_bootstrap=bootstrap,
        specs=tuple(specs),
        passwords=passwords,
    )


def _server(
    name: str,
    command: list[str],
    ports: Mapping[str, int],
    probe: RedisProbe | TcpProbe,
    max_wait_s: float | None = None,
) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        command=tuple(command),
        address=f"127.0.0.1:{ports[name]}",
        probe=probe,
        phase=Phase.SERVER,
        max_wait_s=max_wait_s,
    )
