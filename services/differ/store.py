"""Writing shadow pairs: one row per request, and never more rows than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from services.differ.pair import Pair, Side
from services.differ.table import metadata, open_database, shadow_pairs
from stagemesh.runtime.errors import Unavailable

T = TypeVar("T")


class PairStore:
    """The database. Each call runs in a thread; raises Unavailable (DATABASE_UNAVAILABLE) when it cannot be used."""

    def __init__(self, url: str) -> None:
        self._engine = open_database(url)
        self._insert = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert

    async def open(self) -> None:
        """Create the table where it is missing. May be called by several differs at once."""
        await self._run(metadata.create_all)

    async def has(self, tenant_id: str, request_id: str) -> bool:
        statement = select(func.count()).where(*_key(tenant_id, request_id))
        return bool(await self._run(lambda connection: connection.execute(statement).scalar_one()))

    async def add(self, pair: Pair) -> bool:
        """Store one pair durably; False if its request has a row already, which stays as it is."""
        insert = self._insert(shadow_pairs).values(**_row(pair)).on_conflict_do_nothing()
        statement = insert.returning(shadow_pairs.c.request_id)
        return await self._run(lambda connection: connection.execute(statement).first()) is not None

    async def count(self) -> int:
        statement = select(func.count()).select_from(shadow_pairs)
        return int(await self._run(lambda connection: connection.execute(statement).scalar_one()))

    async def prune(self, *, max_rows: int, retention: timedelta) -> int:
        """Delete what is older than `retention`, and the oldest above `max_rows`; gives how many went."""
        return await self._run(lambda connection: _prune(connection, max_rows, datetime.now(UTC) - retention))

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.dispose)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        def in_thread() -> T:
            with self._engine.begin() as connection:
                return work(connection)

        try:
            return await asyncio.to_thread(in_thread)
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise Unavailable(
                "DATABASE_UNAVAILABLE", f"the differ's database cannot be used now: {cause}", retry_after_ms=1000
            ) from error


def _prune(connection: Connection, max_rows: int, oldest: datetime) -> int:
    gone = connection.execute(delete(shadow_pairs).where(shadow_pairs.c.compared_at < oldest)).rowcount
    # The time of the newest row that is too many; rows of the same time go with it.
    newest_first = select(shadow_pairs.c.compared_at).order_by(shadow_pairs.c.compared_at.desc())
    limit = connection.execute(newest_first.offset(max_rows).limit(1)).scalar()
    if limit is not None:
        gone += connection.execute(delete(shadow_pairs).where(shadow_pairs.c.compared_at <= limit)).rowcount
    return gone


def _key(tenant_id: str, request_id: str) -> tuple[Any, ...]:
    return shadow_pairs.c.tenant_id == tenant_id, shadow_pairs.c.request_id == request_id


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "tenant_id": pair.tenant_id,
        "request_id": pair.request_id,
        "answered_at": pair.answered_at,
        "compared_at": datetime.now(UTC),
        "similarity": pair.similarity,
        "first_divergent_token": pair.first_divergent_token,
        "same_tokenizer": pair.same_tokenizer,
        "corrected": pair.corrected,
        "error": pair.error[:256],
        "attempts": pair.attempts,
        **_side("stable", pair.stable),
        **_side("candidate", pair.candidate),
    }


def _side(name: str, side: Side) -> dict[str, Any]:
    return {
        f"{name}_model": side.model,
        f"{name}_revision": side.revision,
        f"{name}_text": side.text.replace("\x00", "\N{SYMBOL FOR NULL}"),  # PostgreSQL stores no NUL
        f"{name}_num_tokens": side.num_tokens,
        f"{name}_finish_reason": side.finish_reason,
        f"{name}_total_us": side.total_us,
    }
