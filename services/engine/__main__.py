"""`python -m services.engine`"""

from __future__ import annotations

from services.engine.config import EngineConfig
from services.engine.service import EngineService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("engine", EngineConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("engine").instance, level=mesh.log_level)
    address = config.listen or mesh.addresses.engine[0]
    run(serve(EngineService(config, mesh), mesh, address, option="engine.listen"))


if __name__ == "__main__":
    main()
