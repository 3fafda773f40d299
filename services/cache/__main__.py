"""`python -m services.cache`"""

from __future__ import annotations

from services.cache.config import CacheConfig
from services.cache.service import CacheService
from stagemesh.runtime.launch import launch
from stagemesh.runtime.mesh_config import MeshConfig


async def compose(mesh: MeshConfig, config: CacheConfig) -> CacheService:
    return CacheService(
        mesh.ledger_url,
        config,
        kv_url=mesh.kv_url,
        tokenizer=mesh.addresses.tokenizer,
        engines=mesh.addresses.engine,
        state_dir=mesh.state_dir,
    )


def main() -> None:
    launch("cache", CacheConfig, compose, lambda mesh, config: config.listen or mesh.addresses.cache[0])


if __name__ == "__main__":
    main()
