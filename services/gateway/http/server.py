"""The HTTP server, in the event loop of the gateway's process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from services.gateway.config import GatewayConfig
from services.gateway.http.app import build_app
from services.gateway.http.core import Gateway
from services.gateway.http.gate import Gate
from services.gateway.http.protocol import Limits, bounded_protocol
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.telemetry import get_logger

BACKLOG = 512
KEEP_ALIVE_S = 30
MAX_SOCKET_MESSAGE_BYTES = 4_096
"""Of what comes over a WebSocket: nothing that is used."""
STOP_GRACE_S = 1
"""After a drain: how long replies under way may still take."""

log = get_logger(__name__)


class HttpServer:
    """Serves `gateway` at `config.http_listen`: start → (drain) → stop."""

    def __init__(self, gateway: Gateway, config: GatewayConfig, limits: Limits | None = None) -> None:
        self._config = config
        self._gate = Gate()
        self._app = build_app(gateway, config, self._gate)
        self._limits = limits or Limits()
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""
        """`host:port` once started."""

    async def start(self) -> None:
        """Listen. Raises ConfigError when the address cannot be used."""
        listener = _listen(self._config.http_listen)
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = _Server(self._uvicorn_config())
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http-server")
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            listening.cancel()
            listener.close()
            await self._task  # raises why it could not start
        log.info("http listening", address=self.address)

    async def drain(self, grace_s: float) -> int:
        """Refuse new requests and let those under way finish; gives how many are left after `grace_s`."""
        return await self._gate.drain(grace_s)

    async def stop(self) -> None:
        """Close the listener and all connections; what still runs is cancelled."""
        if self._server is None or self._task is None:
            return
        self._gate.draining = True
        self._server.should_exit = True
        await self._task

    def _uvicorn_config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._app,
            http=bounded_protocol(self._limits),
            ws="websockets-sansio",
            ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
            loop="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_GRACE_S,
        )


class _Server(uvicorn.Server):
    """Leaves signals to the process, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
        raise ConfigError(f"gateway.http_listen must be HOST:PORT, not {address!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address} for HTTP: {error.strerror or error}; choose another with --http-port"
        ) from None
