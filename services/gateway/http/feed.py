"""The events of one or several running requests as one bounded feed, with a word after each silence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Self

from services.gateway.http.core import RunningRequest
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Internal

MAX_BUFFERED = 16
"""Events taken from the requests ahead of a slow client; the rest waits where it is."""

Item = tuple[int, gateway_pb2.Event]


class Feed:
    """Follows requests while the `async with` block runs. Items are `(index of the request, event)`."""

    def __init__(self, requests: Sequence[RunningRequest]) -> None:
        self._requests = requests
        self._items: asyncio.Queue[Item | Exception] = asyncio.Queue(MAX_BUFFERED)
        self._pumps: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._pumps = [asyncio.ensure_future(self._pump(i, request)) for i, request in enumerate(self._requests)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def next(self, timeout_s: float) -> Item | None:
        """The next event; None after `timeout_s` of silence. Raises what a request's events raised."""
        try:
            if self._items.empty():
                async with asyncio.timeout(timeout_s):
                    item = await self._items.get()
            else:
                item = self._items.get_nowait()
        except TimeoutError:
            return None
        if isinstance(item, Exception):
            raise item
        return item

    async def _pump(self, index: int, request: RunningRequest) -> None:
        try:
            async with aclosing(request.events()) as events:  # type: ignore[type-var]  # an async generator
                async for event in events:
                    await self._items.put((index, event))
                    if event.HasField("final"):
                        return
            raise Internal("INTERNAL", "the request's events ended without a final one")
        except Exception as error:  # noqa: BLE001  handed to the reader, which raises it
            await self._items.put(error)
