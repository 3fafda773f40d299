"""Pages that are to be copied out of the pool: what the step loop holds for the saver."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from services.engine.block_manager import PAGE_SIZE, BlockManager, KnownPage
from services.engine.kv.counters import Counters
from services.engine.kv.jobs import SaveJob
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_source import PageSource
from services.engine.sequence import Sequence as EngineSequence
from stagemesh.api.common.v1.common_pb2 import KvLease

JOB_PAGES = 16
"""Pages of a job: as many are copied before the next is looked at."""
RECENT_S = 60.0
MAX_RECENT = 65_536
COST_SMOOTHING = 0.05
"""Slow, since what pages are worth is to tell models and machines apart, not a busy minute from a quiet one."""


class SaveQueue(Protocol):
    """What takes jobs: `Saver`."""

    def save(self, job: SaveJob) -> None:
        """Hand a job over."""

    def take_back(self, chosen: Callable[[SaveJob], bool]) -> list[SaveJob]:
        """The `chosen` among the jobs that have not been begun, which are dropped."""


class Saves:
    """Not thread-safe: used by the step loop alone."""

    def __init__(
        self,
        blocks: BlockManager,
        saver: SaveQueue,
        source: PageSource,
        counters: Counters,
        prefill_token_s: Callable[[], float],
        *,
        page_bytes: int,
        queue_bytes: int,
        has_store: bool,
    ) -> None:
        """`prefill_token_s`: what computing a token takes; 0 where that is unknown."""
        self._blocks, self._saver, self._source, self._counters = blocks, saver, source, counters
        self._prefill_token_s = prefill_token_s
        self._page_s = 0.0
        self._max_pages = queue_bytes // page_bytes
        self._has_store = has_store
        self._jobs: set[SaveJob] = set()
        self._num_pages = 0
        self._recent: OrderedDict[bytes, tuple[float, SaveJob]] = OrderedDict()
        """Digests of pages that were handed over for the KV Redis, when and in which job."""
        self._num_forgotten = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def num_pages(self) -> int:
        """Pages that wait."""
        return self._num_pages

    def held(self) -> Iterator[int]:
        """Pages that are held."""
        return (known.page for job in self._jobs for known in job.pages)

    def save(self, sequence: EngineSequence) -> None:
        """Have the pages of a sequence that ended well copied to the KV Redis, or else to host memory, if they are not
        there yet."""
        if not sequence.owner.salt or not sequence.table.num_known or sequence.table.is_forgotten:
            return
        pages = self._blocks.known_pages(sequence.table, sequence.tokens)
        if self._has_store and sequence.kv.may_store():
            self._hand_over(sequence, pages, min(sequence.kv.num_stored_pages, len(pages)), stores=True)
        elif self._source.host.max_bytes:
            near = self._source.num_near([known.owner for known in pages], [known.digest for known in pages])
            self._hand_over(sequence, pages, near, stores=False)

    def keep_near(self, sequence: EngineSequence) -> None:
        """Have the pages of a sequence that gives way copied to host memory, if they are not there yet; where others
        need the pages sooner, those not yet copied are lost, and computed again."""
        if not self.can_keep_near(sequence):
            return
        pages = self._blocks.known_pages(sequence.table, sequence.tokens)
        self._hand_over(sequence, pages, self._num_near(pages), stores=False)

    def num_near(self, sequence: EngineSequence) -> int:
        """How many leading pages of the sequence host memory has."""
        return self._num_near(self._blocks.known_pages(sequence.table, sequence.tokens))

    def can_keep_near(self, sequence: EngineSequence) -> bool:
        """Whether the sequence has pages that could lie in host memory."""
        table = sequence.table
        return bool(sequence.owner.salt and table.num_known and not table.is_forgotten and self._source.host.max_bytes)

    def _num_near(self, pages: Sequence[KnownPage]) -> int:
        return self._source.num_near([known.owner for known in pages], [known.digest for known in pages])

    def copied(self, job: SaveJob) -> None:
        """The saver has copied the job's pages, or dropped it."""
        self._jobs.discard(job)
        self._num_pages -= job.num_pages
        self._blocks.let_go([known.page for known in job.pages], to_be_taken=job.is_spill)

    def reclaim(self) -> bool:
        """Let go of what waits, since sequences need pages; whether there was anything."""
        return self._take_back(lambda job: True, "POOL_NEEDED")

    def forget_tenant(self, tenant_id: str) -> None:
        """Drop a tenant's pages from host memory, and those of them that wait to be copied."""
        self._take_back(lambda job: any(known.owner.tenant_id == tenant_id for known in job.pages), "FORGOTTEN")
        self._source.forget_tenant(tenant_id)

    def spill(self) -> None:
        """While known pages are taken for others: copy those to host memory that go next and were used again."""
        if self._blocks.num_forgotten == self._num_forgotten or self._jobs:
            return
        self._num_forgotten = self._blocks.num_forgotten
        for known in self._blocks.next_forgotten(JOB_PAGES):
            if self._source.num_near([known.owner], [known.digest]) == 0:
                self._push(SaveJob(pages=[known], spaces=[b""], is_spill=True))

    def _take_back(self, chosen: Callable[[SaveJob], bool], cause: str) -> bool:
        jobs = self._saver.take_back(chosen)
        for job in jobs:
            self.copied(job)
            job.is_lost = True
            self._counters.add("saves_dropped", cause, job.num_pages)
        return bool(jobs)

    def _hand_over(self, sequence: EngineSequence, pages: Sequence[KnownPage], first: int, *, stores: bool) -> None:
        lease = sequence.kv.lease if stores else KvLease()
        page_s = self._measured_page_s()
        for start in range(first, len(pages), JOB_PAGES):
            chunk = pages[start : start + JOB_PAGES]
            if stores and not sequence.kv.replaces and all(map(self._is_recent, chunk)):
                continue
            spaces = [sequence.kv.space_of(known.owner) if stores else b"" for known in chunk]
            job = SaveJob(
                pages=chunk,
                spaces=spaces,
                lease=lease,
                first_page=start,
                page_s=page_s,
                replaces=sequence.kv.replaces,
            )
            if not self._push(job):
                self._counters.add("saves_dropped", MissCause.QUEUE_FULL, len(pages) - start)
                return
            if stores:
                self._remember(job)

    def _measured_page_s(self) -> float:
        """What computing a page takes, as the mean over the last twenty or so sequences; 0 where that is unknown."""
        page_s = PAGE_SIZE * self._prefill_token_s()
        self._page_s += (COST_SMOOTHING if self._page_s else 1.0) * (page_s - self._page_s)
        return self._page_s

    def _push(self, job: SaveJob) -> bool:
        if self._num_pages + job.num_pages > self._max_pages:
            return False
        job.num_erasures = self._source.num_erasures
        self._blocks.hold(known.page for known in job.pages)
        self._jobs.add(job)
        self._num_pages += job.num_pages
        self._saver.save(job)
        return True

    def _is_recent(self, known: KnownPage) -> bool:
        at_s, job = self._recent.get(known.digest, (-RECENT_S, None))
        if job is None or job.is_lost or self._source.was_erased(known.owner.tenant_id, job.num_erasures):
            return False
        return time.monotonic() - at_s < RECENT_S

    def _remember(self, job: SaveJob) -> None:
        now_s = time.monotonic()
        for known in job.pages:
            self._recent[known.digest] = (now_s, job)
            self._recent.move_to_end(known.digest)
        while len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
