"""What the step loop asks of the threads that move pages, and gets back when they are done."""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from services.engine.block_manager import PADDING_PAGE, PAGE_SIZE, KnownPage
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.page_table import PageTable
from services.engine.sequence import Sequence
from stagemesh.api.common.v1.common_pb2 import KvLease


@dataclass(frozen=True)
class WantedPage:
    """A page to be loaded: what it must be, where its bytes may lie, and where they go."""

    known: KnownPage
    """`page` is the place in the pool, reserved for it."""
    space: bytes
    """Namespace in the KV Redis; empty: it is not looked for there."""


@dataclass(eq=False, kw_only=True)
class LoadJob:
    """Bring the pages of one sequence into the pool, in order, up to the first that is missing.

    From the moment it is handed over until it comes back, the pages are the loader's.
    """

    sequence: Sequence
    pages: Seq[WantedPage]
    to_zero: frozenset[int]
    """Places in the pool that must be cleared if they are not filled."""
    deadline_s: float
    """On the monotonic clock; what has been loaded by then counts."""
    prefill_page_s: float
    """What computing a page takes; infinite where that is unknown."""
    is_cancelled: bool = False
    """Set by the step loop: nothing more need be loaded."""

    num_host: int = 0
    """Pages loaded from host memory."""
    num_store: int = 0
    miss_cause: MissCause | None = None
    """Why the page after those was not loaded."""
    seconds: float = 0.0

    @property
    def num_loaded(self) -> int:
        return self.num_host + self.num_store


@dataclass(eq=False, kw_only=True)
class SaveJob:
    """Copy pages that lie one after another in a chain to host memory, and where there is a lease to the KV Redis.

    Until it comes back, the pages are held.
    """

    pages: Seq[KnownPage]
    spaces: Seq[bytes]
    """Of each page; empty where it stays in host memory."""
    lease: KvLease = field(default_factory=KvLease)
    first_page: int = 0
    """Where the first page stands in its chain."""
    is_spill: bool = False
    """They are about to be taken for something else in the pool."""
    replaces: bool = False
    """What the KV Redis holds under these names is known to be of no use."""
    num_written: int = 0
    """Pages that the KV Redis has taken."""

    @property
    def num_pages(self) -> int:
        return len(self.pages)


@dataclass(frozen=True, kw_only=True)
class PrefetchJob:
    """Bring stored pages into host memory, for a sequence that will soon want them."""

    table: PageTable
    tokens: Seq[int]
    kv: SequenceKv

    @property
    def num_pages(self) -> int:
        """How many are stored, as the lease says."""
        return self.kv.num_stored_pages

    def known_page(self, index: int) -> KnownPage:
        """One of them, which has no place in the pool yet."""
        return wanted_page(self.table, self.tokens, index, PADDING_PAGE)


def wanted_page(table: PageTable, tokens: Seq[int], index: int, page: int) -> KnownPage:
    """What the page at `index` of a sequence must be; it gets a place in the pool."""
    digest = table.digests(tokens, index + 1)[index]
    own = array("i", tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE])
    return KnownPage(page, digest, table.parent(index), own, table.owner_of(index))
