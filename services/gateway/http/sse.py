"""A reply as server-sent events: each frame goes out at once, and a client that takes nothing is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import orjson
from starlette.types import Message, Scope, Send

from services.gateway.http.disconnect import ClientGoneError
from services.gateway.http.shape import JsonObject

SEND_TIMEOUT_S = 30.0
"""How long a client may leave its full receive window as it is."""

ABORT_KEY = "stagemesh.abort"
"""Member of the ASGI scope with a function that drops the connection; the protocol sets it."""

DONE = b"data: [DONE]\n\n"

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


def data(value: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def comment(text: str) -> bytes:
    """A line that clients skip; it shows that the connection lives."""
    return f": {text}\n\n".encode()


class EventStream:
    """Sends frames. All methods raise ClientGoneError when the client takes nothing for too long."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._abort: Callable[[], None] | None = scope.get(ABORT_KEY)
        self._send = send

    async def open(self, headers: Mapping[str, str]) -> None:
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in {**_HEADERS, **headers}.items()]
        await self._bounded({"type": "http.response.start", "status": 200, "headers": pairs})

    async def send(self, frame: bytes) -> None:
        await self._bounded({"type": "http.response.body", "body": frame, "more_body": True})

    async def close(self) -> None:
        await self._bounded({"type": "http.response.body", "body": b"", "more_body": False})

    async def _bounded(self, message: Message) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._send(message)
        except TimeoutError:
            if self._abort is not None:
                self._abort()
            raise ClientGoneError from None
