"""`python -m services.corrector`"""

from __future__ import annotations

from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: CorrectorConfig) -> CorrectorService:
    return CorrectorService(mesh, config)


def main() -> None:
    launch("corrector", CorrectorConfig, compose, lambda mesh, config: config.listen or mesh.addresses.corrector[0])


if __name__ == "__main__":
    main()
