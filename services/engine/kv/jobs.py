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
    table: PageTable
    """Of the sequence, unless that has gone on without it."""
    first: int
    """Of the table's pages, [first, end) are to be loaded."""
    end: int
    num_stored: int
    """Pages before this one may lie in the KV Redis."""
    to_zero: frozenset[int]
    """Places in the pool that must be cleared if they are not filled."""
    latest_s: float
    """On the monotonic clock; what has been loaded by then counts."""
    prefill_page_s: float
    """What computing a page takes; infinite where that is unknown."""
    num_erasures: int = 0
    """Of the page source, when the job was handed over."""
    is_cancelled: bool = False
    """Set by the step loop: nothing more need be loaded."""

    pages: Seq[KnownPage] = ()
    """What they are, from the loader."""
    num_host: int = 0
    """Pages loaded from host memory."""
    num_store: int = 0
    miss_cause: MissCause | None = None
    """Why the page after those was not loaded."""
    seconds: float = 0.0

    @property
    def prefill_s(self) -> float:
        """What computing the pages takes."""
        return self.prefill_page_s * (self.end - self.first)

    @property
    def num_loaded(self) -> int:
        return self.num_host + self.num_store

    def digests(self) -> list[bytes]:
        """The names of the pages."""
        return self.table.digests(self.sequence.tokens, self.end)[self.first : self.end]

    def prepare(self) -> list[WantedPage]:
        """Name the pages; for the loader, since this takes longer than a step should wait."""
        table, tokens, kv = self.table, self.sequence.tokens, self.sequence.kv
        pages = [wanted_page(table, tokens, index, table.pages[index]) for index in range(self.first, self.end)]
        self.pages = pages
        spaces = (
            kv.space_of(known.owner) if index < self.num_stored else b""
            for index, known in enumerate(pages, self.first)
        )
        return [WantedPage(known, space) for known, space in zip(pages, spaces, strict=True)]


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
    page_s: float = 0.0
    """What computing a page takes; 0 where that is unknown."""
    is_spill: bool = False
    """They are about to be taken for something else in the pool."""
    replaces: bool = False
    """What the KV Redis holds under these names is known to be of no use."""
    num_erasures: int = 0
    """Of the page source, when the job was handed over."""
    num_written: int = 0
    """Pages that the KV Redis has taken."""
    is_lost: bool = False
    """Set by the saver: not all of it has been stored."""

    @property
    def num_pages(self) -> int:
        return len(self.pages)


@dataclass(frozen=True, kw_only=True)
class PrefetchJob:
    """Bring stored pages into host memory, for a sequence that will soon want them."""

    table: PageTable
    tokens: Seq[int]
    kv: SequenceKv
    num_erasures: int = 0
    """Of the page source, when the job was handed over."""

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
