"""Run one exchange for a command: show it, or print its JSON object, and end with its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli import console
from stagemesh.cli.client import answer
from stagemesh.cli.client.display import AnswerPrinter, stage_table, summary
from stagemesh.cli.client.exchange import OnEvent
from stagemesh.cli.exits import Exit

Exchange = Callable[[OnEvent], Awaitable[gateway_pb2.Final]]


def run(exchange: Exchange, *, as_json: bool, stream: bool, show_stages: bool, kept_id: str = "") -> Exit:
    """The exit code of the exchange after it was shown.

    `kept_id`: the ID of a request that goes on when its caller leaves; Ctrl-C then says how to stop it.
    """

    async def call(on_event: OnEvent) -> gateway_pb2.Final:
        return await exchange(on_event)

    printer = AnswerPrinter(stream=stream)
    try:
        final = asyncio.run(call(_ignore if as_json else printer.event))
    except KeyboardInterrupt:
        printer.interrupted()
        if kept_id:
            console.err.print(f"The request goes on; `stagemesh cancel {kept_id}` stops it.", style="dim")
        return Exit.INTERRUPTED
    if as_json:
        console.print_json(answer.as_json(final))
        return answer.exit_of(final)
    printer.final(final)
    if show_stages:
        console.err.print(stage_table(final))
        console.err.print(summary(final), style="dim")
    return answer.exit_of(final)


def _ignore(_event: gateway_pb2.Event) -> None:
    """`--json` prints the end alone."""
