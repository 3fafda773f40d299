"""What the mesh meets on the network: its public ports, and the servers that the configuration names."""

from __future__ import annotations

import asyncio

from stagemesh.cli.doctor.finding import Finding, fail, ok
from stagemesh.cli.supervisor.mesh_file import MeshRecord
from stagemesh.cli.supervisor.mesh_settings import MeshSettings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.ports import can_bind, split_address
from stagemesh.cli.supervisor.probe import Health
from stagemesh.cli.supervisor.servers import RedisProbe
from stagemesh.runtime.mesh_config import MeshConfig

TIMEOUT_S = 3.0


def check_ports(settings: MeshSettings, options: UpOptions, running: MeshRecord | None) -> list[Finding]:
    """The public ports are free, or held by the mesh on this state folder, wherever it listens."""
    grpc_held, http_held = (running.grpc_address, running.http_address) if running else ("", "")
    return [
        _check_port(settings.grpc_address, options.grpc_port, "gRPC port", "--grpc-port", grpc_held),
        _check_port(settings.http_address, options.http_port, "HTTP port", "--http-port", http_held),
    ]


def _check_port(address: str, asked: int | None, name: str, option: str, held: str) -> Finding:
    if held and (asked is None or held == address):
        return ok(name, f"{held}, used by this mesh")
    if not can_bind(*split_address(address)):
        return fail(name, f"{address} is taken or not permitted", f"stagemesh up {option} PORT")
    return ok(name, f"{address} is free")


def check_redis(mesh: MeshConfig) -> list[Finding]:
    """Configured Redis servers answer."""
    urls = {"ledger Redis": mesh.ledger_url, "KV Redis": mesh.kv_url}
    return [_check_redis(name, url) for name, url in urls.items() if url]


def _check_redis(name: str, url: str) -> Finding:
    where = url.rpartition("@")[2].removeprefix("redis://")  # without the password
    try:
        health = asyncio.run(RedisProbe(url).check(TIMEOUT_S))
    except ValueError as error:
        return fail(name, f"not a Redis URL: {error}", "redis://[:PASSWORD@]HOST:PORT/DB")
    if health is not Health.READY:
        return fail(name, f"{where} does not answer", "start it, or correct STAGEMESH_REDIS_URL")
    return ok(name, where)


def check_kafka(mesh: MeshConfig) -> list[Finding]:
    """The configured broker answers."""
    if not mesh.kafka_bootstrap:
        return []
    from confluent_kafka import KafkaException, Producer

    client = Producer({"bootstrap.servers": mesh.kafka_bootstrap, "log_level": 0, "error_cb": _ignore})
    try:
        brokers = client.list_topics(timeout=TIMEOUT_S).brokers
    except KafkaException:
        fix = "start it, or correct STAGEMESH_KAFKA_BOOTSTRAP"
        return [fail("Kafka", f"{mesh.kafka_bootstrap} does not answer", fix)]
    return [ok("Kafka", f"{mesh.kafka_bootstrap}, {len(brokers)} brokers")]


def _ignore(_error: object) -> None:
    """The call itself fails and is reported."""
