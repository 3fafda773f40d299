"""Schemas with instances that are known to be valid or not: what a coverage of schemas is measured on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Instance:
    text: str
    """Compact JSON."""
    is_valid: bool


@dataclass(frozen=True)
class SchemaCase:
    name: str
    schema: str
    """JSON."""
    instances: tuple[Instance, ...]


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_cases(folder: Path, count: int | None, seed: int) -> Iterator[SchemaCase]:
    """Of files in MaskBench's form: `{"schema": …, "tests": [{"data": …, "valid": …}]}`; `count` of them, or all."""
    paths = sorted(folder.glob("**/*.json"))
    if count is not None and count < len(paths):
        paths = sorted(random.Random(seed).sample(paths, count))
    for path in paths:
        content = json.loads(path.read_text(encoding="utf-8"))
        instances = tuple(Instance(compact(test["data"]), test["valid"]) for test in content["tests"])
        yield SchemaCase(path.stem, compact(content["schema"]), instances)
