"""Connections with bounds: on how long and how large a request's head may be, and on how many there are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from services.gateway.http.failures import failure_of
from services.gateway.http.sse import ABORT_KEY
from stagemesh.runtime.errors import InvalidRequest, StagemeshError, Unavailable


@dataclass(frozen=True, kw_only=True)
class Limits:
    head_timeout_s: float = 10.0
    """From the first byte of a head, or the end of the request before it, to the head's end."""
    max_head_bytes: int = 65_536
    linger_s: float = 2.0
    """How long the rest of a body is thrown away after its request was refused, so that the client reads the reply."""
    max_connections: int = 2_048


class BoundedProtocol(HttpToolsProtocol):
    limits: ClassVar[Limits] = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._num_head_bytes = 0
        self._in_head = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._refuse(Unavailable("TOO_MANY_CONNECTIONS", "try again soon", retry_after_ms=1_000))
            return
        self._start_timer(self.limits.head_timeout_s, self._on_head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._num_head_bytes += len(data)
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            return  # it is a WebSocket from here on
        if self._in_head and self._num_head_bytes > self.limits.max_head_bytes:
            self._refuse(InvalidRequest("HEAD_TOO_LARGE", "the request's line and headers are too large"))
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            # Bytes between two requests have switched the keep-alive timer off.
            self._start_timer(self.limits.head_timeout_s, self._on_head_timeout)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._num_head_bytes = 0
        if self._timer is None:
            self._start_timer(self.limits.head_timeout_s, self._on_head_timeout)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()
        if self._upgrades():
            return
        self.scope[ABORT_KEY] = self.transport.abort  # type: ignore[literal-required]  # a member of our own

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body and self.cycle.response_complete and not self.transport.is_closing():
            self._start_timer(self.limits.linger_s, self.transport.abort)

    def on_message_complete(self) -> None:
        if self._upgrades():
            return
        if self.cycle.response_complete:
            self._stop_timer()
        super().on_message_complete()

    def _upgrades(self) -> bool:
        """It asks to go on as a WebSocket, and may."""
        return bool(self.parser.should_upgrade() and self._should_upgrade())

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest("INVALID_HTTP", "this is not a valid HTTP/1.1 request"))

    def _on_head_timeout(self) -> None:
        if self._in_head:
            self._refuse(InvalidRequest("HEAD_TIMEOUT", "the request's headers did not arrive in time"))
        else:
            self.transport.close()

    def _refuse(self, error: StagemeshError) -> None:
        """Reply outside any request, and close."""
        self._stop_timer()
        failure = failure_of(error)
        body = orjson.dumps(failure.body)
        head = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **failure.headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.transport.write(STATUS_LINE[failure.status] + lines.encode() + b"\r\n" + body)
        self.transport.close()

    def _start_timer(self, seconds: float, callback: Any) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded_protocol(limits: Limits) -> type[BoundedProtocol]:
    """The protocol class with `limits`, as uvicorn's configuration takes it."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
