"""`stagemesh adapter`"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from stagemesh.api.engine.v1 import engine_pb2
    from stagemesh.cli.client.engine_adapters import AdapterCalls

EPILOG = """\b
Examples:
  stagemesh adapter list
  stagemesh adapter load support ./support          a folder in PEFT's layout, on every engine
  stagemesh tenant adapters acme --allow support    who may use it
  stagemesh chat --model smollm2-135m-instruct:support "Hello"
  stagemesh adapter load support ./support-2        replaces it; running answers end with the old one
  stagemesh adapter unload support --engine engine-2 --json

Adapters are loaded from the folders in engine.adapters.folders only, by default `adapters` in the state folder."""
LIST_EXAMPLES = """\b
Examples:
  stagemesh adapter list
  stagemesh adapter list --engine engine-1 --json"""
LOAD_EXAMPLES = """\b
Examples:
  stagemesh adapter load support ./support
  stagemesh adapter load support support-2 --generation 7 --json"""
UNLOAD_EXAMPLES = """\b
Examples:
  stagemesh adapter unload support
  stagemesh adapter unload support --wait 5 --json"""


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all three."""
    for option in (
        click.option("--engine", "engines", multiple=True, metavar="NAME", help="This engine only; may be repeated."),
        click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
        state_option,
        config_option,
    ):
        function = option(function)
    return function


@click.group("adapter", epilog=EPILOG)
def command() -> None:
    """LoRA adapters of the running engines. A request asks for one as MODEL:ADAPTER."""


@command.command("list", epilog=LIST_EXAMPLES)
@common_options
def list_(engines: tuple[str, ...], as_json: bool, state: Path | None, config: Path | None) -> None:
    """What each engine holds, with generation, hash, rank, memory and the sequences that have it."""
    calls = _calls(state, config, engines)
    _show(asyncio.run(calls.listed()), as_json=as_json)


@command.command("load", epilog=LOAD_EXAMPLES, short_help="Load or replace an adapter while the engines run.")
@click.argument("name")
@click.argument("path")
@click.option("--generation", type=click.IntRange(1), default=None, help="[default: the one after the last]")
@common_options
def load(
    name: str,
    path: str,
    generation: int | None,
    engines: tuple[str, ...],
    as_json: bool,
    state: Path | None,
    config: Path | None,
) -> None:
    """Load the adapter in the folder PATH as NAME, under one generation on all engines; the same files change nothing.

    PATH is on the engines' machines: absolute, relative to here, or to one of their folders.
    """
    calls = _calls(state, config, engines)
    here = Path(path)
    loaded = asyncio.run(calls.load(name, str(here.resolve()) if here.is_dir() else path, generation or 0))
    _show({engine: [adapter] for engine, adapter in loaded.items()}, as_json=as_json)


@command.command("unload", epilog=UNLOAD_EXAMPLES, short_help="Unload an adapter; running answers end with it.")
@click.argument("name")
@click.option("--wait", "wait_s", type=click.FloatRange(0.2), default=30.0, show_default=True, metavar="SECONDS")
@common_options
def unload(
    name: str, wait_s: float, engines: tuple[str, ...], as_json: bool, state: Path | None, config: Path | None
) -> None:
    """Refuse new requests for NAME at once, and wait until the running ones have ended.

    Exit code 1 when some still run after --wait; their adapter goes with the last of them.
    """
    from stagemesh.cli import console
    from stagemesh.cli.exits import Exit

    calls = _calls(state, config, engines)
    left = asyncio.run(calls.unload(name, wait_s))
    if as_json:
        console.print_json([{"engine": engine, "name": name, "remaining": num} for engine, num in left.items()])
    else:
        for engine, num in left.items():
            click.echo(f"{engine}  {name} unloaded" + (f"; {num} sequences still have it" if num else ""))
    if any(left.values()):
        raise SystemExit(Exit.FAILED)


def _calls(state: Path | None, config: Path | None, engines: tuple[str, ...]) -> AdapterCalls:
    from stagemesh.cli.client.engine_adapters import AdapterCalls, find_engines

    return AdapterCalls(*find_engines(state, config, engines))


def _show(adapters: dict[str, list[engine_pb2.Adapter]], *, as_json: bool) -> None:
    from stagemesh.cli import console
    from stagemesh.cli.client import engine_adapters

    if as_json:
        console.print_json(engine_adapters.as_json(adapters))
        return
    for engine, held in adapters.items():
        if not held:
            click.echo(f"{engine}  no adapters")
        for adapter in held:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(adapter.loaded_unix_us / 1e6))
            click.echo(
                f"{engine}  {adapter.name}  generation {adapter.generation}  {adapter.revision[:12]}"
                f"  rank {adapter.rank}  {adapter.bytes / 2**20:.1f} MiB  {adapter.sequences} sequences  since {since}"
                + ("  retiring" if adapter.retiring else "")
            )
