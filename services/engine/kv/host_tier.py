"""The middle tier: encoded pages in the engine's own memory, faster than Redis and larger than the pool.

Bounded in bytes. Where room is needed, the namespace that holds the most gives up the page of it that is worth the
least: so no namespace is pushed below its fair share, the budget divided by the namespaces that hold something, by what
another one stores. What nobody used for `max_idle_s` goes first, whoever has it.

A page is worth its last use plus `decay_s` times the logarithm of its heat, an exponentially decaying number of uses:
the order of two pages changes only when one of them is used. Pages are stored in chains, and of two that are used
together the one further back in the chain goes first, since it is of no use without the other.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.engine.kv.page_codec import Value

ENTRY_BYTES = 400
"""What a page costs beside its bytes: names, numbers, places in tables."""
PLACE_S = 1e-6
"""What a place further back in a chain takes from the worth."""


class Packing(Protocol):
    """How values lie in memory. Both are called outside the tier's lock, by any thread."""

    def pack(self, value: Value) -> Value:
        """The same in fewer bytes, as a rule."""

    def unpack(self, packed: Value) -> Value:
        """Exactly what was packed."""


class AsIs:
    """Values are held as they are."""

    def pack(self, value: Value) -> Value:
        return value

    def unpack(self, packed: Value) -> Value:
        return packed


@dataclass(frozen=True, kw_only=True)
class HostTierStats:
    num_pages: int
    num_bytes: int
    """Including what tables cost."""
    num_namespaces: int
    hits: int
    """Pages given out."""
    misses: int
    """Lookups that ended before their last page."""
    evicted: int
    expired: int


@dataclass(slots=True)
class _Page:
    packed: Value
    heat: float
    used_s: float
    worth_s: float

    @property
    def num_bytes(self) -> int:
        return len(self.packed) + ENTRY_BYTES


@dataclass(slots=True)
class _Space:
    """The pages of one namespace. The heap may hold pages that are gone, or an older worth of one that was used."""

    pages: dict[bytes, _Page] = field(default_factory=dict)
    heap: list[tuple[float, bytes]] = field(default_factory=list)
    num_bytes: int = 0

    def push(self, digest: bytes, worth_s: float) -> None:
        if len(self.heap) > 2 * len(self.pages) + 16:
            self.heap = [(page.worth_s, digest) for digest, page in self.pages.items()]
            heapq.heapify(self.heap)
        heapq.heappush(self.heap, (worth_s, digest))

    def least(self) -> bytes:
        """The page that is worth the least, of one or more."""
        while True:
            worth_s, digest = self.heap[0]
            page = self.pages.get(digest)
            if page is None:
                heapq.heappop(self.heap)
            elif page.worth_s != worth_s:
                heapq.heapreplace(self.heap, (page.worth_s, digest))
            else:
                return digest


class HostTier:
    """Thread-safe; nothing in it blocks for longer than a few pages' bookkeeping takes."""

    def __init__(
        self,
        max_bytes: int,
        *,
        max_idle_s: float = 3600.0,
        decay_s: float = 600.0,
        packing: Packing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_bytes = max_bytes
        self._max_idle_s, self._decay_s = max_idle_s, decay_s
        self._packing, self._clock = packing or AsIs(), clock
        self._lock = threading.Lock()
        self._spaces: dict[bytes, _Space] = {}
        self._by_use: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()  # longest unused first
        self._num_bytes = 0
        self._hits = self._misses = self._evicted = self._expired = 0

    def put(
        self, namespace: bytes, chain: Iterable[tuple[bytes, Value]], *, is_void: Callable[[], bool] = lambda: False
    ) -> int:
        """Keep (digest, value) pairs, in the order of their chain; gives how many of them are held afterwards.

        Values must not change any more. One that is held already counts as used, since its bytes can only be the same.
        Where `is_void`, which is asked in one with entering them, nothing is kept.
        """
        pairs = [(digest, value) for digest, value in chain]
        known = self._held(namespace, [digest for digest, _ in pairs])
        packed = {digest: self._packing.pack(value) for digest, value in pairs if digest not in known}
        with self._lock:
            if is_void():
                return 0
            now_s = self._clock()
            self._expire(now_s)
            for place, (digest, _) in enumerate(pairs):
                if (page := self._page(namespace, digest)) is not None:
                    self._use(namespace, digest, page, now_s, place)
                elif digest in packed and len(packed[digest]) + ENTRY_BYTES <= self.max_bytes:
                    self._insert(namespace, digest, packed[digest], now_s, place)
            return sum(self._page(namespace, digest) is not None for digest, _ in pairs)

    def get(self, namespace: bytes, digests: Sequence[bytes]) -> list[Value]:
        """The values of the leading `digests` that are held; they count as used."""
        with self._lock:
            now_s, found = self._clock(), []
            for place, digest in enumerate(digests):
                if (page := self._page(namespace, digest)) is None:
                    self._misses += 1
                    break
                self._use(namespace, digest, page, now_s, place)
                found.append(page.packed)
            self._hits += len(found)
        return [self._packing.unpack(packed) for packed in found]

    def num_leading(self, namespace: bytes, digests: Sequence[bytes]) -> int:
        """How many leading `digests` are held; this uses none of them."""
        with self._lock:
            held = (place for place, digest in enumerate(digests) if self._page(namespace, digest) is None)
            return next(held, len(digests))

    def forget(self, namespace: bytes, digests: Iterable[bytes] | None = None) -> int:
        """Drop pages, by default all of the namespace; gives how many were held."""
        with self._lock:
            space = self._spaces.get(namespace)
            chosen = [] if space is None else list(space.pages) if digests is None else list(digests)
            return sum(self._drop(namespace, digest) for digest in chosen)

    def stats(self) -> HostTierStats:
        with self._lock:
            return HostTierStats(
                num_pages=len(self._by_use),
                num_bytes=self._num_bytes,
                num_namespaces=len(self._spaces),
                hits=self._hits,
                misses=self._misses,
                evicted=self._evicted,
                expired=self._expired,
            )

    def bytes_of(self, namespace: bytes) -> int:
        with self._lock:
            space = self._spaces.get(namespace)
            return 0 if space is None else space.num_bytes

    def check_integrity(self) -> None:
        """Assert that sums, tables and the budget agree."""
        with self._lock:
            names = {(namespace, digest) for namespace, space in self._spaces.items() for digest in space.pages}
            assert names == set(self._by_use), "the order of use lists other pages"
            for space in self._spaces.values():
                assert space.pages, "an empty namespace is kept"
                assert space.num_bytes == sum(page.num_bytes for page in space.pages.values()), "a sum is wrong"
                assert set(space.pages) <= {digest for _, digest in space.heap}, "a page cannot be evicted"
            assert self._num_bytes == sum(space.num_bytes for space in self._spaces.values()), "the sum is wrong"
            assert self._num_bytes <= self.max_bytes, "over the budget"

    def _held(self, namespace: bytes, digests: Iterable[bytes]) -> set[bytes]:
        with self._lock:
            return {digest for digest in digests if self._page(namespace, digest) is not None}

    def _page(self, namespace: bytes, digest: bytes) -> _Page | None:
        space = self._spaces.get(namespace)
        return None if space is None else space.pages.get(digest)

    def _insert(self, namespace: bytes, digest: bytes, packed: Value, now_s: float, place: int) -> None:
        page = _Page(packed, 0.0, now_s, 0.0)
        space = self._spaces.setdefault(namespace, _Space())
        space.pages[digest] = page
        space.num_bytes += page.num_bytes
        self._num_bytes += page.num_bytes
        self._use(namespace, digest, page, now_s, place)
        space.push(digest, page.worth_s)
        while self._num_bytes > self.max_bytes:
            largest = max(self._spaces, key=lambda name: self._spaces[name].num_bytes)
            self._evicted += self._drop(largest, self._spaces[largest].least())

    def _use(self, namespace: bytes, digest: bytes, page: _Page, now_s: float, place: int) -> None:
        page.heat = 1 + page.heat * math.exp(min(0.0, page.used_s - now_s) / self._decay_s)
        page.used_s = now_s
        page.worth_s = now_s + self._decay_s * math.log(page.heat) - place * PLACE_S
        self._by_use[namespace, digest] = None
        self._by_use.move_to_end((namespace, digest))

    def _expire(self, now_s: float) -> None:
        while self._by_use:
            namespace, digest = next(iter(self._by_use))
            page = self._spaces[namespace].pages[digest]
            if now_s - page.used_s <= self._max_idle_s:
                return
            self._expired += self._drop(namespace, digest)

    def _drop(self, namespace: bytes, digest: bytes) -> bool:
        space = self._spaces.get(namespace)
        page = None if space is None else space.pages.pop(digest, None)
        if space is None or page is None:
            return False
        space.num_bytes -= page.num_bytes
        self._num_bytes -= page.num_bytes
        del self._by_use[namespace, digest]
        if not space.pages:
            del self._spaces[namespace]
        return True
