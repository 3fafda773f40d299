"""What can be repaired without a model, what it is called, and what is left alone because it would be a guess."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.corrector.changes import DIGIT, FIRST_OF_SEVERAL, FORM, SPELLING, SYNTAX, TRUNCATED
from services.corrector.fidelity import kept_where_sound, regeneration_changes
from services.corrector.repair import Repair, repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits
from stagemesh.validation.validate import Validator

VALIDATOR = Validator(Limits())
ORDER = Constraint(
    Kind.JSON_SCHEMA,
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "qty": {"type": "integer"},
                "price": {"type": "number"},
                "city": {"type": "string"},
                "state": {"enum": ["Open", "Closed"]},
            },
            "required": ["name", "qty"],
            "additionalProperties": False,
        }
    ),
)
CITY = Anchor("/city", ("北京", "Shanghai", "DC-1001", "Suzhou", "Suzhoo"))


def repaired(text: str, constraint: Constraint = ORDER) -> Repair:
    return repair(VALIDATOR, text, constraint, [CITY] if constraint is ORDER and '"city"' in text else [])


@pytest.mark.parametrize(
    ("text", "result", "confidence"),
    [
        ('```json\n{"name":"a","qty":3}\n```', '{"name":"a","qty":3}', FORM),
        ('Here you are: {"name":"a","qty":3}. Good?', '{"name":"a","qty":3}', FORM),
        ('{"name":"a","name":"a","qty":3}', '{"name":"a","qty":3}', FORM),
        ('{"name":"a","qty":3,}', '{"name":"a","qty":3}', SYNTAX),
        ("{'name': 'a', qty: 3}", '{"name":"a","qty":3}', SYNTAX),
        ('{"name":"a" "qty":3}', '{"name":"a","qty":3}', SYNTAX),
        ("{“name”：“a”，“qty”：3}", '{"name":"a","qty":3}', SYNTAX),
        ('{"name":"a "b" c","qty":3}', '{"name":"a \\"b\\" c","qty":3}', SYNTAX),
        ('{"name":"a","qty":3}\n{"name":"b","qty":4}', '{"name":"a","qty":3}', FIRST_OF_SEVERAL),
        ('<think>{?}</think>{"name":"a","qty":3}', '{"name":"a","qty":3}', FIRST_OF_SEVERAL),
        ('{"qty":3,"name":"a', '{"qty":3,"name":"a"}', TRUNCATED),
        ('```json\n{"name":"a","qty":3', '{"name":"a","qty":3}', TRUNCATED),
    ],
)
def test_broken_json_is_repaired_and_the_repair_says_how_sure_it_is(text: str, result: str, confidence: float) -> None:
    done = repaired(text)
    assert done.verdict.valid
    assert done.text == result
    assert [(c.pointer, c.before, c.after, c.step) for c in done.changes] == [("", text, result, "syntax")]
    assert done.changes[0].confidence == confidence
    assert done.changes[0].reason.startswith("truncated") == (confidence == TRUNCATED)


@pytest.mark.parametrize(
    ("text", "pointer", "before", "after", "confidence", "step"),
    [
        ('{"name":"a","qty":"3"}', "/qty", '"3"', "3", SPELLING, "schema"),
        ('{"name":7,"qty":3}', "/name", "7", '"7"', SPELLING, "schema"),
        ('{"name":"a","qty":3,"state":"open"}', "/state", '"open"', '"Open"', SPELLING, "schema"),
        ('{"name":"a","qty":3,"city":"北 京"}', "/city", '"北 京"', '"北京"', FORM, "anchor"),
        ('{"name":"a","qty":3,"city":"Shangahi"}', "/city", '"Shangahi"', '"Shanghai"', SYNTAX, "anchor"),
        ('{"name":"a","qty":3,"city":"DC-1002"}', "/city", '"DC-1002"', '"DC-1001"', DIGIT, "anchor"),
    ],
)
def test_a_certain_suggestion_is_put_in_and_told(
    text: str, pointer: str, before: str, after: str, confidence: float, step: str
) -> None:
    done = repaired(text)
    assert done.verdict.valid
    (change,) = done.changes
    assert (change.pointer, change.before, change.after) == (pointer, before, after)
    assert (change.confidence, change.step) == (confidence, step)


def test_several_steps_are_all_told() -> None:
    done = repaired('Sure: {"name":"a","qty":"3","city":"Shangahi",}')
    assert done.text == '{"name":"a","qty":3,"city":"Shanghai"}'
    assert [(change.pointer, change.step) for change in done.changes] == [
        ("", "syntax"),
        ("/qty", "schema"),
        ("/city", "anchor"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON at all",
        '{"name":"a","name":"b","qty":3}',
        '{"name":"a"}',
        '{"name":"a","qty":"many"}',
        '{"name":"a","qty":NaN}',
        '{"name":"a","qty":3,"city":"Suzho"}',
        '{"name":"a","qty":3,"city":"Paris"}',
        '{"name":"a","qty":3,"price":1.2345678901234567890123,}',
        "[" * 100_000,
        '{"a":' * 5_000,
        '{"name":"' + '\\"' * 50_000,
    ],
)
def test_what_would_be_a_guess_stays_invalid(text: str) -> None:
    assert not repaired(text).verdict.valid


def test_a_valid_text_is_not_touched() -> None:
    text = '{ "name": "a",  "qty": 3, "price": 1.10 }'
    assert repaired(text) == Repair(text=text, verdict=VALIDATOR.validate(text, ORDER), changes=())


def test_amounts_keep_their_digits_through_a_repair() -> None:
    done = repaired('{"name":"a","qty":"3","price":1234567890123.4567890}')
    assert done.text == '{"name":"a","qty":3,"price":1234567890123.4567890}'


@pytest.mark.parametrize(
    ("text", "result"),
    [('"Yes"', "Yes"), ("yes.", "Yes"), (" No\n", "No"), ("**Yes**", "Yes"), ("Yes or No", None), ("maybe", None)],
)
def test_a_choice_is_freed_from_what_stands_around_it(text: str, result: str | None) -> None:
    done = repaired(text, Constraint(Kind.CHOICE, choices=("Yes", "No")))
    assert done.verdict.valid == (result is not None)
    assert done.text == (result or text)


def test_a_text_for_a_regex_is_trimmed_only() -> None:
    regex = Constraint(Kind.REGEX, "[0-9]{3}")
    assert repaired(" 123\n", regex).text == "123"
    assert not repaired("12 3", regex).verdict.valid


@given(st.text(max_size=60))
def test_no_text_makes_the_repair_fail_or_lie(text: str) -> None:
    done = repaired(text)
    assert done.verdict == VALIDATOR.validate(done.text, ORDER)
    assert (done.text == text) == (not done.changes)


@given(st.text(alphabet="{}[]\",:\\ '`na0-.eE1\n", max_size=60))
def test_no_torn_json_makes_the_repair_fail_or_lie(text: str) -> None:
    done = repaired(text, Constraint(Kind.JSON_OBJECT))
    assert done.verdict == VALIDATOR.validate(done.text, Constraint(Kind.JSON_OBJECT))


def test_a_regeneration_is_held_to_what_was_sound_before() -> None:
    last = repaired('{"name":"Lin","qty":"many","price":2.50}')
    renewed = repaired('{"name":"Lynn","qty":4,"price":2.5,"state":"Open"}')
    kept = kept_where_sound(last, renewed)
    assert kept == '{"name":"Lin","qty":4,"price":2.50,"state":"Open"}'
    changes = list(regeneration_changes(last, repaired(kept), ""))
    assert [(c.pointer, c.before, c.after, c.step) for c in changes] == [
        ("/qty", '"many"', "4", "regenerate"),
        ("/state", "", '"Open"', "regenerate"),
    ]
    assert changes[0].confidence > changes[1].confidence
    assert changes[0].reason == '/qty must be an integer, but is the string "many"'


def test_a_missing_member_is_a_reason_to_add_it_but_not_to_change_others() -> None:
    last = repaired('{"name":"Lin"}')
    kept = kept_where_sound(last, repaired('{"name":"Lynn","qty":4}'))
    assert kept == '{"name":"Lin","qty":4}'
    (change,) = regeneration_changes(last, repaired(kept), "")
    assert change.pointer == "/qty"
    assert "missing" in change.reason


def test_a_regeneration_of_what_was_no_json_is_one_change_of_the_whole() -> None:
    last = repaired("no JSON")
    renewed = repaired('{"name":"a","qty":1}')
    assert kept_where_sound(last, renewed) is None
    (change,) = regeneration_changes(last, renewed, "no JSON")
    assert (change.pointer, change.before, change.after) == ("", "no JSON", renewed.text)
