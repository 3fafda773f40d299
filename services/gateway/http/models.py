"""The served models: /v1/models."""

from __future__ import annotations

from collections.abc import Sequence

from services.gateway.adapters import SEPARATOR
from services.gateway.http.core import AdapterInfo, ModelInfo
from services.gateway.http.shape import JsonObject
from stagemesh.runtime.errors import NotFound

OWNER = "stagemesh"


def served_name(models: Sequence[ModelInfo], asked: str) -> str:
    """The model behind a name or alias; the default one for an empty name."""
    for model in models:
        if not asked or asked == model.name or asked in model.aliases:
            return model.name
    base, separator, adapter = asked.rpartition(SEPARATOR)
    return served_name(models, base) + separator + adapter if separator else asked


def list_objects(models: Sequence[ModelInfo], adapters: Sequence[AdapterInfo]) -> list[JsonObject]:
    """An object per name and alias; `root` is the model behind an alias or an adapter, whose `parent` it is as well."""
    bases = [_object(name, model) for model in models for name in (model.name, *model.aliases)]
    return bases + [
        _object(f"{adapter.base.name}{SEPARATOR}{adapter.name}", adapter.base) | {"parent": adapter.base.name}
        for adapter in adapters
    ]


def find_object(models: Sequence[ModelInfo], adapters: Sequence[AdapterInfo], name: str) -> JsonObject:
    """Raises NotFound."""
    for model_object in list_objects(models, adapters):
        if model_object["id"] == name:
            return model_object
    raise NotFound("MODEL_NOT_FOUND", f"the model {name[:100]!r} is not served here; see /v1/models", field="model")


def _object(name: str, model: ModelInfo) -> JsonObject:
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": OWNER,
        "root": model.name,
        "context_length": model.context_length or None,
    }
