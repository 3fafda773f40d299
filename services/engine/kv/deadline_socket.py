"""A Redis connection whose every wait ends at one deadline, also where a server sends a byte now and then."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

if TYPE_CHECKING:
    from redis.connection import AbstractConnection as _Base
else:
    _Base = object  # a mixin: the transport comes from the other base

MIN_WAIT_S = 0.001
"""A socket takes 0 for "do not wait at all"."""


class Deadline:
    """When all waits of a client end, on the monotonic clock. Set before a call, by the thread that makes it."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def remaining_s(self) -> float:
        return max(MIN_WAIT_S, self.at_s - time.monotonic())

    def has_passed(self) -> bool:
        return time.monotonic() >= self.at_s


class DeadlineSocket:
    """A connected socket, as redis-py uses it."""

    def __init__(self, inner: socket.socket, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline
        self._timeout_s: float | None = None

    def recv(self, size: int) -> bytes:
        self._wait()
        return self._inner.recv(size)

    def recv_into(self, room: memoryview) -> int:
        self._wait()
        return self._inner.recv_into(room)

    def sendall(self, data: bytes) -> None:
        self._wait()
        self._inner.sendall(data)  # its timeout is for all of the data

    def settimeout(self, timeout_s: float | None) -> None:
        """Wait less than until the deadline; 0: not at all, which is how redis-py looks whether there is something."""
        self._timeout_s = timeout_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _wait(self) -> None:
        if self._deadline.has_passed():
            raise TimeoutError("the time for this call is over")
        left_s = self._deadline.remaining_s()
        self._inner.settimeout(left_s if self._timeout_s is None else min(left_s, self._timeout_s))


class _WithDeadline(_Base):
    def __init__(self, *args: Any, deadline: Deadline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline = deadline
        self.socket: DeadlineSocket | None = None
        """The latest that it was connected by."""

    def _connect(self) -> Any:
        self.socket_connect_timeout = self._deadline.remaining_s()
        # redis-py gives it no types; it is abstract in the base alone
        self.socket = DeadlineSocket(super()._connect(), self._deadline)  # type: ignore[no-untyped-call,safe-super]
        return self.socket


class TcpConnection(_WithDeadline, Connection):
    pass


class TlsConnection(_WithDeadline, SSLConnection):
    pass


class UnixConnection(_WithDeadline, UnixDomainSocketConnection):
    pass


WITH_DEADLINE: dict[type[Any], type[Any]] = {
    Connection: TcpConnection,
    SSLConnection: TlsConnection,
    UnixDomainSocketConnection: UnixConnection,
}
"""Which class stands for which of redis-py's."""
