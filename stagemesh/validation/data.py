"""Constraints, anchors and rules as plain JSON data, as they go into the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.rule import Rule


def request_data(constraint: Constraint, anchors: Sequence[Anchor | Rule]) -> dict[str, Any]:
    return {
        "constraint": [constraint.kind.value, constraint.source, constraint.choices],
        "anchors": [
            [it.pointer, it.keys, it.ignore_case, it.set_name, it.index] for it in anchors if isinstance(it, Anchor)
        ],
        "rules": [[it.kind, it.source, it.index] for it in anchors if isinstance(it, Rule)],
    }


def constraint_from(data: dict[str, Any]) -> Constraint:
    kind, source, choices = data["constraint"]
    return Constraint(Kind(kind), source, tuple(choices))


def anchors_from(data: dict[str, Any]) -> list[Anchor | Rule]:
    """Anchors, then rules."""
    anchors = [Anchor(pointer, tuple(keys), *others) for pointer, keys, *others in data["anchors"]]
    return [*anchors, *(Rule(*fields) for fields in data["rules"])]
