"""One case of the correction benchmark, and the line of JSON that `stagemesh correct --jsonl` takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    kind: str
    """Name of the fault, e.g. `trailing-comma`, or `clean`."""
    language: str
    """`en` or `zh`."""
    schema_name: str
    """Of the business object; its schema is in the train or in the unseen part, never in both."""
    text: str
    schema: dict[str, Any]
    truth: Any
    """The instance before the fault."""
    source: str | None = None
    anchors: dict[str, list[str]] | None = None
    """JSON Pointer → keys."""
    determined: bool = True
    """Whether text, schema, source and anchors say what the truth is; else a correction must not be certain."""

    def line(self) -> str:
        case: dict[str, Any] = {"id": self.id, "text": self.text, "schema": self.schema}
        if self.source is not None:
            case["source"] = self.source
        if self.anchors is not None:
            case["anchors"] = self.anchors
        return json.dumps(case, ensure_ascii=False)


def outcome(case: Case, result: dict[str, Any]) -> str:
    """`right`, `wrong` (valid, but not the truth), or `open` (not valid), with `-certain` where the result says so."""
    right = result["valid"] and same(result["value"], case.truth)
    name = "right" if right else "wrong" if result["valid"] else "open"
    return f"{name}-certain" if result["certain"] else name


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
