"""What `stagemesh cache` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.engine.v1 import engine_pb2

PUBLIC = "(public)"
"""Stands for what all tenants share."""

CAUSES = {
    "NEVER_STORED": "it was not stored, or no longer is",
    "EVICTED": "it had been stored, and was evicted, or its time was over",
    "KV_DISABLED": "storing pages is switched off (cache.kv.enabled)",
    "KV_NOT_READY": "the KV Redis had just started and had no limits yet",
    "KV_STORE_SLOW": "the KV Redis did not answer within cache.kv.lookup_budget_ms",
    "KV_STORE_AWAY": "the KV Redis could not be reached, or refused to work; if it refuses for long, empty it",
    "KV_STORE_LEFT_ALONE": "the KV Redis was left alone for a moment after failures",
    "NO_IDENTITY": "the engine names no revision of its model",
    "TRUNCATED": "the stored page was cut short",
    "TRAILING_BYTES": "the stored page was longer than it should be",
    "BAD_MAGIC": "what was stored is no page",
    "OTHER_VERSION": "the page was stored in another format",
    "BAD_CHECKSUM": "the stored page was damaged",
    "OTHER_TENANT": "the page belongs to another tenant",
    "OTHER_EPOCH": "the page was stored before everything was made void",
    "OTHER_KEY": "the page belongs under another name",
    "OTHER_PARENT": "the page follows another beginning",
    "OTHER_TOKENS": "the page is of another text",
    "OTHER_REVISION": "the page is of a model with other weights",
    "OTHER_TOKENIZER": "the page is of another tokenizer",
    "OTHER_PRECISION": "the page was computed in another precision mode",
    "OTHER_ADAPTER": "the page was computed with another adapter",
    "OTHER_ENGINE": "the page was computed by another version of the engine",
    "OTHER_DTYPE": "the page is stored in another number format (engine.kv_store.format)",
    "OTHER_LAYOUT": "the page is of a model of another shape",
    "NOT_FINITE": "the stored page held numbers that are not finite",
    "NOT_FOUND": "the page had gone when the engine asked for it",
    "STORE_UNAVAILABLE": "the engine could not reach the KV Redis",
    "STORE_SLOW": "computing was quicker than the KV Redis",
    "STORE_FULL": "the KV Redis had no memory left",
    "STORE_REFUSED": "the KV Redis answered the engine with an error; see the engine's log",
    "LOAD_TOO_DEAR": "loading was estimated to take longer than computing",
    "LEASE_EXPIRED": "the request came to its engine after its lease had ended",
    "NO_STORE": "the engine has no KV Redis (kv_url), or engine.kv_store is switched off",
    "QUEUE_FULL": "too much waited to be loaded or stored",
    "CANCELLED": "the request ended while its pages were loaded",
    "LOAD_FAILED": "a fault of the engine's own; see its log",
}
"""First what the cache service finds, then what engines find (services/engine/kv/miss_cause.py)."""


def ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def counts_json(counts: cache_pb2.CacheCounts) -> dict[str, Any]:
    reused = counts.pool_tokens + counts.host_tokens + counts.store_tokens
    return {
        "requests": counts.requests,
        "hit_ratio": ratio(counts.hits, counts.requests),
        "session_requests": counts.session_requests,
        "session_hit_ratio": ratio(counts.session_hits, counts.session_requests),
        "prompt_tokens": counts.prompt_tokens,
        "token_hit_ratio": ratio(reused, counts.prompt_tokens),
        "pool_tokens": counts.pool_tokens,
        "host_tokens": counts.host_tokens,
        "store_tokens": counts.store_tokens,
        "misses": dict(sorted(counts.misses.items(), key=lambda cause: -cause[1])),
    }


def stats_json(found: cache_pb2.StatsResponse, engines: Sequence[engine_pb2.WatchLoadResponse] = ()) -> dict[str, Any]:
    return {
        "engines": [
            {
                "instance": load.instance,
                "pool_used_pages": load.used_pages,
                "pool_pages": load.total_pages,
                "host_pages": load.kv.host_pages,
                "host_bytes": load.kv.host_bytes,
                "not_stored_full_pages": not_stored_full(load),
            }
            for load in engines
        ],
        "stored_bytes": found.stored_bytes,
        "budget_bytes": found.budget_bytes,
        "kv_problem": found.kv_problem or None,
        "tenants": [_tenant_json(tenant) for tenant in found.tenants],
    }


def _tenant_json(tenant: cache_pb2.TenantStats) -> dict[str, Any]:
    stored = tenant.stored
    return {
        "tenant_id": tenant.tenant_id or None,
        **counts_json(tenant.counts),
        "stored": {
            "bytes": stored.bytes,
            "budget_bytes": stored.budget_bytes,
            "pages": stored.pages,
            "pinned_bytes": stored.pinned_bytes,
            "published_pages": stored.published_pages,
            "evicted_pages": stored.evicted_pages,
            "expired_pages": stored.expired_pages,
            "vanished_pages": stored.vanished_pages,
            "forgotten_pages": stored.forgotten_pages,
        }
        if tenant.HasField("stored")
        else None,
    }


def stats_view(found: cache_pb2.StatsResponse, engines: Sequence[engine_pb2.WatchLoadResponse] = ()) -> Group:
    head = f"KV Redis: {_mb(found.stored_bytes)} of {_mb(found.budget_bytes)}"
    if found.kv_problem:
        head = f"KV Redis: {CAUSES.get(found.kv_problem, found.kv_problem)}"
    view = _table("tenant", "requests", "hits", "session turns", "hits ", "tokens reused", "pages", "stored", "pinned")
    for tenant in found.tenants:
        shown = counts_json(tenant.counts)
        view.add_row(
            tenant.tenant_id or PUBLIC,
            f"{tenant.counts.requests:,}",
            _percent(shown["hit_ratio"]),
            f"{tenant.counts.session_requests:,}",
            _percent(shown["session_hit_ratio"]),
            _percent(shown["token_hit_ratio"]),
            f"{tenant.stored.pages:,}" if tenant.HasField("stored") else "-",
            _mb(tenant.stored.bytes) if tenant.HasField("stored") else "-",
            _mb(tenant.stored.pinned_bytes) if tenant.HasField("stored") else "-",
        )
    misses: dict[str, int] = {}
    for tenant in found.tenants:
        for cause, number in tenant.counts.misses.items():
            misses[cause] = misses.get(cause, 0) + number
    lines = [Text(f"  {number:,} × {explain_cause(cause)}") for cause, number in sorted(misses.items())]
    tiers = [
        Text(
            f"{load.instance}: {load.used_pages:,} of {load.total_pages:,} pages of the pool in use, "
            f"{_mb(load.kv.host_bytes)} in host memory{full_words(load)}"
        )
        for load in engines
    ]
    return Group(Text(head), *tiers, view, *([Text("Misses:"), *lines] if lines else []))


def not_stored_full(load: engine_pb2.WatchLoadResponse) -> int:
    """Pages that the KV Redis had no memory for, since the engine's start."""
    return round(load.kv.sums.get("saves_dropped/STORE_FULL", 0.0))


def full_words(load: engine_pb2.WatchLoadResponse) -> str:
    pages = not_stored_full(load)
    return f"; the KV Redis was full and refused {pages:,} pages" if pages else ""


def session_json(session: cache_pb2.SessionHeat) -> dict[str, Any]:
    return {
        "tenant_id": session.tenant_id,
        "session_id": session.session_id,
        "heat": round(session.heat, 3),
        "pages": session.pages,
        **counts_json(session.counts),
    }


def top_view(found: cache_pb2.TopResponse) -> Table:
    view = _table("tenant", "session", "heat", "requests", "hits", "tokens reused", "pages", text_columns=2)
    for session in found.sessions:
        shown = counts_json(session.counts)
        view.add_row(
            session.tenant_id,
            session.session_id,
            f"{session.heat:.2f}",
            f"{session.counts.requests:,}",
            _percent(shown["hit_ratio"]),
            _percent(shown["token_hit_ratio"]),
            f"{session.pages:,}",
        )
    return view


def explain_json(found: cache_pb2.ExplainResponse) -> dict[str, Any]:
    use = found.use
    return {
        "request_id": use.request_id,
        "tenant_id": found.tenant_id,
        "session_id": use.session_id or None,
        "model": use.model,
        "engine": use.engine or None,
        "at_s": use.at.seconds,
        "prompt_tokens": use.prompt_tokens,
        "session_tokens": use.session_tokens,
        "stored_tokens": use.stored_tokens,
        "pool_tokens": use.kv.pool_tokens,
        "host_tokens": use.kv.host_tokens,
        "store_tokens": use.kv.store_tokens,
        "computed_tokens": use.kv.computed_tokens,
        "load_ms": use.kv.load_us / 1000,
        "lookup_miss": use.lookup_miss or None,
        "engine_miss": use.kv.miss_cause or None,
    }


def explain_lines(found: cache_pb2.ExplainResponse) -> list[str]:
    use, kv = found.use, found.use.kv
    session = f", session {use.session_id}" if use.session_id else ""
    lines = [
        f"{use.request_id}  ({found.tenant_id}{session}, {use.engine or 'an engine'})",
        f"  prompt of {use.prompt_tokens:,} tokens: {kv.pool_tokens:,} from the engine's pool, {kv.host_tokens:,} from "
        f"host memory, {kv.store_tokens:,} from the KV Redis, {kv.computed_tokens:,} computed",
        f"  {use.stored_tokens:,} tokens were stored when it was looked up",
    ]
    if kv.load_us:
        lines.append(f"  loading took {kv.load_us / 1000:.1f} ms")
    if use.lookup_miss:
        lines.append(f"  not more, because: {explain_cause(use.lookup_miss)}")
    if kv.miss_cause:
        lines.append(f"  not all of it was used, because: {explain_cause(kv.miss_cause)}")
    return lines


def explain_cause(cause: str) -> str:
    """`EVICTED: it had been stored, …`; the bare name of a cause that needs no words."""
    return f"{cause}: {CAUSES[cause]}" if cause in CAUSES else cause


def _table(*names: str, text_columns: int = 1) -> Table:
    view = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(names):
        view.add_column(name.strip(), justify="left" if i < text_columns else "right", no_wrap=True)
    return view


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"
