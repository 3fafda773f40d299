"""`stagemesh chaos`"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from stagemesh.cli.mesh_access import require_mesh, state_option
from stagemesh.cli.supervisor.state_dir import locate_state

STAGES = (
    *("admit", "analyze", "tokenize", "cache", "embed", "attend", "mlp", "norm", "sample"),
    *("detokenize", "validate", "correct"),
)
KINDS = ("error", "delay", "hang", "nan", "oom", "kill")

EPILOG = """\b
Examples:
  stagemesh chaos inject attend nan --layer 3      numbers in attention are not finite from now on
  stagemesh chaos inject mlp error --rate 0.05     one step in twenty fails
  stagemesh chaos inject tokenize delay --ms 800 --times 10
  stagemesh chaos inject engine-2 kill             a process ends at once; the supervisor starts it again
  stagemesh chaos inject valkey hang               the ledger stands still until `clear`
  stagemesh chaos inject network delay --ms 20     every packet of this machine's loopback (needs tc and root)
  stagemesh chaos list
  stagemesh chaos clear

A mesh whose `environment` is `production` refuses all of it. Single requests bring faults with the header
x-stagemesh-fault, e.g. `attend=nan;layer=3, tokenize=delay;ms=200`."""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("chaos", epilog=EPILOG)
def command() -> None:
    """Faults on purpose, to see that they heal."""


@command.command("inject", epilog=EPILOG, short_help="Let something go wrong from now on.")
@click.argument("target", metavar="STAGE|PROCESS|network")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--rate", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True, help="How likely.")
@click.option("--times", type=click.IntRange(0), default=0, help="How often at most in one process. [default: no end]")
@click.option("--ms", type=click.IntRange(0), default=0, help="How long `delay` and `hang` take.")
@click.option("--layer", type=click.IntRange(0), help="Where in the engine. [default: in the middle]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the draws.")
@click.option("--on", "only", default="", help="Only in this process, e.g. engine-2. [default: all that run the stage]")
@state_option
def inject(
    target: str,
    kind: str,
    rate: float,
    times: int,
    ms: int,
    layer: int | None,
    seed: int,
    only: str,
    state: Path | None,
) -> None:
    """Let TARGET go wrong: a stage in all processes that run it, a process of the mesh, or the network.

    The stages are admit, analyze, tokenize, cache, embed, attend, mlp, norm, sample, detokenize, validate and correct.
    A process takes `kill` and `hang`, the network `delay`.
    """
    from stagemesh.cli.client import chaos

    record = require_mesh(locate_state(state))
    if target in STAGES:
        options = chaos.Options(rate=rate, times=times, ms=ms, layer=layer, seed=seed)
        names = asyncio.run(chaos.inject(record, target, kind, options, only))
        click.echo(f"{target} fails by {kind} in {', '.join(names)}; `stagemesh chaos clear` ends it")
    elif target == "network":
        chaos.delay_network(record, kind, ms or 20)
        click.echo(f"loopback packets take {ms or 20} ms longer; `stagemesh chaos clear` ends it")
    else:
        click.echo(chaos.harm_process(record, target, kind))


@command.command("list", epilog=EPILOG, short_help="What goes wrong on purpose now.")
@json_option
@state_option
def list_faults(as_json: bool, state: Path | None) -> None:
    """The faults posted in each process and how often they have happened, and processes that stand still."""
    from stagemesh.cli import console
    from stagemesh.cli.client import chaos

    rows = asyncio.run(chaos.list_faults(require_mesh(locate_state(state))))
    if as_json:
        console.print_json(rows)
        return
    for row in rows:
        click.echo("  ".join(f"{name}={value}" for name, value in row.items()))
    if not rows:
        click.echo("nothing goes wrong on purpose")


@command.command("clear", epilog=EPILOG, short_help="End all faults, or those of one stage.")
@click.argument("stage", required=False, type=click.Choice(STAGES))
@state_option
def clear(stage: str | None, state: Path | None) -> None:
    """Take down the faults of all processes, let those that stand still go on, and take the network's delay away."""
    from stagemesh.cli.client import chaos

    num_cleared = asyncio.run(chaos.clear(require_mesh(locate_state(state)), stage or ""))
    click.echo(f"{num_cleared} fault{'' if num_cleared == 1 else 's'} taken down")
