"""Internal ports: picked free at the first start, the same ones at every later start where they still are free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping

FIRST_PORT, LAST_PORT = 20_000, 31_999
"""Below the range from which systems draw the ports of outgoing connections: such a connection could otherwise
take the port of a service in the moment in which it restarts."""

MAX_TRIES = 1_000


class NoFreePort(Exception):
    """No port of the range could be bound."""


def can_bind(host: str, port: int) -> bool:
    """Whether a service could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def assign_ports(names: Iterable[str], remembered: Mapping[str, int], host: str = "127.0.0.1") -> dict[str, int]:
    """A free port for each name, the remembered one where it still is free.

    Raises NoFreePort.
    """
    ports: dict[str, int] = {}
    for name in names:
        known = remembered.get(name)
        if known and known not in ports.values() and can_bind(host, known):
            ports[name] = known
        else:
            ports[name] = _pick(host, taken={*ports.values(), *remembered.values()})
    return ports


def _pick(host: str, taken: set[int]) -> int:
    for _ in range(MAX_TRIES):
        port = random.randint(FIRST_PORT, LAST_PORT)
        if port not in taken and can_bind(host, port):
            return port
    raise NoFreePort(f"no free port between {FIRST_PORT} and {LAST_PORT} on {host}")


def split_address(address: str) -> tuple[str, int]:
    """`("127.0.0.1", 50051)` for `127.0.0.1:50051`. Raises ValueError with a sentence."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.strip("[]") or "127.0.0.1", int(port)
