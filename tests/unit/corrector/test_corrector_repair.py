"""What can be repaired without a model, what it is called, and what is left alone because it would be a guess."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.corrector.chain import RepairChain
from services.corrector.fidelity import kept_where_sound, regeneration_changes
from services.corrector.repair import DOUBT, Repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Verdict

VALIDATOR = Validator(Limits())
CHAIN = RepairChain(Limits())
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
    return CHAIN.repair(text, constraint, [CITY] if constraint is ORDER and '"city"' in text else [])


@pytest.mark.parametrize(
    ("text", "result", "certain", "step"),
    [
        ('```json\n{"name":"a","qty":3}\n```', '{"name":"a","qty":3}', True, "extract"),
        ('Here you are: {"name":"a","qty":3}. Good?', '{"name":"a","qty":3}', True, "extract"),
        ('{"name":"a","name":"a","qty":3}', '{"name":"a","qty":3}', True, "syntax"),
        ('{"name":"a","qty":3,}', '{"name":"a","qty":3}', True, "syntax"),
        ("{'name': 'a', qty: 3}", '{"name":"a","qty":3}', True, "syntax"),
        ('{"name":"a" "qty":3}', '{"name":"a","qty":3}', True, "syntax"),
        ("{“name”：“a”，“qty”：3}", '{"name":"a","qty":3}', True, "syntax"),
        ('{"name":"a "b" c","qty":3}', '{"name":"a \\"b\\" c","qty":3}', True, "syntax"),
        ('{"name":"a","qty":3}\n{"name":"b","qty":4}', '{"name":"a","qty":3}', False, "syntax"),
        ('<think>{?}</think>{"name":"a","qty":3}', '{"name":"a","qty":3}', True, "extract"),
        ('{"qty":3,"name":"a', '{"qty":3,"name":"a"}', False, "syntax"),
        ('```json\n{"name":"a","qty":3', '{"name":"a","qty":3}', False, "syntax"),
        ('{"name":"a","name":"b","qty":3}', '{"name":"b","qty":3}', False, "syntax"),
    ],
)
def test_broken_json_is_repaired_and_the_repair_says_whether_it_is_certain(
    text: str, result: str, certain: bool, step: str
) -> None:
    done = repaired(text)
    assert done.verdict.valid
    assert done.text == result
    assert [(c.pointer, c.before, c.after, c.step) for c in done.changes] == [("", text, result, step)]
    assert done.certain is certain


@pytest.mark.parametrize(
    ("text", "pointer", "before", "after", "step"),
    [
        ('{"name":"a","qty":"3"}', "/qty", '"3"', "3", "schema"),
        ('{"name":7,"qty":3}', "/name", "7", '"7"', "schema"),
        ('{"name":"a","qty":3,"state":"open"}', "/state", '"open"', '"Open"', "schema"),
        ('{"name":"a","qty":3,"city":"北 京"}', "/city", '"北 京"', '"北京"', "anchor"),
        ('{"name":"a","qty":3,"city":"Shangahi"}', "/city", '"Shangahi"', '"Shanghai"', "anchor"),
        ('{"name":"a","qty":3,"city":"DC-1002"}', "/city", '"DC-1002"', '"DC-1001"', "anchor"),
    ],
)
def test_what_the_schema_and_the_anchors_determine_is_put_in_and_told(
    text: str, pointer: str, before: str, after: str, step: str
) -> None:
    done = repaired(text)
    assert done.verdict.valid
    assert done.certain
    (change,) = done.changes
    assert (change.pointer, change.before, change.after, change.step) == (pointer, before, after, step)
    assert change.applied


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
        '{"name":"a"}',
        '{"name":"a","qty":"many"}',
        '{"name":"a","qty":NaN}',
        '{"name":"a","qty":3,"city":"Suzho"}',
        '{"name":"a","qty":3,"city":"Paris"}',
        "[" * 100_000,
        '{"a":' * 5_000,
        '{"name":"' + '\\"' * 50_000,
    ],
)
def test_what_would_be_a_guess_stays_invalid(text: str) -> None:
    done = repaired(text)
    assert not done.verdict.valid
    assert not done.certain


def test_a_valid_text_is_not_touched() -> None:
    text = '{ "name": "a",  "qty": 3, "price": 1.10 }'
    assert repaired(text) == Repair(text=text, verdict=VALIDATOR.validate(text, ORDER), certain=True)


def test_amounts_keep_their_digits_through_a_repair() -> None:
    done = repaired('{"name":"a","qty":"3","price":1234567890123.4567890,}')
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


def judged(done: Repair) -> Verdict:
    """The verdict without the doubts that the correction adds to it."""
    return replace(done.verdict, issues=tuple(issue for issue in done.verdict.issues if issue.rule != DOUBT))


@given(st.text(max_size=60))
@example("0:,0")  # a reading that is too unsure to be applied is told all the same
def test_no_text_makes_the_repair_fail_or_lie(text: str) -> None:
    done = repaired(text)
    assert judged(done) == VALIDATOR.validate(done.text, ORDER)
    assert (done.text == text) == (not any(change.applied for change in done.changes))


@given(st.text(alphabet="{}[]\",:\\ '`na0-.eE1\n", max_size=60))
def test_no_torn_json_makes_the_repair_fail_or_lie(text: str) -> None:
    done = repaired(text, Constraint(Kind.JSON_OBJECT))
    assert judged(done) == VALIDATOR.validate(done.text, Constraint(Kind.JSON_OBJECT))


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
