"""`stagemesh deferred`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from services.gateway.deferred_admin import DeferredAdmin, DeferredEntry

EPILOG = """\b
Examples:
  stagemesh deferred list                 what waits, in the order in which it will run
  stagemesh deferred list --dead          dead letters, each with its reason
  stagemesh deferred show ID              one of them, with its limits and switches
  stagemesh deferred retry ID             has a dead letter run again
  stagemesh deferred retry --all
  stagemesh deferred drop ID              cancels a waiting one, forgets a dead letter"""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
tenant_option = click.option("--tenant", "tenant_id", default="", help="Where several tenants have this ID.")


@click.group("deferred", epilog=EPILOG)
def command() -> None:
    """Deferred requests and dead letters of all tenants, for operators."""


@command.command("list", epilog=EPILOG)
@click.option("--dead", is_flag=True, help="Dead letters instead of what waits.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most entries shown.")
@json_option
@config_option
@state_option
def list_(dead: bool, limit: int, as_json: bool, config: Path | None, state: Path | None) -> None:
    """What waits, in the order in which it will run; or dead letters, the newest first."""
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import with_deferred
    from stagemesh.cli.deferred_view import entry_json, entry_line

    async def look(admin: DeferredAdmin) -> list[DeferredEntry]:
        return await (admin.dead(limit) if dead else admin.waiting(limit))

    entries = with_deferred(state, config, look)
    if as_json:
        console.print_json([entry_json(entry) for entry in entries])
        return
    for entry in entries:
        click.echo(entry_line(entry))
    if not entries:
        click.echo("there are no dead letters" if dead else "nothing is deferred")


@command.command("show", epilog=EPILOG)
@click.argument("request_id")
@tenant_option
@json_option
@config_option
@state_option
def show(request_id: str, tenant_id: str, as_json: bool, config: Path | None, state: Path | None) -> None:
    """One deferred request or dead letter. Its texts are not shown, only how long they are."""
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import with_deferred
    from stagemesh.cli.deferred_view import entry_json, entry_line, request_json

    async def look(admin: DeferredAdmin) -> tuple[DeferredEntry, dict[str, object] | None]:
        entry = await admin.find(request_id, tenant_id)
        return entry, request_json(await admin.request_of(entry))

    entry, request = with_deferred(state, config, look)
    if as_json:
        console.print_json({**entry_json(entry), "request": request})
        return
    click.echo(entry_line(entry))
    for name, value in (request or {}).items():
        click.echo(f"  {name}: {value}")


@command.command("retry", epilog=EPILOG)
@click.argument("request_id", required=False)
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@tenant_option
@json_option
@config_option
@state_option
def retry(
    request_id: str | None,
    everything: bool,
    tenant_id: str,
    as_json: bool,
    config: Path | None,
    state: Path | None,
) -> None:
    """Have a dead letter run again, as if it had just been deferred; its caller's Watch follows the new run."""
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import with_deferred

    if bool(request_id) == everything:
        raise click.UsageError("give the ID of a dead letter or --all, one of them")

    async def again(admin: DeferredAdmin) -> list[str]:
        entries = await admin.dead(0) if everything else [await admin.find(str(request_id), tenant_id)]
        for entry in entries:
            await admin.retry(entry)
        return [entry.request_id for entry in entries]

    retried = with_deferred(state, config, again)
    if as_json:
        console.print_json({"retried": retried})
        return
    click.echo(f"{len(retried)} {'runs' if len(retried) == 1 else 'run'} again.")


@command.command("drop", epilog=EPILOG)
@click.argument("request_id")
@tenant_option
@json_option
@config_option
@state_option
def drop(request_id: str, tenant_id: str, as_json: bool, config: Path | None, state: Path | None) -> None:
    """Cancel a waiting or running deferred request, or forget a dead letter; its outcome can still be picked up."""
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import with_deferred
    from stagemesh.cli.deferred_view import entry_json

    async def end(admin: DeferredAdmin) -> DeferredEntry:
        entry = await admin.find(request_id, tenant_id)
        await admin.drop(entry)
        return entry

    entry = with_deferred(state, config, end)
    if as_json:
        console.print_json({"dropped": entry_json(entry)})
        return
    done = {"dead": "forgotten", "waiting": "cancelled", "running": "being cancelled"}[entry.state]
    click.echo(f"{entry.request_id} is {done}.")
