"""`stagemesh validate`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stagemesh.cli.client.options import connection_options
from stagemesh.cli.client.rules_file import RulesFile

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection

EPILOG = """\b
Examples:
  stagemesh validate --schema order.json answer.json
  stagemesh validate --schema order.json --anchors /sku=skus.txt - < answer.json
  stagemesh validate --schema order.json --anchors /sku=@products --json answer.json
  stagemesh validate --local --rules contract-rules.json contract.md

\b
--anchors takes /POINTER=FILE (one key a line), /POINTER=@SET (a stored set, see `stagemesh anchors`), or a file
{"/pointer": ["key"]}; sku=, buyer.id= and items[].sku= name a pointer, too. --rules takes a file such as
  {"rules": [{"sum": {"total": "/total", "of": ["/items/*/amount"], "tolerance": {"abs": 0.01}}}],
   "text_rules": [{"clauses": true, "dates": true, "amounts": true, "tables": {}, "citations": {"clauses": true}}]}"""

file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("validate", epilog=EPILOG)
@click.argument("source", metavar="[FILE|-]", default="-")
@click.option("--schema", type=file, help="File with a JSON Schema that the text must fulfil.")
@click.option("--anchors", multiple=True, help="Allowed values of a field; may be given several times.")
@click.option("--rules", type=RulesFile(), multiple=True, help="File with rules, or @NAME of stored ones; repeatable.")
@click.option("--local", is_flag=True, help="Check in this process; no mesh is needed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@connection_options
def command(
    connection: Connection,
    source: str,
    schema: Path | None,
    anchors: tuple[str, ...],
    rules: tuple[Path, ...],
    local: bool,
    as_json: bool,
) -> None:
    """Say whether the text in FILE, or on standard input, satisfies a schema, anchors and rules, and where not.

    Exit codes: 0 valid, 1 not valid, 2 usage, 3 no gateway, 4 refused.
    """
    from stagemesh.cli import console, verdict_view
    from stagemesh.cli.client.demands import build_demands
    from stagemesh.cli.client.files import read_input
    from stagemesh.cli.client.validation import validate, validate_here

    request = build_demands(read_input(source), schema, anchors, rules)
    outcome = validate_here(request) if local else validate(connection, request)
    if as_json:
        console.print_json(verdict_view.as_json(outcome))
    else:
        click.echo("\n".join(verdict_view.lines(outcome)))
    raise SystemExit(verdict_view.exit_of(outcome))
