"""The files of the served models: do they hold numbers that are not finite."""

from __future__ import annotations

from stagemesh.models.errors import ModelError
from stagemesh.models.finite import not_finite
from stagemesh.models.store import locate
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.mesh_config import MeshConfig


def broken_weights(mesh: MeshConfig | None) -> tuple[str, ...]:
    """`model: tensor` of each; models whose files are not on this machine are passed over."""
    found: list[str] = []
    for model in mesh.serve if mesh else ():
        try:
            found += [f"{model}: {tensor}" for tensor in not_finite(locate(mesh, model))] if mesh else []
        except (ConfigError, ModelError, OSError, ValueError):
            continue  # what keeps a model from loading is told by its engine
    return tuple(found)
