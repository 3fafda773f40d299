"""`stagemesh model`"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.settings_option import config_option, read_mesh_config

EPILOG = """\b
Examples:
  stagemesh model pull                   the default model
  stagemesh model pull --all             all that the configuration names
  stagemesh model list --json
  stagemesh model verify

Other models are named in stagemesh.yaml:
  models: {small: {source: "hf:HuggingFaceTB/SmolLM2-135M-Instruct"}, mine: {source: ./mine.gguf}}"""


@click.group("model", epilog=EPILOG)
def command() -> None:
    """Fetch, list, verify and describe models."""


@contextmanager
def model_errors() -> Iterator[None]:
    """A problem with a model ends the command with its sentence."""
    from stagemesh.runtime.config import ConfigError

    try:
        yield
    except ConfigError as error:
        raise CommandError(str(error), Exit.FAILED) from None


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(function)


@command.command("pull", short_help="Fetch a model, unless it is here.")
@click.argument("name", default="")
@click.option("--all", "everything", is_flag=True, help="All models of the configuration.")
@config_option
def pull(name: str, everything: bool, config: Path | None) -> None:
    """Fetch the model NAME (default: the default model) unless it is here.

    Interrupted downloads continue where they stopped; checksums are verified.
    """
    from stagemesh.cli.model_progress import showing_progress
    from stagemesh.models.pull import pull as pull_model

    mesh = read_mesh_config(config)
    for each in sorted(mesh.models) if everything else [name]:
        with model_errors(), showing_progress(each or mesh.default_model) as on_progress:
            files = pull_model(mesh, each, on_progress)
        click.echo(f"{files.name}: {files.path} ({files.size_bytes() / 1e6:.0f} MB)")


@command.command("list", short_help="All models, and whether they are here.")
@json_option
@config_option
def list_(as_json: bool, config: Path | None) -> None:
    """All models of the configuration, and whether they are on this machine."""
    from stagemesh.cli import console
    from stagemesh.models.store import list_models

    entries = list_models(read_mesh_config(config))
    if as_json:
        console.print_json([{**asdict(entry), "path": str(entry.path or "") or None} for entry in entries])
        return
    for entry in entries:
        marks = ", ".join([*(["default"] if entry.is_default else []), *entry.aliases])
        missing = f"not here; `stagemesh model pull {entry.name}` fetches it or says why not"
        where = f"{entry.size_bytes / 1e6:.0f} MB, {entry.path}" if entry.present else missing
        click.echo(f"{entry.name}{f' ({marks})' if marks else ''}  {entry.source}  {where}")


@command.command("verify")
@click.argument("name", default="")
@json_option
@config_option
def verify(name: str, as_json: bool, config: Path | None) -> None:
    """Hash the files of NAME again and compare. Exit code 1 when a file is wrong or missing."""
    from stagemesh.cli import console
    from stagemesh.cli.model_progress import showing_progress
    from stagemesh.models.verify import verify as verify_model

    mesh = read_mesh_config(config)
    with model_errors(), showing_progress(name or mesh.default_model) as on_progress:
        result = verify_model(mesh, name, on_progress)
    checks = [
        {"path": str(check.path), "ok": check.ok, "sha256": check.sha256, "expected": check.expected}
        for check in result.checks
    ]
    if as_json:
        console.print_json({"name": result.name, "ok": result.ok, "files": checks})
    else:
        for check in result.checks:
            click.echo(f"{'ok     ' if check.ok else 'WRONG  '}{check.path}  sha256 {check.sha256 or 'missing'}")
    if not result.ok:
        raise CommandError(f"{result.name} is damaged; delete the wrong file and run `stagemesh model pull {name}`")


@command.command("info")
@click.argument("name", default="")
@json_option
@config_option
def info(name: str, as_json: bool, config: Path | None) -> None:
    """Architecture, sizes, hashes and licence of NAME."""
    from stagemesh.cli import console
    from stagemesh.models.info import info as read_info

    with model_errors():
        found = read_info(read_mesh_config(config), name)
    values: dict[str, Any] = {
        "name": found.files.name,
        "source": found.files.source,
        "path": str(found.files.path),
        "size_bytes": found.size_bytes,
        "num_parameters": found.num_parameters,
        "tensor_types": found.tensor_types,
        "revision": found.revision,
        "tokenizer_hash": found.tokenizer_hash,
        "template_hash": found.template_hash,
        "has_chat_template": found.has_chat_template,
        "license": found.license or None,
        "config": asdict(found.config),
    }
    if as_json:
        console.print_json(values)
        return
    for key, value in values.items():
        if isinstance(value, dict):
            click.echo(f"{key}:")
            for inner, each in value.items():
                click.echo(f"  {inner}: {_plain(each)}")
        else:
            click.echo(f"{key}: {_plain(value)}")


def _plain(value: Any) -> str:
    """A value as a person writes it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return ", ".join(str(each) for each in value) if isinstance(value, tuple) else str(value)
