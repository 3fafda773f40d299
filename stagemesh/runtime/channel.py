"""Channels to other services: explicit limits, quick reconnects, round robin over replicas."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from ipaddress import ip_address

import grpc

from stagemesh.runtime import context

MESH_TOKEN_KEY = "x-mesh-token"


def channel_options(max_message_bytes: int) -> list[tuple[str, int | str]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        # A process that stands still keeps its connection: calls that wait for it go elsewhere after four seconds. The
        # library's own timeout of pings, a minute, would count for keepalive as well.
        ("grpc.keepalive_time_ms", 2_000),
        ("grpc.keepalive_timeout_ms", 2_000),
        ("grpc.http2.ping_timeout_ms", 2_000),
        ("grpc.http2.max_pings_without_data", 0),
        # A restarted service must be found again at once; the library's default waits up to 120 s.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.enable_retries", 0),
        ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ]


def target_of(addresses: Sequence[str]) -> str:
    """One gRPC target for all replicas: a list of literal addresses, or one name that DNS resolves to several."""
    if not addresses:
        raise ValueError("a channel needs at least one address")
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    try:
        families = {ip_address(host).version for host in hosts}
    except ValueError:
        if len(addresses) > 1:
            raise ValueError(
                f"several replicas must be given as IP addresses or as one DNS name, not {addresses}"
            ) from None
        return f"dns:///{addresses[0]}"
    if len(families) > 1:
        raise ValueError(f"replicas must be all IPv4 or all IPv6: {addresses}")
    return f"ipv{families.pop()}:{','.join(addresses)}"


def dial(addresses: Sequence[str], *, max_message_bytes: int = 32 * 1024 * 1024) -> grpc.aio.Channel:
    """A lazily connected channel; close it with `await channel.close()`."""
    return grpc.aio.insecure_channel(target_of(addresses), options=channel_options(max_message_bytes))


def call_metadata(*extra: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Metadata for a call to another service: the mesh token, and request, tenant and trace of the current context."""
    token = os.environ.get("STAGEMESH_MESH_TOKEN", "")
    return (*(((MESH_TOKEN_KEY, token),) if token else ()), *context.outgoing_metadata(), *extra)
