from __future__ import annotations

import pytest

from services.tokenizer.loaded_model import LoadedModel, load_model
from stagemesh.models.store import ModelFiles


@pytest.fixture(scope="session")
def model(default_model_files: ModelFiles) -> LoadedModel:
    return load_model(default_model_files, "auto")


@pytest.fixture(scope="session")
def reference_model(default_model_files: ModelFiles) -> LoadedModel:
    return load_model(default_model_files, "tokenizers")
