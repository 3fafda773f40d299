"""The deterministic part of a correction: syntax, then what the verdict is certain about, then the verdict again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.corrector.changes import DIGIT, FORM, SPELLING, SYNTAX, Change, merged, whole
from services.corrector.syntax import repairs
from stagemesh.validation.anchors import NEAR, Anchor, form_of
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.json_text import dump, parse
from stagemesh.validation.pointer import find, parse_pointer, replaced
from stagemesh.validation.rule import Rule, needs_json
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue, Verdict

MAX_ROUNDS = 3
"""A value may need more than one step: another type first, then a key near it."""

QUOTES = "`*\"'“”‘’「」 \t\r\n"
STOPS = ".。!！"


@dataclass(frozen=True, kw_only=True)
class Repair:
    text: str
    verdict: Verdict
    changes: tuple[Change, ...]


def repair(validator: Validator, text: str, constraint: Constraint, anchors: Sequence[Anchor | Rule]) -> Repair:
    """The best that can be made of a text without a model. Raises Refusal for an unusable constraint or anchor."""
    best = Repair(text=text, verdict=validator.validate(text, constraint, anchors), changes=())
    if best.verdict.valid:
        return best
    is_json = needs_json(constraint, anchors)
    attempts = _json_attempts(validator, best) if is_json else _plain_attempts(best)
    for attempt in attempts:
        verdict = validator.validate(attempt.text, constraint, anchors)
        attempt = Repair(text=attempt.text, verdict=verdict, changes=attempt.changes)
        for _ in range(MAX_ROUNDS):
            if (settled := _settled(attempt, is_json)) is None:
                break
            verdict = validator.validate(settled.text, constraint, anchors)
            attempt = Repair(text=settled.text, verdict=verdict, changes=settled.changes)
        if attempt.verdict.valid:
            return attempt
        if _badness(attempt) < _badness(best):
            best = attempt
    return best


def _badness(attempt: Repair) -> tuple[bool, int]:
    return not attempt.verdict.value, len(attempt.verdict.issues)


def _json_attempts(validator: Validator, original: Repair) -> Iterator[Repair]:
    if original.verdict.value:
        yield original
        return
    for repaired in repairs(original.text, max_depth=validator.limits.max_depth):
        change = whole(original.text, repaired.text, repaired.reason, repaired.confidence, "syntax")
        yield Repair(text=repaired.text, verdict=original.verdict, changes=(change,))


def _plain_attempts(original: Repair) -> Iterator[Repair]:
    """The text itself, and without what models put around short answers."""
    yield original
    bare = original.text.strip()
    for text in dict.fromkeys([bare, bare.strip(QUOTES), bare.strip(QUOTES + STOPS)]):
        if text and text != original.text:
            change = whole(original.text, text, "what stood around the answer was removed", FORM, "syntax")
            yield Repair(text=text, verdict=original.verdict, changes=(change,))


def _settled(attempt: Repair, is_json: bool) -> Repair | None:
    """The attempt with everything put in that its verdict is certain about; None if that is nothing."""
    changes: list[Change] = []
    value = parse(attempt.verdict.value, max_depth=1_000) if attempt.verdict.value else attempt.text
    for issue in attempt.verdict.issues:
        if issue.rule == "choice" and issue.suggestion:
            text = json.loads(issue.suggestion)
            changes = [*attempt.changes, whole(attempt.text, text, issue.message, SPELLING, "schema")]
            return Repair(text=text, verdict=attempt.verdict, changes=tuple(merged(changes)))
        for path, item in find(value, parse_pointer(issue.pointer)) if issue.suggestion else ():
            if change := _suggested(issue, dump(item)):
                changes.append(change)
                value = replaced(value, path, parse(issue.suggestion, max_depth=1_000))
    if not changes:
        return None
    text = dump(value) if is_json else str(value)
    return Repair(text=text, verdict=attempt.verdict, changes=tuple(merged([*attempt.changes, *changes])))


def _suggested(issue: Issue, before: str) -> Change | None:
    """The change that an issue suggests, if it can be made without asking anybody."""
    after = issue.suggestion
    if issue.rule == NEAR:
        step, confidence = "anchor", _anchor_confidence(json.loads(before), json.loads(after))
    elif issue.rule == "type" or (issue.rule == "enum" and before.casefold() == after.casefold()):
        step, confidence = "schema", SPELLING
    else:
        return None
    return Change(
        pointer=issue.pointer, before=before, after=after, reason=issue.message, confidence=confidence, step=step
    )


def _anchor_confidence(value: object, key: str) -> float:
    form, key_form = form_of(str(value)).casefold(), form_of(key).casefold()
    if form == key_form:
        return FORM
    return SYNTAX if _digits(form) == _digits(key_form) else DIGIT


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())
