"""Numbers of a source: read as a whole or not at all, and what follows for the values that are made from them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from benchmarks.content_cases.story import closed
from services.corrector.content.judge import judge
from services.corrector.content.judgement import SURE
from services.corrector.content.mentions import Kind, folded, mentions
from services.corrector.proposals import Findings, Problem

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def findings(value: Any, schema: Any, source: str) -> Findings:
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def numbers(text: str) -> list[Decimal | None]:
    return [mention.number for mention in mentions(folded(text)) if mention.kind is Kind.NUMBER]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("15'230.40", "15230.40"), ("15.230,40", "15230.40"), ("15230,40 EUR", "15230.40"), ("12,5 %", "12.5"),
        ("1,52,304.00", "152304"), ("1 234 567.80", "1234567.80"), ("EUR 12 300", "12300"), ("120,- EUR", "120"),
        ("$1.2M", "1200000"), ("1.2 mio EUR", "1200000"), ("2.5e6", "2500000"), ("12 1/2", "12.5"), ("3½", "3.5"),
        ("3百元", "300"), ("1亿2千万元", "120000000"), ("十二万元", "120000"), ("人民币壹万贰仟元整", "12000"),
        ("−120", "-120"), ("-$120.50", "-120.50"), ("minus 120", "-120"), ("负120", "-120"), ("Net: (120.00)", "-120"),
        ("pack of 12", "12"), ("- 120 kg", "120"), ("fuse (EUR 38.50)", "38.50"), ("cable (40,156.00 USD)", "40156"),
        ("12m²", "12"), ("2千米", "2"),
    ],
)  # fmt: skip
def test_a_number_is_read_with_its_marks_sign_and_scale(text: str, number: str) -> None:
    assert numbers(text) == [Decimal(number)]


@pytest.mark.parametrize(
    "text",
    ["1,2345", "12 300 pcs", "5万8", "12万余元", "120元左右", "~120", "120±5", "12+", "250-400 EUR", "3 to 5 units",
     "1h 20m", "1.234 EUR", "a sum (120.00) of", "1.2.3.4"],
)  # fmt: skip
def test_of_a_number_that_has_no_sure_reading_no_part_is_one(text: str) -> None:
    assert set(numbers(text)) == {None}


def test_a_time_of_day_and_a_short_telephone_number_are_no_numbers() -> None:
    assert numbers("at 10:30, call +49 123") == []


@pytest.mark.parametrize(
    ("told", "value", "part"),
    [
        ("15'230.40", 15230.4, 230.4), ("$1.2M", 1_200_000, 1.2), ("1,52,304.00", 152_304, 304), ("−120", -120, 120),
        ("12 1/2", 12.5, 12), ("1,2345", 12345, 2345), ("12 300", 12300, 300),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["The net amount is {} for Ada Stone.", "Net amount: {}\nClient: Ada Stone"])
def test_a_part_of_a_number_is_never_certain_and_never_put_in(
    source: str, told: str, value: float, part: float
) -> None:
    schema = closed(net_amount=NUMBER, client=TEXT)
    text = source.format(told)
    for present in (value, part, value + 3):
        found = findings({"net_amount": present, "client": "Ada Stone"}, schema, text)
        sure = [proposal.value for proposal in found.proposals if proposal.confidence >= SURE]
        assert set(sure) <= {value}
        assert not (found.settles_all and present != value and not sure)


def test_chinese_scales_are_part_of_an_amount() -> None:
    schema = closed(合同金额=NUMBER)
    assert findings({"合同金额": 35000}, schema, "合同金额为3万5千元。").settles_all
    for wrong in (3, 30000, 5000):
        found = findings({"合同金额": wrong}, schema, "合同金额为3万5千元。")
        assert not found.settles_all or [proposal.value for proposal in found.proposals] == [35000]


@pytest.mark.parametrize(
    ("schema", "value", "source"),
    [
        (closed(fee_rate=NUMBER), {"fee_rate": 0.01}, "The fee rate is 10‰."),
        (closed(amount_in_thousand_eur=NUMBER), {"amount_in_thousand_eur": 120}, "The amount is 120,000 EUR."),
        (closed(合同金额_万元=NUMBER), {"合同金额_万元": 12}, "合同金额为12万元。"),
    ],
)
def test_a_number_of_another_scale_than_the_fields_is_not_put_in(schema: Any, value: Any, source: str) -> None:
    assert findings(value, schema, source).proposals == ()
