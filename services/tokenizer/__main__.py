"""`python -m services.tokenizer`"""

from __future__ import annotations

from services.tokenizer.config import TokenizerConfig
from services.tokenizer.service import TokenizerService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: TokenizerConfig) -> TokenizerService:
    return TokenizerService(mesh, config)


def main() -> None:
    launch("tokenizer", TokenizerConfig, compose, lambda mesh, config: config.listen or mesh.addresses.tokenizer[0])


if __name__ == "__main__":
    main()
