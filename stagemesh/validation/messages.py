"""Between the messages of the API and the domain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.rule import STORED, TEXT, Rule
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


class Demands(Protocol):
    """A message that says what must hold beside the constraint."""

    @property
    def anchors(self) -> Iterable[common_pb2.Anchor]: ...

    @property
    def rules(self) -> Iterable[common_pb2.Rule]: ...

    @property
    def text_rules(self) -> Iterable[common_pb2.TextRules]: ...


def demands_of(message: Demands) -> list[Anchor | Rule]:
    """Anchors, then rules, then rules about long texts."""
    anchors = [Anchor(anchor.pointer, tuple(anchor.keys), anchor.ignore_case, anchor.set) for anchor in message.anchors]
    rules = [_rule(rule) for rule in message.rules]
    return [*anchors, *rules, *(Rule(TEXT, _source(text_rules)) for text_rules in message.text_rules)]


def _rule(rule: common_pb2.Rule) -> Rule:
    kind = rule.WhichOneof("kind")
    if kind == STORED:
        return Rule(STORED, json.dumps({"name": rule.set}))
    return Rule(kind, _source(getattr(rule, kind))) if kind else Rule("", "{}")


def _source(message: Message) -> str:
    return json.dumps(MessageToDict(message, preserving_proto_field_name=True), ensure_ascii=False, sort_keys=True)


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
