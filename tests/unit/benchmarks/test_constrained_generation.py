"""The short form of the benchmark of answers under schemas."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from benchmarks.constrained_generation import Answerer, run, summary
from benchmarks.record_schemas import records
from services.engine.config import EngineConfig
from services.engine.engine import load_model
from services.engine.grammar_builder import GrammarBuilder, GrammarLimits
from services.engine.kernels.native.build import supported_levels
from stagemesh.models.store import ModelFiles


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")
def test_answers_that_stop_are_valid_and_forced_tokens_change_none(default_model_files: ModelFiles) -> None:
    config = EngineConfig(threads=1)
    model = load_model(default_model_files, config)
    answerer = Answerer(model, config)
    limits = GrammarLimits(max_lexer_states=50_000, max_grammar_symbols=100_000)
    builder = GrammarBuilder(model.tokenizer.json, answerer.vocab_size, model.tokenizer.eos_token_ids, limits)
    found = summary(run(records(2, 2), answerer, builder))
    assert found["valid_of_stopped"] == found["stopped"] > 0
    assert found["differ_without_forced"] == 0
    assert found["forced_share"] > 0.1
    assert found["tokens_per_forward"] > 1.2


def test_schemas_follow_from_the_seed_and_are_schemas() -> None:
    cases = list(records(1, 200))
    assert cases == list(records(1, 200))
    assert len({case.schema for case in cases}) > 190
    for case in cases:
        jsonschema_rs.validator_for(json.loads(case.schema))
