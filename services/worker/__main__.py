"""`python -m services.worker`"""

from __future__ import annotations

from services.worker.config import WorkerConfig
from services.worker.service import WorkerService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: WorkerConfig) -> WorkerService:
    return WorkerService(mesh, config)


def main() -> None:
    launch("worker", WorkerConfig, compose, lambda mesh, config: config.listen)


if __name__ == "__main__":
    main()
