from typing import Any

import pytest

from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.json_form import read_message


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (5, "rules[0] must be an object with number, date, synonyms, sum, product, order, table, set"),
        (
            {"nope": 1},
            "rules[0].nope is not known; rules[0] takes number, date, synonyms, sum, product, order, table, set",
        ),
        ({"sum": 5}, "rules[0].sum must be an object with total, of, minus, tolerance"),
        ({"sum": {"total": 1}}, "rules[0].sum.total must be a string"),
        ({"sum": {"of": "/a"}}, "rules[0].sum.of must be an array of strings"),
        ({"sum": {"of": ["/a", None]}}, "rules[0].sum.of[1] must be a string"),
        ({"number": {"values": [True]}}, "rules[0].number.values[0] must be a number"),
        ({"order": {"strict": "yes"}}, "rules[0].order.strict must be true or false"),
        (
            {"sum": {}, "date": {}},
            "rules[0] takes one of number, date, synonyms, sum, product, order, table, set, not sum and date",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_and_what_it_takes(rule: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_message(rule, common_pb2.Rule(), "rules[0]")
    assert caught.value.message == said
    assert caught.value.field == said.split()[0]


@pytest.mark.parametrize("value", [-1, 2**32, 1.5, True])
def test_counts_are_whole_numbers_that_fit(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="num_notes must be a whole number from 0 to 4,294,967,295"):
        read_message({"citations": {"num_notes": value}}, common_pb2.TextRules(), "text_rules[0]")


def test_what_fits_is_read_under_both_spellings_and_null_asks_for_nothing() -> None:
    rule = {"number": {"pointer": "/a", "atLeast": 1, "at_most": 2.5, "values": None}, "sum": None}
    assert read_message(rule, common_pb2.Rule(), "rules[0]").number == common_pb2.NumberRule(
        pointer="/a", at_least=1, at_most=2.5
    )
