"""A text against its constraint, its anchors and its rules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from stagemesh.validation.anchors import Anchor, AnchorCheck, compile_anchors
from stagemesh.validation.constraint import Check, Constraint, Kind, compile_constraint
from stagemesh.validation.json_text import BadJson, compact, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.rule import Rule, needs_json
from stagemesh.validation.rules.compile import RuleCheck, compile_rules
from stagemesh.validation.schema import Retriever
from stagemesh.validation.verdict import Issue, Verdict, verdict_of

MAX_CONSTRAINTS = 128
"""Compiled constraints that are kept ready for the next text."""
MAX_ANCHOR_KEYS = 100_000
"""Keys of all the compiled anchors that are kept."""

Compiled = tuple[list[AnchorCheck], list[RuleCheck]]


class Validator:
    """Validates, and keeps what it has compiled. Not bounded in time or memory: see `sandbox`."""

    def __init__(self, limits: Limits, retriever: Retriever | None = None) -> None:
        self.limits = limits
        self._retriever = retriever
        self._checks: OrderedDict[Constraint, Check] = OrderedDict()
        self._anchor_checks: OrderedDict[tuple[Anchor | Rule, ...], Compiled] = OrderedDict()

    def check(self, constraint: Constraint, anchors: Sequence[Anchor | Rule]) -> None:
        """Raises Refusal when the constraint or the anchors cannot be enforced."""
        self._constraint(constraint)
        self._compiled(tuple(anchors))
        if constraint.kind in (Kind.REGEX, Kind.GRAMMAR, Kind.CHOICE):
            for index, anchor in enumerate(anchors):
                if anchor.pointer and isinstance(anchor, Rule):
                    message = f"with a {constraint.kind.value} the answer has no fields for a rule to point to"
                    raise Refusal("INVALID_RULE", message, field="rules")
                if anchor.pointer:
                    message = f"with a {constraint.kind.value} the answer has no fields; the pointer must be empty"
                    raise Refusal("INVALID_ANCHOR", message, field=f"anchors[{index}].pointer")

    def validate(
        self, text: str, constraint: Constraint, anchors: Sequence[Anchor | Rule] = (), *, brief: bool = False
    ) -> Verdict:
        """The verdict on a text; with `brief` it names only the first breach of the schema. Raises Refusal."""
        num_bytes = len(text.encode())
        if num_bytes > self.limits.max_text_bytes:
            message = f"the text has {num_bytes} bytes; {self.limits.max_text_bytes} are allowed"
            raise Refusal("TEXT_TOO_LARGE", message, field="text")
        self.check(constraint, anchors)
        value: Any = text
        compacted = ""
        if needs_json(constraint, anchors):
            try:
                value = parse(text, max_depth=self.limits.max_depth)
            except BadJson as error:
                return verdict_of(error.issues, max_issues=self.limits.max_issues)
            compacted = compact(text)
        issues = self._constraint(constraint)(text, value, brief)
        return verdict_of([*issues, *self._anchor_issues(value, anchors)], compacted, max_issues=self.limits.max_issues)

    def _anchor_issues(self, value: Any, anchors: Sequence[Anchor | Rule]) -> list[Issue]:
        found: list[Issue] = []
        anchor_checks, rule_checks = self._compiled(tuple(anchors))
        for check in anchor_checks:
            found += check.issues(value, max_values=self.limits.max_anchored_values)
        for rule in rule_checks:
            found += rule.issues(value)
        return found

    def _constraint(self, constraint: Constraint) -> Check:
        if constraint not in self._checks:
            self._checks[constraint] = compile_constraint(constraint, self.limits, self._retriever)
            if len(self._checks) > MAX_CONSTRAINTS:
                self._checks.popitem(last=False)
        self._checks.move_to_end(constraint)
        return self._checks[constraint]

    def _compiled(self, anchors: tuple[Anchor | Rule, ...]) -> Compiled:
        if anchors not in self._anchor_checks:
            self._anchor_checks[anchors] = (
                compile_anchors([it for it in anchors if isinstance(it, Anchor)], self.limits),
                compile_rules([it for it in anchors if isinstance(it, Rule)], self.limits),
            )
            while len(self._anchor_checks) > 1 and sum(map(_num_keys, self._anchor_checks)) > MAX_ANCHOR_KEYS:
                self._anchor_checks.popitem(last=False)
        self._anchor_checks.move_to_end(anchors)
        return self._anchor_checks[anchors]


def _num_keys(anchors: tuple[Anchor | Rule, ...]) -> int:
    return sum(len(anchor.keys) if isinstance(anchor, Anchor) else 1 for anchor in anchors)
