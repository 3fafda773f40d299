"""The machine's side: names that resolve, ports, the state folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from stagemesh.cli.supervisor.mesh_settings import MeshSettings
from stagemesh.cli.supervisor.ports import can_bind, split_address
from stagemesh.runtime.mesh_config import MeshConfig

RESOLVE_S = 5.0
PROBE_BYTES = 256 * 1024


async def missing_names(mesh: MeshConfig) -> tuple[str, ...]:
    """`key: host` of each configured host that does not resolve."""
    hosts = dict.fromkeys(configured_hosts(mesh))
    resolved = await asyncio.gather(*(_resolves(host) for _, host in hosts))
    return tuple(f"{key}: {host}" for (key, host), is_there in zip(hosts, resolved, strict=True) if not is_there)


def configured_hosts(mesh: MeshConfig) -> Iterator[tuple[str, str]]:
    """`(key, host)` of what is named in the configuration; addresses in numbers need no DNS."""
    named = [
        *(
            (f"addresses.{key}", address)
            for key, value in mesh.addresses.model_dump().items()
            for address in _all(value)
        ),
        *(("kafka_bootstrap", address) for address in mesh.kafka_bootstrap.split(",") if address),
    ]
    for key, address in named:
        if host := address.rpartition(":")[0].strip("[] "):
            yield from _unless_number(key, host)
    for key in ("ledger_url", "kv_url"):
        if host := urlsplit(getattr(mesh, key)).hostname or "":
            yield from _unless_number(key, host)


def taken_ports(settings: MeshSettings) -> tuple[str, ...]:
    """The public addresses that something else holds while this mesh does not run."""
    addresses = (settings.grpc_address, settings.http_address)
    return tuple(address for address in addresses if not can_bind(*split_address(address)))


def disk(folder: Path) -> tuple[str, int | None]:
    """Why the folder takes no file (empty when it does), and how many bytes are free there."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    try:
        free = shutil.disk_usage(existing).free
        with tempfile.TemporaryFile(dir=existing, prefix=".diagnose-", buffering=0) as file:
            written = file.write(b"\0" * PROBE_BYTES)
            os.fsync(file.fileno())
    except OSError as error:
        return f"{existing} takes no file: {error.strerror}", None
    if written < PROBE_BYTES:
        return f"{existing} takes only {written} bytes", free
    return "", free


async def _resolves(host: str) -> bool:
    try:
        async with asyncio.timeout(RESOLVE_S):
            return bool(await asyncio.get_running_loop().getaddrinfo(host, None))
    except (OSError, TimeoutError, UnicodeError):
        return False


def _unless_number(key: str, host: str) -> Iterator[tuple[str, str]]:
    try:
        ip_address(host)
    except ValueError:
        yield key, host


def _all(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
