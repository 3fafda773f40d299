"""`stagemesh usage`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stagemesh.cli.commands.tenant import with_ledger
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from stagemesh.runtime.usage import Key, Usage

EPILOG = """\b
Examples:
  stagemesh usage                        all tenants, today
  stagemesh usage --tenant acme --days 30
  stagemesh usage --json"""


@click.command("usage", epilog=EPILOG, short_help="What tenants used, by mode: tokens, time, cost units.")
@click.option("--tenant", "tenant_id", default="", help="Only this tenant.")
@click.option("--days", type=click.IntRange(1, 92), default=1, show_default=True, help="Back from today (UTC).")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def command(tenant_id: str, days: int, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Requests, tokens, time and cost units by tenant and precision mode.

    Gateways tell the ledger every second. `tokens_per_cost_unit` is effective throughput per cost: output tokens of
    complete answers by cost units, whose rates are `gateway.modes.cost_per_1k`.
    """
    from stagemesh.cli import console
    from stagemesh.runtime.usage import as_json as line_json

    sums = with_ledger(state, config, lambda redis: _read(redis, tenant_id, days))
    if as_json:
        console.print_json([line_json(key, usage) for key, usage in sorted(sums.items())])
        return
    if not sums:
        click.echo("nothing was used")
    for key, usage in sorted(sums.items()):
        click.echo(_line(key, usage))


async def _read(redis: Redis, tenant_id: str, days: int) -> dict[Key, Usage]:
    from stagemesh.runtime import tenants, usage

    everybody = [tenants.DEV_TENANT, *(record.tenant_id for record in await tenants.list_tenants(redis))]
    return await usage.read(redis, [tenant_id] if tenant_id else everybody, num_days=days, now_s=time.time())


def _line(key: Key, usage: Usage) -> str:
    tenant_id, mode = key
    return (
        f"{tenant_id}  {mode}: {usage.requests:.0f} requests ({usage.answered:.0f} answered), "
        f"{usage.prompt_tokens:.0f} prompt tokens ({usage.cached_tokens:.0f} reused), "
        f"{usage.completion_tokens:.0f} output tokens, {usage.seconds:.1f} s, {usage.cost_units:.3f} cost units, "
        f"{usage.tokens_per_cost_unit:.0f} tokens per cost unit"
    )
