"""`stagemesh bench grpc` and `stagemesh bench gateway`: what the way to the engine costs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from services.engine.config import EngineConfig
from services.engine.engine import load_model
from services.engine.measure import Workload, bench_core
from stagemesh.cli.bench.callers import through_engine, through_gateway
from stagemesh.cli.bench.compare import ComparePlan, compare_both
from stagemesh.cli.bench.engine import EngineBenchOptions, OnProgress, engine_config, files_of
from stagemesh.cli.bench.engine_process import START_TIMEOUT_S, engine_process, free_port
from stagemesh.cli.bench.streams import Stream
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.mesh_access import stop_supervisor
from stagemesh.cli.starting import start_supervisor
from stagemesh.cli.supervisor.mesh_file import MeshRecord
from stagemesh.cli.supervisor.mesh_settings import reachable, read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.waiting import wait_begun, wait_ready

STOP_TIMEOUT_S = 60.0


def measure_grpc(options: EngineBenchOptions, on_progress: OnProgress) -> dict[str, Any]:
    """An engine process of its own against the engine in this process. Raises ConfigError or CommandError."""
    config = engine_config(options)
    on_progress("loading the model, here and in an engine process")
    model = load_model(files_of(options, config), config)
    core = bench_core(model)

    async def main() -> dict[str, Any]:
        async with engine_process(engine_environment(options, config)) as (stub, pid):

            async def serve(workload: Workload) -> list[Stream]:
                return await through_engine(stub, workload)

            plan = ComparePlan(serve, {"engine": pid}, repeats=options.repeats, quick=options.quick)
            return await compare_both(plan, core, on_progress)

    figures = uvloop.run(main())
    return {"model": model.identity.model, "backend": model.backend, "threads": config.threads, **figures}


def measure_gateway(
    options: EngineBenchOptions, connection: Connection | None, on_progress: OnProgress
) -> dict[str, Any]:
    """A whole mesh, by default one of its own, against the engine in this process."""
    config = engine_config(options)
    on_progress("loading the model")
    model = load_model(files_of(options, config), config)
    core = bench_core(model)

    async def main(connection: Connection, processes: Mapping[str, int]) -> dict[str, Any]:
        async with connection.open() as stub:

            async def serve(workload: Workload) -> list[Stream]:
                return await through_gateway(stub, connection, workload, options.model)

            plan = ComparePlan(serve, processes, repeats=options.repeats, quick=options.quick)
            return await compare_both(plan, core, on_progress)

    if connection is not None:
        figures = uvloop.run(main(connection, {}))
    else:
        with _own_mesh(options, config, on_progress) as record:
            own = Connection(address=reachable(record.grpc_address), api_key="dev", timeout_s=START_TIMEOUT_S)
            processes = {process.name: process.pid for process in record.processes if process.pid}
            figures = uvloop.run(main(own, processes))
    return {"model": model.identity.model, "backend": model.backend, "threads": config.threads, **figures}


def engine_environment(options: EngineBenchOptions, config: EngineConfig) -> Mapping[str, str]:
    """What makes an engine process like the one here."""
    values = {
        "STAGEMESH_ENGINE__THREADS": str(config.threads),
        "STAGEMESH_ENGINE__MODES": f"[{', '.join(config.modes)}]",
        "STAGEMESH_ENGINE__DEFAULT_MODE": config.default_mode or "",
        "STAGEMESH_ENGINE__MODEL": options.model,
        "STAGEMESH_ENGINE__SPECULATION__METHOD": "'off'",  # a token is a step, as in process
        "STAGEMESH_ENGINE__BACKEND": options.backend or "",
        "STAGEMESH_CONFIG": str(options.config.absolute()) if options.config else "",
    }
    return {key: value for key, value in values.items() if value}


@contextmanager
def _own_mesh(options: EngineBenchOptions, config: EngineConfig, on_progress: OnProgress) -> Iterator[MeshRecord]:
    """A mesh in a folder of its own that is stopped and deleted at the end. Raises CommandError."""
    on_progress("starting a mesh")
    folder = Path(tempfile.mkdtemp(prefix="stagemesh-bench-"))
    up = UpOptions(config=options.config, state=folder, engines=1, grpc_port=free_port(), http_port=free_port())
    added = {key: value for key, value in engine_environment(options, config).items() if not key.endswith("__MODEL")}
    before = {key: os.environ.get(key) for key in added}
    os.environ.update(added)
    try:
        settings = read_settings(up)
        settings.state.create()
        supervisor = start_supervisor(up, settings, attached=False)
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    try:
        wait_begun(supervisor, settings.state)
        record = wait_ready(supervisor, settings.state, START_TIMEOUT_S)
        yield record
        stop_supervisor(record, STOP_TIMEOUT_S)
    finally:
        _end(supervisor)
        shutil.rmtree(folder, ignore_errors=True)


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    if supervisor.poll() is None:
        supervisor.send_signal(signal.SIGTERM)
        try:
            supervisor.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            supervisor.kill()
