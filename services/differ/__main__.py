"""`python -m services.differ`"""

from __future__ import annotations

from services.differ.config import DifferConfig
from services.differ.service import DifferService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: DifferConfig) -> DifferService:
    return DifferService(mesh, config)


def main() -> None:
    launch("differ", DifferConfig, compose, lambda mesh, config: config.listen)


if __name__ == "__main__":
    main()
