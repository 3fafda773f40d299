"""`stagemesh corrector`"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.client.training import case_store, held_out, model_files, own_cases, require_torch
from stagemesh.cli.commands import corrector_adapters
from stagemesh.cli.commands.tenant import with_ledger
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, state_option
from stagemesh.cli.settings_option import config_option, read_mesh_config

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from services.corrector.training.train import Progress
    from stagemesh.models.store import ModelFiles

EPILOG = """\b
Examples:
  stagemesh tenant corrections acme --share
  stagemesh corrector collect                              what tenants share, into the state folder
  stagemesh corrector status
  stagemesh corrector train ./acme-1 --tenant acme --minutes 20
  stagemesh corrector evaluate ./acme-1 --tenant acme
  stagemesh corrector candidate ./acme-1 --tenant acme     beside the present one, answering nothing
  stagemesh corrector canary 10% --tenant acme
  stagemesh corrector promote --tenant acme                if it is better
  stagemesh corrector rollback --tenant acme"""
COLLECT_EXAMPLES = """\b
Examples:
  stagemesh corrector collect
  stagemesh corrector collect --idle 10 --json"""
STATUS_EXAMPLES = """\b
Examples:
  stagemesh corrector status
  stagemesh corrector status --json"""
TRAIN_EXAMPLES = """\b
Examples:
  stagemesh corrector train ./corrector --minutes 20
  stagemesh corrector train ./corrector --steps 300 --rank 16 --seed 2
  stagemesh corrector train ./corrector --resume
  stagemesh corrector train ./corrector --steps 50 --latency 0.1 --memory-swing 0.1 --mask-stability 0.1 --json"""
EVALUATE_EXAMPLES = """\b
Examples:
  stagemesh corrector evaluate                     the model without an adapter
  stagemesh corrector evaluate ./corrector --objects 40 --json
  stagemesh corrector evaluate ./corrector --calibrate --objects 200"""


@click.group("corrector", epilog=EPILOG)
def command() -> None:
    """The loop that turns corrections into adapters: collect, train, evaluate, try, promote."""


for each in corrector_adapters.COMMANDS:
    command.add_command(each)


@command.command("collect", epilog=COLLECT_EXAMPLES, short_help="Take shared corrections from Kafka.")
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(1, 3600),
    default=5.0,
    show_default=True,
    help="Seconds without news that end it.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def collect(idle_s: float, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Take the corrections of tenants that share them into `corrections.sqlite` of the state folder.

    What users had erased is deleted, and everything of tenants that do not share any longer.
    """
    from services.corrector.training.collect import Collected
    from services.corrector.training.collect import collect as take_all
    from stagemesh.cli import console
    from stagemesh.runtime.telemetry import configure_logging

    configure_logging(instance="collect", level="WARNING")
    mesh = read_mesh_config(config)
    _, record = find_mesh(state)
    bootstrap = (record.kafka_bootstrap if record else "") or mesh.kafka_bootstrap
    if not bootstrap:
        raise CommandError(
            "no broker is configured and no mesh runs here; start one with `stagemesh up`", Exit.UNREACHABLE
        )
    store = case_store(state)

    async def action(redis: Redis) -> Collected:
        return await take_all(
            bootstrap=bootstrap, settings=mesh.kafka_settings, prefix=mesh.kafka_topic_prefix, redis=redis, store=store,
            idle_s=idle_s,
        )  # fmt: skip

    try:
        done = with_ledger(state, config, action)
    finally:
        store.close()
    if as_json:
        console.print_json(asdict(done))
        return
    click.echo(f"{done.added} new corrections, {done.erased} erased, {done.ignored} ignored")
    for tenant_id in done.dropped_tenants:
        click.echo(f"{tenant_id} does not share any longer: what was collected of it is deleted")


@command.command("status", epilog=STATUS_EXAMPLES, short_help="What was collected, and which adapters are in use.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def status(as_json: bool, state: Path | None, config: Path | None) -> None:
    """What was collected, by tenant: corrections, those that are certain, those held out for evaluation.

    And the adapters in use: the present one, the candidate with its results beside it and in its place, and the last
    changes.
    """
    from stagemesh.cli import console
    from stagemesh.cli.client.corrector_adapters import standing
    from stagemesh.cli.corrector_view import lines

    store = case_store(state)
    try:
        counts = {tenant_id: asdict(store.count(tenant_id)) for tenant_id in store.tenants()}
    finally:
        store.close()
    adapters = standing(state, config)
    if as_json:
        console.print_json({"collected": counts, "adapters": adapters})
        return
    for tenant_id, count in counts.items():
        click.echo(
            f"{tenant_id}  {count['cases']} corrections, {count['certain']} certain, {count['held_out']} held out"
        )
    if not counts:
        click.echo("nothing is collected; see `stagemesh tenant corrections` and `stagemesh corrector collect`")
    click.echo("\n".join(lines(adapters)))


@command.command("train", epilog=TRAIN_EXAMPLES, short_help="Train an adapter on this machine.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--tenant", "tenant_id", help="Train on what was collected of this tenant, too; for its own adapter.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Plan as many steps as fit into this time.")
@click.option("--steps", type=click.IntRange(1), default=300, show_default=True)
@click.option("--batch", type=click.IntRange(1, 64), default=2, show_default=True, help="Objects in a step.")
@click.option("--rank", type=click.IntRange(1, 16), default=8, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--sensitive", type=click.FloatRange(0), default=2.0, show_default=True, help="Weight of digits and signs."
)
@click.option("--token-clip", type=click.FloatRange(0), default=0.0, help="Largest gradient of one token; 0: no limit.")
@click.option("--latency", type=click.FloatRange(0), default=0.0, help="Weight of drafts that would be refused.")
@click.option("--memory-swing", type=click.FloatRange(0), default=0.0, help="Weight of steps in the keys' scale.")
@click.option(
    "--mask-stability", type=click.FloatRange(0), default=0.0, help="Weight of moves of attention over pages."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--resume", is_flag=True, help="Go on with the run that FOLDER holds, by its recipe.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def train(
    folder: Path, tenant_id: str | None, minutes: float | None, steps: int, batch: int, rank: int, seed: int,
    sensitive: float, token_clip: float, latency: float, memory_swing: float, mask_stability: float, threads: int,
    resume: bool, as_json: bool, state: Path | None, config: Path | None,
) -> None:  # fmt: skip
    """Train a LoRA on the default model, on the processor, and save it into FOLDER in PEFT's layout.

    It learns which of a source's values belongs to a field, from made-up objects and, with --tenant, from that
    tenant's corrections. Needs the extra `train`.
    """
    require_torch(threads)
    from services.corrector.adapters.origin import Origin, write_origin
    from services.corrector.training.recipe import Losses, Recipe
    from services.corrector.training.train import train as run
    from stagemesh.cli import console
    from stagemesh.models.errors import ModelError

    losses = Losses(
        sensitive=sensitive, token_clip=token_clip, latency=latency, memory_swing=memory_swing,
        mask_stability=mask_stability,
    )  # fmt: skip
    recipe = Recipe(seed=seed, rank=rank, alpha=2 * rank, steps=steps, batch=batch, losses=losses)
    origin = Origin(tenant_id=tenant_id or "", trained_ms=round(time.time() * 1000))
    own = own_cases(state, tenant_id, held_out=False)
    told: dict[str, float] = {}

    def on_step(progress: Progress) -> None:
        told.update(progress.terms)
        if not as_json and (progress.step <= 3 or progress.step % 10 == 0 or progress.step == progress.steps):
            terms = "  ".join(f"{name} {value:.3f}" for name, value in progress.terms.items())
            click.echo(
                f"step {progress.step} of {progress.steps}  {terms}  {progress.eta_s / 60:.1f} min left", err=True
            )

    write_origin(folder, replace(origin, own_cases=len(own)))
    try:
        recipe = run(
            model_files(config), folder, recipe, minutes=minutes or 0.0, own=own, resumes=resume, on_step=on_step
        )
    except ModelError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    if as_json:
        console.print_json({"folder": str(folder), "recipe": recipe.data(), "terms": told, "own_cases": len(own)})
    else:
        click.echo(f"{folder} holds the adapter; `stagemesh corrector evaluate {folder}` says what it is worth")


@command.command(
    "evaluate", epilog=EVALUATE_EXAMPLES, short_help="How well an adapter ranks, and the model without one."
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True), required=False)
@click.option("--tenant", "tenant_id", help="On this tenant's held-out corrections instead of made-up objects.")
@click.option("--objects", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Made-up objects.")
@click.option("--seed", type=int, default=9, show_default=True)
@click.option("--calibrate", is_flag=True, help="Also measure from where on the adapter is sure, into its folder.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@state_option
@config_option
def evaluate(
    folder: Path | None, tenant_id: str | None, objects: int, seed: int, calibrate: bool, threads: int, as_json: bool,
    state: Path | None, config: Path | None,
) -> None:  # fmt: skip
    """Rank the values of each held-out source for each field, with the adapter in FOLDER or without one.

    Shown: how often the right one is likeliest, and how many fields are above a margin that was set on the others.
    With --calibrate, faulty objects of held-out kinds are asked about as the corrector does, and the likelihood from
    which on 99.5 % were right goes to `calibration.json` in FOLDER. Without that file nothing counts as sure.
    """
    if calibrate and folder is None:
        raise click.UsageError("--calibrate needs the FOLDER of an adapter")
    require_torch(threads)
    from services.corrector.training.evaluate import evaluate as run
    from stagemesh.cli import console
    from stagemesh.models.errors import ModelError

    own = held_out(state, tenant_id or "")
    try:
        found = run(model_files(config), folder, objects=objects, seed=seed, own=own)
        ranking = _calibrated(model_files(config), folder, objects, seed) if calibrate and folder else {}
    except ModelError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    if as_json:
        console.print_json(_finite(asdict(found)) | ({"ranking": ranking} if ranking else {}))
        return
    click.echo(
        f"{found.fields} fields: the right value is likeliest in {found.accuracy:.1%}, {found.nll:.3f} nats a token"
    )
    click.echo(
        f"above the margin that was right on the others: {found.sure_share:.1%}, of which right {found.sure_right:.1%}"
    )
    if ranking:
        sure = {"confirms": ranking["confirm"], "changes": ranking["change"]}
        click.echo("; ".join(f"{does} from {at or 'nowhere'} on" for does, at in sure.items()))


def _calibrated(files: ModelFiles, folder: Path, objects: int, seed: int) -> dict[str, Any]:
    from services.corrector.training.calibrate import calibrate as run

    return run(files, folder, objects=objects, seed=seed)


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {name: None if value == float("inf") else value for name, value in values.items()}
