"""All looks at once, each bounded, so that the whole takes seconds whatever hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from stagemesh.cli.diagnose import engines, machine, processes, stores, weights
from stagemesh.cli.diagnose.evidence import Evidence, RedisEvidence
from stagemesh.cli.mesh_access import running_mesh
from stagemesh.cli.supervisor.mesh_file import MeshRecord
from stagemesh.cli.supervisor.mesh_settings import MeshSettings, reachable, read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.servers import KAFKA
from stagemesh.cli.supervisor.state_dir import StateDir, locate_state
from stagemesh.runtime.config import ConfigError

LOOK_S = 15.0
"""For one look; the looks run side by side."""

T = TypeVar("T")


async def gather(options: UpOptions) -> Evidence:
    """Look at everything that the mesh of these options, or the one that would start with them, depends on."""
    state = locate_state(options.state)
    record = running_mesh(state)
    if options.config is None and record is not None and record.config:
        options = options.model_copy(update={"config": Path(record.config)})
    disk_error, free_bytes = machine.disk(state.path)
    seen = Evidence(mesh_runs=record is not None, disk_error=disk_error, free_bytes=free_bytes)
    try:
        settings = read_settings(options)
    except ConfigError as error:
        settings, seen = None, replace(seen, config_error=str(error))
    if settings is not None:
        seen = replace(seen, missing_names=await machine.missing_names(settings.mesh))
    if record is None:
        return await _before_start(seen, settings)
    return await _running(seen, settings, record, state)


async def _before_start(seen: Evidence, settings: MeshSettings | None) -> Evidence:
    if settings is None:
        return seen
    found, broker_error, notes = await _servers(settings, settings.mesh.ledger_url, settings.mesh.kv_url, "")
    return replace(seen, taken_ports=machine.taken_ports(settings), redis=found, broker_error=broker_error, notes=notes)


async def _running(seen: Evidence, settings: MeshSettings | None, record: MeshRecord, state: StateDir) -> Evidence:
    addresses = {process.name: process.address for process in record.processes}
    named = [(name, address) for name, address in addresses.items() if name.startswith("engine") and address]
    (found, broker_error, notes), of_processes, of_engines, tokenizer_error, waiting, broken = await asyncio.gather(
        _servers(settings, record.ledger_url, record.kv_url, addresses.get(KAFKA, "")),
        processes.look_at_processes(record, state),
        engines.look_at_engines(named, record.token),
        engines.look_at_tokenizer(addresses.get("tokenizer", ""), record.default_model, record.token),
        _waiting(record),
        _bounded(asyncio.to_thread(weights.broken_weights, settings.mesh if settings else None)),
    )
    return replace(
        seen,
        redis=found,
        broker_error=broker_error,
        processes=of_processes,
        engines=of_engines,
        tokenizer_error=tokenizer_error,
        gateway_waiting=waiting,
        broken_weights=broken or (),
        notes=notes,
    )


async def _servers(
    settings: MeshSettings | None, ledger_url: str, kv_url: str, kafka_address: str
) -> tuple[tuple[RedisEvidence, ...], str, tuple[str, ...]]:
    """Both Redis servers and the broker, of the running mesh or as configured."""
    bootstrap = (settings.mesh.kafka_bootstrap if settings else "") or kafka_address
    urls = {"ledger Redis": ledger_url, **({"KV Redis": kv_url} if kv_url != ledger_url else {})}
    looks = [stores.look_at_redis(name, url) for name, url in urls.items() if url]
    found = await asyncio.gather(*(_bounded(look) for look in looks))
    broker_error = await _bounded(stores.look_at_broker(bootstrap)) if bootstrap else ""
    notes = ("a look at Redis took too long",) if None in found else ()
    return tuple(each for each in found if each is not None), broker_error or "", notes


async def _waiting(record: MeshRecord) -> int:
    try:
        return await engines.gateway_waiting(reachable(record.http_address))
    except httpx.HTTPError:
        return 0  # the gateway's own state says more


async def _bounded(look: Coroutine[Any, Any, T]) -> T | None:
    """The result, or None after LOOK_S."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await look
    except TimeoutError:
        return None
