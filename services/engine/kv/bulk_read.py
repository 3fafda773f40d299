"""MGET of large values, each read from the socket straight into memory of its own.

redis-py copies what it reads three times, which for a history of 2,000 tokens costs more than everything else that is
done to restore it (docs/decisions/0203-large-values-past-the-client.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import redis
from redis.exceptions import InvalidResponse, ResponseError

AHEAD_BYTES = 64
"""Taken at once where a line is looked for: what it holds of the next value is copied."""
MAX_LINE_BYTES = 4096
MAX_VALUE_BYTES = 64 * 1024 * 1024


def read_values(client: redis.Redis, names: Sequence[bytes]) -> list[memoryview | None]:
    """The values of these keys, None for those that are not there.

    Raises redis.RedisError or OSError, and leaves no connection behind on which half a reply waits.
    """
    pool: Any = client.connection_pool  # redis-py gives its methods no types
    connection = pool.get_connection()
    try:
        connection.send_command("MGET", *names)
        return _read_reply(_Reader(connection.socket), len(names))
    except BaseException:
        connection.disconnect()
        raise
    finally:
        pool.release(connection)


class _Reader:
    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ahead = b""

    def line(self) -> bytes:
        while (end := self._ahead.find(b"\r\n")) < 0:
            if len(self._ahead) > MAX_LINE_BYTES:
                raise InvalidResponse("a line without an end")
            self._ahead += self._some(self._socket.recv(AHEAD_BYTES))
        line, self._ahead = self._ahead[:end], self._ahead[end + 2 :]
        return line

    def fill(self, room: memoryview) -> None:
        taken = self._ahead[: len(room)]
        self._ahead = self._ahead[len(taken) :]
        room[: len(taken)] = taken
        at = len(taken)
        while at < len(room):
            at += self._some(self._socket.recv_into(room[at:]))

    @staticmethod
    def _some(got: Any) -> Any:
        if not got:
            raise redis.ConnectionError("the connection was closed within a reply")
        return got


def _read_reply(reader: _Reader, num_values: int) -> list[memoryview | None]:
    first = reader.line()
    if first.startswith(b"-"):
        raise ResponseError(first[1:].decode(errors="replace"))
    if first != b"*%d" % num_values:
        raise InvalidResponse(f"not {num_values} values: {first[:80]!r}")
    return [_read_value(reader) for _ in range(num_values)]


def _read_value(reader: _Reader) -> memoryview | None:
    kind = reader.line()
    if kind == b"$-1":
        return None
    if not kind.startswith(b"$") or not kind[1:].isdigit() or int(kind[1:]) > MAX_VALUE_BYTES:
        raise InvalidResponse(f"not a value: {kind[:80]!r}")
    value = np.empty(int(kind[1:]), np.uint8).data
    reader.fill(value)
    if reader.line():
        raise InvalidResponse("a value longer than it says")
    return value
