"""The adapters of one engine: loaded, replaced and unloaded while steps run. Lives on the event loop.

A generation that was replaced stays for a while, for requests that were prepared for it, and until the sequences that
run with it have ended. Only then is its slot another's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.engine.adapter import LoadedAdapter
from services.engine.adapter_files import AdapterFile, check_name, locate, read_adapter
from services.engine.adapter_manifest import AdapterManifest
from services.engine.config import AdaptersConfig
from services.engine.kernels.native.lora import MAX_ADAPTERS
from services.engine.runner import AdapterSlots
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.model_config import TransformerConfig
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import (
    AlreadyExists,
    Exhausted,
    NotFound,
    Precondition,
    StagemeshError,
    Unavailable,
    Unsupported,
)
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

MIB = 1024 * 1024


@dataclass(frozen=True, eq=False)
class _Retired:
    adapter: LoadedAdapter
    until_s: float
    """On the monotonic clock; it can be asked for until then."""


class AdapterStore:
    def __init__(
        self,
        slots: AdapterSlots | None,
        model: TransformerConfig,
        identity: common_pb2.ModelIdentity,
        config: AdaptersConfig,
        manifest: AdapterManifest,
    ) -> None:
        """`slots`: None where the backend computes without adapters."""
        self._manifest = manifest
        self._slots, self._model, self._identity, self._config = slots, model, identity, config
        self._current: dict[str, LoadedAdapter] = {}
        self._retired: list[_Retired] = []
        self._last_generation: dict[str, int] = {}
        self._lock = asyncio.Lock()
        """One is loaded at a time."""
        self._freed = asyncio.Event()

    def __iter__(self) -> Iterator[tuple[LoadedAdapter, bool]]:
        """Each, and whether it is retiring."""
        yield from ((adapter, False) for adapter in self._current.values())
        yield from ((retired.adapter, True) for retired in self._retired)

    def load_first(self) -> None:
        """Load what was loaded when the engine last ran, and what the configuration names and was not replaced since.

        Before anything runs. What was loaded then and cannot be now is left out, with a warning. Raises ConfigError for
        what the configuration names.
        """
        for entry in self._manifest.read() if self._slots is not None else ():
            try:
                self._load_now(entry.name, locate(entry.path, self._roots()), entry.generation, entry.revision)
            except StagemeshError as error:
                log.warning("adapter not loaded again", adapter=entry.name, path=entry.path, error=str(error))
        for name, path in self._config.load.items():
            if name in self._current:
                continue
            try:
                self._load_now(name, Path(path).resolve(), 0)
            except StagemeshError as error:
                raise ConfigError(f"engine.adapters.load.{name}: {error.message}") from None

    def _roots(self) -> list[str]:
        """Folders from which adapters may come."""
        return [*(self._config.folders or ()), *self._config.load.values()]

    def _load_now(self, name: str, folder: Path, generation: int, revision: str = "") -> None:
        check_name(name)
        file = self._read(folder)
        if revision and revision != file.revision:
            generation += 1  # other files under the same path
        self._check_room(name, generation, file)
        slot = self._free_slot()
        self._put(slot, file)
        self._enter(name, str(folder), generation, file, slot)

    def find(self, wanted: common_pb2.ModelIdentity) -> LoadedAdapter | None:
        """The adapter that a request asks for, None for none. Raises NotFound, or Precondition for another one."""
        if not wanted.adapter:
            return None
        current = self._current.get(wanted.adapter)
        if current is not None and _is(current, wanted):
            return current
        now_s = time.monotonic()
        for retired in self._retired:
            if retired.until_s > now_s and retired.adapter.name == wanted.adapter and _is(retired.adapter, wanted):
                return retired.adapter
        if current is None:
            raise NotFound("ADAPTER_NOT_LOADED", f"no adapter {wanted.adapter[:80]!r} is loaded", field="model.adapter")
        raise Precondition(
            "MODEL_MISMATCH",
            f"this engine's adapter {current.name} is generation {current.generation} ({current.revision[:12]})",
            field="model.adapter_generation",
        )

    def can_be_asked_for(self) -> Iterator[LoadedAdapter]:
        """Those that `find` finds."""
        now_s = time.monotonic()
        yield from self._current.values()
        yield from (retired.adapter for retired in self._retired if retired.until_s > now_s)

    async def load(self, name: str, path: str, generation: int) -> LoadedAdapter:
        """Load an adapter, or replace the one of this name. The same files again change nothing.

        Raises a StagemeshError that says why not; then everything is as before.
        """
        check_name(name)
        folder = locate(path, self._config.folders or ())
        async with self._lock:
            self.sweep()
            file = await asyncio.to_thread(self._read, folder)
            current = self._current.get(name)
            if current is not None and current.revision == file.revision and generation in (0, current.generation):
                return current
            self._check_room(name, generation, file)
            slot = self._free_slot()
            await asyncio.to_thread(self._put, slot, file)
            adapter = self._enter(name, str(folder), generation, file, slot)
            self._manifest.write(self._current.values())
            return adapter

    def retire(self, name: str) -> list[LoadedAdapter]:
        """Have no more sequences begin with an adapter; gives all its generations, which go when nobody has them.

        Raises NotFound.
        """
        adapter = self._current.pop(name, None)
        if adapter is None:
            raise NotFound("ADAPTER_NOT_LOADED", f"no adapter {name[:80]!r} is loaded", field="name")
        replaced = [retired.adapter for retired in self._retired if retired.adapter.name == name]
        self._retired = [retired for retired in self._retired if retired.adapter.name != name]
        now_s = time.monotonic()
        self._retired += [_Retired(each, now_s) for each in (adapter, *replaced)]
        self._manifest.write(self._current.values())
        log.info("adapter unloaded", adapter=name, generation=adapter.generation)
        self.sweep()
        return [adapter, *replaced]

    async def wait_freed(self, adapters: Sequence[LoadedAdapter], timeout_s: float) -> int:
        """Wait until nobody has retired adapters any more; gives how many sequences still do after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while not all(adapter.is_freed for adapter in adapters):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return sum(adapter.num_running for adapter in adapters)
        return 0

    def sweep(self) -> None:
        """Give the slots of retired adapters back that nobody needs."""
        if not self._retired:
            return
        assert self._slots is not None, "adapters without slots"
        now_s = time.monotonic()
        for retired in tuple(self._retired):
            if retired.until_s <= now_s and retired.adapter.num_running == 0:
                self._retired.remove(retired)
                retired.adapter.is_freed = True
                self._slots.set_adapter(retired.adapter.slot, ())
                self._freed.set()

    def _read(self, folder: Path) -> AdapterFile:
        if self._slots is None:
            raise Unsupported("ADAPTERS_UNSUPPORTED", "this engine's backend computes without adapters; use `native`")
        return read_adapter(folder, self._model, self._identity.revision, int(self._config.max_file_mb * MIB))

    def _check_room(self, name: str, generation: int, file: AdapterFile) -> None:
        last = self._last_generation.get(name, 0)
        if generation and generation <= last:
            raise AlreadyExists(
                "ADAPTER_GENERATION_USED",
                f"generation {last} of {name} was loaded; give a greater one",
                field="generation",
            )
        if name not in self._current and len(self._current) >= self._config.max_adapters:
            raise Exhausted("TOO_MANY_ADAPTERS", f"{len(self._current)} adapters are loaded; unload one first")
        total = file.num_bytes + sum(adapter.num_bytes for adapter, _ in self)
        if total > self._config.max_mb * MIB:
            limit = f"adapters would take {total:,} bytes, more than engine.adapters.max_mb ({self._config.max_mb:g})"
            raise Exhausted("ADAPTER_MEMORY_FULL", f"{limit}; unload one, or retry when replaced ones have gone")

    def _free_slot(self) -> int:
        taken = {adapter.slot for adapter, _ in self}
        slot = next((number for number in range(MAX_ADAPTERS) if number not in taken), None)
        if slot is None:
            raise Exhausted("TOO_MANY_ADAPTERS", "replaced adapters are still in use; retry later", retry_after_ms=1000)
        return slot

    def _put(self, slot: int, file: AdapterFile) -> None:
        """For any thread: no row has the adapter of a free slot."""
        assert self._slots is not None, "read without slots"
        self._slots.set_adapter(slot, file.parts)

    def _enter(self, name: str, path: str, generation: int, file: AdapterFile, slot: int) -> LoadedAdapter:
        """Have requests to come find the adapter."""
        adapter = LoadedAdapter(
            name=name,
            generation=generation or self._last_generation.get(name, 0) + 1,
            revision=file.revision,
            path=path,
            rank=file.rank,
            targets=file.targets,
            num_bytes=file.num_bytes,
            loaded_unix_s=time.time(),
            slot=slot,
        )
        self._last_generation[name] = adapter.generation
        if (replaced := self._current.get(name)) is not None:
            self._retired.append(_Retired(replaced, time.monotonic() + self._config.keep_replaced_s))
            asyncio.get_running_loop().call_later(self._config.keep_replaced_s, self.sweep)
        self._current[name] = adapter
        log.info("adapter loaded", adapter=name, generation=adapter.generation, revision=adapter.revision[:12])
        return adapter


def _is(adapter: LoadedAdapter, wanted: common_pb2.ModelIdentity) -> bool:
    """Whether it is the generation and revision that are wanted."""
    is_generation = wanted.adapter_generation in (0, adapter.generation)
    return is_generation and wanted.adapter_revision in ("", adapter.revision)


def adapter_gone(adapter: LoadedAdapter) -> StagemeshError:
    """For a request that was prepared for an adapter which has gone since."""
    gone = f"the adapter {adapter.name} was unloaded while the request was prepared"
    return Unavailable("ADAPTER_NOT_LOADED", gone, retry_after_ms=100)
