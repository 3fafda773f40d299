"""The processes of a mesh: what the supervisor says, what the system says, and whether their health answers."""

from __future__ import annotations

import asyncio

import psutil

from stagemesh.cli.diagnose.evidence import ProcessEvidence
from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessRecord, is_same_process
from stagemesh.cli.supervisor.plan import HEALTH_NAMES
from stagemesh.cli.supervisor.probe import GrpcProbe, Health
from stagemesh.cli.supervisor.state_dir import StateDir

HEALTH_S = 3.0
MEMORY_WORDS = ("MemoryError", "Cannot allocate memory", "std::bad_alloc", "OUT_OF_MEMORY", "out of memory")
LOOKED_AT_LINES = 60


async def look_at_processes(record: MeshRecord, state: StateDir) -> tuple[ProcessEvidence, ...]:
    return tuple(await asyncio.gather(*(_look(process, state) for process in record.processes)))


async def _look(process: ProcessRecord, state: StateDir) -> ProcessEvidence:
    alive = is_same_process(process.pid, process.started_at)
    return ProcessEvidence(
        name=process.name,
        state=process.state.value,
        reason=process.reason,
        alive=alive,
        stopped=alive and _is_stopped(process.pid),
        answers=await _answers(process) if alive else False,
        restarts=process.restarts,
        last_words=_words_of_memory(process, state),
    )


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP))
    except psutil.Error:
        return False


async def _answers(process: ProcessRecord) -> bool:
    """Whether its health answers, whatever it says; the embedded servers are looked at by their own protocols."""
    service = _service_of(process.name)
    if service is None or not process.address:
        return True
    probe = GrpcProbe(process.address, HEALTH_NAMES[service])
    try:
        return await probe.check(HEALTH_S) is not Health.SILENT
    finally:
        await probe.close()


def _service_of(name: str) -> str | None:
    return next((service for service in HEALTH_NAMES if name == service or name.startswith(f"{service}-")), None)


def _words_of_memory(process: ProcessRecord, state: StateDir) -> str:
    """The last line of its log that speaks of memory, of an engine that is in trouble."""
    if not process.name.startswith("engine"):
        return ""
    lines = [
        line
        for line in last_lines(state.log_of(process.name), LOOKED_AT_LINES)
        if any(word in line for word in MEMORY_WORDS)
    ]
    return lines[-1][-300:] if lines else ""
