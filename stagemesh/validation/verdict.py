"""What a check says about a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    ERROR = "error"
    """The text does not satisfy what was asked."""
    WARNING = "warning"
    """Worth knowing; the text stays valid."""


@dataclass(frozen=True, kw_only=True)
class Issue:
    pointer: str
    """JSON Pointer into the text's value; empty for the whole."""
    rule: str
    """The keyword or rule, e.g. `type`, `required`, `anchor.near`, `json.syntax`."""
    message: str
    """A sentence that a caller can act on."""
    severity: Severity = Severity.ERROR
    suggestion: str = ""
    """JSON of a value that would satisfy the rule, if one is certain."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    valid: bool
    value: str = ""
    """The parsed value as compact JSON; empty if the text is no JSON or need not be."""
    issues: tuple[Issue, ...] = ()


def verdict_of(issues: Sequence[Issue], value: str = "", *, max_issues: int) -> Verdict:
    """The verdict with its first `max_issues` issues, errors before warnings."""
    ordered = sorted(issues, key=lambda issue: issue.severity is Severity.WARNING)
    shown = ordered[:max_issues]
    if len(ordered) > max_issues:
        more = f"there are {len(ordered)} issues; {len(ordered) - max_issues} of them are not listed"
        shown.append(Issue(pointer="", rule="more", message=more, severity=shown[-1].severity))
    return Verdict(valid=all(issue.severity is Severity.WARNING for issue in issues), value=value, issues=tuple(shown))


def to_data(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain JSON data."""
    issues = [{**vars(issue), "severity": issue.severity.value} for issue in verdict.issues]
    return {"valid": verdict.valid, "value": verdict.value, "issues": issues}


def from_data(data: dict[str, Any]) -> Verdict:
    issues = tuple(Issue(**{**issue, "severity": Severity(issue["severity"])}) for issue in data["issues"])
    return Verdict(valid=data["valid"], value=data["value"], issues=issues)
