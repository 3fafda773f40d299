"""Repairs and findings as plain JSON data, as they go into the sandbox and out of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from services.corrector.changes import Change
from services.corrector.proposals import ABSENT, Doubt, Findings, Problem, Proposal
from services.corrector.repair import DOUBT, Repair
from stagemesh.validation.json_text import dump, parse
from stagemesh.validation.verdict import Issue, Severity, from_data, to_data


def repair_data(repair: Repair) -> dict[str, Any]:
    changes = [asdict(change) for change in repair.changes]
    return {"text": repair.text, "verdict": to_data(repair.verdict), "changes": changes, "certain": repair.certain}


def repair_from(data: dict[str, Any]) -> Repair:
    changes = tuple(Change(**change) for change in data["changes"])
    return Repair(text=data["text"], verdict=from_data(data["verdict"]), changes=changes, certain=data["certain"])


def problem_data(problem: Problem) -> dict[str, Any]:
    """As far as questions are made of it; without the schema."""
    return {
        "value": "" if problem.value is ABSENT else dump(problem.value),
        "source": problem.source,
        "doubted": [issue.pointer for issue in problem.issues if issue.rule == DOUBT],
        "changed": list(problem.changed),
        "unsure": list(problem.unsure),
    }


def problem_from(data: dict[str, Any], schema: Any) -> Problem:
    doubts = (Issue(pointer=pointer, rule=DOUBT, message="", severity=Severity.WARNING) for pointer in data["doubted"])
    return Problem(
        text="",
        value=parse(data["value"], max_depth=1_000) if data["value"] else ABSENT,
        schema=schema,
        source=data["source"],
        issues=tuple(doubts),
        changed=tuple(data["changed"]),
        unsure=tuple(data["unsure"]),
    )


def findings_data(findings: Findings) -> dict[str, Any]:
    """Values go as JSON texts, so that no digit is lost; an empty one says ABSENT."""
    return {
        "proposals": [
            {**vars(proposal), "value": "" if proposal.value is ABSENT else dump(proposal.value)}
            for proposal in findings.proposals
        ],
        "doubts": [vars(doubt) for doubt in findings.doubts],
        "confirmed": list(findings.confirmed),
        "settles_all": findings.settles_all,
        "forwards": findings.forwards,
    }


def findings_from(data: dict[str, Any]) -> Findings:
    return Findings(
        proposals=tuple(
            Proposal(
                **{**proposal, "value": parse(proposal["value"], max_depth=1_000) if proposal["value"] else ABSENT}
            )
            for proposal in data["proposals"]
        ),
        doubts=tuple(Doubt(**doubt) for doubt in data["doubts"]),
        confirmed=tuple(data["confirmed"]),
        settles_all=data["settles_all"],
        forwards=data["forwards"],
    )
