"""`stagemesh shadow`"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from services.differ.report import Report

EPILOG = """\b
Examples:
  stagemesh shadow report
  stagemesh shadow report --hours 24 --examples 3
  stagemesh shadow report --json"""


@click.group("shadow")
def command() -> None:
    """What a candidate model answers to a copy of the traffic (`shadow.candidate` in stagemesh.yaml)."""


@command.command("report", epilog=EPILOG, short_help="How much the candidate's answers differ.")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="Only pairs compared in the last hours.")
@click.option(
    "--examples", "num_examples", type=click.IntRange(0, 100), default=5, show_default=True, help="Pairs to show."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@state_option
@config_option
def report(hours: float | None, num_examples: int, as_json: bool, state: Path | None, config: Path | None) -> None:
    """How much the candidate's answers differ from those that callers got, with the least similar pairs."""
    from services.differ.report import report as sum_up
    from stagemesh.cli import console
    from stagemesh.runtime.config import ConfigError
    from stagemesh.runtime.errors import StagemeshError

    since = datetime.now(UTC) - timedelta(hours=hours) if hours else None
    try:
        found = sum_up(find_database(state, config), since, num_examples=num_examples)
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    except StagemeshError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None
    if as_json:
        console.print_json(asdict(found))
    else:
        show(found)


def find_database(state: Path | None, config: Path | None) -> str:
    """The URL of the differ's database. Raises ConfigError."""
    from services.differ.config import DifferConfig, database_url
    from stagemesh.runtime.config import read_source
    from stagemesh.runtime.mesh_config import MeshConfig

    where, record = find_mesh(state)
    source = read_source(config or (Path(record.config) if record and record.config else None))
    mesh = source.shared(MeshConfig).model_copy(update={"state_dir": where.path})
    return database_url(source.section("differ", DifferConfig), mesh)


def show(found: Report) -> None:
    """The report for a person."""
    if not found.rows:
        click.echo("No pairs yet; name a candidate under `shadow.candidate` and send some requests.")
        return
    click.echo(f"{found.rows} pairs, {found.compared} compared")
    for reason, count in sorted(found.errors.items()):
        click.echo(f"  {count} without a candidate's answer: {reason}")
    if not found.compared:
        return
    figures: dict[str, Any] = {
        "identical": percent(found.identical_share),
        "drifted (similarity below 0.92)": percent(found.drift_share),
        "similarity mean / median / lowest tenth": (
            f"{found.mean_similarity:.3f} / {found.p50_similarity:.3f} / {found.p10_similarity:.3f}"
        ),
        "candidate's time by the stable one's": f"{found.latency_ratio:.2f}" if found.latency_ratio else "-",
        "first different token": ", ".join(f"{where}: {num}" for where, num in found.divergence_histogram.items()),
    }
    for name, value in figures.items():
        click.echo(f"  {name}: {value}")
    for example in (pair for pair in found.worst if pair.similarity < 1):
        click.echo(f"\n{example.request_id} ({example.tenant_id}), similarity {example.similarity:.3f}")
        click.echo(f"  stable:    {example.stable_text!r}")
        click.echo(f"  candidate: {example.candidate_text!r}")


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
