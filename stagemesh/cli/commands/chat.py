"""`stagemesh chat`"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.client.options import connection_options, sampling_options

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection

EPILOG = """\b
Examples:
  stagemesh chat "What is photosynthesis? Answer in one sentence."
  stagemesh chat                            a conversation; Ctrl-C stops an answer, Ctrl-D ends it
  stagemesh chat --session trip             continue the session `trip`, also after a restart of the mesh
  stagemesh chat "And of Italy?" --session trip --json"""


@click.command("chat", epilog=EPILOG)
@click.argument("prompt", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text (with PROMPT).")
@click.option("--session", "session_id", default="", help="Session to begin or continue.")
@click.option("--user", "user_id", default="", help="The session's user.")
@click.option("--system", default="", help="System message for the begin of a session.")
@click.option("--stages", is_flag=True, help="Show what each stage did (on stderr).")
@sampling_options
@connection_options
def command(
    connection: Connection, prompt: str | None, as_json: bool, session_id: str, stages: bool, **options: Any
) -> None:
    """Ask PROMPT and print the streamed answer; without PROMPT, hold a conversation.

    Exit codes: those of `stagemesh generate`.
    """
    from stagemesh.cli.client.conversation import Conversation
    from stagemesh.cli.client.exchange import generate
    from stagemesh.cli.client.request import build_request
    from stagemesh.cli.client.run import run

    if prompt is None:
        if as_json:
            raise click.UsageError("--json needs a PROMPT")
        name = session_id or f"chat-{secrets.token_hex(4)}"
        Conversation(connection, name, show_stages=stages, options=options).hold()
        return
    request = build_request(prompt=prompt, session_id=session_id, **options)
    code = run(
        lambda on_event: generate(connection, request, on_event), as_json=as_json, stream=True, show_stages=stages
    )
    raise SystemExit(code)
