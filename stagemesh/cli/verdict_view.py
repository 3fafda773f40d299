"""What `stagemesh validate` and `stagemesh correct` show: one form, from the mesh or from this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.cli.exits import Exit

INCOMPLETE = frozenset({"anchor.limit", "rule.limit", "unvalidated"})
"""Rules of issues that say that not everything was looked at."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    valid: bool
    certain: bool
    """False where a change is below the confidence threshold, or where not everything could be known."""
    text: str
    value: str = ""
    """Compact JSON; empty where the text is none."""
    errors: Sequence[dict[str, Any]] = ()
    changes: Sequence[dict[str, Any]] = ()
    """`{"pointer", "from", "to", "reason", "confidence", "step", "applied"}`"""
    passes: int = 0
    """Forward passes of a model."""
    ms: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    """Further members of the JSON object, before the others: `id`."""


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        **outcome.more,
        "valid": outcome.valid,
        "certain": outcome.certain,
        "text": outcome.text,
        "value": json.loads(outcome.value) if outcome.value else None,
        "errors": list(outcome.errors),
        "changes": list(outcome.changes),
        "passes": outcome.passes,
        "ms": round(outcome.ms, 3),
    }


def lines(outcome: Outcome) -> list[str]:
    """The same for people: the verdict, its issues, what was changed."""
    verdict = "valid" if outcome.valid else "not valid"
    found = [verdict if outcome.certain else f"{verdict}, not certain"]
    for error in outcome.errors:
        mark = "" if error["severity"] == "error" else f" ({error['severity']})"
        found.append(f"  {error['rule']}{mark}: {error['message']}")
    for change in outcome.changes:
        pointer, confidence = change["pointer"] or "the text", change["confidence"]
        done = "was changed" if change.get("applied", True) else "was not changed"
        found.append(f"  {pointer} {done} ({change['step']}, confidence {confidence:.2f}): {change['reason']}")
    return found


def exit_of(outcome: Outcome) -> Exit:
    return Exit.OK if outcome.valid else Exit.FAILED


def of_verdict(verdict: validator_pb2.Verdict, text: str, ms: float) -> Outcome:
    """The outcome of a validation: nothing is changed, and it is certain where everything was looked at and meets its
    formats."""
    errors = errors_of(verdict)
    certain = not any(error["rule"] in INCOMPLETE or _is_unmet_format(error) for error in errors)
    return Outcome(valid=verdict.valid, certain=certain, text=text, value=verdict.value, errors=errors, ms=ms)


def _is_unmet_format(error: dict[str, Any]) -> bool:
    return bool(error["rule"] == "format" and error["severity"] == "warning")


def errors_of(verdict: validator_pb2.Verdict) -> list[dict[str, Any]]:
    """Issues as JSON; `suggestion` is a value or null."""
    return [
        {
            "pointer": issue.pointer,
            "rule": issue.rule,
            "message": issue.message,
            "severity": validator_pb2.Severity.Name(issue.severity).removeprefix("SEVERITY_").lower(),
            "suggestion": json.loads(issue.suggestion) if issue.suggestion else None,
        }
        for issue in verdict.issues
    ]
