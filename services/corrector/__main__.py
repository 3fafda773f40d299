"""`python -m services.corrector`"""

from __future__ import annotations

from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("corrector", CorrectorConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("corrector").instance, level=mesh.log_level)
    address = config.listen or mesh.addresses.corrector[0]
    run(serve(CorrectorService(mesh, config), mesh, address, option="corrector.listen (STAGEMESH_CORRECTOR__LISTEN)"))


if __name__ == "__main__":
    main()
