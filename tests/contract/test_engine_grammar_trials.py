"""Constraints are tried out in processes of their own: what cannot be built harms nobody, and the answer says why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.engine.config import ConstraintConfig
from services.engine.grammar_trials import GrammarTrials
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.constraint import Constraint, Kind

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def trials(default_model_files: ModelFiles) -> AsyncIterator[GrammarTrials]:
    tokenizer = load_tokenizer(default_model_files)
    trials = GrammarTrials(tokenizer, tokenizer.vocab_size, ConstraintConfig())
    yield trials
    await trials.close()


@pytest.fixture
async def patient(default_model_files: ModelFiles) -> AsyncIterator[GrammarTrials]:
    """For a machine that is busy with tests."""
    tokenizer = load_tokenizer(default_model_files)
    trials = GrammarTrials(tokenizer, tokenizer.vocab_size, ConstraintConfig(compile_timeout_s=60))
    yield trials
    await trials.close()


def schema(value: Any) -> Constraint:
    return Constraint(Kind.JSON_SCHEMA, json.dumps(value))


def heavy(number: int) -> Constraint:
    """More properties that may be left out than a grammar of them can be built for in time."""
    names = [f"p{number}_{index}" for index in range(8_000)]
    return schema({"properties": {name: {"type": "string"} for name in names}, "additionalProperties": False})


def within(part: Any) -> Constraint:
    return schema({"type": "object", "properties": {"a": {"type": "array", "items": part}}})


DEEP_REFERENCES = {
    "$defs": {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}]}
        for level in range(30)
    }
    | {"d30": {"type": "integer"}},
    "$ref": "#/$defs/d0",
}
BAD = {
    "type": (within({"type": "text"}), "INVALID_CONSTRAINT", "constraint.json_schema#/properties/a/items"),
    "pattern": (within({"pattern": "("}), "INVALID_CONSTRAINT", "constraint.json_schema#/properties/a/items"),
    "remote": (within({"$ref": "http://x/"}), "INVALID_CONSTRAINT", "constraint.json_schema#/properties/a/items"),
    "nowhere": (schema({"$ref": "#/$defs/x"}), "INVALID_CONSTRAINT", "constraint.json_schema"),
    "itself": (schema({"$ref": "#"}), "INVALID_CONSTRAINT", "constraint.json_schema"),
    "regex": (Constraint(Kind.REGEX, "a{3"), "INVALID_CONSTRAINT", "constraint.regex"),
    "grammar": (Constraint(Kind.GRAMMAR, "start: x"), "INVALID_CONSTRAINT", "constraint.grammar"),
    "choice": (Constraint(Kind.CHOICE, choices=("a", "")), "INVALID_CONSTRAINT", "constraint.choice"),
}
GOOD = {
    "recursive": schema({"type": "object", "properties": {"next": {"$ref": "#"}}}),
    "backtracking": within({"type": "string", "pattern": "(a+)+$"}),
    "enum": schema({"enum": [f"value {number}" for number in range(12_000)]}),
    "choices": Constraint(Kind.CHOICE, choices=tuple(f"the value {number}" for number in range(8_000))),
    "properties": schema({"properties": {f"p{number}": {"type": "string"} for number in range(1_000)}}),
}


async def test_what_takes_too_long_is_refused_as_too_complex(trials: GrammarTrials) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await trials.check(heavy(0), "tenant")
    assert (caught.value.reason, caught.value.field) == ("CONSTRAINT_TOO_COMPLEX", "constraint.json_schema")


async def test_a_bad_constraint_is_refused_with_the_place_and_a_hard_one_is_taken(patient: GrammarTrials) -> None:
    for constraint, reason, field in BAD.values():
        with pytest.raises(InvalidRequest) as caught:
            await patient.check(constraint, "tenant")
        assert (caught.value.reason, caught.value.field) == (reason, field)
    for constraint in GOOD.values():
        await patient.check(constraint, "tenant")


async def test_references_that_multiply_are_refused_in_their_time(trials: GrammarTrials) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await trials.check(schema(DEEP_REFERENCES), "tenant")
    assert caught.value.reason in {"CONSTRAINT_TOO_COMPLEX", "INVALID_CONSTRAINT"}


async def test_one_tenants_storm_does_not_hold_up_another(trials: GrammarTrials) -> None:
    await trials.warm_up()
    storm = [asyncio.create_task(trials.check(heavy(number), "mallory")) for number in range(1, 40)]
    await asyncio.sleep(0)
    for number in range(10):
        await trials.check(schema({"type": "object", "properties": {f"x{number}": {"type": "string"}}}), "alice")
    assert not all(task.done() for task in storm)
    for task in storm:
        task.cancel()
    outcomes = await asyncio.gather(*storm, return_exceptions=True)
    assert all(isinstance(outcome, BaseException) for outcome in outcomes)


async def test_a_verdict_is_found_out_once(patient: GrammarTrials, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = patient
    for constraint in (GOOD["recursive"], BAD["pattern"][0]):
        for attempt in range(2):
            if attempt:
                monkeypatch.setattr(trials, "_processes", None)  # nothing may be asked again
            if constraint is GOOD["recursive"]:
                await trials.check(constraint, "tenant")
            else:
                with pytest.raises(InvalidRequest):
                    await trials.check(constraint, "tenant")
        monkeypatch.undo()
