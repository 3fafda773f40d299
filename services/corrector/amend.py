"""Apply what a content step found to a repaired text: proposals as listed changes, doubts, confirmations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from services.corrector.changes import Change
from services.corrector.proposals import ABSENT, Doubt, Findings, Proposal
from services.corrector.repair import DOUBT, Repair, is_certain
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.json_text import dump, parse
from stagemesh.validation.pointer import find, parse_pointer
from stagemesh.validation.rule import Rule
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue, Severity

CONFIRMED = 0.85


def amended(
    validator: Validator,
    repair: Repair,
    findings: Findings,
    constraint: Constraint,
    demands: Sequence[Anchor | Rule],
    min_confidence: float,
) -> Repair:
    """The repair with the findings. Proposals whose pointer leads nowhere are left out."""
    value: Any = parse(repair.verdict.value, max_depth=1_000) if repair.verdict.value else ABSENT
    changes, text, verdict = list(_confirmed(repair.changes, findings)), repair.text, repair.verdict
    for proposal in findings.proposals:
        value, change = _applied(value, proposal, min_confidence)
        if change is not None:
            changes.append(change)
    doubts = [issue for issue in verdict.issues if issue.rule == DOUBT and issue.pointer not in findings.confirmed]
    doubts += [_issue(doubt) for doubt in findings.doubts]
    if value is not ABSENT and any(change.applied for change in changes[len(repair.changes) :]):
        text = dump(value)
    verdict = validator.validate(text, constraint, demands)
    verdict = replace(verdict, issues=(*verdict.issues, *doubts))
    certain = is_certain(verdict, changes) and not doubts
    return Repair(text=text, verdict=verdict, changes=tuple(changes), certain=certain)


def _confirmed(changes: Sequence[Change], findings: Findings) -> Sequence[Change]:
    return [
        replace(change, confidence=max(change.confidence, CONFIRMED))
        if (change.pointer in findings.confirmed or findings.settles_all) and change.applied
        else change
        for change in changes
    ]


def _applied(value: Any, proposal: Proposal, min_confidence: float) -> tuple[Any, Change | None]:
    names = parse_pointer(proposal.pointer)
    parents = [path for path, _ in find(value, names[:-1])] if names and value is not ABSENT else []
    if names and len(parents) != 1:
        return value, None
    path = parents[0] if parents else ()
    before = _at(value, (*path, *names[-1:])) if names else value
    applied = proposal.confidence >= min_confidence
    change = Change(
        pointer=proposal.pointer,
        before="" if before is ABSENT else dump(before),
        after="" if proposal.value is ABSENT else dump(proposal.value),
        reason=proposal.reason,
        confidence=proposal.confidence,
        step=proposal.step,
        applied=applied,
    )
    if change.before == change.after:
        return value, None
    if not applied:
        return value, change
    return (_with(value, (*path, names[-1]), proposal.value) if names else proposal.value), change


def _at(value: Any, names: Sequence[str | int]) -> Any:
    for name in names:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and str(name).isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return ABSENT
    return value


def _with(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """A copy of `value` with `new` at the end of the path, which may add or remove a member or an item."""
    name, rest = path[0], path[1:]
    copy = value.copy()
    if isinstance(copy, list):
        index = min(int(name), len(copy))
        if rest:
            copy[index] = _with(copy[index], rest, new)
        else:
            copy[index : index + 1] = [] if new is ABSENT else [new]
    elif rest:
        copy[name] = _with(copy[name], rest, new)
    elif new is ABSENT:
        copy.pop(name, None)
    else:
        copy[name] = new
    return copy


def _issue(doubt: Doubt) -> Issue:
    message = f"{doubt.pointer or 'the value'}: {doubt.reason}"
    return Issue(pointer=doubt.pointer, rule=DOUBT, message=message, severity=Severity.WARNING)
