"""`stagemesh kb`"""

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
    from stagemesh.cli.client.knowledge import Stub

T = TypeVar("T")

EPILOG = """\b
Examples:
  stagemesh kb sync handbook/ --tenant dev --name handbook
  stagemesh kb sync faq.jsonl --tenant dev --delete-missing      the base `faq`, exactly as in the file
  stagemesh kb search "how do I get an invoice?" --tenant dev --name handbook
  stagemesh generate --prompt "How do I get an invoice?" --knowledge handbook
  stagemesh kb drop --tenant dev --name faq"""

tenant_option = click.option("--tenant", "tenant_id", required=True, help="The tenant that the base belongs to.")
name_option = click.option("--name", required=True, help="The knowledge base.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("kb", epilog=EPILOG)
def command() -> None:
    """Knowledge bases: documents that answers may draw on, per tenant."""


@command.command("sync", short_help="Bring a base to the state of a folder or file.")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@tenant_option
@click.option("--name", default="", help="The knowledge base. [default: the source's name]")
@click.option("--delete-missing", is_flag=True, help="Remove documents that the source does not have.")
@click.option("--skip-unreadable", is_flag=True, help="Leave out files that are not UTF-8; the report names them.")
@click.option(
    "--warm",
    "questions_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with questions, one a line: those whose passages have changed are asked afterwards.",
)
@click.option("--tenant-key", envvar="STAGEMESH_API_KEY", default="dev", help="The tenant's API key, for --warm.")
@json_option
@state_option
@config_option
def sync(
    source: Path,
    tenant_id: str,
    name: str,
    delete_missing: bool,
    skip_unreadable: bool,
    questions_file: Path | None,
    tenant_key: str,
    as_json: bool,
    state: Path | None,
    config: Path | None,
) -> None:
    """Bring a knowledge base to the state of SOURCE: a folder of .md and .txt files, or a file of JSON lines.

    A line is {"id": "…", "text": "…", "title": "…"}, the title optional. Only documents that changed are indexed; the
    base is searched as it was until all of them are. Links to files outside the folder are left out and named.
    """
    from stagemesh.api.cache.v1 import knowledge_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.connection import Connection, gateway_address
    from stagemesh.cli.client.documents import read_source
    from stagemesh.cli.client.kb_sync import run_sync
    from stagemesh.cli.client.kb_warm import read_questions
    from stagemesh.cli.client.options import DEFAULT_TIMEOUT_S
    from stagemesh.cli.kb_view import left_out_json, left_out_lines, report_json, report_lines, showing_progress

    started_s = time.monotonic()
    warn_of_unknown_tenant(state, config, tenant_id)
    found = read_source(source, skip_unreadable=skip_unreadable)
    questions = read_questions(questions_file) if questions_file else []
    begin = knowledge_pb2.SyncBegin(
        tenant_id=tenant_id, knowledge=name or source.stem.lower(), delete_missing=delete_missing
    )
    gateway = Connection(address=gateway_address(state), api_key=tenant_key, timeout_s=DEFAULT_TIMEOUT_S)
    with showing_progress() as on_progress:
        report, warmed = run_sync((state, config), begin, found.documents, questions, gateway, on_progress)
    seconds = time.monotonic() - started_s
    if as_json:
        figures = {**report_json(report), **left_out_json(found), "warmed": warmed, "seconds": round(seconds, 3)}
        console.print_json({"knowledge": begin.knowledge, **figures})
    else:
        click.echo("\n".join([*report_lines(begin.knowledge, report, warmed, seconds), *left_out_lines(found)]))


def warn_of_unknown_tenant(state: Path | None, config: Path | None, tenant_id: str) -> None:
    """A line on stderr; nothing where the ledger, which knows the tenants, cannot be reached from here."""
    from stagemesh.cli.commands.tenant import with_ledger
    from stagemesh.cli.exits import CommandError
    from stagemesh.runtime.tenants import DEV_TENANT, list_tenants

    if tenant_id == DEV_TENANT:
        return
    try:
        known = {record.tenant_id for record in with_ledger(state, config, list_tenants)}
    except CommandError:  # the sync goes through the cache service, and says itself what is wrong with it
        return
    if tenant_id not in known:
        click.echo(f"Warning: the mesh knows no tenant {tenant_id[:80]!r} (`stagemesh tenant list`).", err=True)


@command.command("list")
@tenant_option
@json_option
@state_option
@config_option
def list_(tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """The tenant's knowledge bases."""
    from stagemesh.api.cache.v1 import knowledge_pb2
    from stagemesh.cli import console
    from stagemesh.cli.kb_view import base_json, base_line

    request = knowledge_pb2.ListBasesRequest(tenant_id=tenant_id)
    found = _call(state, config, lambda stub, options: stub.ListBases(request, **options))
    if as_json:
        console.print_json([base_json(base) for base in found.bases])
        return
    console.print_lines([base_line(base) for base in found.bases], f"{tenant_id} has no knowledge bases")


@command.command("search", short_help="The passages that a question would get.")
@click.argument("query")
@tenant_option
@name_option
@click.option("--max-passages", type=click.IntRange(1, 32), default=4, show_default=True)
@json_option
@state_option
@config_option
def search(
    query: str,
    tenant_id: str,
    name: str,
    max_passages: int,
    as_json: bool,
    state: Path | None,
    config: Path | None,
) -> None:
    """The passages that QUERY finds, best first."""
    from stagemesh.api.cache.v1 import knowledge_pb2
    from stagemesh.cli import console
    from stagemesh.cli.kb_view import passage_json, passage_lines

    request = knowledge_pb2.SearchRequest(tenant_id=tenant_id, knowledge=name, query=query, max_passages=max_passages)
    found = _call(state, config, lambda stub, options: stub.Search(request, **options))
    if as_json:
        console.print_json([passage_json(passage) for passage in found.passages])
        return
    console.print_lines(["\n".join(passage_lines(passage)) for passage in found.passages], "nothing is found")


@command.command("drop")
@tenant_option
@name_option
@state_option
@config_option
def drop(tenant_id: str, name: str, state: Path | None, config: Path | None) -> None:
    """Erase a knowledge base with all its documents."""
    from stagemesh.api.cache.v1 import knowledge_pb2

    request = knowledge_pb2.DropBaseRequest(tenant_id=tenant_id, knowledge=name)
    dropped = _call(state, config, lambda stub, options: stub.DropBase(request, **options))
    click.echo(f"{name} is dropped with {dropped.documents} documents.")


def _call(state: Path | None, config: Path | None, method: Callable[[Stub, dict[str, Any]], Awaitable[T]]) -> T:
    from stagemesh.cli.client.knowledge import TIMEOUT_S, knowledge_service

    async def call() -> T:
        async with knowledge_service(state, config) as (stub, metadata):
            return await method(stub, {"timeout": TIMEOUT_S, "metadata": metadata})

    return asyncio.run(call())
