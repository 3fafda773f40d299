"""The ledger of a mesh, for an operator who looks after deferred requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stagemesh.cli.commands.tenant import with_ledger
from stagemesh.cli.mesh_access import find_mesh

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from services.gateway.deferred_admin import DeferredAdmin

T = TypeVar("T")
OWNER = "operator"


def with_deferred(state: Path | None, config: Path | None, action: Callable[[DeferredAdmin], Awaitable[T]]) -> T:
    """The result of `action` on the deferred requests of the mesh. Raises CommandError in words."""
    from services.gateway.config import GatewayConfig
    from services.gateway.deferred_admin import DeferredAdmin
    from services.gateway.ledger import Ledger
    from stagemesh.cli.settings_option import read_part
    from stagemesh.runtime.mesh_config import MeshConfig
    from stagemesh.runtime.outbox import Outbox
    from stagemesh.runtime.topics import DEFERRED

    _, record = find_mesh(state)
    path = config or (Path(record.config) if record and record.config else None)
    mesh, gateway = read_part(
        path, lambda source: (source.shared(MeshConfig), source.section("gateway", GatewayConfig))
    )

    async def on_ledger(redis: Redis) -> T:
        ledger = Ledger(redis, owner=OWNER, lease_s=gateway.lease_s, outcome_ttl_s=gateway.outcome_ttl_s)
        outbox = Outbox(
            redis,
            DEFERRED,
            ttl_s=gateway.deferred_ttl_s,
            max_entries=gateway.max_deferred,
            prefix=mesh.kafka_topic_prefix,
        )
        return await action(DeferredAdmin(redis, ledger, outbox, ttl_s=gateway.deferred_ttl_s))

    return with_ledger(state, config, on_ledger)
