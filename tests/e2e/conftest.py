"""Whole meshes: every service its own process, the default model, embedded servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mesh_support import Mesh

from stagemesh.models.store import ModelFiles


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    """One mesh for all tests that leave it as they found it."""
    running = Mesh(tmp_path_factory.mktemp("mesh"))
    running.up()
    yield running
    running.down()
