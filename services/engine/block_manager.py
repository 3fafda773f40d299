"""Pages of KV memory: who holds them, which are free, which can be reused.

A page holds the keys and values of PAGE_SIZE consecutive tokens in all layers. A full, computed page is known by the
digest of everything up to its end (`stagemesh/runtime/kv_keys.py`), keyed with the owner's tenant and salt; so equal
prompts of one owner share pages, and nobody can hit, or probe for, the pages of another. The same name stands for the
page in host memory and in the KV Redis. An owner without a salt shares nothing. The open page of a sequence that ended
well is kept for one that goes on from there. Page 0 is never given out: it stays zero and pads batches.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.engine.page_table import Owner, PageTable
from services.engine.tail_pages import TailPages
from stagemesh.runtime.kv_keys import PAGE_TOKENS

PAGE_SIZE = PAGE_TOKENS
PADDING_PAGE = 0


@dataclass(frozen=True)
class KnownPage:
    """A full, computed page under its name."""

    page: int
    digest: bytes
    parent: bytes
    """The digest of the page before it; empty for the first."""
    tokens: array[int]
    """[PAGE_SIZE]"""
    owner: Owner


@dataclass
class _Page:
    num_references: int = 0
    known: KnownPage | None = None
    owner: Owner | None = None
    num_hits: int = 0
    """How often it was reused under its name."""


def num_pages_for(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_SIZE)


class BlockManager:
    """Not thread-safe: used by the step loop alone, but for `knows`."""

    def __init__(self, num_pages: int) -> None:
        """`num_pages` can be held by sequences; the padding page comes on top."""
        self._pages = [_Page() for _ in range(num_pages + 1)]
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_pages + 1))
        self._by_digest: dict[bytes, int] = {}
        self._tails = TailPages()
        self._to_zero: list[int] = []
        self._spoiled: set[int] = set()
        """Poisoned pages that others still hold; cleared when the last of them lets go."""
        self._to_clear: dict[int, None] = {}
        """Free pages of erased tenants, which are cleared bit by bit."""
        self.num_forgotten = 0
        """Known pages that were taken for something else."""

    @property
    def num_pages(self) -> int:
        return len(self._pages) - 1

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_pages - self.num_free

    def knows(self, digest: bytes) -> bool:
        """Whether a page of that name can be reused now. For any thread; it may be outdated when it arrives."""
        return digest in self._by_digest

    def num_cached_pages(self, table: PageTable, tokens: Sequence[int]) -> int:
        """How many leading pages of `tokens` could be reused now."""
        return len(self._match(table, tokens))

    def can_allocate(self, table: PageTable, tokens: Sequence[int], reserve: int = 0) -> bool:
        """Whether pages for all `tokens` are there, with `reserve` free ones left."""
        matched = self._match(table, tokens)
        num_taken = num_pages_for(len(tokens)) - sum(page not in self._free for page in matched)
        return num_taken + reserve <= self.num_free

    def allocate(self, table: PageTable, tokens: Sequence[int]) -> int:
        """Fill the empty `table` with pages for `tokens`; gives the number of leading tokens that need no computing.

        At least the last token is always left to compute, since its logits are wanted.
        """
        assert not table.pages, "a table is filled once"
        for page in self._match(table, tokens):
            self._take(page)
            self._pages[page].num_hits += 1
            table.pages.append(page)
        table.num_known = len(table.pages)
        num_in_tail = self._take_tail(table, tokens)
        self.extend(table, len(tokens))
        return table.num_known * PAGE_SIZE + num_in_tail

    def num_pages_to_fork(self, table: PageTable, num_shared: int, num_tokens: int) -> int:
        """How many pages `fork` would take."""
        return num_pages_for(num_tokens) - num_shared // PAGE_SIZE

    def fork(self, table: PageTable, fork: PageTable, num_shared: int, num_tokens: int) -> tuple[int, int] | None:
        """Fill the empty `fork` with pages for `num_tokens`, of which the first `num_shared` are computed in `table`.

        Full pages are shared. Where the shared tokens end within a page, gives that page and the one to copy it to,
        which is to be done before anything else is computed.
        """
        assert not fork.pages, "a table is filled once"
        assert fork.owner == table.owner, "pages of another owner"
        num_full, num_open = divmod(num_shared, PAGE_SIZE)
        for page in table.pages[:num_full]:
            self._take(page)
            fork.pages.append(page)
        fork.is_forgotten = table.is_forgotten
        fork.num_known = min(table.num_known, num_full)
        if fork.num_known:
            fork.adopt_names(table, fork.num_known)
        self.extend(fork, num_tokens)
        return (table.pages[num_full], fork.pages[num_full]) if num_open else None

    def can_extend(self, table: PageTable, num_tokens: int) -> bool:
        return num_pages_for(num_tokens) - len(table.pages) <= self.num_free

    def extend(self, table: PageTable, num_tokens: int) -> None:
        """Add pages until `num_tokens` fit."""
        while len(table.pages) < num_pages_for(num_tokens):
            table.pages.append(self._take_fresh(table.owner_of(len(table.pages))))

    def shrink(self, table: PageTable, num_tokens: int) -> None:
        """Give back the pages beyond those that `num_tokens` need; they are nobody else's and unknown."""
        while len(table.pages) > num_pages_for(num_tokens):
            page = table.pages.pop()
            entry = self._pages[page]
            assert entry.num_references == 1, "a page of guesses is shared"
            assert entry.known is None, "a page of guesses is known for reuse"
            entry.num_references = 0
            self._free[page] = None
            self._free.move_to_end(page, last=False)

    def commit(self, table: PageTable, tokens: Sequence[int], num_computed: int) -> None:
        """Make the full pages of tokens[:num_computed] known for reuse."""
        num_full = num_computed // PAGE_SIZE
        if table.num_known >= num_full or not table.owner.salt or table.is_forgotten or self._is_spoiled(table):
            return
        digests = table.digests(tokens, num_full)
        for index in range(table.num_known, num_full):
            if digests[index] not in self._by_digest:  # else another computed the same page at the same time
                self._register(table, index, digests[index], tokens)
        table.num_known = num_full

    def keep_tail(self, table: PageTable, tokens: Sequence[int], num_computed: int) -> None:
        """Keep the open page of tokens[:num_computed] for a sequence that goes on from there; `table` is about to be
        released."""
        index, num_tokens = divmod(num_computed, PAGE_SIZE)
        if not num_tokens or not table.owner.salt or table.is_forgotten or table.num_known != index:
            return
        if self._is_spoiled(table):
            return
        table.digests(tokens, index)
        page = table.pages[index]
        assert self._pages[page].num_references == 1, "an open page is shared"
        place = table.owner_of(index), table.parent(index)
        before = self._tails.keep(page, place, tokens[index * PAGE_SIZE : num_computed])
        if before is not None:
            self._free.move_to_end(before, last=False)

    def adopt(self, table: PageTable, pages: Sequence[KnownPage]) -> None:
        """Make the pages after the table's known ones known for reuse, under names that somebody else has prepared."""
        for known in pages if not table.is_forgotten else ():
            assert known.page == table.pages[table.num_known], "a page of another place"
            if known.digest not in self._by_digest and not self._is_spoiled(table):
                self._enter(known)
            table.num_known += 1

    def release(self, table: PageTable, *, poisoned: bool = False) -> None:
        """Give all pages back; known ones stay reusable until they are needed for something else.

        `poisoned` pages may hold non-finite numbers: they are forgotten, whoever else holds them, and cleared when
        nobody does.
        """
        for page in reversed(table.pages):  # the end of a chain is evicted before its beginning
            if poisoned:
                self._forget(page)
                self._spoiled.add(page)
            self._let_go(page)
        del table.pages[:]
        table.num_known = 0

    def known_pages(self, table: PageTable, tokens: Sequence[int]) -> list[KnownPage]:
        """What is registered under the names of the table's known pages: they, or others that hold the same; nothing
        where any of them was poisoned."""
        if self._is_spoiled(table):
            return []
        digests = table.digests(tokens, table.num_known)[: table.num_known]
        for index, digest in enumerate(digests):
            if digest not in self._by_digest:  # the other, which was registered, has been taken for something else
                self._register(table, index, digest, tokens)
        entries = [self._pages[self._by_digest[digest]] for digest in digests]
        return [entry.known for entry in entries if entry.known is not None]

    def next_forgotten(self, num_pages: int) -> list[KnownPage]:
        """Known pages among the next `num_pages` free ones that were reused before, the first to go first."""
        entries = [self._pages[page] for page, _ in zip(self._free, range(num_pages), strict=False)]
        return [entry.known for entry in entries if entry.known is not None and entry.num_hits]

    def hold(self, pages: Iterable[int]) -> None:
        """Keep pages as they are until `let_go`, whoever else gives them back."""
        for page in pages:
            self._take(page)

    def let_go(self, pages: Sequence[int], *, to_be_taken: bool = False) -> None:
        """Undo `hold`; free ones are then the last to be taken for something else, or the first."""
        for page in reversed(pages):
            self._let_go(page)
            if to_be_taken and page in self._free:
                self._free.move_to_end(page, last=False)

    def take_pages_to_zero(self, among: Sequence[int] | None = None) -> list[int]:
        """Pages that must be cleared before the next step, because they changed owner or were poisoned.

        Whoever takes them, or those `among` them, clears them.
        """
        if among is None:
            pages, self._to_zero = self._to_zero, []
            return pages
        if not self._to_zero:
            return []
        taken = set(self._to_zero).intersection(among)
        self._to_zero = [page for page in self._to_zero if page not in taken]
        return list(taken)

    def has_pages_to_clear(self) -> bool:
        return bool(self._to_clear)

    def take_pages_to_clear(self, max_pages: int) -> list[int]:
        """Some of the free pages of erased tenants. Whoever takes them clears them before the next step."""
        return [self._to_clear.popitem()[0] for _ in range(min(max_pages, len(self._to_clear)))]

    def forget_tenant(self, tenant_id: str) -> int:
        """Make all pages of a tenant unknown, and have those cleared that nobody holds; gives their number."""
        of_tenant = [
            page for page, entry in enumerate(self._pages) if entry.owner and entry.owner.tenant_id == tenant_id
        ]
        for page in of_tenant:
            self._forget(page)
            if page in self._free:
                self._pages[page].owner = None
                self._to_clear[page] = None
                self._free.move_to_end(page, last=False)
        return len(of_tenant)

    def check_integrity(self, tables: Iterable[PageTable], held: Iterable[int] = ()) -> None:
        """Assert that references, the free list and the index agree with the live `tables` and what is on `held`."""
        holders = Counter(page for table in tables for page in table.pages)
        holders.update(held)
        assert PADDING_PAGE not in holders, "the padding page is held"
        assert PADDING_PAGE not in self._free, "the padding page is free"
        for page, entry in enumerate(self._pages[1:], start=1):
            assert entry.num_references == holders[page], f"page {page}: {entry.num_references} != {holders[page]}"
            assert (page in self._free) == (holders[page] == 0), f"page {page} is both free and held, or neither"
            assert entry.known is None or self._by_digest.get(entry.known.digest) == page, f"page {page} is lost"
        assert all(page in self._free for page in self._to_clear), "a page that is held would be cleared"
        assert all(holders[page] and self._pages[page].known is None for page in self._spoiled), "poison may be reused"
        for page in self._tails.pages():
            assert page in self._free, f"page {page} is held and kept for another"
            assert self._pages[page].known is None, f"page {page} is full and open"
        for digest, page in self._by_digest.items():
            known = self._pages[page].known
            assert known is not None, f"the index names page {page}, which has no name"
            assert (known.digest, known.page) == (digest, page), f"the index names page {page} for what it is not"

    def _match(self, table: PageTable, tokens: Sequence[int]) -> list[int]:
        if not table.owner.salt or not self._by_digest:
            return []
        return list(self._matches(table, tokens))

    def _matches(self, table: PageTable, tokens: Sequence[int]) -> Iterator[int]:
        num_pages = table.num_reusable(len(tokens))
        for index, digest in enumerate(table.digests(tokens, num_pages)[:num_pages]):
            page = self._by_digest.get(digest)
            known = None if page is None else self._pages[page].known
            if known is None or list(known.tokens) != tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE]:
                return
            yield known.page

    def _take_tail(self, table: PageTable, tokens: Sequence[int]) -> int:
        """Add the open page that a sequence left after the table's known pages; gives the tokens computed in it."""
        first, end = len(table.pages) * PAGE_SIZE, table.num_reusable_tokens(len(tokens))
        if not table.owner.salt or first >= end:
            return 0
        place = table.owner_of(len(table.pages)), table.parent(len(table.pages))
        found = self._tails.take(place, tokens[first:end])
        if found is None:
            return 0
        page, num_tokens = found
        self._take(page)
        table.pages.append(page)
        return num_tokens

    def _register(self, table: PageTable, index: int, digest: bytes, tokens: Sequence[int]) -> None:
        page = table.pages[index]
        own = array("i", tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE])
        self._enter(KnownPage(page, digest, table.parent(index), own, table.owner_of(index)))

    def _enter(self, known: KnownPage) -> None:
        self._by_digest[known.digest] = known.page
        entry = self._pages[known.page]
        entry.known = known
        entry.num_hits = 0

    def _is_spoiled(self, table: PageTable) -> bool:
        """Whether it holds a page that was poisoned, after which nothing of it is worth keeping."""
        return bool(self._spoiled) and not self._spoiled.isdisjoint(table.pages)

    def _take(self, page: int) -> None:
        self._free.pop(page, None)
        self._pages[page].num_references += 1

    def _let_go(self, page: int) -> None:
        entry = self._pages[page]
        entry.num_references -= 1
        if entry.num_references == 0:
            self._free[page] = None
            if page in self._spoiled:
                self._spoiled.remove(page)
                self._to_zero.append(page)
            if entry.known is None and page not in self._tails:
                self._free.move_to_end(page, last=False)

    def _take_fresh(self, owner: Owner) -> int:
        page, _ = self._free.popitem(last=False)
        self.num_forgotten += self._forget(page)
        entry = self._pages[page]
        if page in self._to_clear or (entry.owner is not None and entry.owner != owner):
            self._to_clear.pop(page, None)
            self._to_zero.append(page)
        entry.owner = owner
        entry.num_references = 1
        return page

    def _forget(self, page: int) -> bool:
        """Whether it was known."""
        self._tails.drop(page)
        entry = self._pages[page]
        if entry.known is None:
            return False
        del self._by_digest[entry.known.digest]
        entry.known = None
        return True
