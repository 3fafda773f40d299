"""`python -m services.validator`"""

from __future__ import annotations

from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("validator", ValidatorConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("validator").instance, level=mesh.log_level)
    address = config.listen or mesh.addresses.validator[0]
    run(serve(ValidatorService(config), mesh, address, option="validator.listen (STAGEMESH_VALIDATOR__LISTEN)"))


if __name__ == "__main__":
    main()
