"""`stagemesh tenant`"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, state_option
from stagemesh.cli.settings_option import config_option, read_mesh_config

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")

ADAPTERS_EXAMPLES = """\b
Examples:
  stagemesh tenant adapters acme                    what it may use
  stagemesh tenant adapters acme --allow support --json
  stagemesh tenant adapters acme --deny support"""

CORRECTIONS_EXAMPLES = """\b
Examples:
  stagemesh tenant corrections acme                 whether they are collected
  stagemesh tenant corrections acme --share
  stagemesh tenant corrections acme --keep --json"""


@click.group("tenant")
def command() -> None:
    """Tenants and their API keys, in the ledger Redis of the mesh."""


@command.command("create", short_help="Make a tenant and print its API key.")
@click.argument("tenant_id")
@state_option
@config_option
def create(tenant_id: str, state: Path | None, config: Path | None) -> None:
    """Make a tenant and print its API key, which is shown this once: only a keyed hash is stored."""
    from stagemesh.runtime import tenants

    click.echo(with_ledger(state, config, lambda redis: tenants.create(redis, tenant_id)))


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def list_(as_json: bool, state: Path | None, config: Path | None) -> None:
    """All tenants, with the time at which they were made."""
    from stagemesh.cli import console
    from stagemesh.runtime import tenants

    records = with_ledger(state, config, tenants.list_tenants)
    if as_json:
        console.print_json([{"tenant_id": each.tenant_id, "created_at_s": each.created_at_s} for each in records])
        return
    lines = [
        f"{each.tenant_id}  since {time.strftime('%Y-%m-%d %H:%M', time.localtime(each.created_at_s))}"
        for each in records
    ]
    console.print_lines(lines, "there are no tenants; `stagemesh tenant create` makes one")


@command.command("revoke", short_help="Remove a tenant with all its keys.")
@click.argument("tenant_id")
@state_option
@config_option
def revoke(tenant_id: str, state: Path | None, config: Path | None) -> None:
    """Remove a tenant with all its keys, anchor sets, stored rules and adapters of the corrector.

    Gateways refuse its keys within seconds. What was collected of its corrections goes with the next `stagemesh
    corrector collect`.
    """
    from stagemesh.cli.client.revocation import revoke as remove

    revoked = with_ledger(state, config, lambda redis: remove(redis, tenant_id))
    gone = [f"{revoked.anchor_sets} anchor sets", f"{revoked.rule_sets} sets of rules"]
    stored = f"; {' and '.join(gone)} are erased" if revoked.anchor_sets or revoked.rule_sets else ""
    keys = "1 key" if revoked.keys == 1 else f"{revoked.keys} keys"
    click.echo(f"{tenant_id} is revoked; {keys} no longer accepted{stored}.")


@command.command("release", short_help="Let a tenant ask for `precise` again.")
@click.argument("tenant_id")
@state_option
@config_option
def release(tenant_id: str, state: Path | None, config: Path | None) -> None:
    """End the limit of the mode `precise` for all users of TENANT_ID (`gateway.modes.max_precise_in_a_row`)."""
    from stagemesh.runtime import precise_limit

    num_users = with_ledger(state, config, lambda redis: precise_limit.release(redis, tenant_id))
    click.echo(f"{tenant_id} is released; {num_users} of its users had asked for precise lately.")


@command.command("adapters", short_help="Show or change which adapters a tenant may use.", epilog=ADAPTERS_EXAMPLES)
@click.argument("tenant_id")
@click.option("--allow", multiple=True, metavar="NAME", help="Permit this adapter, or every one: `*`.")
@click.option("--deny", multiple=True, metavar="NAME", help="Take the permission back.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def adapters(
    tenant_id: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    as_json: bool,
    state: Path | None,
    config: Path | None,
) -> None:
    """Show which adapters TENANT_ID may use beside those in gateway.shared_adapters, after --allow and --deny.

    Gateways notice a change within seconds.
    """
    from stagemesh.cli import console
    from stagemesh.runtime import tenants

    permitted = with_ledger(
        state, config, lambda redis: tenants.permit_adapters(redis, tenant_id, allow=allow, deny=deny)
    )
    if as_json:
        console.print_json({"tenant_id": tenant_id, "adapters": permitted})
    else:
        click.echo(f"{tenant_id} may use {', '.join(permitted) if permitted else 'no adapters of its own'}")


@command.command("corrections", short_help="Say whether a tenant's corrections may train.", epilog=CORRECTIONS_EXAMPLES)
@click.argument("tenant_id")
@click.option("--share/--keep", "share", default=None, help="Let them be collected, or not any longer.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def corrections(tenant_id: str, share: bool | None, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Show or set whether texts of TENANT_ID that failed their verdict, and what became of them, are collected.

    They train this tenant's own adapter and no other. After --keep the next `stagemesh corrector collect` deletes what
    it had. Gateways notice a change within seconds.
    """
    from stagemesh.cli import console
    from stagemesh.runtime import tenants

    async def action(redis: Redis) -> bool:
        if share is not None:
            await tenants.share_corrections(redis, tenant_id, share=share)
        return tenant_id in await tenants.sharing_corrections(redis)

    shares = with_ledger(state, config, action)
    if as_json:
        console.print_json({"tenant_id": tenant_id, "shares_corrections": shares})
    else:
        click.echo(f"{tenant_id} {'shares its corrections' if shares else 'keeps its corrections to itself'}")


def with_ledger(state: Path | None, config: Path | None, action: Callable[[Redis], Awaitable[T]]) -> T:
    """The result of `action` on the ledger of the running mesh, or of the configuration.

    Raises CommandError when there is none, when it does not answer, or with the sentence of a refusal.
    """
    where, record = find_mesh(state)
    url = (record.ledger_url if record else "") or read_mesh_config(config).ledger_url
    if not url:
        raise CommandError(
            f"no mesh runs on {where.path} and no ledger is configured; "
            "start one with `stagemesh up` or set STAGEMESH_LEDGER_URL",
            Exit.UNREACHABLE,
        )
    result: T = asyncio.run(_call(url, action))
    return result


async def _call(url: str, action: Callable[[Redis], Awaitable[Any]]) -> Any:
    from redis.exceptions import RedisError

    from stagemesh.runtime.config import ConfigError
    from stagemesh.runtime.errors import StagemeshError
    from stagemesh.runtime.redis_client import connect

    try:
        redis = connect(url)
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    try:
        return await action(redis)
    except StagemeshError as error:
        raise CommandError(str(error), Exit.REJECTED) from None
    except (RedisError, OSError, TimeoutError) as error:
        raise CommandError(f"the ledger Redis does not answer: {error}", Exit.UNREACHABLE) from None
    finally:
        await redis.aclose()
