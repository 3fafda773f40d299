"""Counts of candidates in this process, added to those in the ledger every few seconds."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict

from services.corrector.adapters.store import AdapterStore
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

MAX_CANDIDATES = 256
"""Counted at a time; those not counted for longest are forgotten while the ledger is away."""

log = get_logger(__name__)


class Tallies:
    def __init__(self, store: AdapterStore) -> None:
        self._store = store
        self._counts: OrderedDict[tuple[str, str], Counter[str]] = OrderedDict()

    def add(self, scope: str, revision: str, **counts: int) -> None:
        """Count for a candidate; the names are those of `Tally`. Never waits."""
        key = (scope, revision)
        counter = self._counts.setdefault(key, Counter())
        for name, number in counts.items():
            counter[name] += int(number)  # Redis takes no truth values
        self._counts.move_to_end(key)
        while len(self._counts) > MAX_CANDIDATES:
            self._counts.popitem(last=False)

    async def flush(self) -> None:
        """Bring all to the ledger; what cannot be brought stays for the next time."""
        for key in list(self._counts):
            counts = self._counts.pop(key)
            try:
                await self._store.count(*key, {name: number for name, number in counts.items() if number})
            except (StagemeshError, asyncio.CancelledError) as error:
                self._counts.setdefault(key, Counter()).update(counts)
                if isinstance(error, asyncio.CancelledError):
                    raise
                log.warning("counts of a candidate wait", problem=str(error))
                return
