"""`stagemesh rules`"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stagemesh.cli.commands.anchors import json_option, tenant_option
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

if TYPE_CHECKING:
    from stagemesh.api.validator.v1 import rule_sets_pb2
    from stagemesh.cli.client.rule_sets import Stub

T = TypeVar("T")

EPILOG = """\b
Examples:
  stagemesh rules load invoice invoice-rules.json         {"rules": [...], "text_rules": [...]}
  stagemesh rules show invoice --tenant acme --json
  stagemesh validate --rules @invoice answer.json         and in a request: "rules": [{"set": "invoice"}]
  stagemesh rules drop invoice"""


@click.group("rules", epilog=EPILOG)
def command() -> None:
    """Stored rules: what must hold in and between fields of answers, and in long texts, per tenant."""


@command.command("load", short_help="Store the rules of a file as a set, in place of those before.")
@click.argument("name")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@tenant_option
@json_option
@state_option
@config_option
def load(name: str, source: Path, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """Store the rules in FILE as the set NAME. Rules that cannot be applied are refused, and the set stays as it was.

    They may name anchor sets of the tenant, and no other stored rules.
    """
    from stagemesh.api.validator.v1 import rule_sets_pb2
    from stagemesh.cli.client.demands import read_rules

    given = read_rules(source, "FILE")
    wanted = rule_sets_pb2.RuleSet(name=name, rules=given.rules, text_rules=given.text_rules)
    request = rule_sets_pb2.PutRulesRequest(tenant_id=tenant_id, set=wanted)
    _show([_call(state, config, lambda stub, options: stub.PutRules(request, **options)).set], as_json=as_json)


@command.command("list")
@tenant_option
@json_option
@state_option
@config_option
def list_(tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """The tenant's stored rules."""
    from stagemesh.api.validator.v1 import rule_sets_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.rule_sets import as_data

    request = rule_sets_pb2.ListRulesRequest(tenant_id=tenant_id)
    found = list(_call(state, config, lambda stub, options: stub.ListRules(request, **options)).sets)
    if as_json:
        console.print_json([as_data(one) for one in found])
    elif found:
        _show(found, as_json=False)
    else:
        console.print_lines([], f"{tenant_id} has no stored rules")


@command.command("show")
@click.argument("name")
@tenant_option
@json_option
@state_option
@config_option
def show(name: str, tenant_id: str, as_json: bool, state: Path | None, config: Path | None) -> None:
    """The rules of the set NAME; with --json in the form that `load` takes, and its name and time."""
    from stagemesh.api.validator.v1 import rule_sets_pb2

    request = rule_sets_pb2.ShowRulesRequest(tenant_id=tenant_id, name=name)
    found = _call(state, config, lambda stub, options: stub.ShowRules(request, **options)).set
    _show([found], as_json=as_json, with_rules=True)


@command.command("drop")
@click.argument("name")
@tenant_option
@state_option
@config_option
def drop(name: str, tenant_id: str, state: Path | None, config: Path | None) -> None:
    """Erase the set NAME."""
    from stagemesh.api.validator.v1 import rule_sets_pb2

    request = rule_sets_pb2.DropRulesRequest(tenant_id=tenant_id, name=name)
    dropped = _call(state, config, lambda stub, options: stub.DropRules(request, **options)).set
    click.echo(f"{dropped.name} is dropped.")


def _show(found: list[rule_sets_pb2.RuleSet], *, as_json: bool, with_rules: bool = False) -> None:
    from stagemesh.cli import console
    from stagemesh.cli.client.rule_sets import as_data, rule_lines

    if as_json:
        console.print_json(as_data(found[0]))
        return
    for one in found:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.updated_at.seconds))
        click.echo(f"{one.name}  {len(one.rules)} rules, {len(one.text_rules)} of long texts  since {since}")
        if with_rules:
            click.echo("\n".join(rule_lines(one)))


def _call(state: Path | None, config: Path | None, method: Callable[[Stub, dict[str, Any]], Awaitable[T]]) -> T:
    from stagemesh.cli.client.rule_sets import TIMEOUT_S, rule_set_service

    async def call() -> T:
        async with rule_set_service(state, config) as (stub, metadata):
            return await method(stub, {"timeout": TIMEOUT_S, "metadata": metadata})

    return asyncio.run(call())
