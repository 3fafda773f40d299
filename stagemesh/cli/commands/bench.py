"""`stagemesh bench`"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
  stagemesh bench grpc --threads 2                an engine process against the engine in this one
  stagemesh bench gateway                         a whole mesh of its own against the engine in this process
  stagemesh bench gateway --address 127.0.0.1:50051

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
    prepare()
    from stagemesh.cli.bench.engine import EngineBenchOptions, measure_engine

    with told_errors():
        show(measure_engine(EngineBenchOptions(config=config, **options), say), as_json=as_json)


@command.command("grpc")
@measure_options
def grpc(config: Path | None, as_json: bool, **options: Any) -> None:
    """Measure an engine process through gRPC against the engine in this process.

    A single stream and 16 requests of 128 + 128 tokens, in turn through gRPC and in process. `ratio` is output tokens
    a second through gRPC by those in process; ttft and itl are the times to the first token and between tokens.
    `added_ttft_ms` is the median of 30 short prompts, each measured beside one of its length in process.
    """
    prepare()
    from stagemesh.cli.bench.engine import EngineBenchOptions
    from stagemesh.cli.bench.serving import measure_grpc

    with told_errors():
        show(measure_grpc(EngineBenchOptions(config=config, **options), say), as_json=as_json)


@command.command("gateway")
@measure_options
@click.option("--address", help="A running mesh's gRPC address. [default: a mesh of its own is started and stopped]")
@click.option("--tenant-key", envvar="STAGEMESH_API_KEY", default="dev", help="API key, with --address.")
def gateway(config: Path | None, as_json: bool, address: str | None, tenant_key: str, **options: Any) -> None:
    """Measure the whole way through a gateway against the engine in this process.

    As `bench grpc`, each request a call of its own. With --address the mesh's engine should have as many threads.
    """
    prepare()
    from stagemesh.cli.bench.callers import TIMEOUT_S
    from stagemesh.cli.bench.engine import EngineBenchOptions
    from stagemesh.cli.bench.serving import measure_gateway
    from stagemesh.cli.client.connection import Connection

    connection = Connection(address=address, api_key=tenant_key, timeout_s=TIMEOUT_S) if address else None
    with told_errors():
        show(measure_gateway(EngineBenchOptions(config=config, **options), connection, say), as_json=as_json)


def prepare() -> None:
    """What must be set before the engine is imported, and logs that do not get among the figures."""
    # As in `python -m services.engine`: OpenMP reads it when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from stagemesh.runtime.telemetry import configure_logging

    configure_logging(instance="bench", level="WARNING")


@contextmanager
def told_errors() -> Iterator[None]:
    """A problem with the configuration or the model ends the command with its sentence."""
    from stagemesh.runtime.config import ConfigError

    try:
        yield
    except ConfigError as error:
        raise CommandError(str(error)) from None


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
