"""What the model is told when it is asked to answer again."""

from __future__ import annotations

from collections.abc import Sequence

from stagemesh.api.common.v1.common_pb2 import ChatMessage
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.verdict import Issue, Severity

FORMS = {
    Kind.JSON_SCHEMA: "Answer with the JSON only.",
    Kind.JSON_OBJECT: "Answer with one JSON object only.",
    Kind.CHOICE: "Answer with one of the allowed values only.",
}


def regeneration_messages(
    source: Sequence[ChatMessage],
    answer: str,
    issues: Sequence[Issue],
    constraint: Constraint,
    *,
    max_issues: int,
    max_answer_chars: int,
) -> list[ChatMessage]:
    """The conversation, the rejected answer, and what was wrong with it."""
    errors = [issue.message for issue in issues if issue.severity is Severity.ERROR]
    complaint = "\n".join(
        [
            "Your answer was not accepted:",
            *(f"- {message}" for message in errors[:max_issues]),
            *([f"- and {len(errors) - max_issues} more"] if len(errors) > max_issues else []),
            "Give the whole answer again, with this corrected and all else unchanged.",
            *([FORMS[constraint.kind]] if constraint.kind in FORMS else []),
        ]
    )
    shown = answer if len(answer) <= max_answer_chars else answer[:max_answer_chars] + " …"
    return [
        *source,
        ChatMessage(role="assistant", content=shown or "(nothing)"),
        ChatMessage(role="user", content=complaint),
    ]
