"""The thread that brings stored pages into the pool, and ahead of that into host memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from services.engine.block_manager import KnownPage
from services.engine.kv.counters import Counters
from services.engine.kv.jobs import LoadJob, PrefetchJob, WantedPage
from services.engine.kv.load_cost import LoadCost
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_codec import Value
from services.engine.kv.page_port import PagePort
from services.engine.kv.page_source import PageSource
from services.engine.kv.store_link import StoreFailed
from stagemesh.runtime.kv_keys import PAGE_TOKENS
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

CHUNK_BYTES = 4 * 1024 * 1024
"""What one call asks for: cancellation and deadlines are looked at between calls."""
MIN_PATIENCE_S = 0.05
"""How long a call may take even where computing would be quicker."""
PREFETCH_PATIENCE_S = 0.25
MAX_PREFETCHES = 64


class Loader:
    """Loads go before prefetches, each kind in the order in which it came."""

    def __init__(
        self,
        port: PagePort,
        source: PageSource,
        cost: LoadCost,
        counters: Counters,
        knows: Callable[[bytes], bool],
    ) -> None:
        """`knows`: whether the pool has a page of that digest."""
        self._port, self.source, self.cost = port, source, cost
        self._counters = counters
        self._knows = knows
        self._chunk_pages = max(1, CHUNK_BYTES // port.value_bytes)
        self._max_prefetch_pages = source.host.max_bytes // 2 // port.value_bytes
        self._done: Callable[[LoadJob], None] = _nobody
        self._loads: deque[LoadJob] = deque()
        self._prefetches: deque[PrefetchJob] = deque()
        self._to_keep: list[tuple[list[KnownPage], list[Value]]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="engine-kv-load", daemon=True)

    def start(self, done: Callable[[LoadJob], None]) -> None:
        """`done` is called from the thread with each job that was handed over."""
        self._done = done
        self._thread.start()

    def load(self, job: LoadJob) -> None:
        """Hand a job over. As many can wait as there are places for sequences."""
        with self._changed:
            self._loads.append(job)
            self._changed.notify()

    def prefetch(self, job: PrefetchJob) -> None:
        """Hand a job over, or drop it where too many wait."""
        with self._changed:
            if len(self._prefetches) >= MAX_PREFETCHES:
                self._counters.add("prefetch_dropped", MissCause.QUEUE_FULL)
                return
            self._prefetches.append(replace(job, num_erasures=self.source.num_erasures))
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Hand everything back, what is under way soon; whether the thread has ended."""
        with self._changed:
            self._closing = True
            for job in self._loads:
                job.is_cancelled = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, LoadJob):
                self._load(job)
            else:
                self._prefetch(job)
        self.source.close()

    def _next(self) -> LoadJob | PrefetchJob | None:
        with self._changed:
            self._changed.wait_for(lambda: self._loads or self._prefetches or self._closing)
            if self._loads:
                return self._loads.popleft()
            return None if self._closing else self._prefetches.popleft()

    def _load(self, job: LoadJob) -> None:
        started_s = time.monotonic()
        try:
            deadline_s = min(job.latest_s, started_s + job.prefill_s)
            job.miss_cause = self._fill(job, job.prepare(), deadline_s)
        except Exception:
            log.exception("loading pages failed", sequence_id=job.sequence.sequence_id)
            job.miss_cause = MissCause.LOAD_FAILED
        try:
            unfilled = job.table.pages[job.first + job.num_loaded : job.end]
            self._port.zero([page for page in unfilled if page in job.to_zero])
        finally:
            job.seconds = time.monotonic() - started_s
            self._done(job)
            self._keep(job.num_erasures)  # the sequence need not wait for that

    def _keep(self, num_erasures: int) -> None:
        """Put what came from the KV Redis into host memory."""
        try:
            for pages, values in self._to_keep:
                self.source.keep(pages, values, num_erasures)
        except Exception:
            log.exception("keeping pages in host memory failed")
        finally:
            self._to_keep.clear()

    def _fill(self, job: LoadJob, pages: list[WantedPage], deadline_s: float) -> MissCause | None:
        """Load page after page; gives why the first is missing that is."""
        while rest := pages[job.num_loaded :][: self._chunk_pages]:
            if job.is_cancelled:
                return MissCause.CANCELLED
            if time.monotonic() >= deadline_s:
                return MissCause.STORE_SLOW
            if self._fill_from_host(job, rest):
                continue
            if (cause := self._fill_from_store(job, rest, deadline_s)) is not None:
                return cause
        return None

    def _fill_from_host(self, job: LoadJob, rest: Sequence[WantedPage]) -> bool:
        """Take what leads in host memory, and say whether that was anything.

        What is of no use there is forgotten, so that it is looked for elsewhere.
        """
        started_s = time.monotonic()
        pages = [wanted.known for wanted in rest]
        values = self.source.near(pages)
        count, cause = self._port.import_pages(pages[: len(values)], values)
        job.num_host += count
        if cause is not None:
            self._counters.add("misses", cause)
            self.source.forget([pages[count]])
        elif values:
            self.cost.host.measured(time.monotonic() - started_s, len(values))
        return bool(values)

    def _fill_from_store(self, job: LoadJob, rest: Sequence[WantedPage], deadline_s: float) -> MissCause | None:
        asked = list(takewhile(lambda wanted: wanted.space, rest))
        if not asked:
            return MissCause.NOT_FOUND
        started_s = time.monotonic()
        patience_s = max(MIN_PATIENCE_S, len(asked) * job.prefill_page_s)
        try:
            values = self.source.far(
                [wanted.space for wanted in asked],
                [wanted.known.digest for wanted in asked],
                min(patience_s, deadline_s - started_s),
            )
        except StoreFailed as failed:
            if failed.cause is MissCause.STORE_SLOW:
                self.cost.store.measured(time.monotonic() - started_s, len(asked))
            return failed.cause
        pages = [wanted.known for wanted in asked[: len(values)]]
        count, cause = self._port.import_pages(pages, values)
        self._to_keep.append((pages[:count], values[:count]))
        job.num_store += count
        seconds = time.monotonic() - started_s
        self.cost.store.measured(seconds, len(asked))
        if cause is None and len(values) < len(asked):
            cause = MissCause.NOT_FOUND
        if cause is None and seconds > patience_s:
            cause = MissCause.STORE_SLOW
        return cause

    def _prefetch(self, job: PrefetchJob) -> None:
        try:
            self._bring_near(job)
        except StoreFailed as failed:
            self._counters.add("prefetch_dropped", failed.cause)
        except Exception:
            log.exception("prefetching pages failed")
            self._counters.add("prefetch_dropped", MissCause.LOAD_FAILED)

    def _bring_near(self, job: PrefetchJob) -> None:
        num_pages = min(job.num_pages, len(job.tokens) // PAGE_TOKENS, self._max_prefetch_pages)
        digests = job.table.digests(job.tokens, num_pages)[:num_pages]
        pages = [job.known_page(at) for at, digest in enumerate(digests) if not self._knows(digest)]
        while pages and not self._loads and not self._closing:
            num_near = self.source.num_near([page.owner for page in pages], [page.digest for page in pages])
            asked, pages = pages[num_near:][: self._chunk_pages], pages[num_near + self._chunk_pages :]
            spaces = [job.kv.space_of(page.owner) for page in asked]
            values = self.source.far(spaces, [page.digest for page in asked], PREFETCH_PATIENCE_S) if asked else []
            values = list(takewhile(lambda value: len(value) == self._port.value_bytes, values))
            self.source.keep(asked[: len(values)], values, job.num_erasures)
            self._counters.add("prefetched_pages", "", len(values))
            if len(values) < len(asked):
                return


def _nobody(_job: LoadJob) -> None:
    raise AssertionError("not started")
