"""What may be loaded and stored of one sequence, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from services.engine.page_table import Owner
from stagemesh.api.common.v1.common_pb2 import KvLease, KvReport
from stagemesh.runtime.kv_keys import PAGE_TOKENS


@dataclass(eq=False)
class SequenceKv:
    """Token counts are of the first admission and add up to no more than the prompt."""

    lease: KvLease = field(default_factory=KvLease)
    """Not filled where the caller brought none."""
    has_tried: bool = False
    """Whether it was looked whether pages can be loaded; that happens once."""
    replaces: bool = False
    """Whether what the KV Redis holds of it beyond those is known to be of no use."""
    num_stored: int = -1
    """Leading pages that are known to lie in the KV Redis; −1: as the lease says."""
    pool_tokens: int = 0
    host_tokens: int = 0
    store_tokens: int = 0
    miss_cause: str = ""
    load_s: float = 0.0

    @property
    def num_stored_pages(self) -> int:
        return self.lease.stored_tokens // PAGE_TOKENS if self.num_stored < 0 else self.num_stored

    def report(self, num_prompt: int, num_computed: int) -> KvReport:
        """Where the KV of the prompt came from, as far as it was there."""
        loaded = self.pool_tokens + self.host_tokens + self.store_tokens
        return KvReport(
            pool_tokens=self.pool_tokens,
            host_tokens=self.host_tokens,
            store_tokens=self.store_tokens,
            computed_tokens=max(0, min(num_prompt, num_computed) - loaded),
            miss_cause=self.miss_cause,
            load_us=int(self.load_s * 1e6),
        )

    def has_expired(self) -> bool:
        return bool(self.lease.expires_unix_us) and self.lease.expires_unix_us < time.time() * 1e6

    def may_store(self) -> bool:
        return self.lease.ttl_s > 0 and bool(self.lease.namespace) and not self.has_expired()

    def space_of(self, page_owner: Owner) -> bytes:
        """The namespace in which pages of that owner lie."""
        is_public = page_owner.salt == self.lease.public_salt and not page_owner.tenant_id
        return self.lease.public_namespace if is_public else self.lease.namespace
