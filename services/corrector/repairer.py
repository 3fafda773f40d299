"""The deterministic repair, in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.corrector.changes import MIN_CONFIDENCE
from services.corrector.data import findings_data, problem_data, repair_data, repair_from
from services.corrector.proposals import Findings, Problem
from services.corrector.ranking.question import Question, questions_from
from services.corrector.repair import Repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.checker import Checker
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.json_text import dump
from stagemesh.validation.rule import Rule
from stagemesh.validation.sandbox import LimitExceeded


class Repairer:
    """Every method raises what `Checker` raises."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    async def repair(
        self,
        text: str,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        source: str = "",
        min_confidence: float = MIN_CONFIDENCE,
    ) -> Repair:
        """Raises what `Checker` raises; a text whose repair takes too long is only validated."""
        try:
            data = await self._checker.call(
                "repair", constraint, anchors, text=text, source=source, min_confidence=min_confidence
            )
        except LimitExceeded:
            verdict = await self._checker.validate(text, constraint, anchors)
            return Repair(text=text, verdict=verdict, certain=False)
        return repair_from(data)

    async def questions(self, problem: Problem) -> tuple[Question, ...]:
        """What a model can be asked about its values; nothing where finding that out takes too long."""
        constraint = Constraint(Kind.JSON_SCHEMA, dump(problem.schema))
        try:
            return questions_from(await self._checker.call("questions", constraint, (), problem=problem_data(problem)))
        except LimitExceeded:
            return ()

    async def amend(
        self,
        repair: Repair,
        findings: Findings,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        min_confidence: float,
    ) -> Repair:
        """The repair with what a content step found; as it was, and not certain, if that takes too long."""
        try:
            data = await self._checker.call(
                "amend",
                constraint,
                anchors,
                repair=repair_data(repair),
                findings=findings_data(findings),
                min_confidence=min_confidence,
            )
        except LimitExceeded:
            return replace(repair, certain=False)
        return repair_from(data)
