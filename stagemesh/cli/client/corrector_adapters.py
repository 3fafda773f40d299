"""What changes of adapters in use need: the ledger, the engines, and files where the engines read them."""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from redis.asyncio import Redis

from services.corrector.adapters.operations import CALIBRATION, Held, Operations
from services.corrector.adapters.origin import FILE as ORIGIN
from services.corrector.adapters.record import Record
from services.corrector.adapters.store import AdapterStore
from stagemesh.cli.client.engine_adapters import AdapterCalls, find_engines
from stagemesh.cli.client.training import num_erased_since
from stagemesh.cli.commands.tenant import with_ledger
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh

T = TypeVar("T")
WEIGHTS = ("adapter_model.safetensors", "adapter_config.json")
MAX_SHOWN = 10
"""Changes."""
BESIDE = (CALIBRATION, ORIGIN, "recipe.json")


@dataclass(frozen=True)
class OnEngines:
    """`Engines`: all of the mesh."""

    calls: AdapterCalls

    async def load(self, name: str, folder: str) -> Held:
        loaded = await self.calls.load(name, folder, 0)
        newest = max(loaded.values(), key=lambda adapter: adapter.generation)
        return Held(newest.generation, newest.revision)


def operate(state: Path | None, config: Path | None, action: Callable[[Operations], Awaitable[T]]) -> T:
    """Raises CommandError in words for every failure."""
    engines = OnEngines(AdapterCalls(*find_engines(state, config, ())))
    return with_ledger(state, config, lambda redis: action(Operations(AdapterStore(redis), engines, operator())))


def ask(state: Path | None, config: Path | None, question: Callable[[AdapterStore], Awaitable[T]]) -> T:
    def action(redis: Redis) -> Awaitable[T]:
        return question(AdapterStore(redis))

    return with_ledger(state, config, action)


def operator() -> str:
    """Who changes it, for the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


def placed(state: Path | None, folder: Path) -> Path:
    """A copy of an adapter where the engines of the mesh here read adapters; without a mesh here, the folder itself.

    So it can be gone back to when the folder is gone. Raises CommandError for a folder without an adapter.
    """
    for name in WEIGHTS:
        if not (folder / name).is_file():
            raise CommandError(f"{folder} holds no adapter: {name} is missing", Exit.USAGE)
    where, record = find_mesh(state)
    if record is None:
        return folder.resolve()
    digest = hashlib.sha256()
    for name in WEIGHTS:
        digest.update((folder / name).read_bytes())
    target = where.path / "adapters" / f"corrector-{digest.hexdigest()[:16]}"
    target.mkdir(parents=True, exist_ok=True)
    for name in (*WEIGHTS, *BESIDE):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)
    return target


def standing(state: Path | None, config: Path | None) -> dict[str, Any]:
    """What is in use, with results of candidates; says why instead, where no ledger can be asked."""
    from stagemesh.cli.corrector_view import change_json, record_json

    async def question(store: AdapterStore) -> dict[str, Any]:
        found = []
        for record in await store.records():
            tally = await store.tally(record.scope, record.candidate.adapter.revision) if record.candidate else None
            found.append((record, tally))
        changes = [change_json(change) for change in await store.audit(MAX_SHOWN)]
        told = [record_json(record, tally, _stale(state, record)) for record, tally in found]
        return {"in_use": told, "changes": changes}

    try:
        return ask(state, config, question)
    except CommandError as error:
        return {"problem": error.message}


def _stale(state: Path | None, record: Record) -> dict[str, int]:
    """Erased cases that each adapter may have learnt, by its revision."""
    entries = [entry for entry in (record.present, record.candidate) if entry is not None]
    return {entry.adapter.revision: num_erased_since(state, record.scope, entry.trained_ms) for entry in entries}
