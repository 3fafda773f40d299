"""The sandboxed process that repairs and validates: `python -m services.corrector.worker MEMORY_BYTES`."""

from __future__ import annotations

import sys
from typing import Any

from services.corrector.amend import amended
from services.corrector.chain import RepairChain
from services.corrector.content.judge import judge
from services.corrector.data import findings_from, problem_from, repair_data, repair_from
from services.corrector.proposals import ContentStep
from services.corrector.ranking.ask import ask
from services.corrector.ranking.question import questions_data
from services.corrector.repair import schema_of
from stagemesh.validation.data import anchors_from, constraint_from
from stagemesh.validation.limits import Limits
from stagemesh.validation.sandbox_child import Handlers, serve
from stagemesh.validation.worker import handlers as validation_handlers

CONTENT: ContentStep = judge
"""What compares values with a source, without a model."""


def handlers() -> Handlers:
    """Those of the validation, and three that take constraint, anchors, rules, limits and min_confidence:

    `repair {text, source}` and `amend {repair, findings}`; both give a repair (see `data`). `questions {problem}`
    gives what a model can be asked about its values.
    """
    chains: dict[Limits, RepairChain] = {}

    def chain_of(data: dict[str, Any]) -> RepairChain:
        limits = Limits(**data["limits"])
        if limits not in chains:
            chains.clear()
            chains[limits] = RepairChain(limits, CONTENT)
        return chains[limits]

    def repaired(data: dict[str, Any]) -> dict[str, Any]:
        result = chain_of(data).repair(
            data["text"], constraint_from(data), anchors_from(data), data["source"], data["min_confidence"]
        )
        return repair_data(result)

    def amend(data: dict[str, Any]) -> dict[str, Any]:
        chain = chain_of(data)
        constraint, demands = constraint_from(data), anchors_from(data)
        repair, findings = repair_from(data["repair"]), findings_from(data["findings"])
        return repair_data(amended(chain.validator, repair, findings, constraint, demands, data["min_confidence"]))

    def questions(data: dict[str, Any]) -> list[dict[str, Any]]:
        return questions_data(ask(problem_from(data["problem"], schema_of(constraint_from(data)))))

    return {**validation_handlers(), "repair": repaired, "amend": amend, "questions": questions}


if __name__ == "__main__":
    serve(handlers(), int(sys.argv[1]))
