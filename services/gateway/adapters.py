"""Adapters at the gateway: what a model name asks for, which engines hold it, and which tenants may use it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from redis.exceptions import RedisError

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import NotFound, Unavailable
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.tenants import ALL_ADAPTERS

SEPARATOR = ":"
"""Between a model and an adapter in a model name."""
FRESH_S = 5.0
"""How long an answer of the store is used without asking again."""
STALE_S = 300.0
"""How long it is still trusted while the store is away."""
MAX_REMEMBERED = 10_000


class Holder(Protocol):
    """An engine that is up."""

    @property
    def adapters(self) -> Iterable[engine_pb2.Adapter]: ...


@dataclass(frozen=True)
class WantedAdapter:
    """An adapter, or one generation of it; without a name, none."""

    name: str = ""
    generation: int = 0
    """0: any."""
    revision: str = ""
    """Empty: any."""

    @classmethod
    def of(cls, model: common_pb2.ModelIdentity) -> WantedAdapter:
        return cls(model.adapter, model.adapter_generation, model.adapter_revision)

    def found_among(self, adapters: Iterable[engine_pb2.Adapter]) -> engine_pb2.Adapter | None:
        """The newest that it means."""
        fitting = [
            adapter
            for adapter in adapters
            if adapter.name == self.name
            and self.generation in (0, adapter.generation)
            and self.revision in ("", adapter.revision)
        ]
        return max(fitting, key=lambda adapter: adapter.generation, default=None)

    def is_held_by(self, engine: Holder) -> bool:
        return not self.name or self.found_among(engine.adapters) is not None


NO_ADAPTER = WantedAdapter()


def split_name(name: str, mesh: MeshConfig) -> tuple[str, str]:
    """The model or alias, and the adapter (empty for none), that a request's model name means. A name that ends with
    the separator stays as it is: no model has it."""
    if mesh.resolve_model(name) is not None or SEPARATOR not in name or name.endswith(SEPARATOR):
        return name, ""
    model, _, adapter = name.rpartition(SEPARATOR)
    return model, adapter


def unknown_model(name: str) -> NotFound:
    """The same for adapters that are not there and those that are not this tenant's."""
    return NotFound("MODEL_NOT_FOUND", f"the model {name[:100]!r} is not served here; see /v1/models", field="model")


class AdapterPermits:
    """Which adapters a tenant may use. `lookup(tenant_id)` asks the store and may raise RedisError or TimeoutError."""

    def __init__(self, lookup: Callable[[str], Awaitable[frozenset[str]]], *, shared: Iterable[str]) -> None:
        """`shared`: those that every tenant may use."""
        self._lookup = lookup
        self._shared = frozenset(shared)
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def allows(self, tenant_id: str, adapter: str) -> bool:
        """Raises Unavailable."""
        if adapter in self._shared or ALL_ADAPTERS in self._shared:
            return True
        own = await self._of(tenant_id)
        return adapter in own or ALL_ADAPTERS in own

    async def _of(self, tenant_id: str) -> frozenset[str]:
        asked_at_s, own = self._known.get(tenant_id, (float("-inf"), frozenset[str]()))
        age_s = time.monotonic() - asked_at_s
        if age_s < FRESH_S:
            return own
        try:
            own = await self._lookup(tenant_id)
        except (RedisError, TimeoutError, OSError) as error:
            if age_s < STALE_S:
                return own
            raise Unavailable(
                "TENANT_STORE_UNAVAILABLE", "a tenant's adapters cannot be looked up now", retry_after_ms=1_000
            ) from error
        self._known[tenant_id] = (time.monotonic(), own)
        self._known.move_to_end(tenant_id)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return own
