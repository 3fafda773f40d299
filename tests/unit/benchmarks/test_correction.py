"""The correction benchmark in its short form: its cases are what they say, and its report has every figure."""

from __future__ import annotations

import json

from benchmarks.correction import report, run
from benchmarks.correction_cases.case import same
from benchmarks.correction_cases.fresh import fresh_cases
from benchmarks.correction_cases.generate import KINDS, cases
from benchmarks.correction_cases.objects import businesses
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits
from stagemesh.validation.validate import Validator

SLOW = ("large",)


def test_every_kind_has_cases_in_both_languages_and_its_truth_is_valid() -> None:
    validator = Validator(Limits())
    found = list(cases(3, "unseen", 2))
    assert {(case.kind, case.language) for case in found} == {(kind, lang) for kind in KINDS for lang in ("en", "zh")}
    for case in (*found, *fresh_cases(3)):
        if case.determined:
            schema = Constraint(Kind.JSON_SCHEMA, json.dumps(case.schema))
            assert validator.validate(json.dumps(case.truth), schema).valid, case.id
        assert json.loads(case.line())["text"] == case.text


def test_a_seed_gives_the_same_cases_and_no_object_is_in_both_parts() -> None:
    assert [case.line() for case in cases(5, "train", 1)] == [case.line() for case in cases(5, "train", 1)]
    assert {b.name for b in businesses("train")}.isdisjoint(b.name for b in businesses("unseen"))


def test_its_short_form_finds_nothing_certain_that_is_wrong() -> None:
    tallies = run(case for case in cases(11, "unseen", 4) if case.kind not in SLOW)
    done = report(tallies, 11, "unseen")
    assert done["wrong_and_certain"] == done["undetermined_and_certain"] == done["unstable"] == 0
    assert done["clean_unchanged_percent"] == 100
    assert done["right_percent"] >= 97
    assert done["cases"] == sum(sum(tally.outcomes.values()) for tally in tallies.values())
    assert {"right_and_certain_percent", "undetermined", "p50_ms", "p99_ms", "kinds", "machine"} <= done.keys()


def test_of_other_schemas_forms_and_damages_nothing_certain_is_wrong() -> None:
    done = report(run(fresh_cases(2)), 2, "fresh")
    assert done["wrong_and_certain"] == done["undetermined_and_certain"] == done["unstable"] == 0
    assert done["right_percent"] >= 94


def test_values_are_compared_as_json() -> None:
    assert same({"a": [1]}, {"a": [1.0]})
    assert not same(True, 1)
    assert not same({"a": 1}, {"a": 1, "b": 2})
