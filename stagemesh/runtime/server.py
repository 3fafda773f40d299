"""The life of a service process: listen → start → ready → SIGTERM → not ready → drain → stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from stagemesh.api.faults.v1 import faults_pb2_grpc
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.faults.board import board
from stagemesh.runtime.faults.servicer import FaultsServicer
from stagemesh.runtime.interceptors import CallInterceptor
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class Service(Protocol):
    """What a service's `__main__` composes."""

    @property
    def service_names(self) -> Sequence[str]:
        """Full proto names, e.g. `stagemesh.api.engine.v1.EngineService`: what health and reflection answer for."""

    def register(self, server: grpc.aio.Server) -> None:
        """Add the servicers."""

    async def start(self) -> None:
        """Load what is needed; the service is ready when this returns."""

    async def drain(self, grace_s: float) -> None:
        """Finish or hand over running work; no new work arrives."""

    async def close(self) -> None:
        """Free what `start` took."""


def server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.so_reuseport", 0),  # a taken port must fail, not share
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def build_server(
    service: Service, config: MeshConfig, *, public: bool = False
) -> tuple[grpc.aio.Server, health.aio.HealthServicer]:
    """A server with interceptors, health and reflection. A public one takes calls without the mesh token."""
    token = "" if public else config.mesh_token.get_secret_value()
    server = grpc.aio.server(interceptors=[CallInterceptor(token)], options=server_options(config.max_message_bytes))
    service.register(server)
    if board.is_allowed:
        faults_pb2_grpc.add_FaultsServiceServicer_to_server(
            FaultsServicer(board, config.mesh_token.get_secret_value()), server
        )
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([*service.service_names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    return server, servicer


def bind(server: grpc.aio.Server, address: str, option: str) -> int:
    """Listen on `address`; gives the port. Raises ConfigError that names the `option` to change when it is taken."""
    try:
        return server.add_insecure_port(address)
    except RuntimeError:
        raise ConfigError(
            f"cannot listen on {address}: the port is taken or not permitted; choose another with {option}"
        ) from None


async def serve(service: Service, config: MeshConfig, address: str, *, option: str, public: bool = False) -> None:
    """Run `service` until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server, servicer = build_server(service, config, public=public)
    bind(server, address, option)
    for name in service.service_names:
        await servicer.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    try:
        await _start_unless(stopped, service)
        if not stopped.is_set():
            for name in service.service_names:
                await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
            log.info("ready", address=address)
            await stopped.wait()
        await servicer.enter_graceful_shutdown()
        log.info("draining", grace_s=config.drain_grace_s)
        await service.drain(config.drain_grace_s)
    finally:
        await server.stop(grace=1.0)
        await service.close()
    log.info("stopped")


async def _start_unless(stopped: asyncio.Event, service: Service) -> None:
    starting, stopping = asyncio.ensure_future(service.start()), asyncio.ensure_future(stopped.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    starting.result()
