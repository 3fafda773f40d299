"""A rule as plain data: what is declared about fields of a value, or about a long text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagemesh.validation.anchors import Anchor
    from stagemesh.validation.constraint import Constraint

TEXT = "text"
"""The kind of rules about long texts; the others are about fields of a JSON value."""
STORED = "set"
"""The kind of a name that stands for stored rules, until they are put in its place."""


@dataclass(frozen=True)
class Rule:
    kind: str
    """`number`, `date`, `synonyms`, `sum`, `product`, `order`, `table`, TEXT or STORED."""
    source: str
    """Its fields as JSON, named as in common.proto."""
    index: str = ""
    """The file of the stored set that `citations.ids` names."""

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.source)
        return fields

    @property
    def pointer(self) -> str:
        """Of a text's rules; `/` for those that are about a value, whatever they point to."""
        return self.fields.get("pointer", "") if self.kind == TEXT else "/"

    @property
    def set_name(self) -> str:
        """The stored set that it needs, if any."""
        name: str = self.fields.get("citations", {}).get("ids", {}).get("set", "") if self.kind == TEXT else ""
        return name


def needs_json(constraint: Constraint, demands: Sequence[Anchor | Rule]) -> bool:
    """Whether the text must be JSON for all of this to be checked."""
    return constraint.is_json or any(demand.pointer for demand in demands)
