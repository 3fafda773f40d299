"""Traces of ended requests, with the baseline of each, from the ledger of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stagemesh.cli.commands.tenant import with_ledger

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from services.gateway.traces.baseline import Judged, Usual
    from services.gateway.traces.record import RequestTrace


@dataclass(frozen=True)
class JudgedTrace:
    trace: RequestTrace
    baseline: Usual
    stages: Sequence[Judged]

    @property
    def abnormal(self) -> bool:
        return any(stage.abnormal for stage in self.stages)


def judged_traces(
    state: Path | None, config: Path | None, tenant_id: str, session_id: str, last: int
) -> list[JudgedTrace]:
    """The last requests of a session, or of the tenant, the newest first. Raises CommandError in words."""
    from services.gateway.traces.baseline import judge, usual
    from services.gateway.traces.store import KEPT_OF_KIND, kind_key, read_traces, session_key, tenant_key

    async def read(redis: Redis) -> list[JudgedTrace]:
        key = session_key(tenant_id, session_id) if session_id else tenant_key(tenant_id)
        traces = await read_traces(redis, key, last)
        baselines: dict[str, Usual] = {}
        for trace in traces:
            kind = kind_key(tenant_id, trace.route, trace.length_class)
            if kind not in baselines:
                baselines[kind] = usual(await read_traces(redis, kind, KEPT_OF_KIND))
        found = []
        for trace in traces:
            baseline = baselines[kind_key(tenant_id, trace.route, trace.length_class)]
            found.append(JudgedTrace(trace, baseline, judge(trace, baseline)))
        return found

    return with_ledger(state, config, read)
