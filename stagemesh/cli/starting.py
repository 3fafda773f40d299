"""What `stagemesh up` does after its options are understood: models, supervisor, waiting, the first question."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

from stagemesh.cli import console
from stagemesh.cli.client.answer import exit_of
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.client.display import AnswerPrinter, stage_table, summary
from stagemesh.cli.client.exchange import generate
from stagemesh.cli.client.request import build_request
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import command_for
from stagemesh.cli.model_progress import showing_progress
from stagemesh.cli.status_watch import watch_status
from stagemesh.cli.supervisor.mesh_file import MeshRecord
from stagemesh.cli.supervisor.mesh_settings import MeshSettings, reachable
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.waiting import wait_begun, wait_ready
from stagemesh.models.pull import pull
from stagemesh.runtime.config import ConfigError

ASK_TIMEOUT_S = 60.0
ASK_MAX_TOKENS = 64

STOP_MARGIN_S = 30.0
"""Beyond the drain grace, for gateway, services and servers to end one after the other."""


def ensure_models(settings: MeshSettings) -> None:
    """Fetch what the mesh serves and does not have yet. Raises CommandError."""
    candidate = settings.mesh.shadow.candidate
    for name in sorted({*settings.mesh.serve, *([candidate] if candidate else [])}):
        try:
            with showing_progress(name) as on_progress:
                pull(settings.mesh, name, on_progress)
        except ConfigError as error:
            raise CommandError(str(error)) from None


def start_supervisor(options: UpOptions, settings: MeshSettings, *, attached: bool) -> subprocess.Popen[bytes]:
    """The supervisor's process, in a session of its own."""
    command = [sys.executable, "-P", "-m", "stagemesh.cli.supervisor", options.model_dump_json()]
    with settings.state.log_of("supervisor").open("wb") as log:
        return subprocess.Popen(
            [*command, "--attached"] if attached else command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def start_detached(options: UpOptions, settings: MeshSettings, *, wait_s: float | None, ask: str | None) -> None:
    """Start in the background; with `wait_s`, return when all is ready."""
    supervisor = start_supervisor(options, settings, attached=False)
    record = wait_begun(supervisor, settings.state)
    if wait_s is not None:
        record = _wait_detached(supervisor, settings, wait_s)
    say_addresses(record)
    if ask:
        ask_first(record, ask)


def _wait_detached(supervisor: subprocess.Popen[bytes], settings: MeshSettings, wait_s: float) -> MeshRecord:
    try:
        return wait_ready(supervisor, settings.state, wait_s)
    except CommandError as error:
        if supervisor.poll() is None:
            hint = f"What has started runs on; `{command_for('down', settings.state)}` stops it"
            raise CommandError(f"{error.message}. {hint}", Exit(error.exit_code)) from None
        raise


def run_attached(options: UpOptions, settings: MeshSettings, *, wait_s: float, ask: str | None) -> None:
    """Start, show the state until Ctrl-C or SIGTERM, then drain and stop."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    supervisor = start_supervisor(options, settings, attached=True)
    try:
        wait_begun(supervisor, settings.state)
        record = wait_ready(supervisor, settings.state, wait_s)
        if ask:
            ask_first(record, ask)
        say_addresses(record)
        console.err.print("Ctrl-C drains and stops the mesh.")
        watch_status(settings.state, record)
        console.err.print("The mesh has stopped.")
    except KeyboardInterrupt:
        console.err.print("Draining and stopping …")
    finally:
        stop(supervisor, settings)


def stop(supervisor: subprocess.Popen[bytes], settings: MeshSettings) -> None:
    """End the supervisor with all its processes; a second Ctrl-C kills it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it is being done
    if supervisor.poll() is not None:
        return
    supervisor.send_signal(signal.SIGTERM)
    try:
        supervisor.wait(3 * settings.mesh.drain_grace_s + STOP_MARGIN_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        supervisor.kill()
        raise CommandError(f"the mesh did not stop in time and was killed; see {settings.state.logs}") from None


def say_addresses(record: MeshRecord) -> None:
    console.out.print(f"gRPC   {record.grpc_address}")
    console.out.print(f"HTTP   http://{record.http_address}/v1")


def ask_first(record: MeshRecord, prompt: str) -> None:
    """Ask one question and show the streamed answer with its stage table. Raises CommandError when there is none."""
    key = os.environ.get("STAGEMESH_API_KEY", "dev")
    connection = Connection(address=reachable(record.grpc_address), api_key=key, timeout_s=ASK_TIMEOUT_S)
    request = build_request(prompt=prompt, max_tokens=ASK_MAX_TOKENS, temperature=0.0)
    console.out.print(f"\n> {prompt}", style="bold")
    printer = AnswerPrinter(stream=True)
    final = asyncio.run(generate(connection, request, printer.event))
    printer.final(final)
    console.out.print()
    console.out.print(stage_table(final))
    console.out.print(summary(final) + "\n", style="dim")
    if (code := exit_of(final)) is not Exit.OK:
        raise CommandError("the first question got no complete answer; `stagemesh logs gateway` has more", code)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt
