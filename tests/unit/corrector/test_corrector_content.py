"""An object against the prose that it was made from: what is confirmed, what is proposed, and what stays open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.content_cases.faults import cases
from benchmarks.content_cases.story import closed
from benchmarks.correction_cases.case import same
from services.corrector.content.judge import judge
from services.corrector.content.judgement import SURE
from services.corrector.proposals import Findings, Problem
from stagemesh.validation.pointer import parse_pointer, replaced

TEXT, NUMBER, WHOLE, TRUTH = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
DAY = {"type": "string", "format": "date"}
LEASE = closed(landlord=TEXT, tenant=TEXT, monthly_rent=NUMBER, deposit=NUMBER, start_date=DAY, end_date=DAY)
SOURCE = (
    "This lease is made between Ines Marchetti (the landlord) and Paul Brandt (the tenant). The term begins on 4 "
    "May 2026 and ends on "
    "30 April 2028. The monthly rent is EUR 1,250, and a deposit of EUR 3,100 is due at signing. The previous "
    "rent was EUR 1,190."
)
LEASE_VALUE = {
    "landlord": "Ines Marchetti", "tenant": "Paul Brandt", "monthly_rent": 1250, "deposit": 3100,
    "start_date": "2026-05-04", "end_date": "2028-04-30",
}  # fmt: skip


def findings(value: Any, schema: Any = LEASE, source: str = SOURCE) -> Findings:
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def corrected(value: Any, found: Findings) -> Any:
    for proposal in found.proposals:
        path = parse_pointer(proposal.pointer)
        *parents, name = path
        inner = value
        for part in parents:
            inner = inner[int(part)] if isinstance(inner, list) else inner[part]
        if isinstance(inner, dict) and name not in inner:
            value = replaced(value, tuple(parents), {**inner, name: proposal.value})
        else:
            keys = tuple(int(part) if part.isdigit() else part for part in path)
            value = replaced(value, keys, proposal.value)
    return value


def is_certain(found: Findings) -> bool:
    return not found.doubts and all(proposal.confidence >= SURE for proposal in found.proposals)


def test_an_object_that_its_source_tells_is_confirmed_and_left_alone() -> None:
    found = findings(LEASE_VALUE)
    assert (found.proposals, found.doubts) == ((), ())
    assert set(found.confirmed) == {f"/{name}" for name in LEASE_VALUE}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("monthly_rent", 1520),
        ("deposit", 31),
        ("start_date", "2026-05-14"),
        ("tenant", "Paul Brandl"),
        ("landlord", "unknown"),
    ],
)
def test_an_altered_value_is_what_the_source_has_beside_its_words(name: str, wrong: Any) -> None:
    found = findings({**LEASE_VALUE, name: wrong})
    assert [(proposal.pointer, proposal.value) for proposal in found.proposals] == [(f"/{name}", LEASE_VALUE[name])]
    assert is_certain(found)


@pytest.mark.parametrize("name", LEASE_VALUE)
def test_a_missing_value_is_found(name: str) -> None:
    found = findings({key: value for key, value in LEASE_VALUE.items() if key != name})
    assert [(proposal.pointer, proposal.value) for proposal in found.proposals] == [(f"/{name}", LEASE_VALUE[name])]
    assert is_certain(found)


@pytest.mark.parametrize(
    ("first", "second"), [("landlord", "tenant"), ("monthly_rent", "deposit"), ("start_date", "end_date")]
)
def test_exchanged_values_change_places_again(first: str, second: str) -> None:
    swapped = {**LEASE_VALUE, first: LEASE_VALUE[second], second: LEASE_VALUE[first]}
    found = findings(swapped)
    assert corrected(swapped, found) == LEASE_VALUE
    assert is_certain(found)


def test_what_a_source_says_of_an_earlier_matter_is_not_taken() -> None:
    source = SOURCE.replace("EUR 1,250", "as agreed")
    found = findings({key: value for key, value in LEASE_VALUE.items() if key != "monthly_rent"}, source=source)
    assert all(proposal.pointer != "/monthly_rent" or proposal.confidence < SURE for proposal in found.proposals)
    assert not is_certain(found)


def test_a_value_that_the_source_has_somewhere_is_doubted_where_nothing_ties_it_to_its_field() -> None:
    schema = closed(first_reader=TEXT, second_reader=TEXT)
    found = findings(
        {"first_reader": "Ines Marchetti", "second_reader": "Paul Brandt"},
        schema,
        "We met Ines Marchetti and Paul Brandt in May.",
    )
    assert {doubt.pointer for doubt in found.doubts} == {"/first_reader", "/second_reader"}


def test_a_value_that_the_source_does_not_have_is_doubted_and_kept() -> None:
    schema = closed(monthly_rent=NUMBER, risk_score=WHOLE)
    found = findings({"monthly_rent": 1250, "risk_score": 4}, schema, "The monthly rent is EUR 1,250 for 36 months.")
    assert found.proposals == ()
    assert [doubt.pointer for doubt in found.doubts] == ["/risk_score"]


@pytest.mark.parametrize(
    ("source", "certain"),
    [
        ("The parcel is fragile.", True),
        ("The parcel is not fragile.", False),
        ("Please ask whether the parcel is fragile.", False),
        ("The parcel is heavy.", False),
    ],
)
def test_a_truth_value_is_confirmed_by_a_clause_with_its_words(source: str, certain: bool) -> None:
    found = findings({"fragile": True}, closed(fragile=TRUTH), source)
    assert found.proposals == ()
    assert is_certain(found) is certain


def test_a_dropped_item_is_put_back_in_its_place() -> None:
    line = closed(item=TEXT, quantity=WHOLE, price=NUMBER)
    schema = closed(lines={"type": "array", "items": line})
    source = "Order: 3 x office chair at 80.00 each; 12 x label printer at 9.50 each; 1 x server rack at 700.00 each."
    lines = [
        {"item": "office chair", "quantity": 3, "price": 80},
        {"item": "label printer", "quantity": 12, "price": 9.5},
        {"item": "server rack", "quantity": 1, "price": 700},
    ]
    found = findings({"lines": [lines[0], lines[2]]}, schema, source)
    assert [(proposal.pointer, proposal.value) for proposal in found.proposals] == [("/lines", lines)]
    assert is_certain(found)
    assert is_certain(findings({"lines": lines}, schema, source))
    wrong = [*lines[:2], {**lines[2], "quantity": 2}]
    assert corrected({"lines": wrong}, findings({"lines": wrong}, schema, source)) == {"lines": lines}


def test_chinese_prose_is_read_by_the_words_of_its_fields() -> None:
    schema = closed(甲方=TEXT, 乙方=TEXT, 金额=NUMBER, 期限月数=WHOLE, 签订日期=DAY)
    truth = {"甲方": "周建国", "乙方": "吴晓燕", "金额": 128000, "期限月数": 24, "签订日期": "2026-03-09"}
    source = "甲方为周建国，乙方为吴晓燕，于2026年3月9日签订。合同金额128,000元，期限24个月。"
    assert is_certain(findings(truth, schema, source))
    swapped = {**truth, "甲方": "吴晓燕", "乙方": "周建国"}
    assert corrected(swapped, findings(swapped, schema, source)) == truth
    without = {key: value for key, value in truth.items() if key != "乙方"}
    assert corrected(without, findings(without, schema, source)) == truth


def test_what_is_certain_of_made_up_cases_is_right_and_what_nothing_determines_is_never_certain() -> None:
    num_certain = num_determined = 0
    for case in cases(num_each=3, seed=3):
        if case.kind == "truncated":
            continue
        value = json.loads(case.text)
        found = findings(value, case.schema, case.source or "")
        num_determined += case.determined
        if is_certain(found):
            num_certain += 1
            assert case.determined, case
            assert same(corrected(value, found), case.truth), case
        if case.kind == "clean":
            assert same(corrected(value, found), case.truth), case
    assert num_certain / num_determined > 0.55


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=300),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_nothing_makes_it_fail(source: str, value: Any) -> None:
    judge(Problem(text="", value=value, schema=True, source=source))
    judge(Problem(text="", value=value, schema=LEASE, source=source + SOURCE))


@pytest.mark.parametrize(
    "source",
    [
        "1 " * 9_000,
        "A" * 19_000,
        "1,234." * 3_000,
        "第一" * 9_000,
        "a@b." * 4_000,
        "- " * 9_000,
        "01-02-" * 3_000,
        "Rent rent " * 1_900,
    ],
)
def test_hostile_sources_are_read_to_their_end(source: str) -> None:
    findings(LEASE_VALUE, source=source)


def test_a_source_that_is_too_long_is_not_compared() -> None:
    found = findings(LEASE_VALUE, source=SOURCE + " " * 30_000)
    assert [doubt.pointer for doubt in found.doubts] == [""]


@pytest.mark.parametrize(
    ("schema", "value", "source"),
    [
        (
            closed(payment_days=WHOLE),
            {"payment_days": 30},
            "Payment within thirty days; a discount for payment within 10 days.",
        ),
        (closed(iban=TEXT), {"iban": "DE89370400440532013000"}, "IBAN DE89 3704 0044 0532 0130 00, BIC COBADEFFXXX"),
        (closed(vat_id=TEXT), {"vat_id": "DE123456789"}, "VAT ID: DE 123 456 789"),
        (closed(weight_kg=NUMBER), {"weight_kg": 1500}, "Weight 1.5 t, pallets 40 kg."),
        (closed(guests=WHOLE), {"guests": 12}, "A dozen guests, 3 of them children."),
        (
            closed(profit_change_percent=NUMBER),
            {"profit_change_percent": -3},
            "Revenue rose by 12 %, profit fell by 3 %.",
        ),
    ],
)
def test_a_value_that_the_source_says_in_another_form_is_never_replaced(schema: Any, value: Any, source: str) -> None:
    assert findings(value, schema, source).proposals == ()


@pytest.mark.parametrize(
    ("schema", "value", "source"),
    [
        (closed(speed_limit=WHOLE), {"speed_limit": 50}, "The speed limit was raised from 50 to 60."),
        (closed(房租=NUMBER), {"房租": 3200}, "房租由每月3200元涨到3500元。"),
        (closed(responsible=TEXT), {"responsible": "Kim Larsen"}, "Responsible was Kim Larsen, now Ada Obi."),
        (
            closed(overtime_ceiling=WHOLE),
            {"overtime_ceiling": 350},
            "The union proposes an overtime ceiling of 350 hours. Agreed: 325.",
        ),
        (closed(目的地=TEXT), {"目的地": "杭州"}, "从杭州发往宁波。"),
        (closed(systolic=WHOLE), {"systolic": 72}, "Blood pressure 128/84, pulse 72."),
        (closed(abstentions=WHOLE), {"abstentions": 2}, "Five in favour, two against, one abstention."),
        (
            closed(attendees={"type": "array", "items": TEXT}),
            {"attendees": ["D. Haddad"]},
            "Attendees: A. Novak, B. Chen. Apologies: D. Haddad.",
        ),
        (closed(attendees={"type": "array", "items": TEXT}), {"attendees": []}, "Attendees: A. Novak, B. Chen."),
    ],
)
def test_old_proposed_and_neighbouring_values_are_not_certain(schema: Any, value: Any, source: str) -> None:
    assert not is_certain(findings(value, schema, source))


@pytest.mark.parametrize(("day", "other"), [("2025-10-04", "1 November 2025"), ("2027-03-01", "2025年3月1日")])
def test_a_date_is_not_another_one_because_it_is_written_alike(day: str, other: str) -> None:
    assert findings({"due": day}, closed(due=DAY), f"We met on {other}.").proposals == ()
