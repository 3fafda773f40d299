"""`python -m services.gateway`: the public gRPC and HTTP fronts of the mesh."""

from __future__ import annotations

from services.gateway.config import GatewayConfig
from services.gateway.service import compose
from stagemesh.runtime.launch import launch


def main() -> None:
    launch(
        "gateway",
        GatewayConfig,
        compose,
        lambda mesh, config: config.listen or mesh.addresses.gateway,
        option="--grpc-port",
        public=True,
    )


if __name__ == "__main__":
    main()
