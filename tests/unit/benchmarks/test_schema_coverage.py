"""The short form of the coverage of schemas: the generator's cases, and a folder's."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs

from benchmarks.schema_cases import read_cases
from benchmarks.schema_coverage import QUICK_COUNT, Tally, measure, summary
from benchmarks.schema_generator import generate


async def test_made_up_schemas_are_accepted_and_enforced_without_a_wrong_acceptance() -> None:
    tally = Tally()
    await measure(generate(1, QUICK_COUNT), tally)
    found = summary(tally)
    assert found["schemas"] == found["accepted"] == found["together_right"] == QUICK_COUNT
    assert found["grammar_right"] > QUICK_COUNT / 2
    assert found["wrong_acceptances"] == found["wrong_acceptances_by_grammar"] == 0


def test_instances_are_what_they_are_said_to_be_and_follow_from_the_seed() -> None:
    cases = list(generate(3, 150))
    assert cases == list(generate(3, 150))
    for case in cases:
        validator = jsonschema_rs.validator_for(json.loads(case.schema))
        for instance in case.instances:
            assert validator.is_valid(json.loads(instance.text)) is instance.is_valid, case


def test_a_folder_is_read_whole_or_as_a_sample(tmp_path: Path) -> None:
    for number in range(9):
        content = {
            "schema": {"const": number},
            "tests": [{"data": number, "valid": True}, {"data": -1, "valid": False}],
        }
        (tmp_path / f"{number}.json").write_text(json.dumps(content))
    cases = list(read_cases(tmp_path, None, seed=1))
    assert [case.name for case in cases] == [str(number) for number in range(9)]
    assert [instance.is_valid for instance in cases[4].instances] == [True, False]
    sample = list(read_cases(tmp_path, 3, seed=1))
    assert len(sample) == 3
    assert set(sample) < set(cases)
