"""The table of shadow pairs, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
)

DATABASE_TIMEOUT_S = 5

metadata = MetaData()

shadow_pairs = Table(
    "shadow_pairs",
    metadata,
    Column("tenant_id", String(256), primary_key=True),
    Column("request_id", String(256), primary_key=True),
    Column("answered_at", DateTime(timezone=True), nullable=False),
    Column("compared_at", DateTime(timezone=True), nullable=False),
    Column("similarity", Double),
    Column("first_divergent_token", Integer),
    Column("same_tokenizer", Boolean, nullable=False),
    Column("corrected", Boolean, nullable=False),
    Column("error", String(256), nullable=False),
    Column("attempts", Integer, nullable=False),
    *(
        Column(f"{side}_{name}", kind, nullable=False)
        for side in ("stable", "candidate")
        for name, kind in (
            ("model", String(256)),
            ("revision", String(256)),
            ("text", Text()),
            ("num_tokens", Integer()),
            ("finish_reason", String(32)),
            ("total_us", BigInteger()),
        )
    ),
    Index("shadow_pairs_compared_at", "compared_at"),
)


def open_database(url: str) -> Engine:
    """An engine whose statements and waits are bounded; SQLite in WAL mode, so that reports do not block the differ."""
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": DATABASE_TIMEOUT_S})
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    options = f"-c statement_timeout={DATABASE_TIMEOUT_S * 1000} -c lock_timeout={DATABASE_TIMEOUT_S * 1000}"
    return create_engine(
        url,
        pool_size=2,
        max_overflow=2,
        pool_timeout=DATABASE_TIMEOUT_S,
        pool_pre_ping=True,
        connect_args={"connect_timeout": DATABASE_TIMEOUT_S, "options": options},
    )


def _prepare_sqlite(connection: object, _record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]  # a DB-API connection, for which there is no common type
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")  # a row is durable before its event is forgotten
    cursor.execute("PRAGMA journal_size_limit=16777216")
    cursor.close()
