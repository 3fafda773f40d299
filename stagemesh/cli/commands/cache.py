"""`stagemesh cache`"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from stagemesh.api.cache.v1.cache_pb2_grpc import CacheServiceStub

T = TypeVar("T")
TIMEOUT_S = 30.0

EPILOG = """\b
Examples:
  stagemesh cache stats                          hit ratios and bytes of all tenants
  stagemesh cache stats --tenant acme --json
  stagemesh cache top --limit 5                  the sessions that are used most
  stagemesh cache warm log.jsonl --tenant acme   have ready what users will ask
  stagemesh cache explain 01a22d27-9c1e-7a30-…   why this request was fast, or not"""

STATS_EXAMPLES = """\b
Examples:
  stagemesh cache stats                          all tenants
  stagemesh cache stats --tenant acme --json"""
TOP_EXAMPLES = """\b
Examples:
  stagemesh cache top --limit 5
  stagemesh cache top --tenant acme --json"""
EXPLAIN_EXAMPLES = """\b
Examples:
  stagemesh cache explain 01a22d27-9c1e-7a30-8000-000000000000
  stagemesh cache explain 01a22d27-9c1e-7a30-8000-000000000000 --tenant acme --json"""
WARM_EXAMPLES = """\b
Examples:
  stagemesh cache warm log.jsonl --tenant acme
  stagemesh cache warm log.jsonl --tenant dev --json    users of the key `dev`"""

tenant_option = click.option("--tenant", "tenant_id", default="", help="Only this tenant.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("cache", epilog=EPILOG)
def command() -> None:
    """What requests reuse of earlier computing: keys and values in engines, in host memory and in the KV Redis."""


@command.command("stats", epilog=STATS_EXAMPLES, short_help="Hit ratios and bytes, by tenant.")
@tenant_option
@json_option
@state_option
@config_option
def stats(tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Hit ratios of requests, sessions and prompt tokens by tenant, bytes by tier, and causes of misses."""
    from stagemesh.api.cache.v1 import cache_pb2
    from stagemesh.cli import cache_view, console
    from stagemesh.cli.client.engine_tiers import engine_loads

    request = cache_pb2.StatsRequest(tenant_id=tenant_id)
    found = _call(state, config, lambda stub, options: stub.Stats(request, **options))
    engines = asyncio.run(engine_loads(state))
    if as_json:
        console.print_json(cache_view.stats_json(found, engines))
    else:
        console.out.print(cache_view.stats_view(found, engines))


@command.command("top", epilog=TOP_EXAMPLES, short_help="The sessions that are used most.")
@tenant_option
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Sessions to show.")
@json_option
@state_option
@config_option
def top(tenant_id: str, limit: int, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Sessions by heat, which is their number of requests, of which older ones count less and less."""
    from stagemesh.api.cache.v1 import cache_pb2
    from stagemesh.cli import cache_view, console

    request = cache_pb2.TopRequest(tenant_id=tenant_id, limit=limit)
    found = _call(state, config, lambda stub, options: stub.Top(request, **options))
    if as_json:
        console.print_json([cache_view.session_json(session) for session in found.sessions])
    elif found.sessions:
        console.out.print(cache_view.top_view(found))
    else:
        console.print_lines([], "no session is known to the cache")


@command.command("explain", epilog=EXPLAIN_EXAMPLES, short_help="Where a request's KV came from, and why it missed.")
@click.argument("request_id")
@tenant_option
@json_option
@state_option
@config_option
def explain(request_id: str, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Where the keys and values of REQUEST_ID's prompt came from, and why what could have been reused was not."""
    from stagemesh.api.cache.v1 import cache_pb2
    from stagemesh.cli import cache_view, console

    request = cache_pb2.ExplainRequest(tenant_id=tenant_id, request_id=request_id.lower())
    found = _call(state, config, lambda stub, options: stub.Explain(request, **options))
    if as_json:
        console.print_json(cache_view.explain_json(found))
    else:
        click.echo("\n".join(cache_view.explain_lines(found)))


@command.command(
    "warm", epilog=WARM_EXAMPLES, short_help="Learn from recorded conversations, and have ready what recurs."
)
@click.argument("log", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--tenant", "tenant_id", required=True, help="Whose conversations these are.")
@json_option
@state_option
@config_option
def warm(log: Path, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Learn from the conversations in LOG what users ask, and have the keys and values of it computed ahead of time.

    A line is {"session_id": "…", "user_id": "…", "turns": [{"q": "…", "a": "…"}]}; a "system" message is optional. What
    at least two users have begun with is kept ready, the most frequent first; the rest stays each user's own.
    """
    from stagemesh.cli import console, warm_view
    from stagemesh.cli.client.dialogues import read_dialogues
    from stagemesh.cli.client.warming import run_warm
    from stagemesh.cli.exits import Exit

    started_s = time.monotonic()
    dialogues = list(read_dialogues(log))
    with warm_view.showing_progress() as on_progress:
        report = run_warm(state, config, tenant_id, dialogues, on_progress)
    if as_json:
        console.print_json({**warm_view.report_json(report), "seconds": round(time.monotonic() - started_s, 3)})
    else:
        click.echo("\n".join(warm_view.report_lines(report, time.monotonic() - started_s)))
    if report.failed:
        raise SystemExit(Exit.FAILED)


def _call(
    state: Path | None, config: Path | None, method: Callable[[CacheServiceStub, dict[str, Any]], Awaitable[T]]
) -> T:
    from stagemesh.api.cache.v1.cache_pb2_grpc import CacheServiceStub
    from stagemesh.cli.client.cache_channel import cache_channel

    async def call() -> T:
        async with cache_channel(state, config) as (channel, metadata):
            return await method(CacheServiceStub(channel), {"timeout": TIMEOUT_S, "metadata": metadata})

    return asyncio.run(call())
