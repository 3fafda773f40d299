"""Which adapter answers, and which one is tried beside it, for one tenant."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stagemesh.api.common.v1 import common_pb2

SHARED = ""
"""In the place of a tenant: of all that have no adapter of their own."""
_BUCKETS = 10_000


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter as the engines hold it."""

    name: str
    generation: int
    revision: str
    """SHA-256 of its files, as the engine says it."""
    calibration: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What `calibration.json` beside its files says of it: from which margin on it can be trusted, say."""

    def chosen_on(self, base: common_pb2.ModelIdentity) -> common_pb2.ModelIdentity:
        """The identity that asks an engine for the base model with this adapter, and for no other files."""
        chosen = common_pb2.ModelIdentity()
        chosen.CopyFrom(base)
        chosen.adapter, chosen.adapter_generation, chosen.adapter_revision = self.name, self.generation, self.revision
        return chosen


@dataclass(frozen=True, kw_only=True)
class Lineup:
    """The adapters of one tenant, or those shared by all."""

    present: Adapter | None = None
    """Answers."""
    candidate: Adapter | None = None
    """Runs beside it, and answers its share."""
    share: float = 0.0
    """Of the requests that the candidate answers, from 0 (it only runs beside) to 1."""

    def is_canary(self, request_id: str) -> bool:
        """Whether the candidate answers this request: by its ID alone, so that a repetition gets the same one."""
        if self.candidate is None or not self.share:
            return False
        return zlib.crc32(f"canary {request_id}".encode()) % _BUCKETS < self.share * _BUCKETS

    def answering(self, request_id: str) -> Adapter | None:
        return self.candidate if self.is_canary(request_id) else self.present

    def beside(self, request_id: str) -> Adapter | None:
        """The one that is compared with the answering one and does not answer, if there are two."""
        return None if self.candidate is None else self.present if self.is_canary(request_id) else self.candidate


@dataclass(frozen=True, kw_only=True)
class InUse:
    """All line-ups, by tenant; `SHARED` is everybody's who has none."""

    lineups: Mapping[str, Lineup] = field(default_factory=dict)

    def of(self, tenant_id: str) -> Lineup:
        """A tenant's adapter is asked for its own requests only. Without one of its own the shared one answers, and a
        first candidate of its own runs beside that."""
        shared = self.lineups.get(SHARED, Lineup())
        own = self.lineups.get(tenant_id) if tenant_id else None
        if own is None or (own.present is None and own.candidate is None):
            return shared
        present = own.present or shared.present
        return Lineup(present=present, candidate=own.candidate, share=own.share)
