"""Stored KV over the model without weights: threads that move pages only when a test says so, a store in a dict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from engine_support import VOCABULARY, FakeRunner, make_sequence

from services.engine.block_manager import PAGE_SIZE, BlockManager, KnownPage
from services.engine.core import CoreLimits, EngineCore
from services.engine.kv.counters import Counters
from services.engine.kv.host_tier import HostTier
from services.engine.kv.jobs import LoadJob, SaveJob
from services.engine.kv.load_cost import LoadCost
from services.engine.kv.loader import Loader
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_codec import Value
from services.engine.kv.page_source import PageSource
from services.engine.kv.restores import Restores
from services.engine.kv.saver import Saver
from services.engine.kv.saves import Saves
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.kv.store_link import StoreFailed
from services.engine.kv.stored_kv import StoredKv
from services.engine.sequence import Sequence as EngineSequence
from stagemesh.api.common.v1.common_pb2 import KvLease

SPACE = b"stagemesh:kv:{t}:"
VALUE_BYTES = 32 + PAGE_SIZE * 8


class FakePort:
    """Pages are the tokens that `FakeRunner` keeps, after their digest."""

    def __init__(self, runner: FakeRunner) -> None:
        self._runner = runner
        self.fails = False

    @property
    def value_bytes(self) -> int:
        return VALUE_BYTES

    @property
    def packing(self) -> None:
        return None

    def export_pages(self, pages: Sequence[KnownPage]) -> list[bytes | None]:
        for known in pages:
            assert self._at(known).tolist() == list(known.tokens), "a held page has changed"
        return [known.digest + self._at(known).tobytes() for known in pages]

    def import_pages(self, pages: Sequence[KnownPage], values: Sequence[Value]) -> tuple[int, MissCause | None]:
        if self.fails:
            raise RuntimeError("no luck")
        for count, (known, value) in enumerate(zip(pages, values, strict=True)):
            if value != known.digest + np.asarray(known.tokens, np.int64).tobytes():
                return count, MissCause.BAD_CHECKSUM
            self._at(known)[:] = known.tokens
        return len(pages), None

    def zero(self, pages: Sequence[int]) -> None:
        self._runner.zero(pages)

    def _at(self, known: KnownPage) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._runner.slots[known.page * PAGE_SIZE : (known.page + 1) * PAGE_SIZE]


class FakeStore(PageSource):
    """A KV Redis in a dict. It fails with `cause`."""

    def __init__(self, counters: Counters, host_bytes: int = 0) -> None:
        super().__init__(HostTier(host_bytes), None, counters)
        self.values: dict[bytes, bytes] = {}
        self.cause: MissCause | None = None
        self.num_calls = 0

    def obstacle(self) -> MissCause | None:
        return None

    def far(self, spaces: Sequence[bytes], digests: Sequence[bytes], timeout_s: float) -> list[Value]:
        assert all(space == SPACE for space in spaces)
        self.num_calls += 1
        if self.cause is not None:
            raise StoreFailed(self.cause)
        found: list[Value] = []
        for digest in digests:
            if digest not in self.values:
                break
            found.append(self.values[digest])
        return found


class StepwiseLoader(Loader):
    """Works when it is told to, in the caller's thread."""

    def load(self, job: LoadJob) -> None:
        self._loads.append(job)

    def work(self) -> LoadJob | None:
        """Do the next job, if there is one."""
        if not self._loads:
            return None
        done: list[LoadJob] = []
        self._done = done.append
        self._load(self._loads.popleft())
        return done[0]


class StepwiseSaver(Saver):
    def save(self, job: SaveJob) -> None:
        self._jobs.append(job)

    is_down = False

    def work(self, store: FakeStore) -> SaveJob | None:
        """Do the next job, if there is one."""
        if not self._jobs:
            return None
        job = self._jobs.popleft()
        done: list[SaveJob] = []
        self._done = done.append
        values = self._port.export_pages(job.pages)
        self._save(job)
        job.is_lost = self.is_down
        if job.lease.ttl_s and not self.is_down:
            store.values.update(
                {known.digest: value for known, value in zip(job.pages, values, strict=True) if value is not None}
            )
        return done[0]


class KvCore:
    """An engine's core with stored KV."""

    def __init__(
        self,
        num_pages: int,
        *,
        max_running: int = 4,
        host_bytes: int = 0,
        queue_pages: int = 100,
        prefill_token_s: float = 0.0,
        max_load_s: float = 1e9,
        values: dict[bytes, bytes] | None = None,
    ) -> None:
        """`values`: of a store that others have filled."""
        self.runner = FakeRunner(num_pages)
        self.port = FakePort(self.runner)
        self.counters = Counters()
        self.store = FakeStore(self.counters, host_bytes)
        self.store.values = {} if values is None else values
        self.saver = StepwiseSaver(self.port, self.store, None, self.counters, timeout_s=1.0)
        self.queue_pages, self.prefill_token_s, self.max_load_s = queue_pages, prefill_token_s, max_load_s
        limits = CoreLimits(
            num_pages=num_pages,
            max_running=max_running,
            prefill_chunk_size=32,
            stage_sample_interval=4,
        )
        self.core = EngineCore(self.runner, VOCABULARY, limits, make_stored=self._make)

    def _make(self, blocks: BlockManager, _token_s: Callable[[], float]) -> StoredKv:
        cost = LoadCost(VALUE_BYTES)
        self.loader = StepwiseLoader(self.port, self.store, cost, self.counters, blocks.knows)
        restores = Restores(
            blocks,
            self.loader,
            self.counters,
            lambda: self.prefill_token_s,
            max_load_s=self.max_load_s,
            always_load=False,
        )
        saves = Saves(
            blocks,
            self.saver,
            self.store,
            self.counters,
            lambda: self.prefill_token_s,
            page_bytes=VALUE_BYTES,
            queue_bytes=self.queue_pages * VALUE_BYTES,
            has_store=True,
        )
        self.saves, self.restores = saves, restores
        return StoredKv(restores, saves, self.loader, self.saver, self.counters)

    def load_next(self) -> bool:
        """Let the loader do a job; whether there was one."""
        if (job := self.loader.work()) is None:
            return False
        self.core.loaded(job)
        return True

    def save_next(self) -> bool:
        """Let the saver do a job; whether there was one."""
        if (job := self.saver.work(self.store)) is None:
            return False
        self.core.copied(job)
        return True

    def save_all(self) -> None:
        while self.save_next():
            pass


def leased(
    sequence_id: str,
    prompt: Sequence[int],
    *,
    stored_tokens: int = 0,
    ttl_s: int = 60,
    salt: bytes = b"s",
    expires_unix_us: int = 0,
    max_tokens: int = 8,
    tenant: str = "t",
) -> EngineSequence:
    """A sequence under a lease."""
    sequence = make_sequence(sequence_id, prompt, salt=salt, max_tokens=max_tokens, tenant=tenant)
    sequence.kv = SequenceKv(
        KvLease(
            lease_id="l", namespace=SPACE, stored_tokens=stored_tokens, ttl_s=ttl_s, expires_unix_us=expires_unix_us
        )
    )
    return sequence
