"""`stagemesh bench`"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stagemesh.cli.exits import CommandError
from stagemesh.cli.settings_option import config_option

EPILOG = """\b
Examples:
  stagemesh bench engine                          the engine alone, in this process
  stagemesh bench engine --threads 1 --json
  stagemesh bench engine --quick                  few tokens: does it run, and on what

Close what else uses the processor: figures are wall time, the median of --repeats runs."""


@click.group("bench", epilog=EPILOG)
def command() -> None:
    """Measure how fast this machine serves the model."""


def measure_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all measurements."""
    for option in (
        click.option("--model", default="", help="Model or alias. [default: the configured one]"),
        click.option("--threads", type=click.IntRange(1), help="Compute threads. [default: one per physical core]"),
        click.option("--backend", type=click.Choice(["auto", "native", "torch"]), help="[default: as configured]"),
        click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="The median counts."),
        click.option("--quick", is_flag=True, help="Few tokens, one run: the figures mean little."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines."),
        config_option,
    ):
        function = option(function)
    return function


@command.command("engine")
@measure_options
def engine(config: Path | None, as_json: bool, **options: Any) -> None:
    """Measure the engine alone, in this process: no gRPC, no gateway.

    decode is one stream at short context; batch16 and batch64 are requests of 128 prompt and 128 output tokens,
    counted in output tokens a second with their prompts included.
    """
    # As in `python -m services.engine`: OpenMP reads it when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from stagemesh.cli.bench.engine import EngineBenchOptions, measure_engine
    from stagemesh.runtime.config import ConfigError
    from stagemesh.runtime.telemetry import configure_logging

    configure_logging(instance="bench", level="WARNING")
    try:
        figures = measure_engine(EngineBenchOptions(config=config, **options), say)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    show(figures, as_json=as_json)


def say(progress: str) -> None:
    """Progress goes to stderr."""
    from stagemesh.cli import console

    console.err.print(f"{progress} …")


def show(figures: dict[str, Any], *, as_json: bool) -> None:
    from stagemesh.cli import console

    if as_json:
        console.print_json(figures)
        return
    for name, value in figures.items():
        console.out.print(f"{name:24} {value:,}" if isinstance(value, int | float) else f"{name:24} {value}")
