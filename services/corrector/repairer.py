"""The deterministic repair, in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from services.corrector.changes import Change
from services.corrector.repair import Repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.checker import Checker
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.rule import Rule
from stagemesh.validation.sandbox import LimitExceeded
from stagemesh.validation.verdict import from_data


class Repairer:
    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    async def repair(self, text: str, constraint: Constraint, anchors: Sequence[Anchor | Rule]) -> Repair:
        """Raises what `Checker` raises; a text whose repair takes too long is only validated."""
        try:
            data = await self._checker.call("repair", constraint, anchors, text=text)
        except LimitExceeded:
            verdict = await self._checker.validate(text, constraint, anchors)
            return Repair(text=text, verdict=verdict, changes=())
        changes = tuple(Change(**change) for change in data["changes"])
        return Repair(text=data["text"], verdict=from_data(data["verdict"]), changes=changes)
