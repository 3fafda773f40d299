"""A repaired text: what the steps of the chain hand on to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.corrector.changes import CERTAIN, Change
from services.corrector.proposals import ABSENT, Problem
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.formats import is_unmet_format
from stagemesh.validation.json_text import parse
from stagemesh.validation.rule import Rule
from stagemesh.validation.verdict import Verdict

DOUBT = "correction.doubt"
"""The rule of warnings about values that nothing determines."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    text: str
    verdict: Verdict
    changes: tuple[Change, ...] = ()
    certain: bool = False
    """Valid, every change is sure, and nothing is in doubt."""


def is_certain(verdict: Verdict, changes: Sequence[Change]) -> bool:
    """Whether a text is valid to its formats and everything that was done to it is sure; doubts stand in the verdict
    beside it."""
    if not verdict.valid or any(is_unmet_format(issue) for issue in verdict.issues):
        return False
    return all(change.applied and change.confidence >= CERTAIN for change in changes)


def schema_of(constraint: Constraint) -> Any:
    """The schema of a JSON constraint, parsed; of others: an object, or anything."""
    if constraint.kind is Kind.JSON_SCHEMA:
        return parse(constraint.source, max_depth=1_000)
    return {"type": "object"} if constraint.kind is Kind.JSON_OBJECT else True


def problem_of(
    text: str, repair: Repair, constraint: Constraint, demands: Sequence[Anchor | Rule], source: str
) -> Problem:
    """What a content step is given."""
    return Problem(
        text=text,
        value=parse(repair.verdict.value, max_depth=1_000) if repair.verdict.value else ABSENT,
        schema=schema_of(constraint),
        source=source,
        anchors=tuple(demand for demand in demands if isinstance(demand, Anchor)),
        issues=repair.verdict.issues,
        changed=tuple(change.pointer for change in repair.changes if change.applied),
        unsure=tuple(change.pointer for change in repair.changes if change.confidence < CERTAIN),
        is_open=not repair.certain,
    )
