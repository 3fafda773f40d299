"""What a text must look like as a whole, and whether it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stagemesh.validation.grammar import compile_grammar, compile_regex, mismatch
from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import TOO_LARGE, Refusal
from stagemesh.validation.schema import Retriever, compile_schema
from stagemesh.validation.sentences import listed, quoted, type_of
from stagemesh.validation.verdict import Issue


class Kind(Enum):
    NONE = ""
    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    GRAMMAR = "grammar"
    CHOICE = "choice"


@dataclass(frozen=True)
class Constraint:
    kind: Kind = Kind.NONE
    source: str = ""
    """The schema, regex or grammar."""
    choices: tuple[str, ...] = ()

    @property
    def is_json(self) -> bool:
        return self.kind in (Kind.JSON_SCHEMA, Kind.JSON_OBJECT)


Check = Callable[[str, Any, bool], list[Issue]]
"""`check(text, value, brief)`: what is wrong with a text and, for JSON constraints, its value."""


def compile_constraint(constraint: Constraint, limits: Limits, retriever: Retriever | None = None) -> Check:
    """Raises Refusal INVALID_SCHEMA, INVALID_REGEX, INVALID_GRAMMAR or INVALID_CHOICE."""
    match constraint.kind:
        case Kind.JSON_SCHEMA:
            schema = compile_schema(constraint.source, limits, retriever=retriever)
            return lambda _text, value, brief: schema.issues(value, brief=brief)
        case Kind.JSON_OBJECT:
            return lambda _text, value, _brief: _object_issues(value)
        case Kind.REGEX:
            regex = compile_regex(constraint.source, limits)
            return lambda text, _value, _brief: _match_issues("regex", constraint.source, mismatch(regex, text))
        case Kind.GRAMMAR:
            grammar = compile_grammar(constraint.source, limits)
            return lambda text, _value, _brief: _match_issues("grammar", "", mismatch(grammar, text))
        case Kind.CHOICE:
            _check_choices(constraint.choices, limits)
            return lambda text, _value, _brief: _choice_issues(constraint.choices, text)
    return lambda _text, _value, _brief: []


def _object_issues(value: Any) -> list[Issue]:
    if isinstance(value, dict):
        return []
    return [Issue(pointer="", rule="type", message=f"the value must be an object, but is of type {type_of(value)}")]


def _match_issues(rule: str, pattern: str, problem: str | None) -> list[Issue]:
    if problem is None:
        return []
    subject = f"the text must match the regex {quoted(pattern)}" if pattern else "the text must match the grammar"
    return [Issue(pointer="", rule=rule, message=f"{subject}, but {problem}")]


def _check_choices(choices: tuple[str, ...], limits: Limits) -> None:
    if not choices or not all(choices):
        raise Refusal("INVALID_CHOICE", "give at least one value, none of them empty", field="constraint.choice")
    if sum(len(choice.encode()) for choice in choices) > limits.max_constraint_bytes:
        message = f"the values may have {limits.max_constraint_bytes} bytes together"
        raise Refusal(TOO_LARGE, message, field="constraint.choice")


def _choice_issues(choices: tuple[str, ...], text: str) -> list[Issue]:
    if text in choices:
        return []
    same = {choice for choice in choices if _folded(choice) == _folded(text)}
    message = f"the text must be exactly {listed(choices)}, but is {quoted(text)}"
    return [Issue(pointer="", rule="choice", message=message, suggestion=quoted(same.pop()) if len(same) == 1 else "")]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
