"""Fixtures that several areas share."""

from __future__ import annotations

import pytest

from stagemesh.models.pull import pull
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig


@pytest.fixture(scope="session")
def default_model_files() -> ModelFiles:
    """The default model, pulled into the user's cache once."""
    return pull(read_source(environ={}).shared(MeshConfig))
