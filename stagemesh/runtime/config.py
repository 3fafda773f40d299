"""Read `stagemesh.yaml` and the environment into typed, frozen sections; a bad value names its key and its place.

Order of precedence: environment (`STAGEMESH_ENGINE__MAX_RUNNING=8`), then the file, then defaults. Lists and
mappings in the environment are read as YAML, so `STAGEMESH_SERVE='{small: 2}'` works.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from stagemesh.runtime.config_problems import KeyPath, problems

SECTIONS = ("gateway", "tokenizer", "engine", "cache", "validator", "corrector", "differ", "worker", "supervisor")
"""Keys of the file that belong to one service each, or to `stagemesh up`; the others are in `MeshConfig`."""

SHORTHANDS = {"prefill_chunk_size": ("engine", "prefill_chunk_size")}
"""Top-level names that users of the field know, and where they belong."""

PREFIX = "STAGEMESH_"
NOT_CONFIG = frozenset(
    {"STAGEMESH_CONFIG", "STAGEMESH_INSTANCE", "STAGEMESH_STATE", "STAGEMESH_API_KEY", "STAGEMESH_TEST"}
)
"""Variables with this prefix that are no keys of the file (any `STAGEMESH_TEST_…` counts as well)."""

T = TypeVar("T", bound=BaseModel)


class ConfigError(Exception):
    """The configuration cannot be used; the message names each bad key and where it was set."""


class Section(BaseModel):
    """Base of every configuration model: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Source:
    """The merged raw configuration, and where each key came from."""

    def __init__(self, values: dict[str, Any], origins: dict[KeyPath, str]) -> None:
        self._values = values
        self._origins = origins

    def origin(self, path: KeyPath) -> str:
        """`stagemesh.yaml:12` or a variable's name, for the key at `path` or its nearest parent."""
        for length in range(len(path), 0, -1):
            if found := self._origins.get(path[:length]):
                return found
        return "defaults"

    def shared(self, model: type[T]) -> T:
        """Everything outside the services' sections, as `model`."""
        return self._validate(model, {key: value for key, value in self._values.items() if key not in SECTIONS}, ())

    def section(self, name: str, model: type[T]) -> T:
        """The section `name`, as `model`."""
        return self._validate(model, self._values.get(name) or {}, (name,))

    def check(self, path: KeyPath, values: Mapping[str, Any], model: type[BaseModel]) -> None:
        """Raises ConfigError for `values`, set at `path`, that are no keys of `model` or no values for them."""
        self._validate(model, values, path)

    def _validate(self, model: type[T], values: Any, prefix: KeyPath) -> T:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            others = () if prefix else (*SECTIONS, *SHORTHANDS)
            lines = [
                f"{self.origin((*prefix, *path))}: {'.'.join((*prefix, *path))}: {sentence}"
                for path, sentence in problems(error, model, others)
            ]
            raise ConfigError("\n".join(lines)) from None


def read_source(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Source:
    """Merge the file at `path` (or `$STAGEMESH_CONFIG`, or none) with the environment.

    Raises ConfigError when the file is missing, is not YAML or is not a mapping.
    """
    environ = os.environ if environ is None else environ
    path = path or (Path(environ["STAGEMESH_CONFIG"]) if environ.get("STAGEMESH_CONFIG") else None)
    values, origins = _read_file(path) if path else ({}, {})
    for key, (section, name) in SHORTHANDS.items():
        if key in values:
            values.setdefault(section, {}).setdefault(name, values.pop(key))
            origins[(section, name)] = origins[(key,)]
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX) and variable not in NOT_CONFIG and not variable.startswith("STAGEMESH_TEST_"):
            _set(values, origins, variable, text)
    return Source(values, origins)


def _set(values: dict[str, Any], origins: dict[KeyPath, str], variable: str, text: str) -> None:
    keys = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    keys = SHORTHANDS.get(keys[0], keys) if len(keys) == 1 else keys
    value = _value(text)
    node = values
    for key in keys[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{variable}: {key} is a single value, not a group of keys")
        node = child
    node[keys[-1]] = value
    origins[keys] = variable


def _value(text: str) -> Any:
    """Lists, mappings, null and quoted text as YAML has them; any other word stays as it is for the key's type to read,
    so that a name or a secret such as `78e6` is no number."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if value is None or isinstance(value, str | list | dict) else text.strip()


def _read_file(path: Path) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from None
    try:
        values, tree = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: is not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from None
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1: must be a mapping of keys to values")
    return values, {keys: f"{path}:{line}" for keys, line in _lines(tree, ())}


def _lines(node: yaml.Node | None, prefix: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*prefix, str(key.value))
            yield path, key.start_mark.line + 1
            yield from _lines(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            path = (*prefix, str(index))
            yield path, value.start_mark.line + 1
            yield from _lines(value, path)
