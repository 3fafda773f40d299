"""`python -m services.gateway`: the public gRPC and HTTP fronts of the mesh."""

from __future__ import annotations

from services.gateway.config import GatewayConfig
from services.gateway.service import compose
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


async def _main(mesh: MeshConfig, config: GatewayConfig) -> None:
    service = await compose(mesh, config, process_identity("gateway"))
    await serve(service, mesh, config.listen or mesh.addresses.gateway, option="--grpc-port", public=True)


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("gateway", GatewayConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("gateway").instance, level=mesh.log_level)
    run(_main(mesh, config))


if __name__ == "__main__":
    main()
