"""`python -m services.engine`"""

from __future__ import annotations

import os

from services.engine.config import EngineConfig
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    # Compute threads that spin while they wait fall to a fifth of their speed as soon as another process is busy
    # (docs/decisions/0011). OpenMP reads this when torch is imported, so torch is imported after it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from services.engine.service import EngineService

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
