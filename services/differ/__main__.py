"""`python -m services.differ`"""

from __future__ import annotations

from services.differ.config import DifferConfig
from services.differ.service import DifferService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


async def serve_differ(mesh: MeshConfig, config: DifferConfig) -> None:
    service = DifferService(mesh, config)
    await serve(service, mesh, config.listen, option="differ.listen (STAGEMESH_DIFFER__LISTEN)")


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("differ", DifferConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("differ").instance, level=mesh.log_level)
    run(serve_differ(mesh, config))


if __name__ == "__main__":
    main()
