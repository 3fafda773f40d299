"""Stored anchor sets in the configuration of the validator and of the corrector."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class AnchorSetsConfig(Section):
    max_sets: int = Field(default=64, ge=1)
    """Sets of one tenant."""
    max_keys: int = Field(default=2_000_000, ge=1)
    """Keys of one set."""
    max_set_bytes: int = Field(default=33_554_432, ge=1)
    """Keys of one set in UTF-8; an index of them takes about nine times as much."""
    max_key_chars: int = Field(default=256, ge=1, le=1_000)
    """Longest key."""
    wait_ms: float = Field(default=4_000.0, gt=0)
    """What a call waits for a set that is not ready in this process yet; a million keys take some seconds."""
    redis_timeout_ms: float = Field(default=2_000.0, gt=0)
    """For one command to the ledger Redis."""
    poll_s: float = Field(default=2.0, gt=0)
    """How often it is looked whether sets have changed, so that new ones are ready before they are asked for."""
    max_local_mb: int = Field(default=2_048, ge=64)
    """Index files on this machine; those not used for longest go first, and come back when they are asked for."""
    build_memory_mb: int = Field(default=3_072, ge=512)
    """Address space of the process that builds an index."""
    build_timeout_s: float = Field(default=120.0, gt=0)
    """What building an index may take."""
