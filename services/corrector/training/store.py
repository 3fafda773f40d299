"""Collected corrections in one SQLite file: who they are of, what they teach, and what was erased."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELD_OUT = 5
"""One case in so many is kept for evaluation, and never trained on."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS cases (
  tenant TEXT NOT NULL, event_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
  occurred_ms INTEGER NOT NULL, text TEXT NOT NULL, schema TEXT NOT NULL, source TEXT NOT NULL, value TEXT NOT NULL,
  valid INTEGER NOT NULL, certain INTEGER NOT NULL, held_out INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS erased (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, occurred_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, kind, id)
);
CREATE TABLE IF NOT EXISTS deletions (tenant TEXT NOT NULL, at_ms INTEGER NOT NULL, cases INTEGER NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    tenant_id: str
    event_id: str
    user_id: str
    session_id: str
    occurred_ms: int
    text: str
    """As it failed."""
    schema: str
    source: str
    value: str
    """What became of it, as JSON; empty if nothing did."""
    valid: bool
    certain: bool


@dataclass(frozen=True)
class Count:
    cases: int
    certain: int
    """Of these the truth is known, so they can train and evaluate."""
    held_out: int
    """Of the certain ones."""


class CaseStore:
    """Used by one process at a time."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA secure_delete = ON")  # what is erased is gone from the file, too
        self._db.executescript(_SCHEMA)
        path.chmod(0o600)

    def close(self) -> None:
        self._db.close()

    def add(self, case: Case) -> bool:
        """False for what is here already, or was erased after it occurred."""
        if self._is_erased(case):
            return False
        held_out = zlib.crc32(case.event_id.encode()) % HELD_OUT == 0
        row = (
            case.tenant_id, case.event_id, case.user_id, case.session_id, case.occurred_ms, case.text, case.schema,
            case.source, case.value, case.valid, case.certain, held_out,
        )  # fmt: skip
        cursor = self._db.execute(f"INSERT OR IGNORE INTO cases VALUES ({', '.join('?' * len(row))})", row)
        return cursor.rowcount == 1

    def erase(self, tenant_id: str, kind: str, id_: str, occurred_ms: int) -> int:
        """Forget a `user` or a `session`, also what comes later but occurred before; gives the number of cases."""
        self._db.execute(
            "INSERT INTO erased VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET occurred_ms = max(occurred_ms, excluded.occurred_ms)",
            (tenant_id, kind, id_, occurred_ms),
        )
        column = {"user": "user_id", "session": "session_id"}[kind]
        return self._delete(tenant_id, f"AND {column} = ? AND occurred_ms <= ?", id_, occurred_ms)

    def keep_only(self, tenant_ids: Iterable[str]) -> list[str]:
        """Delete the cases of all other tenants; gives whose."""
        others = sorted(set(self.tenants()) - set(tenant_ids))
        for tenant_id in others:
            self._delete(tenant_id, "")
        return others

    def num_deleted_since(self, tenant_id: str, at_ms: int) -> int:
        """Cases that were here at a time and were deleted later: what was trained then may have learnt them."""
        query = "SELECT coalesce(sum(cases), 0) FROM deletions WHERE tenant = ? AND at_ms >= ?"
        return int(self._db.execute(query, (tenant_id, at_ms)).fetchone()[0])

    def tenants(self) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT DISTINCT tenant FROM cases ORDER BY tenant")]

    def count(self, tenant_id: str) -> Count:
        query = (
            "SELECT count(*), coalesce(sum(certain), 0), coalesce(sum(certain AND held_out), 0) "
            "FROM cases WHERE tenant = ?"
        )
        return Count(*self._db.execute(query, (tenant_id,)).fetchone())

    def certain(self, tenant_id: str, *, held_out: bool) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Source, value and schema of a tenant's cases whose truth is known, oldest first."""
        query = (
            "SELECT source, value, schema FROM cases "
            "WHERE tenant = ? AND certain AND held_out = ? AND source != '' ORDER BY occurred_ms"
        )
        with closing(self._db.execute(query, (tenant_id, held_out))) as rows:
            found = [(source, json.loads(value), json.loads(schema)) for source, value, schema in rows]
        return [(source, value, schema) for source, value, schema in found if isinstance(value, dict)]

    def _delete(self, tenant_id: str, which: str, *values: object) -> int:
        count = self._db.execute(f"DELETE FROM cases WHERE tenant = ? {which}", (tenant_id, *values)).rowcount
        if count:
            self._db.execute("INSERT INTO deletions VALUES (?, ?, ?)", (tenant_id, round(time.time() * 1000), count))
        return count

    def _is_erased(self, case: Case) -> bool:
        row = self._db.execute(
            "SELECT 1 FROM erased WHERE tenant = ? AND occurred_ms >= ? "
            "AND ((kind = 'user' AND id = ?) OR (kind = 'session' AND id = ?))",
            (case.tenant_id, case.occurred_ms, case.user_id, case.session_id),
        ).fetchone()
        return row is not None
