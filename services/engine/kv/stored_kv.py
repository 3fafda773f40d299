"""Stored KV of one engine: what the step loop asks for, the threads that do it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from services.engine.block_manager import BlockManager
from services.engine.kv.counters import Counters, KvStats
from services.engine.kv.jobs import LoadJob, PrefetchJob, SaveJob
from services.engine.kv.loader import Loader
from services.engine.kv.restores import Restores
from services.engine.kv.saver import Saver
from services.engine.kv.saves import Saves
from services.engine.page_table import PageTable

CLOSE_S = 5.0
"""How long the threads may take for what is under way."""


class StoredKv:
    """`restores` and `saves` are the step loop's."""

    def __init__(self, restores: Restores, saves: Saves, loader: Loader, saver: Saver, counters: Counters) -> None:
        self.restores, self.saves = restores, saves
        self.counters = counters
        self._loader, self._saver = loader, saver

    def start(self, loaded: Callable[[LoadJob], None], copied: Callable[[SaveJob], None]) -> None:
        """The threads call `loaded` and `copied` with what must come back to the step loop."""
        self._loader.start(loaded)
        self._saver.start(copied)

    def prefetch(self, job: PrefetchJob) -> None:
        """For any thread."""
        self._loader.prefetch(job)

    def host_page_s(self) -> float:
        """What a page takes from host memory, as it was measured lately."""
        return self._loader.cost.host.seconds()

    def stats(self) -> KvStats:
        """For any thread."""
        host = self._loader.source.host.stats()
        return KvStats(
            host_pages=host.num_pages,
            host_bytes=host.num_bytes,
            queued_pages=self.saves.num_pages,
            sums=self.counters.snapshot(),
        )

    def is_out(self) -> bool:
        """Whether pages of the pool are with the threads."""
        return bool(len(self.restores) or len(self.saves))

    def close(self) -> bool:
        """Let the threads end; whether they have."""
        self._saver.wait_idle(CLOSE_S)
        return self._saver.close(CLOSE_S) & self._loader.close(CLOSE_S)

    def tables(self) -> Iterator[PageTable]:
        """Of sequences that are gone, and whose pages are still with the loader."""
        return self.restores.tables()

    def held(self) -> Iterator[int]:
        """Pages that are kept for the saver."""
        return self.saves.held()


MakeStoredKv = Callable[[BlockManager, Callable[[], float]], StoredKv]
"""Made for a pool; the second argument says what computing a prompt token takes."""
