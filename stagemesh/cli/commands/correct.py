"""`stagemesh correct`"""

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
  stagemesh correct --schema order.json answer.txt
  stagemesh correct --schema order.json --anchors /sku=skus.txt --json - < answer.txt
  stagemesh correct --local --schema order.json --source mail.txt answer.txt
  stagemesh correct --local --jsonl cases.jsonl > results.jsonl

\b
A line of --jsonl is {"id": "1", "text": "…", "schema": {…}}; optional are "source", a text, and "anchors", {"/pointer":
["key"]}. One result a line follows in the same order. A line that is no case gives a result with the error.
A member whose name is nearly one of these is told in a warning, case.member."""

file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("correct", epilog=EPILOG)
@click.argument("text", metavar="[FILE|-]", default="-")
@click.option("--schema", type=file, help="File with a JSON Schema that the text must fulfil.")
@click.option(
    "--anchors", multiple=True, help="Allowed values of a field, as for `validate`; may be given several times."
)
@click.option(
    "--rules",
    type=RulesFile(),
    multiple=True,
    help="File with rules, as for `validate`, or @NAME; may be given several times.",
)
@click.option("--source", type=file, help="File with what the text was made from.")
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Changes less sure than this are told, not applied. [default: the mesh's; 0.5 with --local]",
)
@click.option("--jsonl", metavar="FILE|-", help="Many cases, one a line, in place of FILE and --schema.")
@click.option(
    "--local", is_flag=True, help="Correct in processes of this command; no mesh is needed, no model is used."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@connection_options
def command(
    connection: Connection,
    text: str,
    schema: Path | None,
    anchors: tuple[str, ...],
    rules: tuple[Path, ...],
    source: Path | None,
    min_confidence: float,
    jsonl: str | None,
    local: bool,
    as_json: bool,
) -> None:
    """Make the text in FILE, or on standard input, satisfy a schema, anchors and rules, and say what was changed.

    Exit codes: 0 valid, 1 not valid, 2 usage, 3 no gateway, 4 refused.
    """
    from stagemesh.api.gateway.v1 import quality_pb2
    from stagemesh.cli import console, verdict_view
    from stagemesh.cli.client.cases import correct_lines, lines_of
    from stagemesh.cli.client.correction import correct
    from stagemesh.cli.client.demands import build_demands
    from stagemesh.cli.client.files import read_input, read_text

    if jsonl is not None:
        if schema or anchors or rules or source or text != "-":
            raise click.UsageError("with --jsonl every line has its own text, schema, anchors and source")
        raise SystemExit(correct_lines(lines_of(jsonl), connection, min_confidence, local=local))
    demands = build_demands(read_input(text), schema, anchors, rules)
    request = quality_pb2.CorrectRequest(
        text=demands.text,
        anchors=demands.anchors,
        rules=demands.rules,
        text_rules=demands.text_rules,
        source=read_text(source, "--source") if source else "",
        min_confidence=min_confidence,
    )
    if demands.HasField("constraint"):
        request.constraint.CopyFrom(demands.constraint)
    outcome = correct(connection, request, local=local)
    if as_json:
        console.print_json(verdict_view.as_json(outcome))
    else:
        click.echo(outcome.text)
        click.echo("\n".join(verdict_view.lines(outcome)), err=True)
    raise SystemExit(verdict_view.exit_of(outcome))
