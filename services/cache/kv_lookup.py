"""The part of a lease that speaks of stored KV pages: what is there, for how long, under which names."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uuid_utils

from services.cache.config import CacheConfig
from services.cache.public_prefixes import PublicPrefixes
from services.cache.redis_guard import RedisGuard, Words
from services.cache.session import Opened
from stagemesh.api.common.v1.common_pb2 import KvLease, ModelIdentity
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.kv_directory import Holder, KvDirectory
from stagemesh.runtime.kv_keys import PAGE_TOKENS, adapter_label, chain_key, namespace, page_digests
from stagemesh.runtime.kv_value import Horizons

KV_WORDS = Words("KV store", left_alone="KV_STORE_LEFT_ALONE", slow="KV_STORE_SLOW", away="KV_STORE_AWAY")
"""Causes of misses; a caller never sees them as errors."""
PUBLIC_TENANT = ""
"""No tenant has this ID, since an empty one is refused."""
BUDGET_PAGES = 512
"""Pages that are looked up within the configured budget; more have more time, since computing them takes far more."""

WorthOf = Callable[[Sequence[bytes]], Horizons]
"""What the pages of a request, known by their digests, are worth to it."""


def nothing_known(pages: Sequence[bytes]) -> Horizons:
    return Horizons(0.0, 0.0)


@dataclass(frozen=True)
class KvAnswer:
    lease: KvLease | None = None
    miss: str = ""
    """Why there is no lease, or why less is stored than was asked for."""


class KvLookup:
    """Never raises: whatever is wrong with the KV store costs a request its stored pages, nothing else."""

    def __init__(
        self,
        directory: KvDirectory,
        guard: RedisGuard,
        config: CacheConfig,
        prefixes: PublicPrefixes,
        on_no_limits: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._guard = guard
        self._config = config
        self._prefixes = prefixes
        self._on_no_limits = on_no_limits

    async def lease(
        self,
        tenant_id: str,
        model: ModelIdentity,
        opened: Opened,
        tokens: Sequence[int],
        holder: Holder,
        worth_of: WorthOf = nothing_known,
    ) -> KvAnswer:
        """Look up the pages of `tokens`, which may be none yet; `worth_of` is asked once if they are looked up."""
        kv = self._config.kv
        if not kv.enabled:
            return KvAnswer(miss="KV_DISABLED")
        if not (model.revision and model.tokenizer_hash and model.kv_layout):
            return KvAnswer(miss="NO_IDENTITY")
        lease = self._new_lease(tenant_id, opened)
        tokens = tokens[: kv.max_lookup_tokens]
        num_public = self._prefixes.num_public_pages(model, tokens)
        if num_public:
            lease.public_tokens = num_public * PAGE_TOKENS
            lease.public_salt = opened.public_salt
            lease.public_namespace = namespace(PUBLIC_TENANT, opened.stamp.epoch)
        digests = chain(tenant_id, model, lease, opened.salt, tokens)
        worth = worth_of(digests)
        lease.horizon_s = worth.new_s
        lookup = self._directory.lookup(
            lease.namespace,
            digests,
            ttl_s=kv.ttl_s,
            lease_id=lease.lease_id,
            lease_ttl_s=self._config.lease_ttl_s,
            holder=holder,
            num_public=num_public,
            public_space=lease.public_namespace,
            horizon_s=worth.known_s,
        )
        try:
            found = await self._guard.call(lookup, budget_s(kv.lookup_budget_ms / 1000, len(digests)))
        except Unavailable as error:
            return KvAnswer(miss=error.reason)
        if not found.has_limits:
            self._on_no_limits()
            return KvAnswer(miss="KV_NOT_READY")
        lease.stored_tokens = found.pages * PAGE_TOKENS
        if found.pages == len(digests):
            return KvAnswer(lease)
        return KvAnswer(lease, "EVICTED" if found.had_next or found.vanished else "NEVER_STORED")

    def _new_lease(self, tenant_id: str, opened: Opened) -> KvLease:
        expires_us = time.time_ns() // 1_000 + self._config.lease_ttl_s * 1_000_000
        return KvLease(
            lease_id=str(uuid_utils.uuid7()),
            namespace=namespace(tenant_id, opened.stamp.epoch),
            epoch=opened.stamp.epoch,
            expires_unix_us=expires_us,
            ttl_s=self._config.kv.ttl_s,
            tau_s=self._config.kv.heat_tau_s,
        )


def budget_s(configured_s: float, num_pages: int) -> float:
    """How long a lookup may take."""
    return configured_s * max(1.0, num_pages / BUDGET_PAGES)


def chain(tenant_id: str, model: ModelIdentity, lease: KvLease, salt: bytes, tokens: Sequence[int]) -> list[bytes]:
    """The digests of all full pages: public ones first, then the tenant's own, which go on from the last of them."""
    public = tokens[: lease.public_tokens]
    adapter = adapter_label(model.adapter, model.adapter_generation, model.adapter_revision)
    public_key = chain_key(lease.public_salt, "", model.precision, adapter)
    digests = list(page_digests(public_key, public)) if public else []
    parent = digests[-1] if digests else b""
    own = page_digests(chain_key(salt, tenant_id, model.precision, adapter), tokens[lease.public_tokens :], parent)
    return [*digests, *own]
