"""`stagemesh debug`"""

from __future__ import annotations

from pathlib import Path

import click

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

EPILOG = """\b
Examples:
  stagemesh debug --session trip --last 10    the session's last ten requests, stage by stage
  stagemesh debug --last 3                    the tenant's last three
  stagemesh debug --session trip --json

A line that begins with `!` is out of the ordinary: a stage that took a fallback, failed, needed several attempts, or
took three times (and 5 ms) longer than the median of requests of the same route and length."""


@click.command("debug", epilog=EPILOG)
@click.option("--session", "session_id", default="", help="The session. [default: all of the tenant's requests]")
@click.option("--last", type=click.IntRange(1, 200), default=10, show_default=True, help="How many requests.")
@click.option("--tenant", "tenant_id", default="dev", show_default=True, help="Whose requests.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@config_option
@state_option
def command(session_id: str, last: int, tenant_id: str, as_json: bool, config: Path | None, state: Path | None) -> None:
    """Take the last requests apart, stage by stage, against what such requests usually take."""
    from stagemesh.cli import console, debug_view
    from stagemesh.cli.client.traces import judged_traces

    found = judged_traces(state, config, tenant_id, session_id, last)
    if as_json:
        requests = [debug_view.as_json(each) for each in found]
        console.print_json({"tenant": tenant_id, "session": session_id or None, "requests": requests})
        return
    if not found:
        whose = f"the session {session_id!r} of {tenant_id}" if session_id else f"the tenant {tenant_id}"
        raise CommandError(f"nothing is kept of {whose}, or no longer (gateway.trace_ttl_s)", Exit.REJECTED)
    for each in found:
        click.echo("\n".join(debug_view.lines(each)))
