"""Pages of KV memory: who holds them, which are free, which can be reused.

A page holds the keys and values of PAGE_SIZE consecutive tokens in all layers. A full, computed page is known by the
hash of everything up to its end, keyed with the owner's tenant and salt; so equal prompts of one owner share pages, and
nobody can hit, or probe for, the pages of another. An owner without a salt shares nothing. Page 0 is never given out:
it stays zero and pads batches.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

PAGE_SIZE = 16
PADDING_PAGE = 0


@dataclass(frozen=True)
class Owner:
    """Whose data a page holds."""

    tenant_id: str
    salt: bytes
    weights: str = ""
    """What its pages are computed with; pages of other weights are of no use to it."""

    def hash_key(self) -> bytes:
        """Key of this owner's page hashes."""
        return hashlib.blake2b(
            self.weights.encode() + b"\0" + self.salt, key=hashlib.blake2b(self.tenant_id.encode()).digest()[:32]
        ).digest()


@dataclass
class PageTable:
    """Pages of one sequence, in order, and the hashes of its leading full pages that are registered or reused.

    Pages lie as C's integers, so that a step's batch takes them by copying memory.
    """

    pages: array[int] = field(default_factory=lambda: array("i"))
    hashes: list[bytes] = field(default_factory=list)


@dataclass
class _Page:
    num_references: int = 0
    hash: bytes | None = None
    owner: Owner | None = None


def num_pages_for(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_SIZE)


class BlockManager:
    """Not thread-safe: used by the step loop alone."""

    def __init__(self, num_pages: int) -> None:
        """`num_pages` can be held by sequences; the padding page comes on top."""
        self._pages = [_Page() for _ in range(num_pages + 1)]
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_pages + 1))
        self._by_hash: dict[bytes, int] = {}
        self._to_zero: list[int] = []

    @property
    def num_pages(self) -> int:
        return len(self._pages) - 1

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_pages - self.num_free

    def num_cached_pages(self, owner: Owner, tokens: Sequence[int]) -> int:
        """How many leading pages of `tokens` could be reused now."""
        return len(self._match(owner, tokens))

    def can_allocate(self, owner: Owner, tokens: Sequence[int], reserve: int = 0) -> bool:
        """Whether pages for all `tokens` are there, with `reserve` free ones left."""
        matched = self._match(owner, tokens)
        num_taken = num_pages_for(len(tokens)) - sum(page not in self._free for _, page in matched)
        return num_taken + reserve <= self.num_free

    def allocate(self, table: PageTable, owner: Owner, tokens: Sequence[int]) -> int:
        """Fill the empty `table` with pages for `tokens`; gives the number of leading tokens that need no computing.

        At least the last token is always left to compute, since its logits are wanted.
        """
        assert not table.pages, "a table is filled once"
        for digest, page in self._match(owner, tokens):
            self._take(page)
            table.pages.append(page)
            table.hashes.append(digest)
        num_cached = len(table.pages) * PAGE_SIZE
        while len(table.pages) < num_pages_for(len(tokens)):
            table.pages.append(self._take_fresh(owner))
        return num_cached

    def can_extend(self, table: PageTable, num_tokens: int) -> bool:
        return num_pages_for(num_tokens) - len(table.pages) <= self.num_free

    def extend(self, table: PageTable, owner: Owner, num_tokens: int) -> None:
        """Add pages until `num_tokens` fit."""
        while len(table.pages) < num_pages_for(num_tokens):
            table.pages.append(self._take_fresh(owner))

    def shrink(self, table: PageTable, num_tokens: int) -> None:
        """Give back the pages beyond those that `num_tokens` need; they are nobody else's and unknown."""
        while len(table.pages) > num_pages_for(num_tokens):
            page = table.pages.pop()
            entry = self._pages[page]
            assert entry.num_references == 1, "a page of guesses is shared"
            assert entry.hash is None, "a page of guesses is known for reuse"
            entry.num_references = 0
            self._free[page] = None
            self._free.move_to_end(page, last=False)

    def commit(self, table: PageTable, owner: Owner, tokens: Sequence[int], num_computed: int) -> None:
        """Make the full pages of tokens[:num_computed] known for reuse."""
        if not owner.salt:
            return
        key = owner.hash_key() if len(table.hashes) < num_computed // PAGE_SIZE else b""
        while len(table.hashes) < num_computed // PAGE_SIZE:
            index = len(table.hashes)
            parent = table.hashes[-1] if table.hashes else b""
            digest = _page_hash(key, parent, tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE])
            table.hashes.append(digest)
            if digest not in self._by_hash:  # else another sequence computed the same page at the same time
                self._by_hash[digest] = table.pages[index]
                self._pages[table.pages[index]].hash = digest

    def release(self, table: PageTable, *, poisoned: bool = False) -> None:
        """Give all pages back; known ones stay reusable until they are needed for something else.

        `poisoned` pages may hold non-finite numbers: they are forgotten and cleared.
        """
        for page in reversed(table.pages):  # the end of a chain is evicted before its beginning
            entry = self._pages[page]
            if poisoned and entry.num_references == 1:
                self._forget(page)
                self._to_zero.append(page)
            entry.num_references -= 1
            if entry.num_references == 0:
                self._free[page] = None
                if entry.hash is None:
                    self._free.move_to_end(page, last=False)
        del table.pages[:]
        table.hashes.clear()

    def take_pages_to_zero(self) -> list[int]:
        """Pages that must be cleared before the next step, because they changed owner or were poisoned."""
        pages, self._to_zero = self._to_zero, []
        return pages

    def check_integrity(self, tables: Iterable[PageTable]) -> None:
        """Assert that references, the free list and the hash index agree with the live `tables`."""
        held = Counter(page for table in tables for page in table.pages)
        assert PADDING_PAGE not in held, "the padding page is held"
        assert PADDING_PAGE not in self._free, "the padding page is free"
        for page, entry in enumerate(self._pages[1:], start=1):
            assert entry.num_references == held[page], f"page {page}: {entry.num_references} != {held[page]} holders"
            assert (page in self._free) == (held[page] == 0), f"page {page} is both free and held, or neither"
            assert entry.hash is None or self._by_hash.get(entry.hash) == page, f"page {page} is indexed wrongly"
        for digest, page in self._by_hash.items():
            assert self._pages[page].hash == digest, f"the index names page {page} for a hash that it lost"

    def _match(self, owner: Owner, tokens: Sequence[int]) -> list[tuple[bytes, int]]:
        if not owner.salt or not self._by_hash:
            return []
        matched: list[tuple[bytes, int]] = []
        key, digest = owner.hash_key(), b""
        for index in range((len(tokens) - 1) // PAGE_SIZE):
            digest = _page_hash(key, digest, tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE])
            page = self._by_hash.get(digest)
            if page is None:
                break
            matched.append((digest, page))
        return matched

    def _take(self, page: int) -> None:
        self._free.pop(page, None)
        self._pages[page].num_references += 1

    def _take_fresh(self, owner: Owner) -> int:
        page, _ = self._free.popitem(last=False)
        self._forget(page)
        entry = self._pages[page]
        if entry.owner is not None and entry.owner != owner:
            self._to_zero.append(page)
        entry.owner = owner
        entry.num_references = 1
        return page

    def _forget(self, page: int) -> None:
        entry = self._pages[page]
        if entry.hash is not None:
            del self._by_hash[entry.hash]
            entry.hash = None


def _page_hash(key: bytes, parent: bytes, tokens: Sequence[int]) -> bytes:
    data = np.asarray(tokens, dtype="<u4").tobytes()
    return hashlib.blake2b(parent + data, key=key, digest_size=16).digest()
