"""`python -m services.validator`"""

from __future__ import annotations

from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: ValidatorConfig) -> ValidatorService:
    return ValidatorService(config, ledger_url=mesh.ledger_url, state_dir=mesh.state_dir)


def main() -> None:
    launch("validator", ValidatorConfig, compose, lambda mesh, config: config.listen or mesh.addresses.validator[0])


if __name__ == "__main__":
    main()
