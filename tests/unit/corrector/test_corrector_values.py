"""Numbers, dates and words: what they say, and how sure that is."""

from __future__ import annotations

from decimal import Decimal

import pytest

from services.corrector.changes import CERTAIN
from services.corrector.form.amounts import read_amount
from services.corrector.form.booleans import read_boolean
from services.corrector.form.compounds import iso_duration
from services.corrector.form.dates import read_dates


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12,000.50", "12000.50"),
        ("1.234,56", "1234.56"),
        ("USD 1.2k", "1200"),
        ("RMB 12,000元", "12000"),
        ("￥12,000.00元整", "12000"),
        ("3.5万元", "35000"),
        ("1.5 million USD", "1500000"),
        ("3 kg", "3"),
        ("5千克", "5"),
        ("１２，０００", "12000"),
        ("(1,200.00)", "-1200"),
        ("−5", "-5"),
        ("0x1F", "31"),
        ("1'234.50", "1234.50"),
        ("1 234,5", "1234.5"),
        ("壹万贰仟元整", "12000"),
        ("twenty-five", "25"),
        ("1,23,456", "123456"),
        ("一万二", "12000"),
        ("三百五", "350"),
        ("两千四", "2400"),
        ("一亿三", "130000000"),
        ("一百一", "110"),
        ("肆佰伍", "450"),
        ("壹仟贰", "1200"),
        ("一万三千五", "13500"),
        ("一百零五", "105"),
        ("一百二十五", "125"),
        ("一万零二", "10002"),
        ("一亿三千万", "130000000"),
        ("a hundred", "100"),
    ],
)
def test_a_number_is_read_from_its_text(text: str, value: str) -> None:
    amount = read_amount(text)
    assert amount is not None
    if text not in ("１２，０００",):  # one comma may be a decimal one where fractions are allowed
        assert amount.confidence >= CERTAIN
    assert amount.value == Decimal(value)


@pytest.mark.parametrize(
    "text", ["1.234", "1,234", "about 30", "约3000", "12 widgets", "$1.2M", "5-", "5x", "万二", "三五"]
)
def test_a_number_that_can_be_read_in_two_ways_is_not_certain(text: str) -> None:
    amount = read_amount(text)
    assert amount is not None
    assert amount.confidence < CERTAIN


@pytest.mark.parametrize(
    "text",
    [
        "many",
        "3-5",
        "12:30",
        "1 2",
        "A1",
        "2025-03-05",
        "",
        "N/A",
        "3 boxes of 12",
        "five six",
        "nineteen eighty",
        "三四百",
    ],
)
def test_what_is_no_single_number_is_none(text: str) -> None:
    assert read_amount(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "March 5, 2025",
        "2025/3/5",
        "2025年3月5日",
        "05-Mar-2025",
        "5th of March, 2025",
        "20250305",
        "二〇二五年三月五日",
        "Wednesday, 3/5/2025",
        "2025-03-05T00:00:00Z",
        "2025年3月5日（星期三）",
        "2025-W10-3",
        "2025-064",
        "2025—03—05",
        "20250305T143000Z",
    ],
)
def test_a_date_is_read_from_its_text(text: str) -> None:
    moment = read_dates(text)[0]
    assert str(moment.date) == "2025-03-05"
    assert moment.confidence >= CERTAIN


def test_day_and_month_that_could_be_exchanged_are_two_dates_and_neither_is_certain() -> None:
    moments = read_dates("1/2/2025")
    assert {str(moment.date) for moment in moments} == {"2025-01-02", "2025-02-01"}
    assert all(moment.confidence < CERTAIN for moment in moments)
    (only,) = read_dates("13/5/2025")
    assert (str(only.date), only.confidence >= CERTAIN) == ("2025-05-13", True)


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-30",
        "March 5",
        "yesterday",
        "12",
        "13/13/2025",
        "Monday, 2025-03-05x",
        "2025-366",
        "2025-000",
        "2025-W53-1",
    ],
)
def test_what_is_no_whole_date_is_none(text: str) -> None:
    assert read_dates(text) == []


@pytest.mark.parametrize(("text", "value"), [("Yes", True), ("是", True), ("N", False), ("否", False), ("√", True)])
def test_words_for_true_and_false(text: str, value: bool) -> None:
    read = read_boolean(text)
    assert read is not None
    assert read[0] is value
    assert read_boolean("maybe") is None


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("1h 20m", "PT1H20M"),
        ("90 min", "PT90M"),
        ("1:20 h", "PT1H20M"),
        ("2 days", "P2D"),
        ("1 day 12 hours", "P1DT12H"),
        ("两周", "P2W"),
        ("1 week 2 days", "P9D"),
        ("半小时", "PT30M"),
        ("1.5 h", "PT1H30M"),
        ("一年半", "P1Y6M"),
        ("18 months", "P18M"),
        ("1:20", None),
        ("1500 ms", None),
        ("about 2 h", None),
        ("半年左右", None),
        ("2 kg", None),
        ("", None),
    ],
)
def test_a_length_of_time_is_written_as_iso_8601_has_it(text: str, duration: str | None) -> None:
    assert iso_duration(text) == duration
