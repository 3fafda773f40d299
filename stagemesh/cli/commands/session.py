"""`stagemesh session`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stagemesh.cli.client.options import connection_options
from stagemesh.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from stagemesh.cli.client.connection import Connection

EPILOG = """\b
Examples:
  stagemesh session list --user ann
  stagemesh session show trip                    a session, as the model sees it
  stagemesh session show ann                     a user: sessions and preferences
  stagemesh session preferences set ann "Reply in French."
  stagemesh session forget --user ann            erases sessions, preferences and stored KV pages"""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("session", epilog=EPILOG)
def command() -> None:
    """What is kept of a tenant's users: sessions and preferences."""


@command.command("list")
@click.option("--user", "user_id", default="", help="Only this user's.")
@json_option
@connection_options
def list_(connection: Connection, user_id: str, as_json: bool) -> None:
    """Sessions, the last active first."""
    from stagemesh.cli import console
    from stagemesh.cli.client.sessions import all_sessions
    from stagemesh.cli.session_view import summary_json, summary_line

    sessions = all_sessions(connection, user_id)
    if as_json:
        console.print_json([summary_json(session) for session in sessions])
        return
    console.print_lines([summary_line(session) for session in sessions], "there are no sessions")


@command.command("show", short_help="A session, or what is kept of a user.")
@click.argument("name")
@json_option
@connection_options
def show(connection: Connection, name: str, as_json: bool) -> None:
    """The session NAME as the model sees it; else the sessions and preferences of the user NAME."""
    from stagemesh.cli import console
    from stagemesh.cli.client.sessions import all_sessions, find_session, preferences_of
    from stagemesh.cli.session_view import session_json, session_lines, user_json, user_lines

    session = find_session(connection, name)
    if session is not None:
        if as_json:
            console.print_json(session_json(session))
        else:
            click.echo("\n".join(session_lines(session)))
        return
    sessions, preferences = all_sessions(connection, name), preferences_of(connection, name)
    if not sessions and not preferences:
        raise CommandError(f"there is no session and no user {name!r}, or what was kept has expired", Exit.REJECTED)
    if as_json:
        console.print_json(user_json(name, sessions, preferences))
    else:
        click.echo("\n".join(user_lines(name, sessions, preferences)))


@command.command("forget", short_help="Erase a session, or a user everywhere.")
@click.option("--session", "session_id", default="", help="The session to erase.")
@click.option("--user", "user_id", default="", help="The user to erase: sessions, preferences, stored KV pages.")
@json_option
@connection_options
def forget(connection: Connection, session_id: str, user_id: str, as_json: bool) -> None:
    """Erase one session, or a user with all sessions, preferences and stored KV pages."""
    from stagemesh.api.gateway.v1 import sessions_pb2
    from stagemesh.cli import console
    from stagemesh.cli.client.sessions import ask

    if bool(session_id) == bool(user_id):
        raise click.UsageError("give --session or --user, one of them")
    request = (
        sessions_pb2.ForgetRequest(session_id=session_id) if session_id else sessions_pb2.ForgetRequest(user_id=user_id)
    )
    erased = ask(connection, lambda stub, options: stub.Forget(request, **options)).sessions
    if as_json:
        console.print_json({"sessions": erased})
        return
    told = f"{erased} {'session is' if erased == 1 else 'sessions are'} erased"
    click.echo(f"{told}, with all preferences and stored KV pages of {user_id}." if user_id else f"{told}.")


@command.group("preferences")
def preferences() -> None:
    """What a user keeps asking for; it is added to the user's prompts from the third time on."""


@preferences.command("list")
@click.argument("user_id", metavar="USER")
@json_option
@connection_options
def list_preferences(connection: Connection, user_id: str, as_json: bool) -> None:
    """USER's preferences, those in force first."""
    from stagemesh.cli import console
    from stagemesh.cli.client.sessions import preferences_of
    from stagemesh.cli.session_view import preference_json, preference_line

    found = preferences_of(connection, user_id)
    if as_json:
        console.print_json([preference_json(preference) for preference in found])
        return
    console.print_lines([preference_line(preference) for preference in found], f"{user_id} has no preferences")


@preferences.command("set")
@click.argument("user_id", metavar="USER")
@click.argument("text")
@click.option("--id", "preference_id", default="", help="Replace the text of this one.")
@connection_options
def set_preference(connection: Connection, user_id: str, text: str, preference_id: str) -> None:
    """Put a preference of USER in force; prints its ID."""
    from stagemesh.api.gateway.v1 import sessions_pb2
    from stagemesh.cli.client.sessions import ask

    request = sessions_pb2.SetPreferenceRequest(user_id=user_id, preference_id=preference_id, text=text)
    click.echo(ask(connection, lambda stub, options: stub.SetPreference(request, **options)).preference.preference_id)


@preferences.command("delete")
@click.argument("user_id", metavar="USER")
@click.argument("preference_id", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All of the user's.")
@connection_options
def delete_preference(connection: Connection, user_id: str, preference_id: str | None, everything: bool) -> None:
    """Delete the preference ID of USER, or all of them."""
    from stagemesh.api.gateway.v1 import sessions_pb2
    from stagemesh.cli.client.sessions import ask

    if bool(preference_id) == everything:
        raise click.UsageError("give the ID of a preference or --all, one of them")
    request = sessions_pb2.DeletePreferenceRequest(user_id=user_id, preference_id=preference_id or "")
    deleted = ask(connection, lambda stub, options: stub.DeletePreference(request, **options)).preferences
    if not deleted and preference_id:
        raise CommandError(f"{user_id} has no preference {preference_id!r}", Exit.REJECTED)
    click.echo(f"{deleted} deleted.")
