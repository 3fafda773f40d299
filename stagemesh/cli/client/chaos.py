"""Faults on purpose in the processes of a running mesh."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import psutil

from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.faults.v1 import faults_pb2, faults_pb2_grpc
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessRecord
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc

TIMEOUT_S = 5.0
SERVICE_OF = {
    "admit": "gateway",
    "analyze": "tokenizer",
    "tokenize": "tokenizer",
    "detokenize": "tokenizer",
    "cache": "cache",
    "validate": "validator",
    "correct": "corrector",
}
"""Who runs a stage; the others are the engine's."""
SERVICES = ("gateway", "tokenizer", "engine", "cache", "validator", "corrector")
NETWORK = "lo"


@dataclass(frozen=True, kw_only=True)
class Options:
    rate: float = 1.0
    times: int = 0
    ms: int = 0
    layer: int | None = None
    seed: int = 0


async def inject(record: MeshRecord, stage: str, kind: str, options: Options, only: str = "") -> list[str]:
    """Post a fault in all processes that run `stage`, or in the one named `only`; gives their names.

    Raises CommandError.
    """
    fault = faults_pb2.Fault(
        stage=stage,
        kind=faults_pb2.FaultKind.Value(f"FAULT_KIND_{kind.upper()}"),
        rate=options.rate,
        times=options.times,
        wait_ms=options.ms,
        seed=options.seed,
        layer=options.layer,
    )
    service = SERVICE_OF.get(stage, "engine")
    processes = [process for process in _processes(record, service) if not only or process.name == only]
    if not processes:
        raise CommandError(f"no process{f' named {only}' if only else ''} that runs now runs {stage}", Exit.UNREACHABLE)
    if options.layer is not None and service == "engine":
        for process in processes:
            await _check_layer(record, process, options.layer)
    for process in processes:
        async with _faults(record, process) as (stub, options_):
            await stub.Inject(faults_pb2.InjectRequest(fault=fault), **options_)
    return [process.name for process in processes]


async def _check_layer(record: MeshRecord, process: ProcessRecord, layer: int) -> None:
    """Raises CommandError where the engine's model has no such layer."""
    channel = dial((process.address,))
    try:
        answer = await engine_pb2_grpc.EngineServiceStub(channel).Describe(
            engine_pb2.DescribeRequest(), timeout=TIMEOUT_S, metadata=((MESH_TOKEN_KEY, record.token),)
        )
    except grpc.aio.AioRpcError as error:
        raise CommandError(f"{process.name}: {from_rpc(error).message}", Exit.FAILED) from error
    finally:
        await channel.close()
    if layer >= answer.num_layers:
        last = answer.num_layers - 1
        raise CommandError(f"{process.name} has no layer {layer}: its model has the layers 0 to {last}", Exit.USAGE)


async def list_faults(record: MeshRecord) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for process in (process for service in SERVICES for process in _processes(record, service)):
        if _is_stopped(process):
            continue
        async with _faults(record, process) as (stub, options):
            answer = await stub.List(faults_pb2.ListRequest(), **options)
        rows += [_row(process, posted) for posted in answer.faults]
    stopped = [process for process in record.processes if _is_stopped(process)]
    return rows + [{"process": process.name, "kind": "hang"} for process in stopped]


async def clear(record: MeshRecord, stage: str) -> int:
    """Take down all faults, or those of one stage; gives their number."""
    num_cleared = 0
    if not stage:
        for process in (process for process in record.processes if _is_stopped(process)):
            os.kill(process.pid, signal.SIGCONT)
            num_cleared += 1
        num_cleared += _undelay_network()
    for process in (process for service in SERVICES for process in _processes(record, service)):
        async with _faults(record, process) as (stub, options):
            num_cleared += (await stub.Clear(faults_pb2.ClearRequest(stage=stage), **options)).num_cleared
    return num_cleared


def harm_process(record: MeshRecord, name: str, kind: str) -> str:
    """Kill or stop a process of the mesh; gives a sentence. Raises CommandError."""
    process = next((process for process in record.processes if process.name == name), None)
    if process is None or not process.pid:
        known = ", ".join(process.name for process in record.processes)
        raise CommandError(f"there is no stage and no running process {name!r}; processes: {known}", Exit.USAGE)
    _check_allowed(record)
    if kind == "kill":
        os.kill(process.pid, signal.SIGKILL)
        return f"{name} was killed; the supervisor starts it again"
    if kind == "hang":
        os.kill(process.pid, signal.SIGSTOP)
        return f"{name} stands still; `stagemesh chaos clear` lets it go on"
    raise CommandError(f"a process can fail by kill and hang, not by {kind}", Exit.USAGE)


def delay_network(record: MeshRecord, kind: str, ms: int) -> None:
    """Delay every packet of the loopback. Raises CommandError where that is not permitted."""
    if kind != "delay":
        raise CommandError(f"the network can fail by delay, not by {kind}", Exit.USAGE)
    _check_allowed(record)
    _tc("add", "root", "netem", "delay", f"{ms}ms")


def _undelay_network() -> int:
    if shutil.which("tc") is None:
        return 0
    shown = subprocess.run(["tc", "qdisc", "show", "dev", NETWORK], capture_output=True, text=True, check=False)
    if "netem" not in shown.stdout:
        return 0
    _tc("del", "root")
    return 1


def _tc(verb: str, *arguments: str) -> None:
    if (tc := shutil.which("tc")) is None:
        raise CommandError("delaying the network needs `tc` (package iproute2)", Exit.FAILED)
    command = [tc, "qdisc", verb, "dev", NETWORK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"tc refuses: {done.stderr.strip()}; it needs root, or CAP_NET_ADMIN", Exit.FAILED)


def _check_allowed(record: MeshRecord) -> None:
    """Raises CommandError where the mesh refuses faults."""
    gateway = _processes(record, "gateway")
    if not gateway:
        return

    async def ask() -> None:
        async with _faults(record, gateway[0]) as (stub, options):
            await stub.List(faults_pb2.ListRequest(), **options)

    asyncio.run(ask())


def _processes(record: MeshRecord, service: str) -> list[ProcessRecord]:
    """Those that run, of one service."""
    return [
        process
        for process in record.processes
        if process.pid and (process.name == service or process.name.rpartition("-")[0] == service)
    ]


def _is_stopped(process: ProcessRecord) -> bool:
    try:
        return bool(process.pid) and psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


@asynccontextmanager
async def _faults(
    record: MeshRecord, process: ProcessRecord
) -> AsyncIterator[tuple[faults_pb2_grpc.FaultsServiceStub, dict[str, Any]]]:
    """A stub and the options of its calls. Raises CommandError for what a call in the block says."""
    channel = dial((process.address,))
    try:
        yield (
            faults_pb2_grpc.FaultsServiceStub(channel),
            {"timeout": TIMEOUT_S, "metadata": ((MESH_TOKEN_KEY, record.token),)},
        )
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            refused = "faults on purpose are refused where `environment` is `production`"
            raise CommandError(f"{process.name}: {refused}", Exit.FAILED) from error
        raise CommandError(f"{process.name}: {from_rpc(error).message}", Exit.FAILED) from error
    finally:
        await channel.close()


def _row(process: ProcessRecord, posted: faults_pb2.PostedFault) -> dict[str, Any]:
    fault = posted.fault
    return {
        "process": process.name,
        "stage": fault.stage,
        "kind": faults_pb2.FaultKind.Name(fault.kind).removeprefix("FAULT_KIND_").lower(),
        "rate": fault.rate,
        **({"times": fault.times} if fault.times else {}),
        **({"layer": fault.layer} if fault.HasField("layer") else {}),
        "happened": posted.num_struck,
    }
