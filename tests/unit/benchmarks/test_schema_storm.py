"""The storm of malicious schemas: what it sends, and how its figures come about. On a mesh: tests/e2e."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import pytest

from benchmarks.schema_storm import KINDS, Seen, p99, storm, summary
from stagemesh.runtime.errors import StagemeshError
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.validate import Validator


def test_no_two_malicious_schemas_are_alike_and_each_of_four_sorts_comes_in_turn() -> None:
    schemas = list(islice(storm(), 8))
    assert len(set(schemas)) == 8
    parsed = [json.loads(schema) for schema in schemas]
    assert [min(set(schema) - {"title", "type", "required", "additionalProperties"}) for schema in parsed] == [
        "$defs", "properties", "properties", "$ref",
    ] * 2  # fmt: skip
    assert len(parsed[2]["properties"]) == 10_000


def test_schemas_that_point_to_other_machines_are_refused_by_the_validator() -> None:
    *_, remote = islice(storm(), 4)
    with pytest.raises((Refusal, StagemeshError), match="nothing is fetched from outside"):
        Validator(Limits()).check(Constraint(Kind.JSON_SCHEMA, remote), ())


def test_figures_compare_the_storm_with_the_quiet() -> None:
    quiet, stormy = Seen(), Seen()
    for kind in KINDS:
        quiet.times_ms[kind] = [float(number) for number in range(1, 101)]
        stormy.times_ms[kind] = [2.0 * number for number in range(1, 101)]
    stormy.failed["plain: VALIDATION_BUSY"] += 1
    found = summary(quiet, stormy, Counter({"INVALID_SCHEMA": 3}))
    assert (found["plain_p99_ms"], found["new_schema_p99_in_storm_ms"], found["known_schema_p99_ratio"]) == (
        100,
        200,
        2,
    )
    assert found["failed"] == {"plain: VALIDATION_BUSY": 1}
    assert (found["requests_of_each_kind"], found["storm_schemas"]) == (100, 3)
    assert p99([5.0]) == 5.0
