"""All processes of a mesh: started in order, kept running, stopped in order, recorded in `mesh.json`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stagemesh.cli.supervisor.guardian_link import GuardianLink
from stagemesh.cli.supervisor.log_file import LogFile
from stagemesh.cli.supervisor.mesh_file import MeshRecord, process_started_at, write_mesh
from stagemesh.cli.supervisor.process import ManagedProcess
from stagemesh.cli.supervisor.settings import SupervisorConfig
from stagemesh.cli.supervisor.spec import Phase, ProcessSpec
from stagemesh.cli.supervisor.state_dir import StateDir

STOP_MARGIN_S = 3.0
"""What a process gets beyond its own drain grace before it is killed."""
REWRITE_AFTER_S = 1.0
"""Until the record is written again that the disk did not take."""


class Supervisor:
    """Runs `specs` until it is told to stop."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        *,
        state: StateDir,
        record: MeshRecord,
        settings: SupervisorConfig,
        drain_grace_s: float,
    ) -> None:
        self._state = state
        self._record = record.model_copy(
            update={"supervisor_pid": os.getpid(), "supervisor_started_at": process_started_at(os.getpid())}
        )
        self._grace_s = drain_grace_s + STOP_MARGIN_S
        self._guardian = GuardianLink(self._grace_s) if sys.platform != "linux" else None
        self._stop_requested = asyncio.Event()
        self._logs = [
            LogFile(state.log_of(spec.name), max_bytes=settings.max_log_bytes, num_old=settings.num_old_logs)
            for spec in specs
        ]
        self._processes = [
            ManagedProcess(spec, settings, log, self._write) for spec, log in zip(specs, self._logs, strict=True)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._rewrite: asyncio.TimerHandle | None = None

    def request_stop(self) -> None:
        """Begin to stop; `run` returns when all processes have ended."""
        self._stop_requested.set()

    async def run(self) -> None:
        """Start everything, and return after `request_stop` when all of it has ended."""
        self._write()
        try:
            starting = asyncio.create_task(self._start())
            await self._stop_requested.wait()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        finally:
            await self._stop()
            self._forget()
            if self._guardian is not None:
                self._guardian.close()
            for log in self._logs:
                log.close()

    async def _start(self) -> None:
        servers = self._of(Phase.SERVER)
        self._launch(servers)
        await asyncio.gather(*(_settled(server) for server in servers))
        self._launch([*self._of(Phase.SERVICE), *self._of(Phase.GATEWAY)])

    def _launch(self, processes: Sequence[ManagedProcess]) -> None:
        self._tasks.extend(asyncio.create_task(process.run(), name=process.spec.name) for process in processes)

    async def _stop(self) -> None:
        for phase in reversed(Phase):
            await asyncio.gather(*(process.stop(self._grace_s) for process in self._of(phase)))
        await asyncio.gather(*self._tasks)

    def _of(self, phase: Phase) -> list[ManagedProcess]:
        return [process for process in self._processes if process.spec.phase is phase]

    def _write(self) -> None:
        self._record = self._record.model_copy(
            update={"processes": tuple(process.record for process in self._processes)}
        )
        self._save(self._record)
        if self._guardian is not None:
            self._guardian.update({process.record.pid for process in self._processes} - {0})

    def _save(self, record: MeshRecord) -> None:
        """Write the record, now or as soon as the disk takes it; the processes do not depend on it."""
        pending, self._rewrite = self._rewrite, None
        if pending is not None:
            pending.cancel()
        try:
            write_mesh(self._state.mesh_file, record)
        except OSError as error:
            if pending is None:
                _say(f"{self._state.mesh_file} cannot be written: {error.strerror}")
            self._rewrite = asyncio.get_running_loop().call_later(REWRITE_AFTER_S, self._save, record)

    def _forget(self) -> None:
        """Leave what the next start needs: token and ports."""
        ended = {"supervisor_pid": 0, "supervisor_started_at": 0.0, "processes": ()}
        self._save(self._record.model_copy(update=ended))


async def _settled(server: ManagedProcess) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(server.spec.max_wait_s):
            await server.wait_settled()


def _say(text: str) -> None:
    with suppress(OSError):  # the supervisor's own log may lie on the same full disk
        print(f"stagemesh: {text}", file=sys.stderr, flush=True)
