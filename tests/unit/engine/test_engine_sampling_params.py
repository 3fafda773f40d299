from __future__ import annotations

import math

import pytest

from services.engine.sampling_params import SamplingParams, parse_sampling
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest


def parse(**fields: object) -> SamplingParams:
    return parse_sampling(common_pb2.SamplingParams(**fields), vocab_size=100)  # type: ignore[arg-type]


def test_absent_fields_take_defaults() -> None:
    assert parse(seed=4) == SamplingParams(seed=4)


def test_zero_is_not_absent() -> None:
    params = parse(temperature=0.0, logprobs=0, top_k=0)
    assert params.greedy
    assert params.logprobs == 0
    assert parse(seed=1).logprobs is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", 101.0),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("frequency_penalty", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", 11.0),
        ("max_tokens", 0),
        ("min_tokens", 6),
        ("logprobs", 21),
        ("n", 2),
        ("stop", [""]),
        ("stop", ["x" * 1025]),
        ("stop", ["x"] * 17),
        ("stop_token_ids", [100]),
        ("stop_token_ids", list(range(65))),
        ("logit_bias", {100: 1.0}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: 101.0}),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(field: str, value: object) -> None:
    values = {"seed": 1, "max_tokens": 5, field: value}
    with pytest.raises(InvalidRequest) as caught:
        parse(**values)
    assert caught.value.field == f"sampling.{field}"
    assert caught.value.reason == "INVALID_PARAMETER"


def test_a_seed_is_needed_to_sample_but_not_to_be_greedy() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(temperature=0.7)
    assert caught.value.field == "sampling.seed"
    assert parse(temperature=0.0).greedy
