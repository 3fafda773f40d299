"""Sequences whose pages are being loaded: what the step loop knows of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from services.engine.block_manager import PAGE_SIZE, BlockManager
from services.engine.kv.counters import Counters
from services.engine.kv.jobs import LoadJob
from services.engine.kv.load_cost import LoadCost
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_source import PageSource
from services.engine.page_table import PageTable
from services.engine.sequence import Sequence

SAYS_NOTHING_OF_THE_STORE = frozenset(
    {
        MissCause.STORE_UNAVAILABLE,
        MissCause.STORE_SLOW,
        MissCause.STORE_FULL,
        MissCause.STORE_REFUSED,
        MissCause.LOAD_TOO_DEAR,
        MissCause.LEASE_EXPIRED,
        MissCause.NO_STORE,
        MissCause.CANCELLED,
        MissCause.LOAD_FAILED,
    }
)
"""Misses after which the page may well be in the KV Redis as the lease says."""


OVERDUE_S = 0.5
"""What the loader may be late."""


class LoadQueue(Protocol):
    """What takes jobs: `Loader`."""

    source: PageSource
    cost: LoadCost

    def load(self, job: LoadJob) -> None:
        """Hand a job over."""


class Restores:
    """Not thread-safe: used by the step loop alone."""

    def __init__(
        self,
        blocks: BlockManager,
        loader: LoadQueue,
        counters: Counters,
        prefill_token_s: Callable[[], float],
        *,
        max_load_s: float,
        always_load: bool,
    ) -> None:
        """`prefill_token_s`: what computing a token takes; 0 where that is unknown."""
        self._blocks, self._loader, self._counters = blocks, loader, counters
        self._prefill_token_s = prefill_token_s
        self._max_load_s, self._always_load = max_load_s, always_load
        self._jobs: dict[Sequence, LoadJob] = {}
        """Of sequences that wait for them."""
        self._orphans: set[LoadJob] = set()
        """Those whose sequences have ended or gone on without them."""
        self._digests: set[bytes] = set()
        """Of all pages that are being loaded."""

    def __len__(self) -> int:
        return len(self._jobs) + len(self._orphans)

    def tables(self) -> Iterator[PageTable]:
        """Those that no sequence has, while the loader still has their pages."""
        return (job.table for job in self._orphans)

    def is_loading_for(self, sequence: Sequence) -> bool:
        """Whether the page that the sequence would have to compute first is being loaded for another."""
        if not self._digests or not sequence.owner.salt:
            return False
        num_cached = self._blocks.num_cached_pages(sequence.table, sequence.tokens)
        if num_cached >= sequence.table.num_reusable(len(sequence.tokens)):
            return False
        return sequence.table.digests(sequence.tokens, num_cached + 1)[num_cached] in self._digests

    def begin(self, sequence: Sequence) -> bool:
        """Have what is stored of an admitted sequence loaded into its pages, if that is quicker than computing.

        Whether loading has begun; then the pages beyond those reused are the loader's until `ended`.
        """
        if sequence.kv.has_tried or not sequence.owner.salt:
            return False
        sequence.kv.has_tried = True
        first, limit = sequence.table.num_known, sequence.table.num_reusable(len(sequence.tokens))
        num_near, num_far = self._num_to_load(sequence, first, limit)
        if num_far and not self._pays(num_near, num_far):
            self._missed(sequence, MissCause.LOAD_TOO_DEAR)
            num_far = 0
        if not num_far and not self._pays(num_near, 0):
            return False
        self._hand_over(sequence, first, first + num_near + num_far)
        return True

    def abandon(self, sequence: Sequence) -> None:
        """The sequence no longer waits; its pages stay until the loader lets go of them."""
        job = self._jobs.pop(sequence)
        job.is_cancelled = True
        self._digests.difference_update(job.digests())  # others need not wait for them either
        self._orphans.add(job)

    def take_overdue(self) -> list[Sequence]:
        """Sequences that have waited far longer than they were to, which the loader should have noticed: they go on
        with a table of their own."""
        now_s = time.monotonic()
        overdue = [sequence for sequence, job in self._jobs.items() if job.latest_s + OVERDUE_S < now_s]
        for sequence in overdue:
            self.abandon(sequence)
            is_forgotten = sequence.table.is_forgotten
            sequence.renew_table()
            sequence.table.is_forgotten = is_forgotten
            self._missed(sequence, MissCause.STORE_SLOW)
        return overdue

    def ended(self, job: LoadJob) -> bool:
        """Take back what the loader had, and say whether its sequence waits for it: then what was loaded counts."""
        sequence = job.sequence
        self._counters.add("hit_pages", "host", job.num_host)
        self._counters.add("hit_pages", "store", job.num_store)
        self._counters.add("load_seconds", "", job.seconds)
        if job in self._orphans:
            self._orphans.discard(job)
            self._counters.add("misses", job.miss_cause or "", job.miss_cause is not None)
            self._blocks.release(job.table)
            return False
        del self._jobs[sequence]
        self._digests.difference_update(job.digests())
        first = sequence.table.num_known
        sequence.num_computed = (first + job.num_loaded) * PAGE_SIZE
        self._blocks.adopt(sequence.table, job.pages[: job.num_loaded])
        self._account(sequence, job, first)
        return True

    def _account(self, sequence: Sequence, job: LoadJob, first: int) -> None:
        kv = sequence.kv
        if sequence.admitted_s is not None:
            return  # it gave way and goes on; what it reused is told of its first admission
        kv.host_tokens = _within(sequence.num_prompt, first, job.num_host)
        kv.store_tokens = _within(sequence.num_prompt, first + job.num_host, job.num_store)
        kv.load_s = job.seconds
        sequence.num_cached = kv.pool_tokens + kv.host_tokens + kv.store_tokens
        if job.miss_cause is not None:
            self._missed(sequence, job.miss_cause)
            if job.miss_cause not in SAYS_NOTHING_OF_THE_STORE:
                kv.num_stored = min(kv.num_stored_pages, first + job.num_loaded)
                kv.replaces = job.miss_cause is not MissCause.NOT_FOUND

    def _pays(self, num_near: int, num_far: int) -> bool:
        """Whether so many pages from host memory and from the KV Redis come sooner than they are computed."""
        num_pages = num_near + num_far
        return num_pages > 0 and self._loader.cost.seconds(num_near, num_far) < num_pages * self._prefill_page_s()

    def _prefill_page_s(self) -> float:
        page_s = PAGE_SIZE * self._prefill_token_s()
        return page_s if page_s and not self._always_load else math.inf

    def _num_to_load(self, sequence: Sequence, first: int, limit: int) -> tuple[int, int]:
        """How many pages from `first` on lie in host memory, and after them in the KV Redis."""
        if first >= limit:
            return 0, 0
        digests = sequence.table.digests(sequence.tokens, limit)[first:limit]
        num_near = self._loader.source.num_near([sequence.table.owner_of(at) for at in range(first, limit)], digests)
        num_far = max(0, min(limit, sequence.kv.num_stored_pages) - first - num_near)
        if num_far and (cause := self._obstacle(sequence)) is not None:
            self._missed(sequence, cause)
            return num_near, 0
        return num_near, num_far

    def _obstacle(self, sequence: Sequence) -> MissCause | None:
        if sequence.kv.has_expired():
            return MissCause.LEASE_EXPIRED
        return self._loader.source.obstacle()

    def _hand_over(self, sequence: Sequence, first: int, end: int) -> None:
        job = LoadJob(
            sequence=sequence,
            table=sequence.table,
            first=first,
            end=end,
            num_stored=0 if self._obstacle(sequence) else sequence.kv.num_stored_pages,
            to_zero=frozenset(self._blocks.take_pages_to_zero(sequence.table.pages[first:end])),
            latest_s=time.monotonic() + self._max_load_s,
            prefill_page_s=self._prefill_page_s(),
            num_erasures=self._loader.source.num_erasures,
        )
        self._digests.update(job.digests())
        self._jobs[sequence] = job
        self._loader.load(job)

    def _missed(self, sequence: Sequence, cause: MissCause) -> None:
        sequence.kv.miss_cause = cause
        self._counters.add("misses", cause)


def _within(num_prompt: int, first_page: int, num_pages: int) -> int:
    """How many tokens of the prompt so many pages hold."""
    return max(0, min(num_prompt, (first_page + num_pages) * PAGE_SIZE) - first_page * PAGE_SIZE)
