"""`python -m services.cache`"""

from __future__ import annotations

from services.cache.config import CacheConfig
from services.cache.service import CacheService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("cache", CacheConfig)
        service = CacheService(mesh.ledger_url, config)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("cache").instance, level=mesh.log_level)
    address = config.listen or mesh.addresses.cache[0]
    run(serve(service, mesh, address, option="cache.listen (STAGEMESH_CACHE__LISTEN)"))


if __name__ == "__main__":
    main()
