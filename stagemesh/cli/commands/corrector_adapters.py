"""`stagemesh corrector candidate|canary|promote|rollback`: which adapters are in use"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stagemesh.cli.client.training import held_out, model_files, num_erased_since, require_torch
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from services.corrector.adapters.operations import Operations
    from services.corrector.adapters.record import Record

CANDIDATE_EXAMPLES = """\b
Examples:
  stagemesh corrector candidate ./corrector-2                  runs beside the present one and answers nothing
  stagemesh corrector candidate ./acme-1 --tenant acme --json"""
CANARY_EXAMPLES = """\b
Examples:
  stagemesh corrector canary 10%
  stagemesh corrector canary 0.25 --tenant acme
  stagemesh corrector canary 0                                 only beside the present one again"""
PROMOTE_EXAMPLES = """\b
Examples:
  stagemesh corrector promote
  stagemesh corrector promote --tenant acme --min-compared 20
  stagemesh corrector promote --force                          although the numbers do not say so"""
ROLLBACK_EXAMPLES = """\b
Examples:
  stagemesh corrector rollback                                 takes the candidate away, or brings the one before back
  stagemesh corrector rollback --tenant acme --json"""

tenant_option = click.option("--tenant", "tenant_id", default="", help="Of this tenant alone; else of all others.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


class Share(click.ParamType[float]):
    """`0.1` or `10%`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{text!r} is no share; give 0 to 1, or 0% to 100%", param, ctx)
        return share


@click.command("candidate", epilog=CANDIDATE_EXAMPLES, short_help="Try an adapter beside the present one.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--objects", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Made-up objects.")
@click.option("--seed", type=int, default=9, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@tenant_option
@json_option
@state_option
@config_option
def candidate(
    folder: Path, objects: int, seed: int, threads: int, tenant_id: str, as_json: bool, state: Path | None,
    config: Path | None,
) -> None:  # fmt: skip
    """Compare the adapter in FOLDER with the present one on held-out cases, load it on all engines, and have it run
    beside the present one on live corrections, without answering.

    With --tenant on that tenant's held-out corrections, else on made-up objects. An adapter that was trained on a
    tenant's corrections serves that tenant alone. Needs the extra `train`.
    """
    require_torch(threads)
    from services.corrector.adapters.operations import check_origin
    from services.corrector.training.judging import judge
    from stagemesh.cli.client.corrector_adapters import ask, operate, placed
    from stagemesh.models.errors import ModelError
    from stagemesh.runtime.errors import StagemeshError

    try:
        check_origin(tenant_id, folder)
    except StagemeshError as error:
        raise CommandError(str(error), Exit.REJECTED) from None
    own = held_out(state, tenant_id)
    present = ask(state, config, lambda store: store.present(tenant_id))
    against = Path(present.folder) if present else None
    try:
        judged = judge(model_files(config), folder, against, objects=objects, seed=seed, own=own)
    except ModelError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    there = placed(state, folder)

    async def action(operations: Operations) -> Record:
        return await operations.candidate(tenant_id, there, judged)

    _show(operate(state, config, action), as_json=as_json, what="is tried")


@click.command("canary", epilog=CANARY_EXAMPLES, short_help="Let the candidate answer a share.")
@click.argument("share", type=Share())
@tenant_option
@json_option
@state_option
@config_option
def canary(share: float, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Let the candidate answer SHARE of the live corrections, chosen by their request IDs; 0 takes it back."""
    from stagemesh.cli.client.corrector_adapters import operate

    async def action(operations: Operations) -> Record:
        return await operations.canary(tenant_id, share)

    _show(operate(state, config, action), as_json=as_json, what=f"answers {share:.2%}")


@click.command("promote", epilog=PROMOTE_EXAMPLES, short_help="Let the candidate answer all, if it is better.")
@click.option("--force", is_flag=True, help="Also where it does not count as better; the audit says so.")
@click.option("--min-fields", type=click.IntRange(0), default=100, show_default=True, help="Held-out fields.")
@click.option("--min-compared", type=click.IntRange(0), default=50, show_default=True, help="Live ones beside.")
@click.option("--min-answered", type=click.IntRange(0), default=20, show_default=True, help="Live ones answered.")
@tenant_option
@json_option
@state_option
@config_option
def promote(
    force: bool, min_fields: int, min_compared: int, min_answered: int, tenant_id: str, as_json: bool,
    state: Path | None, config: Path | None,
) -> None:  # fmt: skip
    """Let the candidate answer all corrections in the place of the present adapter, if it is better.

    It is if, of the held-out fields that one of both alone got right, chance would give it as many in at most one case
    in twenty; if it is right as often where it is sure; if it was compared and has answered often enough; and if it
    neither failed more often nor left more corrections invalid than the present one. Otherwise it is refused with the
    numbers (exit code 4).
    """
    from services.corrector.adapters.operations import Needs
    from stagemesh.cli.client.corrector_adapters import ask, operate

    record = ask(state, config, lambda store: store.record(tenant_id))
    trained_ms = record.candidate.trained_ms if record.candidate else 0
    stale = num_erased_since(state, tenant_id, trained_ms)
    needs = Needs(fields=min_fields, compared=min_compared, answered=min_answered)

    async def action(operations: Operations) -> Record:
        return await operations.promote(tenant_id, needs, stale=stale, force=force)

    _show(operate(state, config, action), as_json=as_json, what="answers")


@click.command("rollback", epilog=ROLLBACK_EXAMPLES, short_help="Take the last step back.")
@tenant_option
@json_option
@state_option
@config_option
def rollback(tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Take the candidate away; without one, let the adapter answer that was present before, if there was one."""
    from stagemesh.cli.client.corrector_adapters import operate

    async def action(operations: Operations) -> tuple[Record, str]:
        return await operations.rollback(tenant_id)

    record, what = operate(state, config, action)
    told = "answers; the candidate is withdrawn" if what == "withdraw" else "answers again"
    _show(record, as_json=as_json, what=told)


COMMANDS = (candidate, canary, promote, rollback)


def _show(record: Record, *, as_json: bool, what: str) -> None:
    from stagemesh.cli import console
    from stagemesh.cli.corrector_view import record_json

    if as_json:
        console.print_json(record_json(record))
        return
    entry = record.candidate or record.present
    click.echo(f"{entry.adapter.name if entry else 'no adapter'} {what}")
