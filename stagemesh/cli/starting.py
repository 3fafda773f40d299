"""What `stagemesh up` does after its options are understood: models, supervisor, waiting, the first question."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

from rich.live import Live

from stagemesh.cli import console, status_view
from stagemesh.cli.commands.status import follow, view
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import POLL_INTERVAL_S, running_mesh
from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessState
from stagemesh.cli.supervisor.mesh_settings import MeshSettings
from stagemesh.cli.supervisor.options import UpOptions

EXIT_CONFIG = 78
BEGIN_TIMEOUT_S = 30.0
"""For the supervisor to import its code and write `mesh.json`."""

STOP_MARGIN_S = 30.0
"""Beyond the drain grace, for gateway, services and servers to end one after the other."""


def ensure_models(settings: MeshSettings) -> None:
    """Fetch what the mesh serves and does not have yet."""


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
    record = wait_begun(supervisor, settings)
    if wait_s is not None:
        record = wait_ready(supervisor, settings, wait_s)
    say_addresses(record)
    if ask:
        ask_first(record, ask)


def run_attached(options: UpOptions, settings: MeshSettings, *, wait_s: float, ask: str | None) -> None:
    """Start, show the state until Ctrl-C or SIGTERM, then drain and stop."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    supervisor = start_supervisor(options, settings, attached=True)
    try:
        wait_begun(supervisor, settings)
        record = wait_ready(supervisor, settings, wait_s)
        if ask:
            ask_first(record, ask)
        say_addresses(record)
        console.err.print("Ctrl-C drains and stops the mesh.")
        follow(settings.state)
        console.err.print("The mesh has stopped.")
    except KeyboardInterrupt:
        console.err.print("Draining and stopping …")
    finally:
        stop(supervisor, settings)


def stop(supervisor: subprocess.Popen[bytes], settings: MeshSettings) -> None:
    """End the supervisor with all its processes; a second Ctrl-C kills it."""
    if supervisor.poll() is not None:
        return
    supervisor.send_signal(signal.SIGTERM)
    try:
        supervisor.wait(3 * settings.mesh.drain_grace_s + STOP_MARGIN_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        supervisor.kill()
        raise CommandError(f"the mesh did not stop in time and was killed; see {settings.state.logs}") from None


def wait_begun(supervisor: subprocess.Popen[bytes], settings: MeshSettings) -> MeshRecord:
    """The mesh's record, as soon as the supervisor has written it. Raises CommandError with its last words."""
    until = time.monotonic() + BEGIN_TIMEOUT_S
    while True:
        record = running_mesh(settings.state)
        if record is not None and record.supervisor_pid == supervisor.pid:
            return record
        _check_alive(supervisor, settings)
        if time.monotonic() > until:
            supervisor.kill()
            raise CommandError(f"the supervisor did not begin within {BEGIN_TIMEOUT_S:g} s; see {settings.state.logs}")
        time.sleep(POLL_INTERVAL_S)


def wait_ready(supervisor: subprocess.Popen[bytes], settings: MeshSettings, timeout_s: float) -> MeshRecord:
    """Show the start, and return when all processes are ready.

    Raises CommandError when one cannot start or the time is over; a detached mesh runs on.
    """
    until = time.monotonic() + timeout_s
    progress = _Progress()
    with progress:
        while True:
            _check_alive(supervisor, settings)
            record = running_mesh(settings.state)
            if record is not None:
                progress.show(record)
                _check_failed(record)
                if record.ready:
                    return record
            if time.monotonic() > until:
                waiting = (
                    ", ".join(each.name for each in record.processes if each.state is not ProcessState.READY)
                    if record
                    else "all"
                )
                raise CommandError(f"not ready within {timeout_s:g} s: {waiting}; `stagemesh logs NAME` says why")
            time.sleep(POLL_INTERVAL_S)


def _check_alive(supervisor: subprocess.Popen[bytes], settings: MeshSettings) -> None:
    code = supervisor.poll()
    if code is None:
        return
    words = "\n".join(last_lines(settings.state.log_of("supervisor"), 20)).removeprefix("stagemesh: ")
    raise CommandError(
        words or "the supervisor ended without a word", Exit.USAGE if code == EXIT_CONFIG else Exit.FAILED
    )


def _check_failed(record: MeshRecord) -> None:
    failed = [process for process in record.processes if process.state is ProcessState.FAILED]
    if failed:
        reasons = "; ".join(f"{process.name}: {process.reason}" for process in failed)
        raise CommandError(f"cannot start: {reasons}", Exit.USAGE)


class _Progress:
    """The start of a mesh: a live table on a terminal, a line per change elsewhere."""

    def __init__(self) -> None:
        self._live = Live(console=console.err, auto_refresh=False, transient=True) if console.err.is_terminal else None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> _Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, record: MeshRecord) -> None:
        if self._live is not None:
            self._live.update(view(record), refresh=True)
            return
        for process in record.processes:
            line = status_view.plain_line(process)
            if self._shown.get(process.name) != line and process.state is not ProcessState.WAITING:
                self._shown[process.name] = line
                console.err.print(line)


def say_addresses(record: MeshRecord) -> None:
    console.out.print(f"gRPC   {record.grpc_address}")
    console.out.print(f"HTTP   http://{record.http_address}/v1")


def ask_first(record: MeshRecord, prompt: str) -> None:
    """Ask one question and show the streamed answer with its stage table."""


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt
