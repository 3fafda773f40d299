"""`stagemesh anchors`"""

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
    from stagemesh.cli.client.anchor_sets import Stub

T = TypeVar("T")

EPILOG = """\b
Examples:
  stagemesh anchors load products skus.txt                one key a line
  stagemesh anchors load customers customers.csv --column id --tenant acme
  stagemesh anchors check products A-10O1                 near A-1001
  stagemesh validate --schema order.json --anchors /sku=@products answer.json
  stagemesh anchors drop products"""

tenant_option = click.option("--tenant", "tenant_id", default="dev", show_default=True, help="Whose set it is.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("anchors", epilog=EPILOG)
def command() -> None:
    """Stored reference sets: the values that fields of answers may have, per tenant."""


@command.command("load", short_help="Store the keys of a file as a set, in place of those before.")
@click.argument("name")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--column", default="", help="Of a .csv or .jsonl file: where the keys are.")
@click.option("--ignore-case", is_flag=True, help="Compare without regard to case.")
@click.option(
    "--max-edits", type=click.IntRange(0, 2), default=1, show_default=True, help="How far a key may be to be meant."
)
@tenant_option
@json_option
@state_option
@config_option
def load(
    name: str,
    source: Path,
    column: str,
    ignore_case: bool,
    max_edits: int,
    tenant_id: str,
    as_json: bool,
    state: Path | None,
    config: Path | None,
) -> None:
    """Store the keys in FILE as the set NAME: of .csv and .jsonl a column, of others a key a line.

    The set is replaced as a whole; requests see the keys before until then.
    """
    from stagemesh.api.validator.v1 import anchor_sets_pb2
    from stagemesh.cli import console
    from stagemesh.cli.anchor_sets_view import set_json, set_line, showing_progress
    from stagemesh.cli.client.anchor_sets import anchor_set_service, read_keys
    from stagemesh.cli.client.anchor_sets import load as load_set
    from stagemesh.runtime.errors import InvalidRequest
    from stagemesh.validation.sets.manifest import check_set_name

    try:
        check_set_name(name)
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="NAME") from None
    keys = list(read_keys(source, column))  # all, before the call: an error of a call's own iterator is lost

    started_s = time.monotonic()
    begin = anchor_sets_pb2.LoadBegin(tenant_id=tenant_id, name=name, ignore_case=ignore_case, max_edits=max_edits)

    async def call() -> anchor_sets_pb2.AnchorSet:
        async with anchor_set_service(state, config) as (stub, metadata):
            with showing_progress() as on_progress:
                return await load_set(stub, metadata, begin, iter(keys), on_progress)

    loaded = asyncio.run(call())
    seconds = time.monotonic() - started_s
    if as_json:
        console.print_json({**set_json(loaded), "seconds": round(seconds, 3)})
    else:
        click.echo(f"{set_line(loaded)} ({seconds:.1f} s)")


@command.command("list")
@tenant_option
@json_option
@state_option
@config_option
def list_(tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """The tenant's sets."""
    from stagemesh.api.validator.v1 import anchor_sets_pb2
    from stagemesh.cli import console
    from stagemesh.cli.anchor_sets_view import set_json, set_line

    request = anchor_sets_pb2.ListRequest(tenant_id=tenant_id)
    found = _call(state, config, lambda stub, options: stub.List(request, **options)).sets
    if as_json:
        console.print_json([set_json(one) for one in found])
        return
    console.print_lines([set_line(one) for one in found], f"{tenant_id} has no anchor sets")


@command.command("show")
@click.argument("name")
@click.option("--first", type=click.IntRange(0), default=0, help="Keys from this one on.")
@click.option("--keys", "max_keys", type=click.IntRange(1, 1_000), default=10, show_default=True)
@tenant_option
@json_option
@state_option
@config_option
def show(
    name: str, first: int, max_keys: int, tenant_id: str, as_json: bool, state: Path | None, config: Path | None
) -> None:
    """The set NAME and some of its keys, shorter ones first."""
    from stagemesh.api.validator.v1 import anchor_sets_pb2
    from stagemesh.cli import console
    from stagemesh.cli.anchor_sets_view import printable, set_json, set_line

    request = anchor_sets_pb2.ShowRequest(tenant_id=tenant_id, name=name, first_key=first, max_keys=max_keys)
    found = _call(state, config, lambda stub, options: stub.Show(request, **options))
    if as_json:
        console.print_json({**set_json(found.set), "some": list(found.keys)})
        return
    click.echo("\n".join([set_line(found.set), *(f"  {printable(key)}" for key in found.keys)]))


@command.command("check", short_help="What a validation would say about one value.")
@click.argument("name")
@click.argument("key")
@tenant_option
@json_option
@state_option
@config_option
def check(name: str, key: str, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Look KEY up in the set NAME: exact, near, ambiguous or unknown. Exit code 0 exact, 1 otherwise."""
    from stagemesh.api.validator.v1 import anchor_sets_pb2
    from stagemesh.cli import console
    from stagemesh.cli.anchor_sets_view import match_name, printable
    from stagemesh.cli.exits import Exit

    request = anchor_sets_pb2.LookupRequest(tenant_id=tenant_id, name=name, key=key)
    found = _call(state, config, lambda stub, options: stub.Lookup(request, **options))
    match = match_name(found)
    if as_json:
        console.print_json({"match": match, "keys": list(found.keys), "generation": found.generation})
    else:
        click.echo(f"{match}  {', '.join(map(printable, found.keys))}".rstrip())
    raise SystemExit(Exit.OK if match == "exact" else Exit.FAILED)


@command.command("drop")
@click.argument("name")
@tenant_option
@state_option
@config_option
def drop(name: str, tenant_id: str, state: Path | None, config: Path | None) -> None:
    """Erase the set NAME."""
    from stagemesh.api.validator.v1 import anchor_sets_pb2

    request = anchor_sets_pb2.DropRequest(tenant_id=tenant_id, name=name)
    dropped = _call(state, config, lambda stub, options: stub.Drop(request, **options)).set
    click.echo(f"{dropped.name} is dropped with {dropped.keys:,} keys.")


def _call(state: Path | None, config: Path | None, method: Callable[[Stub, dict[str, Any]], Awaitable[T]]) -> T:
    from stagemesh.cli.client.anchor_sets import TIMEOUT_S, anchor_set_service

    async def call() -> T:
        async with anchor_set_service(state, config) as (stub, metadata):
            return await method(stub, {"timeout": TIMEOUT_S, "metadata": metadata})

    return asyncio.run(call())
