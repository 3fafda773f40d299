"""redis-py connections whose commands can be cancelled.

On Python 3.11 `asyncio.wait_for`, with which redis-py sends, returns normally when its task is cancelled at the moment
in which the inner call ends: the cancellation is lost and the cancelled task runs on. `asyncio.timeout` loses none,
and costs no task per command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError, TimeoutError

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection as _Base
else:
    _Base = object  # a mixin: the transport comes from the other base


class _Cancellable(_Base):
    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()  # type: ignore[no-untyped-call]  # redis-py gives it no types
        parts = [command.encode()] if isinstance(command, str) else [command] if isinstance(command, bytes) else command
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(parts)
        except BaseException as error:
            # A command that was sent in part makes the connection useless, whatever the reason.
            await self.disconnect(nowait=True)
            if isinstance(error, asyncio.TimeoutError):
                raise TimeoutError("Timeout writing to socket") from None
            if isinstance(error, OSError):
                raise ConnectionError(f"writing to the socket failed: {error}") from error
            raise


class TcpConnection(_Cancellable, Connection):
    pass


class TlsConnection(_Cancellable, SSLConnection):
    pass


class UnixConnection(_Cancellable, UnixDomainSocketConnection):
    pass


CANCELLABLE: dict[type[Any], type[Any]] = {
    Connection: TcpConnection,
    SSLConnection: TlsConnection,
    UnixDomainSocketConnection: UnixConnection,
}
"""Which class stands for which of redis-py's."""
