"""`stagemesh generate`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.client.options import connection_options, sampling_options
from stagemesh.cli.client.rules_file import RulesFile

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection

EPILOG = """\b
Examples:
  stagemesh generate --prompt "Name three rivers." --max-tokens 60
  stagemesh generate --prompt "Invent a person." --schema person.json --json
  stagemesh generate --prompt "Which city?" --schema city.json --anchors anchors.json
  stagemesh generate --prompt "Summarize: …" --defer        exit code 5 and an ID when deferred

An anchors file holds the allowed values of fields: {"/city": ["Paris", "Lyon"], "/sku": {"set": "products"}}."""

file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("generate", epilog=EPILOG)
@click.option("--prompt", required=True, help="What to ask; `-` reads it from standard input.")
@click.option("--raw", is_flag=True, help="Complete the prompt as it is, without the chat template.")
@click.option("--system", default="", help="System message.")
@click.option("--schema", type=file, help="File with a JSON Schema that the answer must fulfil.")
@click.option("--anchors", type=file, help="File with the allowed values of fields.")
@click.option("--rules", type=RulesFile(), help="File with rules that must hold, as for `validate`, or @NAME.")
@click.option("--route", default="", help="Route class: chat, doc-analyze, code-complete.")
@click.option("--session", "session_id", default="", help="Continue this session.")
@click.option("--user", "user_id", default="", help="The session's user.")
@click.option("--defer", is_flag=True, help="Over capacity, accept the answer for later instead of a refusal.")
@click.option("--wait", is_flag=True, help="With --defer: wait for the deferred answer.")
@click.option("--resumable", is_flag=True, help="Keep the events, so that `stagemesh watch` can follow.")
@click.option("--request-id", default="", help="UUID to use; repeating it gives the same answer.")
@click.option("--stages", is_flag=True, help="Show what each stage did (on stderr).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@sampling_options
@connection_options
def command(connection: Connection, as_json: bool, stages: bool, wait: bool, **options: Any) -> None:
    """Send one request and print its answer.

    Exit codes: 0 complete (or degraded and marked), 1 the answer does not validate, 3 no gateway, 4 refused,
    5 deferred, 6 cancelled, 7 too late, 8 given up.
    """
    from stagemesh.cli import console
    from stagemesh.cli.client.exchange import generate
    from stagemesh.cli.client.request import build_request
    from stagemesh.cli.client.run import run

    request = build_request(**options)
    may_change = request.HasField("constraint") or bool(request.anchors or request.rules or request.text_rules)
    code = run(
        lambda on_event: generate(connection, request, on_event, wait_deferred=wait),
        as_json=as_json,
        stream=console.out.is_terminal or not may_change,
        show_stages=stages,
        kept_id=request.request_id,
    )
    raise SystemExit(code)
