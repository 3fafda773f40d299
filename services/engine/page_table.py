"""The pages of one sequence: which they are, whose, and by which names others can find them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stagemesh.runtime.kv_keys import PAGE_TOKENS, chain_key, page_digests


@dataclass(frozen=True)
class Owner:
    """Whose data a page holds."""

    tenant_id: str
    salt: bytes
    precision: str = ""
    """Of the weights that compute its pages, as `ModelIdentity.precision` says it; pages of others are of no use."""
    epoch: int = 0
    """Of the lease that the salt came with."""
    adapter: str = ""
    """What computes beside the weights, as `adapter_label` says it; pages of others are of no use."""

    def chain_key(self) -> bytes:
        """The key of the names of its pages."""
        return chain_key(self.salt, self.tenant_id, self.precision, self.adapter)


@dataclass(frozen=True)
class PublicPrefix:
    """How a prompt begins that an operator declared public: all tenants find its pages."""

    salt: bytes
    num_pages: int


class PageTable:
    """Pages of one sequence, in order, and the digests that name them.

    pages: [0, num_known) are registered for reuse or reused, [num_known, len) are the sequence's own. They lie as C's
    integers, so that a step's batch takes them by copying memory.
    """

    def __init__(self, owner: Owner, public: PublicPrefix | None = None) -> None:
        """Pages of an owner without a salt have no names, public ones neither."""
        self.owner = owner
        self.pages: array[int] = array("i")
        self.num_known = 0
        self.is_forgotten = False
        """Its pages become known no more: the tenant has had everything erased."""
        self.max_reused_tokens: int | None = None
        """What comes after so many tokens is computed in any case, since its logits are wanted; None: the last one."""
        self._num_public = public.num_pages if public is not None and public.salt else 0
        self._public = (
            replace(owner, tenant_id="", salt=public.salt) if public is not None and self._num_public else owner
        )
        self._digests: list[bytes] = []
        self._keys: dict[Owner, bytes] = {}

    def adopt_names(self, other: PageTable, num_pages: int) -> None:
        """Take over the names of leading pages from a table of the same owner and the same tokens."""
        assert (self.owner, self._public) == (other.owner, other._public), "a table of another owner"
        self._digests, self._keys = other._digests[:num_pages], other._keys

    def owner_of(self, index: int) -> Owner:
        """Whose the page at `index` is: everybody's while the public prefix lasts."""
        return self._public if index < self._num_public else self.owner

    def num_reusable(self, num_tokens: int) -> int:
        """How many leading pages of so many tokens need no computing if they are there."""
        return self.num_reusable_tokens(num_tokens) // PAGE_TOKENS

    def num_reusable_tokens(self, num_tokens: int) -> int:
        """How many leading ones of so many tokens need no computing if they are there."""
        wanted = num_tokens - 1
        return wanted if self.max_reused_tokens is None else min(wanted, self.max_reused_tokens)

    def digests(self, tokens: Sequence[int], num_pages: int) -> list[bytes]:
        """The digests of at least the first `num_pages` pages of `tokens`, each computed once.

        Tokens that were named once do not change.
        """
        assert self.owner.salt, "pages without a salt have no names"
        while (start := len(self._digests)) < num_pages:
            end = num_pages if start >= self._num_public else min(num_pages, self._num_public)
            parent = self._digests[-1] if start else b""
            own = tokens[start * PAGE_TOKENS : end * PAGE_TOKENS]
            assert len(own) == (end - start) * PAGE_TOKENS, "a page that is not full has no name"
            self._digests += page_digests(self._key(self.owner_of(start)), own, parent)
        return self._digests

    def parent(self, index: int) -> bytes:
        """The digest of the page before the one at `index`, which has been named."""
        return self._digests[index - 1] if index else b""

    def _key(self, owner: Owner) -> bytes:
        if owner not in self._keys:
            self._keys[owner] = owner.chain_key()
        return self._keys[owner]
