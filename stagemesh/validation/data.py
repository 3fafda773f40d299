"""Constraints and anchors as plain JSON data, as they go into the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind


def request_data(constraint: Constraint, anchors: Sequence[Anchor]) -> dict[str, Any]:
    return {
        "constraint": [constraint.kind.value, constraint.source, constraint.choices],
        "anchors": [[anchor.pointer, anchor.keys, anchor.ignore_case] for anchor in anchors],
    }


def constraint_from(data: dict[str, Any]) -> Constraint:
    kind, source, choices = data["constraint"]
    return Constraint(Kind(kind), source, tuple(choices))


def anchors_from(data: dict[str, Any]) -> list[Anchor]:
    return [Anchor(pointer, tuple(keys), ignore_case) for pointer, keys, ignore_case in data["anchors"]]
