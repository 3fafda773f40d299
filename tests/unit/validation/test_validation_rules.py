"""Rules about fields of a value: each case says which rules are broken, and what is suggested."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stagemesh.validation.constraint import Constraint
from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.rule import Rule
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue, Severity

VALIDATOR = Validator(Limits())


def issues(kind: str, fields: dict[str, Any], value: Any) -> tuple[Issue, ...]:
    rule = Rule(kind, json.dumps(fields))
    return VALIDATOR.validate(json.dumps(value), Constraint(), [rule]).issues


def told(found: tuple[Issue, ...]) -> list[tuple[str, str, str]]:
    return [(issue.pointer, issue.rule, issue.suggestion) for issue in found]


SUM = {"total": "/total", "of": ["/items/*/amount"]}
EACH = {"result": "/items/*/total", "factors": ["/items/*/price", "/items/*/quantity"]}
CITY = {"pointer": "/city", "names": [{"name": "Beijing", "also": ["北京", "Peking"]}, {"name": "Shanghai"}]}
DATE = {"pointer": "/d", "formats": ["YYYY-MM-DD"]}
TABLE = {"pointer": "/t", "header": ["name", "price"], "numeric": ["price"], "first_row_is_header": True}


@pytest.mark.parametrize(
    ("kind", "fields", "value"),
    [
        ("sum", SUM, {"total": 0.3, "items": [{"amount": 0.1}, {"amount": 0.2}]}),
        ("sum", SUM, {"total": None, "items": [{"amount": 0.1}]}),
        ("sum", {**SUM, "tolerance": {"abs": 0.01}}, {"total": 10, "items": [{"amount": 9.99}]}),
        ("sum", {**SUM, "tolerance": {"rel": 0.1}}, {"total": 109, "items": [{"amount": 100}]}),
        ("sum", {"total": "/net", "of": ["/gross"], "minus": ["/tax"]}, {"net": 80, "gross": 100, "tax": 20}),
        ("sum", {"total": "/o/*/t", "of": ["/o/*/i/*"]}, {"o": [{"t": 3, "i": [1, 2]}, {"t": 7, "i": [3, 4]}]}),
        (
            "product",
            EACH,
            {"items": [{"total": 6, "price": 2, "quantity": 3}, {"total": 4.5, "price": 1.5, "quantity": 3}]},
        ),
        ("number", {"pointer": "/x", "values": [10, 20], "tolerance": {"abs": 1}}, {"x": 19.0}),
        ("number", {"pointer": "/x", "at_least": 0, "at_most": 0}, {"x": 0}),
        ("synonyms", CITY, {"city": "Beijing"}),
        ("synonyms", CITY, {}),
        ("date", DATE, {"d": "2024-02-29"}),
        ("date", {**DATE, "formats": ["D MMMM YYYY", "YYYY年M月D日"]}, {"d": "2025年2月3日"}),
        ("date", {**DATE, "not_before": "2025-01-01", "not_after": "2025-01-01"}, {"d": "2025-01-01"}),
        ("order", {"pointers": ["/from", "/to"]}, {"from": "2025-01-01", "to": "2025-01-01"}),
        (
            "order",
            {"pointers": ["/s/*/from", "/s/*/to"]},
            {"s": [{"from": "2025-05-01", "to": "2025-06-01"}, {"from": "2025-01-01", "to": "2025-01-02"}]},
        ),
        ("order", {"pointers": ["/n/*"], "strict": True}, {"n": [1, 2, 3.5]}),
        ("table", TABLE, {"t": [["name", "price"], ["a", 1], ["b", None]]}),
        ("table", {"pointer": "/t", "numeric": ["2"]}, {"t": [["a", 1], ["b", 2]]}),
        (
            "table",
            {"pointer": "/t", "numeric": ["price"]},
            {"t": [{"name": "a", "price": 1}, {"price": 2, "name": "b"}]},
        ),
    ],
)
def test_what_keeps_a_rule_has_no_issue(kind: str, fields: dict[str, Any], value: Any) -> None:
    assert issues(kind, fields, value) == ()


@pytest.mark.parametrize(
    ("kind", "fields", "value", "expected"),
    [
        ("sum", SUM, {"total": 0.4, "items": [{"amount": 0.1}, {"amount": 0.2}]}, [("/total", "sum", "")]),
        ("sum", SUM, {"total": 1, "items": [{"amount": "1"}]}, [("/items/0/amount", "sum", "")]),
        ("sum", SUM, {"items": []}, [("/total", "rule.missing", "")]),
        (
            "sum",
            {"total": "/o/*/t", "of": ["/o/*/i/*"]},
            {"o": [{"t": 3, "i": [1, 2]}, {"t": 8, "i": [3, 4]}]},
            [("/o/1/t", "sum", "")],
        ),
        (
            "product",
            EACH,
            {"items": [{"total": 6, "price": 2, "quantity": 3}, {"total": 5, "price": 2, "quantity": 3}]},
            [("/items/1/total", "product", "")],
        ),
        ("product", EACH, {"items": [{"total": 6, "price": 2}]}, [("/items/0/total", "product", "")]),
        ("number", {"pointer": "/x", "values": [10]}, {"x": 11}, [("/x", "number", "")]),
        (
            "number",
            {"pointer": "/x/*", "at_most": 5},
            {"x": [1, 6, "a"]},
            [("/x/1", "number", ""), ("/x/2", "number", "")],
        ),
        ("synonyms", CITY, {"city": "北 京"}, [("/city", "synonym", '"Beijing"')]),
        ("synonyms", CITY, {"city": "SHANGHAI"}, [("/city", "synonym", '"Shanghai"')]),
        ("synonyms", CITY, {"city": "Paris"}, [("/city", "synonym.unknown", "")]),
        ("date", DATE, {"d": "2025-02-30"}, [("/d", "date.exists", "")]),
        ("date", DATE, {"d": "2025年3月1日"}, [("/d", "date.format", '"2025-03-01"')]),
        ("date", DATE, {"d": "二〇二五年三月十二日"}, [("/d", "date.format", '"2025-03-12"')]),
        ("date", DATE, {"d": "March 5, 2025"}, [("/d", "date.format", '"2025-03-05"')]),
        ("date", DATE, {"d": "05/03/2025"}, [("/d", "date.format", "")]),  # the 5th of March, or the 3rd of May
        ("date", DATE, {"d": "25/03/2025"}, [("/d", "date.format", '"2025-03-25"')]),
        ("date", DATE, {"d": "soon"}, [("/d", "date.format", "")]),
        ("date", {**DATE, "not_after": "2025-01-01"}, {"d": "2025-01-02"}, [("/d", "date.bounds", "")]),
        ("order", {"pointers": ["/from", "/to"]}, {"from": "2025-01-02", "to": "2025-01-01"}, [("/to", "order", "")]),
        ("order", {"pointers": ["/n/*"], "strict": True}, {"n": [1, 1, 2]}, [("/n/1", "order", "")]),
        (
            "table",
            TABLE,
            {"t": [["name", "cost"], ["a", 1]]},
            [("/t/0", "table.header", ""), ("/t", "table.header", "")],
        ),
        (
            "table",
            TABLE,
            {"t": [["name", "price"], ["a"], ["b", "1.5"], ["c", "x"]]},
            [("/t/1", "table.length", ""), ("/t/2/1", "table.numeric", "1.5"), ("/t/3/1", "table.numeric", "")],
        ),
        (
            "table",
            {"pointer": "/t"},
            {"t": [{"a": 1}, {"a": 1, "b": 2}, {}]},
            [("/t/1", "table.columns", ""), ("/t/2", "table.columns", "")],
        ),
        ("table", {"pointer": "/t"}, {"t": [[1], {}]}, [("/t", "table", "")]),
    ],
)
def test_what_breaks_a_rule_is_told_with_its_place(
    kind: str, fields: dict[str, Any], value: Any, expected: list[tuple[str, str, str]]
) -> None:
    assert sorted(told(issues(kind, fields, value))) == sorted(expected)


def test_a_rule_that_found_nothing_warns_and_the_text_stays_valid() -> None:
    assert issues("sum", SUM, {})[0].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("", {}),
        ("sum", {"total": "/t"}),
        ("sum", {"total": "t", "of": ["/a"]}),
        ("sum", {"total": "/t", "of": ["/a"], "tolerance": {"abs": -1}}),
        ("number", {"pointer": "/x"}),
        ("number", {"pointer": "/x", "values": ["NaN"]}),
        ("date", {"pointer": "/d", "formats": ["YYYY"]}),
        ("date", {"pointer": "/d", "not_before": "2025-13-01"}),
        ("synonyms", {"pointer": "/c", "names": []}),
        ("order", {"pointers": ["/a"]}),
        ("table", {"header": ["a", "a"]}),
        ("text", {}),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        issues(kind, fields, {})
    assert caught.value.reason == "INVALID_RULE"
    assert caught.value.field.startswith(("rules", "text_rules"))


def test_a_rule_that_leads_to_too_many_values_ends_and_says_so() -> None:
    value = {"a": list(range(300)), "b": list(range(300))}
    found = issues("sum", {"total": "/a/*", "of": ["/b/*"]}, value)
    assert [issue.rule for issue in found] == ["rule.limit"]


def test_what_leads_nowhere_counts_too() -> None:
    value = {"a": [1] * 300, "b": [{}] * 300}
    found = issues("sum", {"total": "/a/*", "of": ["/b/*/x"]}, value)
    assert [issue.rule for issue in found] == ["rule.limit"]
