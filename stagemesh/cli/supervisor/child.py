"""A running child process: made so that it ends with its supervisor, and ended with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stagemesh.cli.supervisor.mesh_file import process_started_at
from stagemesh.cli.supervisor.spec import ProcessSpec

LAUNCHER = Path(__file__).with_name("launcher.py")
PUMP_GRACE_S = 1.0
"""How long the rest of the output may take to arrive after the end of the process."""


@dataclass(frozen=True)
class Child:
    process: asyncio.subprocess.Process
    started_at: float
    """Unix time, as the system reports it."""
    output: asyncio.StreamReader
    """What the process and its children write, to stdout and stderr."""
    _transport: asyncio.ReadTransport

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        """Send to the process and to all that it started."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return  # it has ended, which is what signals are for

    def close_output(self) -> None:
        self._transport.close()


async def spawn(spec: ProcessSpec) -> Child:
    """Start the process in a session of its own: a terminal's Ctrl-C reaches the supervisor alone.

    The pipe for its output is our own, because asyncio's would delay the news of its end until all that it started
    has closed that pipe as well.
    """
    read_end, write_end = os.pipe()
    output = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *spec.command),
            env={**os.environ, **spec.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        transport.close()
        raise
    finally:
        os.close(write_end)
    return Child(process, process_started_at(process.pid) or time.time(), output, transport)


def describe_exit(code: int) -> str:
    """`killed by SIGKILL`, `exit code 1`."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
