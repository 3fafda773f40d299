"""From declared rules to what applies them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stagemesh.validation.anchors import Anchor, compile_keys
from stagemesh.validation.limits import Limits
from stagemesh.validation.rule import STORED, TEXT, Rule
from stagemesh.validation.rules.cross import OrderCheck, ProductCheck, SumCheck
from stagemesh.validation.rules.dates import DateCheck
from stagemesh.validation.rules.fields import NumberCheck, SynonymCheck
from stagemesh.validation.rules.places import Budget, TooMany, invalid
from stagemesh.validation.rules.table import TableCheck
from stagemesh.validation.text.check import TextCheck
from stagemesh.validation.verdict import Issue


class Check(Protocol):
    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        """What is wrong. Raises TooMany."""


KINDS: dict[str, Callable[[dict[str, Any], str], Check]] = {
    "number": NumberCheck,
    "date": DateCheck,
    "synonyms": SynonymCheck,
    "sum": SumCheck,
    "product": ProductCheck,
    "order": OrderCheck,
    "table": TableCheck,
}


class RuleCheck:
    """One rule, ready to be applied to parsed values."""

    def __init__(self, check: Check, subject: str, max_values: int) -> None:
        self._check, self._subject, self._max_values = check, subject, max_values

    def issues(self, value: Any) -> list[Issue]:
        budget = Budget(self._max_values)
        try:
            return self._check.issues(value, budget)
        except TooMany:
            return [budget.issue(self._subject)]


def compile_rules(rules: Sequence[Rule], limits: Limits) -> list[RuleCheck]:
    """Raises Refusal INVALID_RULE or INVALID_ANCHOR that names the rule."""
    if len(rules) > limits.max_rules:
        raise invalid("rules", f"there are {len(rules)} rules; {limits.max_rules} are allowed")
    checks = []
    numbers = {"rules": 0, "text_rules": 0}
    for rule in rules:
        name = "text_rules" if rule.kind == TEXT else "rules"
        field = f"{name}[{numbers[name]}]"
        numbers[name] += 1
        checks.append(RuleCheck(_compile(rule, field, limits), field, limits.max_rule_values))
    return checks


def _compile(rule: Rule, field: str, limits: Limits) -> Check:
    fields = rule.fields
    if rule.kind != TEXT:
        if rule.kind == STORED:
            raise invalid(
                field, f"the stored rules {fields['name'][:80]!r} cannot be looked up here: it needs a ledger"
            )
        if rule.kind not in KINDS:
            raise invalid(field, "name the rule: number, date, synonyms, sum, product, order or table")
        return KINDS[rule.kind](fields, f"{field}.{rule.kind}")
    ids = fields.get("citations", {}).get("ids")
    if ids is None:
        return TextCheck(fields, field, None, ())
    anchor = Anchor("", tuple(ids.get("keys", ())), ids.get("ignore_case", False), ids.get("set", ""), rule.index)
    keys = compile_keys(anchor, f"{field}.citations.ids", limits)
    return TextCheck(fields, field, keys.lookup, keys.spread(500))
