"""Adapters in use, in the ledger Redis: a record for each tenant, an audit of changes, counts of candidates.

`stagemesh:corrector:adapters` is a hash of records by tenant (`*` for the shared ones), `stagemesh:corrector:audit` a
stream, `stagemesh:corrector:tally:REVISION` a hash of counts of one candidate of one tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, cast

from redis.exceptions import RedisError

from services.corrector.adapters.in_use import SHARED, InUse
from services.corrector.adapters.record import Entry, Record, unpack
from services.corrector.adapters.tally import Tally, tally_of
from stagemesh.runtime.errors import Precondition, Unavailable
from stagemesh.runtime.redis_client import Redis

PREFIX = "stagemesh:corrector"
RECORDS = f"{PREFIX}:adapters"
AUDIT = f"{PREFIX}:audit"
MAX_LINES = 10_000
TALLY_TTL_S = 90 * 86_400
FAILURES = (RedisError, OSError, TimeoutError)
_SHARED_FIELD = "*"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A line of the audit."""

    what: str
    """`candidate`, `canary`, `promote`, `rollback` or `withdraw`."""
    scope: str
    by: str
    """Who asked for it, as the system calls him."""
    detail: str
    at_ms: int = 0
    """The server's clock."""


class AdapterStore:
    """Every method raises Unavailable when Redis is away or slow."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._change: Any = client.register_script(
            files("services.corrector.adapters").joinpath("change.lua").read_text("utf-8")
        )

    async def record(self, scope: str) -> Record:
        """An empty one where nothing is stored."""
        data = await self._tried(self._client.hget(RECORDS, scope or _SHARED_FIELD))
        return unpack(data) if data is not None else Record(scope=scope)

    async def records(self) -> list[Record]:
        """All, the shared ones first."""
        found = await self._tried(self._client.hgetall(RECORDS))
        return sorted((unpack(data) for data in found.values()), key=lambda record: record.scope)

    async def present(self, scope: str) -> Entry | None:
        """Which adapter answers there: a tenant's own, else the shared one."""
        own = (await self.record(scope)).present
        return own or (await self.record(SHARED)).present

    async def in_use(self) -> InUse:
        return InUse(lineups={record.scope: record.lineup for record in await self.records()})

    async def put(self, record: Record, change: Change) -> Record:
        """Store what was made from the record of its version, with a line; gives it with its new version.

        Raises Precondition when someone else changed it meanwhile: nothing is done then.
        """
        stored = replace(record, version=record.version + 1)
        line = {"what": change.what, "scope": change.scope, "by": change.by, "detail": change.detail}
        pairs = [part for pair in line.items() for part in pair]
        call = self._change(
            keys=[RECORDS, AUDIT],
            args=[record.scope or _SHARED_FIELD, record.version, stored.pack(), MAX_LINES, *pairs],
        )
        if not await self._tried(call):
            raise Precondition("ADAPTERS_CHANGED", "somebody else changed these adapters just now; look and try again")
        return stored

    async def audit(self, count: int) -> list[Change]:
        """The last lines, the latest first."""
        lines = await self._tried(self._client.xrevrange(AUDIT, count=count))
        return [
            Change(**{name.decode(): value.decode() for name, value in line.items()}, at_ms=int(id_.split(b"-")[0]))
            for id_, line in lines
        ]

    async def tally(self, scope: str, revision: str) -> Tally:
        return tally_of(await self._tried(self._client.hgetall(_tally(scope, revision))))

    async def count(self, scope: str, revision: str, counts: Mapping[str, int]) -> None:
        key = _tally(scope, revision)
        async with self._client.pipeline(transaction=True) as pipe:
            for name, number in counts.items():
                pipe.hincrby(key, name, number)
            pipe.expire(key, TALLY_TTL_S)
            await self._tried(pipe.execute())

    async def forget(self, tenant_id: str) -> None:
        """A tenant that is revoked has no adapters."""
        await self._tried(self._client.hdel(RECORDS, tenant_id))

    async def forget_tally(self, scope: str, revision: str) -> None:
        await self._tried(self._client.delete(_tally(scope, revision)))

    async def _tried(self, call: Any) -> Any:
        try:
            return cast("Any", await call)
        except FAILURES as error:
            raise Unavailable(
                "LEDGER_UNAVAILABLE",
                f"what adapters are in use cannot be asked now ({type(error).__name__})",
                retry_after_ms=1_000,
            ) from error


def _tally(scope: str, revision: str) -> str:
    return f"{PREFIX}:tally:{scope or _SHARED_FIELD}:{revision}"
