"""`stagemesh diagnose`"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from stagemesh.cli.exits import Exit
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

EPILOG = """\b
Examples:
  stagemesh diagnose                     the running mesh, or why it would not start
  stagemesh diagnose --json

Exit code 0 when nothing is found, 1 when something is. docs/failure-modes.md has a row for each cause."""


@click.command("diagnose", epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--grpc-port", type=click.IntRange(1, 65_535), help="As for `stagemesh up`.")
@click.option("--http-port", type=click.IntRange(1, 65_535), help="As for `stagemesh up`.")
@config_option
@state_option
def command(
    as_json: bool, grpc_port: int | None, http_port: int | None, config: Path | None, state: Path | None
) -> None:
    """Say what is wrong: the model, the infrastructure or the network, with evidence and what to do.

    Looks at configuration, names, ports, disk, Redis, broker and processes, and has tokenizer and engines do a little
    work. The root stands first, what follows from it after it.
    """
    from stagemesh.cli import console
    from stagemesh.cli.diagnose.gather import gather
    from stagemesh.cli.diagnose.rules import judge
    from stagemesh.cli.supervisor.options import UpOptions

    started_s = time.monotonic()
    options = UpOptions(config=config, state=state, grpc_port=grpc_port, http_port=http_port)
    seen = asyncio.run(gather(options))
    verdicts = judge(seen)
    took_s = round(time.monotonic() - started_s, 2)
    if as_json:
        found = [
            {
                "cause": verdict.cause.name,
                "kind": verdict.cause.kind.value,
                "subject": verdict.subject,
                "evidence": verdict.evidence,
                "fix": verdict.cause.fix,
            }
            for verdict in verdicts
        ]
        first = found[0] if found else {"cause": None, "kind": None}
        console.print_json(
            {
                "mesh_runs": seen.mesh_runs,
                "cause": first["cause"],
                "kind": first["kind"],
                "verdicts": found,
                "notes": list(seen.notes),
                "took_s": took_s,
            }
        )
    else:
        for verdict in verdicts:
            click.echo(f"{verdict.cause.kind.value}: {verdict.cause.name}, {verdict.subject}: {verdict.evidence}")
            click.echo(f"     → {verdict.cause.fix}")
        if not verdicts:
            click.echo(
                "nothing is wrong" if seen.mesh_runs else "no mesh runs here, and nothing speaks against a start"
            )
    raise SystemExit(Exit.FAILED if verdicts else Exit.OK)
