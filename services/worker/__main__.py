"""`python -m services.worker`"""

from __future__ import annotations

from services.worker.config import WorkerConfig
from services.worker.service import WorkerService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


async def serve_worker(mesh: MeshConfig, config: WorkerConfig) -> None:
    service = WorkerService(mesh, config)
    await serve(service, mesh, config.listen, option="worker.listen (STAGEMESH_WORKER__LISTEN)")


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("worker", WorkerConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("worker").instance, level=mesh.log_level)
    run(serve_worker(mesh, config))


if __name__ == "__main__":
    main()
