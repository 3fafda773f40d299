"""The `stagemesh` command. Subcommands are imported when they are used, so that `--help` is instant."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "up": "Start the mesh on this machine.",
    "down": "Drain and stop the mesh.",
    "status": "Show the processes of the mesh and their state.",
    "logs": "Show the log of one process.",
    "chat": "Ask something, or talk in a session.",
    "generate": "One request with all its options, e.g. a JSON schema.",
    "watch": "Follow a running or deferred request.",
    "cancel": "Cancel a request.",
    "model": "Fetch, list and verify models.",
    "validate": "Say whether a text satisfies a schema, anchors and rules.",
    "correct": "Make a text satisfy a schema, anchors and rules, and say what was changed.",
    "rules": "Store, list and drop rules that answers must satisfy.",
    "corrector": "Collect corrections, and train and evaluate the adapter that ranks candidates.",
    "anchors": "Stored reference sets that fields of answers are held against.",
    "session": "Show and erase what is kept of users: sessions, preferences.",
    "kb": "Knowledge bases that answers may draw on.",
    "tenant": "Tenants, their keys, and the adapters they may use.",
    "usage": "What tenants used, by mode: tokens, time, cost units.",
    "adapter": "Load, replace and unload LoRA adapters.",
    "deferred": "Deferred requests and dead letters: list, show, retry, drop.",
    "cache": "What was reused of earlier computing, and why not.",
    "shadow": "Report what the candidate model answered differently.",
    "chaos": "Let something go wrong on purpose, and see that it heals.",
    "bench": "Measure how fast this machine serves the model.",
    "debug": "Take a session's last requests apart, stage by stage.",
    "diagnose": "Say what is wrong: model, infrastructure or network.",
    "doctor": "Check this machine for what would go wrong.",
    "version": "Print the version.",
}
"""Name → the line that `stagemesh --help` shows."""

EPILOG = """\b
Examples:
  stagemesh up                        start everything, watch it, Ctrl-C stops it
  stagemesh up --detach --wait        start in the background, return when ready
  stagemesh chat "What is a mesh?"    ask the model
  stagemesh status
  stagemesh down

Exit codes are listed in docs/cli.md. Colours appear on terminals only and never with NO_COLOR set."""


class LazyGroup(click.Group):
    """Knows its commands by name; imports `stagemesh.cli.commands.<name>` for the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"stagemesh.cli.commands.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.version_option(None, "--version", package_name="stagemesh", message="%(version)s", help="Print the version.")
@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def main() -> None:
    """Serve a language model through a mesh of separate, supervised stage services."""


if __name__ == "__main__":
    main()
