"""`stagemesh cancel`"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from stagemesh.cli.client.options import connection_options
from stagemesh.cli.exits import Exit

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection


@click.command("cancel")
@click.argument("request_id")
@connection_options
def command(connection: Connection, request_id: str) -> None:
    """Cancel a running or deferred request.

    Exit code 0 when it is cancelled now, 1 when it had ended before (its outcome is printed).
    """
    from stagemesh.api.common.v1 import common_pb2
    from stagemesh.cli.client.exchange import cancel

    outcome = asyncio.run(cancel(connection, request_id))
    click.echo(common_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower())
    raise SystemExit(Exit.OK if outcome == common_pb2.OUTCOME_CANCELLED else Exit.FAILED)
