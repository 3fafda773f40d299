"""`stagemesh deferred`"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from stagemesh.cli.client.deferred import Stub

EPILOG = """\b
Examples:
  stagemesh deferred list                 what waits, in the order in which it will run
  stagemesh deferred list --dead          dead letters, each with its reason
  stagemesh deferred list --tenant-key KEY   a tenant's own
  stagemesh deferred show ID              one of them, with its limits and switches
  stagemesh deferred retry ID             has a dead letter run again
  stagemesh deferred retry --all
  stagemesh deferred drop ID              cancels a waiting one, forgets a dead letter"""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
tenant_option = click.option("--tenant", "tenant_id", default="", help="Only this tenant's.")


def gateway_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--address`, `--tenant-key`, `--config`, `--state`."""
    key = click.option(
        "--tenant-key", default="", help="Be the tenant of this API key. [default: the operator, by the mesh's token]"
    )
    address = click.option("--address", help="The gateway's gRPC address. [default: that of the mesh on --state]")
    return address(key(config_option(state_option(function))))


@click.group("deferred", epilog=EPILOG)
def command() -> None:
    """Deferred requests and dead letters: of all tenants for an operator, or a tenant's own."""


@command.command("list", epilog=EPILOG)
@click.option("--dead", is_flag=True, help="Dead letters instead of what waits.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most entries shown.")
@tenant_option
@json_option
@gateway_options
def list_(dead: bool, limit: int, tenant_id: str, as_json: bool, **gateway: Any) -> None:
    """What waits, in the order in which it will run; or dead letters, the newest first."""
    from stagemesh.api.gateway.v1 import deferred_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import ask
    from stagemesh.cli.deferred_view import entry_json, entry_line

    async def look(stub: Stub, options: dict[str, Any]) -> deferred_pb2.ListDeferredResponse:
        request = deferred_pb2.ListDeferredRequest(dead=dead, page_size=limit, tenant_id=tenant_id)
        return await stub.ListDeferred(request, **options)

    entries = ask(method=look, **gateway).entries
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
@gateway_options
def show(request_id: str, tenant_id: str, as_json: bool, **gateway: Any) -> None:
    """One deferred request or dead letter. Its texts are not shown, only how long they are."""
    from stagemesh.api.gateway.v1 import deferred_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import ask
    from stagemesh.cli.deferred_view import entry_json, entry_line, request_json

    async def look(stub: Stub, options: dict[str, Any]) -> deferred_pb2.GetDeferredResponse:
        request = deferred_pb2.GetDeferredRequest(request_id=request_id, tenant_id=tenant_id)
        return await stub.GetDeferred(request, **options)

    found = ask(method=look, **gateway)
    asked = request_json(found)
    if as_json:
        console.print_json({**entry_json(found.entry), "request": asked})
        return
    click.echo(entry_line(found.entry))
    for name, value in (asked or {}).items():
        click.echo(f"  {name}: {value}")


@command.command("retry", epilog=EPILOG)
@click.argument("request_id", required=False)
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@tenant_option
@json_option
@gateway_options
def retry(request_id: str | None, everything: bool, tenant_id: str, as_json: bool, **gateway: Any) -> None:
    """Have a dead letter run again, as if it had just been deferred; its caller's Watch follows the new run."""
    from stagemesh.api.gateway.v1 import deferred_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import ask

    if bool(request_id) == everything:
        raise click.UsageError("give the ID of a dead letter or --all, one of them")

    async def again(stub: Stub, options: dict[str, Any]) -> deferred_pb2.RetryDeferredResponse:
        request = deferred_pb2.RetryDeferredRequest(request_id=request_id or "", tenant_id=tenant_id)
        return await stub.RetryDeferred(request, **options)

    retried = list(ask(method=again, **gateway).request_ids)
    if as_json:
        console.print_json({"retried": retried})
        return
    click.echo(f"{len(retried)} {'runs' if len(retried) == 1 else 'run'} again.")


@command.command("drop", epilog=EPILOG)
@click.argument("request_id")
@tenant_option
@json_option
@gateway_options
def drop(request_id: str, tenant_id: str, as_json: bool, **gateway: Any) -> None:
    """Cancel a waiting or running deferred request, or forget a dead letter; its outcome can still be picked up."""
    from stagemesh.api.gateway.v1 import deferred_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.deferred import STATES, ask
    from stagemesh.cli.deferred_view import entry_json

    async def end(stub: Stub, options: dict[str, Any]) -> deferred_pb2.DropDeferredResponse:
        request = deferred_pb2.DropDeferredRequest(request_id=request_id, tenant_id=tenant_id)
        return await stub.DropDeferred(request, **options)

    entry = ask(method=end, **gateway).entry
    if as_json:
        console.print_json({"dropped": entry_json(entry)})
        return
    done = {"dead": "forgotten", "waiting": "cancelled", "running": "being cancelled"}[STATES[entry.state]]
    click.echo(f"{entry.request_id} is {done}.")
