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
from stagemesh.embedded import kafka, valkey
from stagemesh.runtime.mesh_config import MeshConfig

VALKEY, KAFKA = "valkey", "kafka"
"""Names of the two as processes."""


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


def needed_servers(mesh: MeshConfig) -> list[str]:
    """Names of the embedded servers that this configuration needs."""
    redis = [] if mesh.ledger_url and mesh.kv_url else [VALKEY]
    return [*redis, *([] if mesh.kafka_bootstrap else [KAFKA])]


def plan_servers(mesh: MeshConfig, state: StateDir, ports: Mapping[str, int]) -> Servers:
    """The servers of a mesh, with an embedded one for each that is not configured; writes its files into the state."""
    needed = needed_servers(mesh)
    specs: list[ProcessSpec] = []
    redis_url, bootstrap = "", mesh.kafka_bootstrap
    if VALKEY in needed:
        password = valkey.load_password(state.path)
        redis_url = valkey.url(ports[VALKEY], password)
        command = valkey.command(state.path, ports[VALKEY], password)
        specs.append(_server(VALKEY, command, ports, RedisProbe(redis_url)))
    if KAFKA in needed:
        bootstrap = kafka.bootstrap(ports[KAFKA])
        specs.append(_server(KAFKA, kafka.command(ports[KAFKA]), ports, TcpProbe(ports[KAFKA])))
    return Servers(
        ledger_url=mesh.ledger_url or redis_url,
        kv_url=mesh.kv_url or redis_url,
        kafka_bootstrap=bootstrap,
        specs=tuple(specs),
    )


def _server(name: str, command: list[str], ports: Mapping[str, int], probe: RedisProbe | TcpProbe) -> ProcessSpec:
    return ProcessSpec(
        name=name, command=tuple(command), address=f"127.0.0.1:{ports[name]}", probe=probe, phase=Phase.SERVER
    )
