"""A chat of many turns: each sends the new message only, the session keeps the rest."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from stagemesh.cli import console
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.client.exchange import generate
from stagemesh.cli.client.request import build_request
from stagemesh.cli.client.run import run
from stagemesh.cli.exits import CommandError, Exit

PROMPT = "> "


class Conversation:
    def __init__(
        self, connection: Connection, session_id: str, *, show_stages: bool, options: Mapping[str, Any]
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._show_stages = show_stages
        self._options = dict(options)

    def hold(self) -> None:
        """Read and answer until the input ends. A failed turn is said and the conversation goes on."""
        _enable_line_editing()
        console.err.print(
            f"Session {self._session_id}. Ctrl-C stops an answer, Ctrl-D ends the chat; "
            f"`stagemesh chat --session {self._session_id}` continues it.",
            style="dim",
        )
        while (text := _read_line()) is not None:
            if text.strip():
                self._turn(text)

    def _turn(self, text: str) -> None:
        request = build_request(prompt=text, session_id=self._session_id, **self._options)
        try:
            code = run(
                lambda on_event: generate(self._connection, request, on_event),
                as_json=False,
                stream=True,
                show_stages=self._show_stages,
            )
        except CommandError as error:
            error.show()
            return
        if code is Exit.INTERRUPTED:
            console.err.print("Stopped.", style="dim")
        elif code is Exit.OK:
            self._options["system"] = ""  # it stands at the begin of the session now


def _read_line() -> str | None:
    """The next line; None at the end of the input or on Ctrl-C at the prompt."""
    try:
        return input(PROMPT if sys.stdin.isatty() else "")
    except EOFError:
        return None
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        return None


def _enable_line_editing() -> None:
    """Arrow keys and history at the prompt, where the platform has them."""
    if sys.stdin.isatty():
        try:
            import readline  # noqa: F401  importing it is what changes input()
        except ImportError:
            console.err.print("This Python has no line editing.", style="dim")
