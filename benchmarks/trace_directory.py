"""Recorded requests through the directory of the product, on a real Valkey, their time compressed.

Blocks are pages of a few bytes. Each request looks up its blocks, stores the ones that are missing and publishes them,
with the horizons that the policy gives. Hits are those of the product: leading blocks up to the first that is missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from benchmarks.trace_ours import REFIT_EVERY_S
from benchmarks.trace_requests import TraceRequest, TraceVisit, num_distinct, visits
from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import KvDirectory, KvLimits, PublishedPage, publish
from stagemesh.runtime.kv_keys import namespace, value_name
from stagemesh.runtime.kv_value import LearnerLimits, ReturnLearner
from stagemesh.runtime.redis_client import connect

TENANT, EPOCH = "trace", 1
TTL_S = 3_600
VALUE_BYTES = 200
PAGE_FOOTPRINT_BYTES = 256 + 512
"""What the directory counts for a value of VALUE_BYTES: its size class, and the entries about it."""
CHECK_EVERY = 250


@dataclass
class DirectoryReplay:
    hit_ratio: float = 0.0
    """Leading blocks found, of all block uses."""
    budget_bytes: int = 0
    max_counted_bytes: int = 0
    """Most that the directory counted, looked at after each request."""
    max_memory_bytes: int = 0
    """Most that the server's memory had grown by, looked at every CHECK_EVERY requests."""
    keys_without_ttl: int = 0
    max_late_s: float = 0.0
    """How far the replay fell behind its compressed clock."""


def replay(url: str, requests: Sequence[TraceRequest], *, percent: float, speed: float) -> DirectoryReplay:
    """Empties the server at `url` first. `speed` seconds of the trace pass in one."""
    return asyncio.run(_Replay(url, requests, percent, speed).run())


class _Replay:
    def __init__(self, url: str, requests: Sequence[TraceRequest], percent: float, speed: float) -> None:
        self._url, self._requests, self._speed = url, requests, speed
        self._space = namespace(TENANT, EPOCH)
        self._limits = LearnerLimits()
        self._learner = ReturnLearner(self._limits)
        self._next_refit_s = REFIT_EVERY_S
        budget = int(num_distinct(requests) * percent / 100) * PAGE_FOOTPRINT_BYTES
        self._result = DirectoryReplay(budget_bytes=budget)
        self._hits = 0

    async def run(self) -> DirectoryReplay:
        client = connect(self._url)
        try:
            with redis.Redis.from_url(self._url) as sync:
                sync.flushall()
                await self._run(KvDirectory(client), sync)
        finally:
            await client.aclose()
        self._result.hit_ratio = self._hits / sum(len(request.blocks) for request in self._requests)
        return self._result

    async def _run(self, directory: KvDirectory, sync: redis.Redis) -> None:
        budget = self._result.budget_bytes
        await directory.set_limits(
            KvLimits(
                epoch=EPOCH,
                total_bytes=budget,
                tenant_bytes=budget,
                pinned_bytes=0,
                tau_s=self._limits.tau_s / self._speed,
            )
        )
        memory_before, start_s = _used_memory(sync), time.monotonic()
        for index, seen in enumerate(visits(self._requests)):
            await self._keep_time(start_s, seen.request.at_s)
            await self._request(directory, sync, index, seen)
            counted = (await directory.stats(self._space)).total_bytes
            self._result.max_counted_bytes = max(self._result.max_counted_bytes, counted)
            if index % CHECK_EVERY == 0 or index == len(self._requests) - 1:
                grown = _used_memory(sync) - memory_before
                self._result.max_memory_bytes = max(self._result.max_memory_bytes, grown)
                self._result.keys_without_ttl += num_without_ttl(sync)

    async def _request(self, directory: KvDirectory, sync: redis.Redis, index: int, seen: TraceVisit) -> None:
        request = seen.request
        if request.at_s >= self._next_refit_s:
            self._learner.refit(request.at_s)
            self._next_refit_s = request.at_s + REFIT_EVERY_S
        horizons = self._learner.visited(index, seen.visit, request.at_s, seen.previous)
        digests = [_digest(block) for block in request.blocks[: request.num_full_blocks]]
        found = await directory.lookup(
            self._space,
            digests,
            ttl_s=TTL_S,
            lease_id=str(index),
            lease_ttl_s=60,
            horizon_s=horizons.known_s / self._speed,
        )
        self._hits += found.pages
        missing = digests[found.pages :]
        for digest in missing:
            sync.set(value_name(self._space, digest), bytes(VALUE_BYTES), ex=60)
        lease = KvLease(lease_id=str(index), namespace=self._space, epoch=EPOCH, ttl_s=TTL_S)
        lease.horizon_s = horizons.new_s / self._speed
        pages = [PublishedPage(digest, VALUE_BYTES) for digest in missing]
        publish(sync, lease, pages, first_page=found.pages)

    async def _keep_time(self, start_s: float, at_s: float) -> None:
        early_s = start_s + at_s / self._speed - time.monotonic()
        self._result.max_late_s = max(self._result.max_late_s, -early_s)
        if early_s > 0:
            await asyncio.sleep(early_s)


def num_without_ttl(sync: redis.Redis) -> int:
    count, names = 0, list(sync.scan_iter(count=5_000))
    for start in range(0, len(names), 5_000):
        pipeline = sync.pipeline(transaction=False)
        for name in names[start : start + 5_000]:
            pipeline.ttl(name)
        count += sum(ttl == -1 for ttl in pipeline.execute())
    return count


def _used_memory(sync: redis.Redis) -> int:
    return int(sync.info("memory")["used_memory"])  # type: ignore[index]  # redis-py types sync and async alike


def _digest(block: int) -> bytes:
    return hashlib.blake2b(block.to_bytes(8, "little"), digest_size=32).digest()
