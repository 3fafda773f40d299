"""Between the messages of the API and the domain."""

from __future__ import annotations

from collections.abc import Iterable

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.verdict import Severity, Verdict

SEVERITIES = {
    Severity.ERROR: validator_pb2.SEVERITY_ERROR,
    Severity.WARNING: validator_pb2.SEVERITY_WARNING,
}


def constraint_of(message: common_pb2.OutputConstraint) -> Constraint:
    """No constraint for an empty message. Raises InvalidRequest for `json_object: false`, which asks for nothing."""
    match message.WhichOneof("kind"):
        case None:
            return Constraint()
        case "choice":
            return Constraint(Kind.CHOICE, choices=tuple(message.choice.values))
        case "json_object":
            if not message.json_object:
                raise InvalidRequest(
                    "INVALID_CONSTRAINT", "json_object can only be true", field="constraint.json_object"
                )
            return Constraint(Kind.JSON_OBJECT)
        case kind:
            return Constraint(Kind(kind), source=getattr(message, kind))


def anchors_of(messages: Iterable[common_pb2.Anchor]) -> list[Anchor]:
    return [Anchor(message.pointer, tuple(message.keys), message.ignore_case) for message in messages]


def verdict_message(verdict: Verdict) -> validator_pb2.Verdict:
    issues = [
        validator_pb2.Issue(
            pointer=issue.pointer,
            rule=issue.rule,
            message=issue.message,
            severity=SEVERITIES[issue.severity],
            suggestion=issue.suggestion,
        )
        for issue in verdict.issues
    ]
    return validator_pb2.Verdict(valid=verdict.valid, value=verdict.value, issues=issues)
