"""What speaks against a place: a change that the source tells, another label, another matter, party or condition."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from benchmarks.content_cases.story import closed
from services.corrector.content.judge import judge
from services.corrector.content.judgement import SURE
from services.corrector.proposals import Findings, Problem

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
DAY = {"type": "string", "format": "date"}
Value = str | float


def findings(value: dict[str, Any], source: str, names: Any = None) -> Findings:
    schema = closed(**{name: kind_of(told) for name, told in (names or value).items()})
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def kind_of(value: Value) -> dict[str, str]:
    if not isinstance(value, str):
        return NUMBER
    return DAY if re.fullmatch(r"\d{4}-\d\d-\d\d", value) else TEXT


def is_left_open(value: dict[str, Any], source: str, names: Any = None) -> bool:
    """Neither settled nor changed into something that is sure."""
    found = findings(value, source, names)
    return not found.settles_all and all(proposal.confidence < SURE for proposal in found.proposals)


@pytest.mark.parametrize(
    ("name", "old", "new", "source"),
    [
        ("delivery_date", "2026-05-03", "2026-06-09", "The delivery date moves from 3 May 2026 to 9 June 2026."),
        ("delivery_date", "2026-05-03", "2026-06-09", "The delivery date, 3 May 2026, slips to 9 June 2026."),
        ("delivery_date", "2026-05-03", "2026-06-09", "Delivery date: 3 May 2026.\nCorrection: 9 June 2026."),
        ("delivery_date", "2026-05-03", "2026-06-09", "Delivery date: ~~3 May 2026~~ 9 June 2026"),
        ("delivery_date", "2026-05-03", "2026-06-09", "The delivery date 3 May 2026 no longer applies: 9 June 2026."),
        ("交货日期", "2026-05-03", "2026-06-09", "交货日期从2026年5月3日延到2026年6月9日。"),
        ("交货日期", "2026-05-03", "2026-06-09", "交货日期本来是2026年5月3日，后来定为2026年6月9日。"),
        ("unit_price", 120, 135, "Unit price: 120 → 135 EUR"),
        ("unit_price", 120, 135, "The unit price, once 120 EUR, has become 135 EUR."),
        ("单价", 120, 135, "单价暂定120元，最终确定135元。"),
        ("project_manager", "Ada Stone", "Boris Lind", "Project manager: Ada Stone -> Boris Lind"),
        ("project_manager", "Ada Stone", "Boris Lind", "Boris Lind took over from the project manager Ada Stone."),
        ("project_manager", "Ada Stone", "Boris Lind", "Project manager Ada Stone stepped down; Boris Lind is next."),
        ("order_number", "PO-1123", "PO-1187", "PO-1187 supersedes order PO-1123."),
        ("packaging", "carton boxes", "wooden crates", "Packaging: carton boxes. Correction: wooden crates."),
        ("负责人", "王强", "李敏", "负责人从王强换成了李敏。"),
        ("包装方式", "纸箱", "木箱", "包装方式由纸箱改为木箱。"),
    ],
)  # fmt: skip
def test_a_value_that_the_source_says_was_changed_is_left_open(name: str, old: Value, new: Value, source: str) -> None:
    for present in ({name: old}, {name: new}, {}):
        assert is_left_open(present, source, {name: old})


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"beneficiary": "DE89370400440532013000"}, "Beneficiary IBAN: DE89370400440532013000\nAmount: 300 EUR"),
        ({"买方": "HT-2026-118"}, "合同号：HT-2026-118\n金额：3000元"),
        ({"approved_by": "Ada Stone"}, "Prepared by: Ada Stone\nApproved by:\n"),
        ({"due_date": "2026-05-03"}, "Invoice date: 3 May 2026\nDue date: on receipt"),
        ({"order_no": "RX-7781"}, "Reference: RX-7781\nOrder no: (blank)"),
        (
            {"customer_email": "noreply@alder.com"},
            "Sender: noreply@alder.com\nDear Ada Stone, it is on its way.",
        ),
    ],
)
def test_what_stands_under_another_label_is_not_the_fields(value: dict[str, Any], source: str) -> None:
    assert is_left_open(value, source)
    assert is_left_open({}, source, value)


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"check_in": "2026-06-09"}, "Your stay ends with check-out on 9 June 2026."),
        ({"入住日期": "2026-06-09"}, "退房日期为2026年6月9日。"),
        ({"phone": "0171-2233445"}, "Contract 0171-2233445 was signed by Ada Stone."),
        ({"employee": "Ada Stone", "salary": 4200}, "Boris Lind earns 4,200 EUR. Ada Stone's salary is confidential."),
        ({"员工": "李敏", "月薪": 4200}, "王强的月薪为4200元，李敏的工资保密。"),
        ({"weight_kg": 82}, "Last week the weight was 82 kg. Today the patient was not weighed."),
        ({"体重": 82}, "上周体重82公斤，今天没有称重。"),
        ({"rent": 900}, "The neighbour's rent is 900 EUR."),
        ({"customer_phone": "0171-2233445"}, "The supplier can be reached at 0171-2233445."),
        ({"客户电话": "13812345678"}, "供应商电话13812345678。"),
        ({"quantity": 500}, "If the order exceeds 500 units, the price is 9 EUR."),
        ({"temperature": 40}, "Should the temperature reach 40 degrees, stop the pump."),
        ({"采购员": "李敏"}, "采购员王强与供应商联系人李敏确认了交期。"),
        ({"收货人": "赵丽娜"}, "运单号：YD10082。司机赵丽娜，客户王强来电。"),
        ({"weight_kg": 82}, "The patient is well. The target weight is 82 kg."),
        ({"unit_price": 2087}, "If more than 62 pieces are taken, EUR 2,087 each."),
        ({"landlord": "Ada Stone"}, "Ada Stone rents the flat from 3 May 2026."),
        ({"assignee": "Dora Falk"}, "The case was assigned to Emil Novak.\nBest regards,\nDora Falk"),
        ({"email": "press@alder.com"}, "Contact for press: press@alder.com\nCustomer: Ada Stone"),
        ({"it_budget": 5000.0}, "The budget for marketing is 5,000 EUR."),
        ({"site_area": 420.0}, "The area of the hall is 420 square metres."),
    ],
)
def test_the_only_value_left_is_not_taken_where_the_source_speaks_of_something_else(
    value: dict[str, Any], source: str
) -> None:
    assert is_left_open(value, source)
    *_, name = value
    assert is_left_open({key: told for key, told in value.items() if key != name}, source, value)


@pytest.mark.parametrize(
    ("value", "truth", "source"),
    [
        ({"月薪": 8708}, 6823, "员工：刘洋\n月薪：人民币6,823元\n同事赵丽娜月薪8,708元"),
        ({"deposit": 95000}, 500, "Deposit: 500 EUR\nThe deposit for the garage is 95,000 EUR."),
        (
            {"交货日期": "2024-08-10"},
            "2026-07-26",
            "交货日期原为2024年4月18日，现为2026年7月26日。双方于2024年8月10日会谈。",
        ),
    ],
)
def test_a_value_is_not_settled_where_the_field_is_said_to_have_another(
    value: dict[str, Any], truth: Value, source: str
) -> None:
    found = findings(value, source)
    assert not found.confirmed
    assert all(proposal.value == truth for proposal in found.proposals)


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"monthly_salary": 60000}, "Annual salary: 60,000 EUR"),
        ({"月薪": 60000}, "年薪：60000元"),
        ({"total_incl_vat": 300}, "Total without VAT: 300 EUR"),
        ({"含税总价": 300}, "不含税总价300元"),
        ({"total_eur": 300}, "Total: 300 USD"),
        ({"total": 120}, "3 licences at 120 EUR each."),
        ({"width_cm": 20}, "Box 40 x 30 x 20 cm"),
        ({"manager": "Ada Stone"}, "Deputy manager: Ada Stone"),
        ({"经理": "王强"}, "副经理：王强"),
        ({"director": "Ada Stone"}, "Assistant to the director: Ada Stone"),
        ({"buyer": "Ada Stone"}, "Is Ada Stone the buyer?"),
        ({"delivery_date": "2026-06-09"}, "Delivery between 3 May 2026 and 9 June 2026."),
        ({"会议日期": "2026-05-03"}, "会议不在2026年5月3日举行。"),
        ({"price": 300}, "Ada wrote:\n> The price is 300 EUR.\nWe cannot do that."),
        ({"收货地址": "厦门市和平路967号"}, "注册地址：厦门市和平路967号"),
    ],
)
def test_a_value_of_another_kind_than_the_fields_is_left_open(value: dict[str, Any], source: str) -> None:
    assert is_left_open(value, source)
    assert is_left_open({}, source, value)


def test_a_rate_in_percent_does_not_become_the_value_of_a_field_that_may_hold_a_fraction() -> None:
    source = "The interest rate is 4.5 % a year."
    assert findings({"interest_rate": 0.045}, source).proposals == ()
    assert is_left_open({}, source, {"interest_rate": 4.5})
    assert findings({"interest_rate": 4.7}, source).proposals[0].value == 4.5


@pytest.mark.parametrize("told", ["件数不详，仓库还有105件。", "Parcels are counted later; 105 items are in stock."])
def test_what_is_counted_is_no_word_for_the_field(told: str) -> None:
    for value in ({}, {"件数": 12}, {"num_parcels": 12}):
        assert all(proposal.confidence < SURE for proposal in findings(value, told, {"件数": 12}).proposals)


def test_a_tax_that_is_not_told_does_not_become_a_number_that_looks_like_it() -> None:
    source = "Total amount 309 euros, shipping would be 42,000 euros extra."
    assert findings({"tax": 62000, "total": 309}, source).proposals == ()


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"phone": "0171-2233445"}, "Contact: 0171-2233445"),
        ({"customer": "Ada Stone"}, "Customer name: Ada Stone\nSales rep: Boris Lind"),
        ({"start_date": "2026-05-03", "end_date": "2026-06-09"}, "Term: 3 May 2026 to 9 June 2026"),
        ({"rent": 900, "deposit": 1800}, "The rent is 900 EUR and the deposit 1,800 EUR."),
        ({"技师": "周晓东"}, "维修技师：周晓东\n客户：陈艳"),
    ],
)
def test_a_value_that_nothing_speaks_against_is_settled(value: dict[str, Any], source: str) -> None:
    assert findings(value, source).settles_all
