"""The two embedded Redis servers of a mesh."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Its value is the name of the server's process and of its folder."""

    LEDGER = "valkey"
    KV = "valkey-kv"
