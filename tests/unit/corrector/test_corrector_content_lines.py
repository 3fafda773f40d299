"""Statements of a form, `Label: value`, against an object: what they confirm and correct, and what they do not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.content_cases.story import closed
from services.corrector.content.judge import judge
from services.corrector.content.judgement import SURE
from services.corrector.content.lines import lines
from services.corrector.content.mentions import folded
from services.corrector.proposals import Findings, Problem

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
DAY = {"type": "string", "format": "date"}
SCHEMA = closed(order_no=TEXT, ship_to=TEXT, reported_by=TEXT, departure_date=DAY, old_departure_date=DAY, fee=NUMBER)
FORM = (
    "Order no: KX-2041\nShip to: 14 Mill Lane, Cork\nReported by: Agnes van der Meer\n"
    "Departure date: 3 May 2026 (old departure date: 9 April 2026)\nFee: EUR 1,200.50"
)
VALUE = {
    "order_no": "KX-2041", "ship_to": "14 Mill Lane, Cork", "reported_by": "Agnes van der Meer",
    "departure_date": "2026-05-03", "old_departure_date": "2026-04-09", "fee": 1200.5,
}  # fmt: skip


def findings(value: Any, schema: Any = SCHEMA, source: str = FORM) -> Findings:
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def proposed(found: Findings) -> dict[str, Any]:
    return {proposal.pointer: proposal.value for proposal in found.proposals if proposal.confidence >= SURE}


def test_what_stands_under_its_label_is_confirmed_up_to_the_end_of_the_line() -> None:
    found = findings(VALUE)
    assert (found.proposals, found.doubts, found.settles_all) == ((), (), True)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("order_no", "KX-2047"), ("departure_date", "2026-04-09"), ("fee", 120.5), ("reported_by", "Agnes van")],
)
def test_another_value_is_what_stands_under_the_label(name: str, wrong: Any) -> None:
    assert proposed(findings({**VALUE, name: wrong})) == {f"/{name}": VALUE[name]}


def test_labels_in_one_line_end_each_others_values() -> None:
    told = lines(folded("工单编号：GD-1；报障人：张伟，处理人：司马丽。Carrier: Falk & Sons. Weight: 3 kg"))
    assert [line.head for line in told] == ["工单编号", "报障人", "处理人", "carrier", "weight"]


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"customer": "Ada Ston"}, "Customer: (illegible)\nAgent: Boris Ito\nNote: none"),
        ({"city": "Cork"}, "City: Cork, Ireland\nAgent: Boris Ito"),
        ({"total": 300}, "Previous order\nTotal: 400 EUR\nNumber: 7"),
        ({"total": 300}, "Total: 400 EUR\n...\nTotal: 300 EUR"),
        ({"total": 300}, "Total: between 250 and 400 EUR"),
        ({"total": 300}, "Total: see annex 2"),
        ({"order_no": "KX-77"}, "Order no: 不详\nTotal: 3"),
    ],
)
def test_a_line_that_may_say_something_else_neither_changes_nor_settles(value: Any, source: str) -> None:
    kind = NUMBER if "total" in value else TEXT
    found = findings(value, closed(**dict.fromkeys(value, kind)), source)
    assert proposed(found) == {}
    assert not found.settles_all


def test_a_missing_value_that_only_a_speaker_introduces_is_not_sure() -> None:
    for value in ({}, {"customer": "Ada Stone"}):
        found = findings(value, closed(customer=TEXT), "Customer: Hello there\nAgent: How can I help, Ada Stone?")
        assert proposed(found) == {}


def test_a_code_under_its_label_ends_at_a_comma() -> None:
    schema = closed(合同编号=TEXT)
    source = "甲方：天工机械集团，合同编号：HT-63621，若2024年3月23日前付款可优惠。"
    found = findings({"合同编号": "HT-63621"}, schema, source)
    assert (found.proposals, found.confirmed) == ((), ("/合同编号",))
    assert proposed(findings({"合同编号": "HT-63627"}, schema, source)) == {"/合同编号": "HT-63621"}


def test_a_change_told_under_a_label_is_no_value() -> None:
    form = "维修员：张建国\n工单号：GD11121\n报障人：刘洋→周文博"
    value = {"维修员": "张建国", "工单号": "GD11121", "报障人": "周文博"}
    assert proposed(findings(value, closed(**dict.fromkeys(value, TEXT)), form)) == {}
