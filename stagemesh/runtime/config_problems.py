"""What is wrong with a configuration, as sentences about keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

KeyPath = tuple[str, ...]


class KeyProblem(ValueError):
    """Raised in a model's validator that looks at several keys: names the one that must change."""

    def __init__(self, path: KeyPath, sentence: str) -> None:
        super().__init__(f"{'.'.join(path)} {sentence}")
        self.path = path
        self.sentence = sentence


def problems(error: ValidationError, model: type[BaseModel], others: Iterable[str]) -> list[tuple[KeyPath, str]]:
    """Each bad key below `model`, and what is wrong with it. `others`: keys beside the model's own at its top."""
    return [_problem(dict(found), model, others) for found in error.errors(include_url=False)]


def _problem(found: dict[str, Any], model: type[BaseModel], others: Iterable[str]) -> tuple[KeyPath, str]:
    path = tuple(str(part) for part in found["loc"])
    cause = found.get("ctx", {}).get("error")
    if isinstance(cause, KeyProblem):
        return (*path, *cause.path), cause.sentence
    if found["type"] == "missing":
        return path, "is missing"
    if found["type"] == "extra_forbidden":
        known = [*_keys_at(model, path[:-1]), *(others if len(path) == 1 else ())]
        near = difflib.get_close_matches(path[-1], known, n=1)
        return path, "is not a known key" + (f"; do you mean {near[0]}?" if near else "")
    sentence = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return path, f"{sentence} (got {found['input']!r})"


def _keys_at(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys of the section at `path` below `model`."""
    while path:
        field = model.model_fields.get(path[0])
        if field is None:
            return []
        inner = [kind for kind in (field.annotation, *get_args(field.annotation)) if _is_model(kind)]
        if not inner:
            return []
        in_mapping = not _is_model(field.annotation)
        model, path = inner[0], path[2 if in_mapping else 1 :]
    return list(model.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
