"""Entering stored pages into the directory: what an engine does after it has written their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory.layout import script
from stagemesh.runtime.kv_value import cost_s

MAX_PAGES_PER_CALL = 128
"""One script call blocks the server for about a millisecond at most."""


@dataclass(frozen=True)
class PublishedPage:
    """A page whose value lies under `kv_keys.value_name`, with a short TTL."""

    digest: bytes
    num_bytes: int
    """Length of the value, which is checked."""
    public: bool = False
    """It lies in the lease's public namespace."""


@dataclass(frozen=True)
class Published:
    refusal: str = ""
    """Why nothing more was entered, in UPPER_SNAKE_CASE: NO_LIMITS, NO_LEASE (unknown or expired), FORGOTTEN (the
    session or user was erased meanwhile), OTHER_EPOCH; unpublished values are deleted then."""
    entered: int = 0
    known: int = 0
    """Pages that were in the directory already; their life is lengthened."""
    missing: int = 0
    """Pages whose value is not there, or of another length."""
    full: int = 0
    """Pages beyond what one session may hold; they are deleted."""
    evicted: int = 0
    """Pages, of whomever, that went to make room."""
    evicted_bytes: int = 0


def publish(
    client: redis.Redis,
    lease: KvLease,
    pages: Sequence[PublishedPage],
    *,
    first_page: int = 0,
    parent: bytes = b"",
    page_s: float = 0.0,
) -> Published:
    """Enter the pages of one sequence, in order, of which the first is number `first_page` of its chain.

    `parent` is the digest of the page before it, and `page_s` what computing one page takes; 0 where that is unknown.
    Dearer pages are worth more (`kv_value.cost_s`), but none counts as dearer than the page before it in the same
    scope: without that one it is of no use, so of a chain the end goes first, whatever was measured when.

    Atomic for 128 pages at a time, and idempotent: a page is entered and counted once. `client` must give replies as
    bytes. Raises redis-py's errors; then the values end by their short TTL, unless the call is repeated.
    """
    if not lease.ttl_s:
        return Published(refusal="NO_LEASE" if pages else "")
    call = client.register_script(script("publish"))
    parents = [parent, *(page.digest for page in pages)]
    total = Published()
    for start, run in _runs(pages):
        space = lease.public_namespace if run[0].public else lease.namespace
        head: list[Any] = [lease.namespace, lease.lease_id, str(lease.epoch), space, lease.ttl_s, lease.horizon_s]
        flat = [value for page in run for value in (page.digest, page.num_bytes)]
        cost = cost_s(page_s, sum(page.num_bytes for page in run) / len(run), lease.tau_s)
        place: list[Any] = [int(run[0].public), first_page + start, cost, parents[start]]
        reply = cast("list[Any]", call(args=[*head, *place, *flat]))
        total = _sum(total, Published(reply[0].decode(), *map(int, reply[1:])))  # a refusal deletes its own pages alone
    return total


def _runs(pages: Sequence[PublishedPage]) -> list[tuple[int, Sequence[PublishedPage]]]:
    """Neighbours of the same scope, at most MAX_PAGES_PER_CALL together, each with the index of its first page."""
    runs: list[tuple[int, list[PublishedPage]]] = []
    for index, page in enumerate(pages):
        if not runs or len(runs[-1][1]) == MAX_PAGES_PER_CALL or runs[-1][1][0].public != page.public:
            runs.append((index, []))
        runs[-1][1].append(page)
    return [(start, run) for start, run in runs]


def _sum(one: Published, other: Published) -> Published:
    return Published(
        one.refusal or other.refusal,
        one.entered + other.entered,
        one.known + other.known,
        one.missing + other.missing,
        one.full + other.full,
        one.evicted + other.evicted,
        one.evicted_bytes + other.evicted_bytes,
    )
