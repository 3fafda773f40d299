"""`stagemesh watch`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stagemesh.cli.client.options import connection_options

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection


@click.command("watch")
@click.argument("request_id")
@click.option("--after", "after_seq", type=click.IntRange(0), default=0, help="Skip the events up to this number.")
@click.option("--stages", is_flag=True, help="Show what each stage did (on stderr).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@connection_options
def command(connection: Connection, request_id: str, after_seq: int, stages: bool, as_json: bool) -> None:
    """Follow a running or deferred request, or show the stored end of a past one.

    The exit codes are those of `stagemesh generate`.
    """
    from stagemesh.cli.client.exchange import watch
    from stagemesh.cli.client.run import run

    code = run(
        lambda on_event: watch(connection, request_id, after_seq, on_event),
        as_json=as_json,
        stream=not after_seq,
        show_stages=stages,
        kept_id=request_id,
    )
    raise SystemExit(code)
