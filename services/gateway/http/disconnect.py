"""Stop the work on a request when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive


class ClientGoneError(Exception):
    """The client closed the connection: there is nobody to answer."""


@asynccontextmanager
async def cancelled_on_disconnect(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block when the client closes the connection; raises ClientGoneError then.

    To be entered once the request's body is read.
    """
    scope = asyncio.timeout(None)
    watcher = asyncio.ensure_future(_expire_on_disconnect(receive, scope))
    try:
        async with scope:
            yield
    except TimeoutError:
        if scope.expired():
            raise ClientGoneError from None
        raise
    finally:
        watcher.cancel()


async def _expire_on_disconnect(receive: Receive, scope: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
