"""What is stored of one tenant's adapters, or of the shared ones: who answers, who is tried, who answered before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from services.corrector.adapters.in_use import SHARED, Adapter, Lineup
from services.corrector.adapters.judged import Judged
from stagemesh.runtime.errors import NotFound

MAX_PREVIOUS = 4
SLOTS = ("blue", "green")
"""The present adapter holds one, a candidate the other: to promote and to roll back is to say which one answers."""

MAX_SCOPE_CHARS = 45
"""Of longer tenants a hash stands in the names of their adapters, which may have 63 characters."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One adapter, and what it is worth as far as is known."""

    adapter: Adapter
    folder: str
    """Where the engines read it."""
    since_ms: int
    """When it became what it is."""
    trained_ms: int = 0
    """What was erased since may be in it; 0: not known, or on nobody's texts."""
    judged: Judged | None = None
    """Against what was present then, on cases that were held out."""


@dataclass(frozen=True, kw_only=True)
class Record:
    scope: str
    """A tenant, or `SHARED`."""
    version: int = 0
    """Grows with every change."""
    present: Entry | None = None
    candidate: Entry | None = None
    share: float = 0.0
    previous: tuple[Entry, ...] = field(default=())
    """That were present before, the last one first."""

    @property
    def lineup(self) -> Lineup:
        present, candidate = self.present, self.candidate
        return Lineup(
            present=present.adapter if present else None,
            candidate=candidate.adapter if candidate else None,
            share=self.share,
        )

    @property
    def free_name(self) -> str:
        """Of the slot that the present adapter does not hold."""
        taken = self.present.adapter.name if self.present else ""
        return next(name for name in map(self._name, SLOTS) if name != taken)

    def _name(self, slot: str) -> str:
        if self.scope == SHARED:
            return f"corrector.{slot}"
        own = self.scope if len(self.scope) <= MAX_SCOPE_CHARS else hashlib.sha256(self.scope.encode()).hexdigest()[:40]
        return f"corrector.{slot}.{own}"

    def with_candidate(self, entry: Entry) -> Record:
        return replace(self, candidate=entry, share=0.0)

    def promoted(self, now_ms: int) -> Record:
        """The candidate answers. Raises NotFound where there is none."""
        if self.candidate is None:
            raise no_candidate()
        previous = self.previous if self.present is None else (self.present, *self.previous)[:MAX_PREVIOUS]
        present = replace(self.candidate, since_ms=now_ms)
        return replace(self, present=present, candidate=None, share=0.0, previous=previous)

    def without_candidate(self) -> Record:
        """Raises NotFound where there is none."""
        if self.candidate is None:
            raise no_candidate()
        return replace(self, candidate=None, share=0.0)

    def rolled_back(self, entry: Entry | None) -> Record:
        """`entry`, the last of `previous` as the engines hold it now, answers again; None: no adapter does."""
        return replace(self, present=entry, previous=self.previous[1:])

    def pack(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def unpack(data: bytes) -> Record:
    fields = json.loads(data)
    entries = {name: _entry(fields[name]) for name in ("present", "candidate")}
    previous = tuple(entry for each in fields["previous"] if (entry := _entry(each)))
    return Record(**{**fields, **entries, "previous": previous})


def _entry(fields: Mapping[str, Any] | None) -> Entry | None:
    if fields is None:
        return None
    judged = Judged(**fields["judged"]) if fields["judged"] else None
    return Entry(**{**fields, "adapter": Adapter(**fields["adapter"]), "judged": judged})


def no_candidate() -> NotFound:
    return NotFound("NO_CANDIDATE", "there is no candidate here; `stagemesh corrector candidate FOLDER` makes one")
