"""Options that all commands share which talk to the gateway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stagemesh.cli.mesh_access import state_option

DEFAULT_TIMEOUT_S = 120.0


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--address`, `--state`, `--tenant-key`, `--timeout`; the command gets them as `connection`."""

    @click.option("--address", help="The gateway's gRPC address. [default: that of the mesh on --state]")
    @click.option(
        "--tenant-key",
        envvar="STAGEMESH_API_KEY",
        default="dev",
        help="API key of the tenant. [env: STAGEMESH_API_KEY; default: the development tenant's]",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        help="Deadline in seconds.",
    )
    @click.option("--traceparent", envvar="TRACEPARENT", default="", help="W3C trace context to continue.")
    @state_option
    def with_connection(
        address: str | None,
        tenant_key: str,
        timeout_s: float,
        traceparent: str,
        state: Path | None,
        **others: Any,
    ) -> Any:
        from stagemesh.cli.client.connection import Connection, gateway_address

        connection = Connection(
            address=address or gateway_address(state),
            api_key=tenant_key,
            timeout_s=timeout_s,
            traceparent=traceparent,
        )
        return function(connection=connection, **others)

    with_connection.__name__, with_connection.__doc__ = function.__name__, function.__doc__
    with_connection.__click_params__ = [  # type: ignore[attr-defined]  # where click keeps a command's options
        *getattr(with_connection, "__click_params__", []),
        *getattr(function, "__click_params__", []),
    ]
    return with_connection


def sampling_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--model`, `--knowledge`, `--mode`, `--max-tokens`, `--temperature`, `--top-p`, `--seed`, `--stop`."""
    for option in (
        click.option("--stop", multiple=True, help="Stop before this text; may be given several times."),
        click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Makes sampled answers repeatable."),
        click.option("--top-p", type=float, help="Sample from the smallest set with this probability."),
        click.option("--temperature", type=float, help="0 always takes the most likely token."),
        click.option("--max-tokens", type=click.IntRange(1), help="Most tokens of the answer."),
        click.option("--mode", default="", help="Precision: turbo, standard or precise. [default: the engine's]"),
        click.option("--knowledge", default="", help="Knowledge base to draw on; `none` for none."),
        click.option("--model", default="", help="Model or alias. [default: the mesh's default model]"),
    ):
        function = option(function)
    return function
