"""Helpers for tests of the supervisor: fake services, and waiting for what must become true."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessRecord, ProcessState, read_mesh
from stagemesh.cli.supervisor.ports import assign_ports
from stagemesh.cli.supervisor.probe import GrpcProbe
from stagemesh.cli.supervisor.settings import SupervisorConfig
from stagemesh.cli.supervisor.spec import Phase, ProcessSpec
from stagemesh.cli.supervisor.state_dir import StateDir
from stagemesh.cli.supervisor.supervisor import Supervisor

FAKE = Path(__file__).with_name("fake_service.py")
SETTINGS = SupervisorConfig(probe_interval_s=0.1, stable_after_s=60.0)


def fake_spec(name: str, *arguments: str, phase: Phase = Phase.SERVICE, max_wait_s: float | None = None) -> ProcessSpec:
    port = assign_ports([name], {})[name]
    return ProcessSpec(
        name=name,
        command=(sys.executable, str(FAKE), "--port", str(port), *arguments),
        environment={"STAGEMESH_INSTANCE": name},
        address=f"127.0.0.1:{port}",
        probe=GrpcProbe(f"127.0.0.1:{port}", "fake"),
        phase=phase,
        max_wait_s=max_wait_s,
    )


@asynccontextmanager
async def supervised(
    folder: Path, specs: Sequence[ProcessSpec], settings: SupervisorConfig = SETTINGS, drain_grace_s: float = 2.0
) -> AsyncIterator[StateDir]:
    """A supervisor over `specs` that is stopped, with all its processes, at the end."""
    state = StateDir(folder)
    state.create()
    supervisor = Supervisor(specs, state=state, record=MeshRecord(), settings=settings, drain_grace_s=drain_grace_s)
    running = asyncio.create_task(supervisor.run())
    try:
        yield state
    finally:
        supervisor.request_stop()
        await running


def record_of(state: StateDir, name: str) -> ProcessRecord:
    record = read_mesh(state.mesh_file)
    assert record is not None
    return next(process for process in record.processes if process.name == name)


async def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, f"never happened: {what}"
        await asyncio.sleep(0.02)


async def becomes(state: StateDir, name: str, wanted: ProcessState, *, restarts: int = 0) -> ProcessRecord:
    """Wait until the process is in the state `wanted` after at least `restarts` restarts."""

    def reached() -> bool:
        record = read_mesh(state.mesh_file)
        return record is not None and any(
            process.name == name and process.state is wanted and process.restarts >= restarts
            for process in record.processes
        )

    await eventually(reached, f"{name} is {wanted}")
    return record_of(state, name)
