"""The deterministic part of a correction: form, anchors, source, suggestions of rules, and the verdict."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from services.corrector.amend import amended
from services.corrector.changes import FORM, MIN_CONFIDENCE, SPELLING, Change, merged, whole
from services.corrector.form.anchored import AnchoredKeys
from services.corrector.form.edits import ABSENT, Edit
from services.corrector.form.mend import Mended, Mender
from services.corrector.form.source import Source
from services.corrector.library import read_by_library
from services.corrector.proposals import ContentStep
from services.corrector.repair import DOUBT, Repair, is_certain, problem_of, schema_of
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.json_text import dump, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import find, parse_pointer, replaced, to_pointer
from stagemesh.validation.rule import Rule, needs_json
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue, Severity, Verdict

MAX_SCHEMAS = 64
"""Schemas whose parts are kept ready for the next text."""
MAX_ANCHORS = 8
"""Sets of anchors that are kept ready."""
QUOTES = "`*\"'“”‘’「」 \t\r\n"
STOPS = ".。!！"
SUGGESTED = frozenset({"synonym"})
"""Rules whose suggestions need no other judgement."""


class RepairChain:
    """Repairs texts, and keeps what it has learnt of their schemas. Not bounded in time or memory: see `sandbox`."""

    def __init__(self, limits: Limits, content: ContentStep | None = None) -> None:
        self._content = content
        self.validator = Validator(limits)
        self._menders: OrderedDict[Constraint, Mender] = OrderedDict()
        self._anchors: OrderedDict[tuple[Anchor, ...], AnchoredKeys] = OrderedDict()

    def repair(
        self,
        text: str,
        constraint: Constraint,
        demands: Sequence[Anchor | Rule],
        source: str = "",
        min_confidence: float = MIN_CONFIDENCE,
    ) -> Repair:
        """The best that can be made of a text without a model. Raises Refusal for an unusable constraint or anchor."""
        verdict = self.validator.validate(text, constraint, demands)
        if not needs_json(constraint, demands):
            return _plain(self.validator, text, verdict, constraint, demands)
        anchors = self._anchored(tuple(it for it in demands if isinstance(it, Anchor)))

        def num_issues(json_text: str) -> int:
            found = self.validator.validate(json_text, constraint, demands).issues
            return sum(issue.severity is Severity.ERROR for issue in found)

        mender = self._mender(constraint)
        mended = mender.mend(text, anchors, Source(source), min_confidence, num_issues)
        if (mended is None or mended.issues) and not verdict.value and (guess := read_by_library(text)):
            other = mender.mend(guess, anchors, Source(source), min_confidence, num_issues)
            if other is not None and (mended is None or other.issues < mended.issues):
                other.notes["only the repair library could read it"] = 0.6
                mended = other
        if mended is None:
            return Repair(text=text, verdict=verdict)
        repair = _finished(self.validator, text, verdict, mended, constraint, demands, min_confidence)
        repair = self._suggested(repair, constraint, demands)
        if self._content is None or not source:
            return repair
        findings = self._content(problem_of(text, repair, constraint, demands, source))
        return amended(self.validator, repair, findings, constraint, demands, min_confidence)

    def _suggested(self, repair: Repair, constraint: Constraint, demands: Sequence[Anchor | Rule]) -> Repair:
        """With the values that rules are certain about."""
        if repair.verdict.valid or not repair.verdict.value:
            return repair
        value, changes = parse(repair.verdict.value, max_depth=1_000), []
        for issue in repair.verdict.issues:
            if issue.suggestion and issue.rule in SUGGESTED:
                for path, item in find(value, parse_pointer(issue.pointer)):
                    changes.append(_suggestion(issue, dump(item)))
                    value = replaced(value, path, parse(issue.suggestion, max_depth=1_000))
        if not changes:
            return repair
        text = dump(value)
        verdict = self.validator.validate(text, constraint, demands)
        changed = (*repair.changes, *changes)
        return Repair(text=text, verdict=verdict, changes=changed, certain=is_certain(verdict, changed))

    def _anchored(self, anchors: tuple[Anchor, ...]) -> AnchoredKeys:
        if anchors not in self._anchors:
            self._anchors[anchors] = AnchoredKeys(anchors, self.validator.limits)
            if len(self._anchors) > MAX_ANCHORS:
                self._anchors.popitem(last=False)
        self._anchors.move_to_end(anchors)
        return self._anchors[anchors]

    def _mender(self, constraint: Constraint) -> Mender:
        if constraint not in self._menders:
            self._menders[constraint] = Mender(schema_of(constraint), self.validator.limits.max_depth)
            if len(self._menders) > MAX_SCHEMAS:
                self._menders.popitem(last=False)
        self._menders.move_to_end(constraint)
        return self._menders[constraint]


def _finished(
    validator: Validator, text: str, verdict: Verdict, mended: Mended, constraint: Constraint,
    demands: Sequence[Anchor | Rule], min_confidence: float,
) -> Repair:  # fmt: skip
    changes = tuple(_changes(text, mended))
    if min(mended.notes.values(), default=1.0) < min_confidence:
        changes = tuple(replace(change, applied=False) for change in changes)
    elif not mended.is_untouched:
        text = dump(mended.value)
        verdict = validator.validate(text, constraint, demands)
    doubts = tuple(
        Issue(
            pointer=to_pointer(path),
            rule=DOUBT,
            message=f"{to_pointer(path) or 'the value'}: {reason}",
            severity=Severity.WARNING,
        )
        for path, reason in list(mended.doubts.items())[:20]
    )
    verdict = replace(verdict, issues=(*verdict.issues, *doubts))
    return Repair(text=text, verdict=verdict, changes=changes, certain=is_certain(verdict, changes) and not doubts)


def _changes(text: str, mended: Mended) -> Iterator[Change]:
    if mended.notes:
        outside = {"a code fence", "what stood around the JSON", "a byte order mark"}
        step = "extract" if outside.issuperset(mended.notes) else "syntax"
        reason = "; ".join(sorted(mended.notes, key=lambda note: (mended.notes[note], note)))
        yield whole(text, dump(mended.read_as), reason, min(mended.notes.values()), step)
    for edit in mended.edits:
        yield _change(edit)


def _change(edit: Edit) -> Change:
    return Change(
        pointer=to_pointer(edit.path),
        before="" if edit.before is ABSENT else dump(edit.before),
        after="" if edit.after is ABSENT else dump(edit.after),
        reason=edit.reason,
        confidence=edit.confidence,
        step=edit.step,
        applied=edit.applied,
    )


def _suggestion(issue: Issue, before: str) -> Change:
    return Change(
        pointer=issue.pointer, before=before, after=issue.suggestion, reason=issue.message, confidence=SPELLING,
        step="schema",
    )  # fmt: skip


def _plain(
    validator: Validator, text: str, verdict: Verdict, constraint: Constraint, demands: Sequence[Anchor | Rule]
) -> Repair:
    """The text itself, or without what models put around short answers."""
    best = Repair(text=text, verdict=verdict, certain=verdict.valid)
    if verdict.valid:
        return best
    bare = text.strip()
    for attempt in dict.fromkeys([text, bare, bare.strip(QUOTES), bare.strip(QUOTES + STOPS)]):
        if not attempt:
            continue
        verdict = validator.validate(attempt, constraint, demands)
        changes = [whole(text, attempt, "what stood around the answer was removed", FORM, "extract")]
        if choice := next((i for i in verdict.issues if i.suggestion and i.rule in ("choice", "anchor.near")), None):
            attempt = json.loads(choice.suggestion)
            verdict = validator.validate(attempt, constraint, demands)
            changes.append(
                whole(text, attempt, choice.message, SPELLING if choice.rule == "choice" else 0.85, "schema")
            )
        if verdict.valid:
            done = tuple(merged(changes))
            return Repair(text=attempt, verdict=verdict, changes=done, certain=is_certain(verdict, done))
    return best
