"""`python -m services.engine`"""

from __future__ import annotations

import os

from services.engine.config import EngineConfig
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import Service


async def compose(mesh: MeshConfig, config: EngineConfig) -> Service:
    # Compute threads that spin while they wait fall to a fifth of their speed as soon as another process is busy
    # (docs/decisions/0011). OpenMP reads this when torch is imported, so torch is imported after it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from services.engine.service import EngineService

    return EngineService(config, mesh)


def main() -> None:
    launch("engine", EngineConfig, compose, lambda mesh, config: config.listen or mesh.addresses.engine[0])


if __name__ == "__main__":
    main()
