"""Truth values and choices: only what a source plainly says of them settles or changes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.content_cases.story import closed
from services.corrector.content.judge import judge
from services.corrector.proposals import Findings, Problem

TRUTH = {"type": "boolean"}
STATUS = {"type": "string", "enum": ["approved", "rejected", "pending"]}
状态 = {"type": "string", "enum": ["已批准", "已拒绝", "待审批"]}
METHOD = {"type": "string", "enum": ["card", "cash", "transfer"]}
CURRENCY = {"type": "string", "enum": ["EUR", "USD", "CNY"]}


def findings(value: Any, schema: Any, source: str) -> Findings:
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def told(name: str, kind: Any, options: list[Any], source: str) -> Any:
    """The one value that is settled as it is, and put in where it is missing; None where nothing is."""
    schema = closed(**{name: kind})
    settled = [option for option in options if findings({name: option}, schema, source).confirmed]
    sure = [proposal.value for proposal in findings({}, schema, source).proposals if proposal.confidence > 0.8]
    assert sure in ([], settled)
    return settled[0] if len(settled) == 1 else None


@pytest.mark.parametrize(
    ("name", "source", "holds"),
    [
        ("paid", "The invoice was paid in full.", True), ("paid", "Ada Stone has paid the invoice.", True),
        ("paid", "Paid: yes", True), ("paid", "Nobody has paid the invoice.", False),
        ("paid", "The invoice was not paid.", False), ("urgent", "This isn’t urgent.", False),
        ("是否加急", "本单加急。", True), ("是否加急", "本单无需加急。", False), ("是否付款", "没有人付款。", False),
    ],
)  # fmt: skip
def test_a_plain_statement_settles_a_truth_value(name: str, source: str, holds: bool) -> None:
    assert told(name, TRUTH, [True, False], source) is holds


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("paid", "The invoice is yet to be paid."), ("paid", "The invoice should have been paid."),
        ("paid", "Paid: n/a"), ("paid", "Paid: partly"), ("paid", "Unless the invoice is paid, we stop."),
        ("paid", "Has the invoice been paid?"), ("paid", "The invoice must be paid by Friday."),
        ("paid", "He claims to have paid."), ("paid", "Paid invoices are archived after 10 years."),
        ("paid", "Once paid, the goods ship."), ("paid", "The invoice was almost paid."),
        ("paid", "The payer paid nothing."), ("paid", "Last month's invoice was paid."), ("paid", "Paid [ ]"),
        ("paid", "Payment is still outstanding."), ("paid", "Payment is overdue."),
        ("urgent", "The request is anything but urgent."), ("urgent", "For urgent matters call 112."),
        ("urgent", "Urgent: to be confirmed"), ("urgent", "It is less urgent than the other one."),
        ("是否加急", "加急：待确认"), ("是否加急", "如不加急，周五发货。"), ("是否加急", "请确认是否加急。"),
        ("是否加急", "加急费另计。"), ("是否付款", "付款后发货。"), ("是否付款", "请尽快付款。"),
        ("是否含税", "含税与否待定。"), ("是否含税", "含税价另行通知。"),
    ],
)  # fmt: skip
def test_what_is_asked_demanded_supposed_or_said_of_something_else_leaves_a_truth_value_open(
    name: str, source: str
) -> None:
    assert told(name, TRUTH, [True, False], source) is None


@pytest.mark.parametrize(
    ("kind", "source", "choice"),
    [
        (STATUS, "The request was approved.", "approved"), (STATUS, "Status: rejected", "rejected"),
        (STATUS, "Status: approved. If rejected, it would come back.", "approved"), (状态, "该申请已批准。", "已批准"),
        (METHOD, "Ada Stone paid in cash.", "cash"), (CURRENCY, "The price is 300 EUR.", "EUR"),
    ],
)  # fmt: skip
def test_a_choice_that_a_source_makes_is_settled(kind: Any, source: str, choice: str) -> None:
    name = "payment_method" if kind is METHOD else "currency" if kind is CURRENCY else "status"
    assert told(name, kind, kind["enum"], source) == choice


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (STATUS, "The form is not approved."), (STATUS, "If approved, we file it."), (STATUS, "Was it rejected?"),
        (STATUS, "The approved form must be sent to Ada."), (STATUS, "The request should be approved soon."),
        (STATUS, "Nobody approved the request."), (STATUS, "Last year's request was approved."),
        (STATUS, "Approved by: ____"), (状态, "申请未获批准。"), (状态, "如已批准，请归档。"),
        (状态, "已批准的表格须寄回。"),
        (METHOD, "We don't accept cash."), (METHOD, "Business card attached."), (METHOD, "Pay by card or in cash."),
        (CURRENCY, "The list price is 300 USD, we pay in euros."),
    ],
)  # fmt: skip
def test_a_choice_that_is_only_named_is_not_settled(kind: Any, source: str) -> None:
    name = "payment_method" if kind is METHOD else "currency" if kind is CURRENCY else "status"
    assert told(name, kind, kind["enum"], source) is None
