"""Where in a schema the thing is that no grammar can be made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from stagemesh.validation.pointer import Path

MAX_TRIALS = 200
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
SINGLE = ("items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else")
DEFINITIONS = ("$defs", "definitions")


def path_of_fault(schema: dict[str, Any], is_bad: Callable[[dict[str, Any]], bool]) -> Path:
    """The way to the smallest part of a bad schema that is bad by itself, with the schema's definitions at hand.

    `is_bad` may change what it gets. The search gives up after MAX_TRIALS, with as much of the way as it has found.
    """
    definitions = {key: schema[key] for key in DEFINITIONS if key in schema}
    path: Path = ()
    part, trials_left = schema, MAX_TRIALS
    while True:
        for step, child in _children(part):
            trials_left -= 1
            if trials_left < 0:
                return path
            if is_bad(deepcopy(definitions | child)):
                path, part = (*path, *step), child
                break
        else:
            return path


def _children(schema: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for key in MAPS:
        if isinstance(named := schema.get(key), dict):
            yield from (((key, name), child) for name, child in named.items() if isinstance(child, dict))
    for key in LISTS:
        if isinstance(listed := schema.get(key), list):
            yield from (((key, index), child) for index, child in enumerate(listed) if isinstance(child, dict))
    for key in SINGLE:
        if isinstance(child := schema.get(key), dict):
            yield (key,), child
