"""Faults that a request brings with it: taken from callers on this machine alone, and never in production."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from stagemesh.runtime.errors import Forbidden
from stagemesh.runtime.faults import HEADER, RequestFaults, board, parse_faults, request_faults


def bind_faults(text: str, host: str, header_names: Iterable[str] = ()) -> None:
    """Let the faults in the header `text` of a call from `host` happen to the request of this task.

    `header_names`: of all headers of the call, in lower case; some tell of a proxy, behind which every caller seems to
    be on this machine. Raises Forbidden for another machine, a proxy or in production, InvalidRequest for text that
    says nothing.
    """
    if not text:
        return
    board.check_allowed()
    if not _is_loopback(host) or any(map(_tells_of_proxy, header_names)):
        raise Forbidden("FAULTS_REFUSED", f"{HEADER} is taken from callers on the gateway's own machine only")
    request_faults.set(RequestFaults(parse_faults(text)))


def host_of(peer: str) -> str:
    """The host in gRPC's name of a peer, as `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")


def _tells_of_proxy(header_name: str) -> bool:
    return header_name in {"forwarded", "via", "x-real-ip"} or header_name.startswith("x-forwarded-")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
