from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import make_sequence

from services.engine.logits import support
from services.engine.logprobs import token_logprobs
from services.engine.noise import noise_key, uniforms
from services.engine.sampler import Draw, sample
from services.engine.sampling_params import SamplingParams
from stagemesh.runtime.errors import Internal

NONE: frozenset[int] = frozenset()


def row_of(probabilities: list[float]) -> npt.NDArray[np.float32]:
    return np.log(np.asarray(probabilities)).astype(np.float32)


def draw(row: npt.NDArray[np.float32], output: list[int] | None = None, name: str = "id", **params: object) -> int:
    sequence = make_sequence(name, [1, 2], params=SamplingParams(**params))  # type: ignore[arg-type]
    sequence.tokens += output or []
    return sample(Draw(row, sequence, NONE)).token


def chi_square(counts: npt.NDArray[np.int64], expected: npt.NDArray[np.float64]) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_follow_the_distribution_over_positions_and_over_seeds() -> None:
    probabilities = np.asarray([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    row = row_of(probabilities.tolist())
    by_position = [draw(row, output=[0] * position, seed=5) for position in range(3000)]
    by_seed = [draw(row, seed=seed) for seed in range(3000)]
    for draws in (by_position, by_seed):
        statistic = chi_square(np.bincount(draws, minlength=6), probabilities * 3000)
        assert statistic < 20.5, "p < 0.001 at 5 degrees of freedom"


def test_temperature_sharpens_as_defined() -> None:
    probabilities = np.asarray([0.5, 0.3, 0.2])
    sharp = probabilities**2 / (probabilities**2).sum()
    draws = [draw(row_of(probabilities.tolist()), seed=seed, temperature=0.5) for seed in range(3000)]
    assert chi_square(np.bincount(draws, minlength=3), sharp * 3000) < 13.8, "p < 0.001 at 2 degrees of freedom"


def test_neighbouring_keys_give_unrelated_noise() -> None:
    tokens = np.arange(20_000)
    first, second = uniforms(noise_key(1, 0), tokens), uniforms(noise_key(1, 1), tokens)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.03
    assert 0 < first.min() < first.max() < 1


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    row = row_of([1 / 50] * 50)
    assert draw(row, output=[3, 4], seed=1) == draw(row, output=[8, 9], seed=1)
    assert len({draw(row, output=[0] * i, seed=1) for i in range(40)}) > 10
    assert len({draw(row, seed=seed) for seed in range(40)}) > 10
    assert len({draw(row, name=f"id{i}", seed=1) for i in range(40)}) == 1


def test_a_filter_does_not_change_the_draw_where_it_leaves_the_token_over() -> None:
    row = row_of([0.3, 0.2, 0.2, 0.15, 0.15])
    for seed in range(50):
        free = draw(row, seed=seed)
        if free < 3:
            assert draw(row, seed=seed, top_k=3) == free


def test_greedy_takes_the_best_and_the_lowest_of_equals() -> None:
    assert draw(row_of([0.2, 0.4, 0.4]), temperature=0.0) == 1


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 99}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.5}, [0, 1]),
        ({"top_p": 0.4}, [0]),
        ({"top_p": 0.0001}, [0]),
        ({"min_p": 0.5}, [0, 1]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 3, "top_p": 0.6}, [0, 1]),
        ({"min_p": 0.3, "top_p": 0.99}, [0, 1, 2]),
    ],
)
def test_filters_keep_what_vllm_keeps(params: dict[str, float], kept: list[int]) -> None:
    scaled = np.log(np.asarray([0.4, 0.3, 0.15, 0.1, 0.05]))
    assert support(scaled, SamplingParams(**params)).tolist() == kept  # type: ignore[arg-type]


def test_forbidden_tokens_are_never_drawn() -> None:
    row = row_of([0.5, 0.5, 1e-9])
    row[:2] = -np.inf
    row[2] = -1.0
    sequence = make_sequence("id", [1], params=SamplingParams(seed=1, logit_bias={2: -50.0}))
    finite = np.where(np.isfinite(row), row, -1e30).astype(np.float32)
    assert sample(Draw(finite, sequence, NONE)).token == 2


def test_repetition_penalty_counts_the_prompt_and_the_others_do_not() -> None:
    row = np.asarray([0.0, 2.0, 1.9, 1.8], dtype=np.float32)  # the prompt is [1, 2]
    assert draw(row, temperature=0.0) == 1
    assert draw(row, temperature=0.0, repetition_penalty=1.5) == 3
    assert draw(row, temperature=0.0, presence_penalty=2.0, frequency_penalty=2.0) == 1
    assert draw(row, output=[1], temperature=0.0, presence_penalty=0.15) == 2
    assert draw(row, output=[1, 2, 2], temperature=0.0, frequency_penalty=0.15) == 1


def test_repetition_penalty_makes_negative_logits_lower() -> None:
    row = np.asarray([-3.0, -1.0, -1.0, -1.1], dtype=np.float32)
    assert draw(row, temperature=0.0, repetition_penalty=2.0) == 3


def test_logprobs_are_those_of_the_unmodified_distribution() -> None:
    probabilities = [0.1, 0.2, 0.3, 0.4]
    params = SamplingParams(temperature=0.0, logprobs=2, logit_bias={0: 50.0})
    chosen = sample(Draw(row_of(probabilities), make_sequence("id", [1], params=params), NONE))
    assert chosen.token == 0
    assert chosen.logprobs is not None
    assert chosen.logprobs.logprob == pytest.approx(np.log(0.1), abs=1e-5)
    assert [token for token, _ in chosen.logprobs.top] == [3, 2]
    assert [value for _, value in chosen.logprobs.top] == pytest.approx(np.log([0.4, 0.3]).tolist(), abs=1e-5)


def test_zero_logprobs_report_the_chosen_token_only() -> None:
    entry = token_logprobs(row_of([0.5, 0.5]), 1, 0)
    assert entry.top == ()
    assert entry.logprob == pytest.approx(np.log(0.5), abs=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_an_error(value: float) -> None:
    row = row_of([0.5, 0.5])
    row[1] = value
    with pytest.raises(Internal, match="NON_FINITE_LOGITS"):
        draw(row)


def test_the_logits_of_the_step_are_left_as_they_were() -> None:
    row = row_of([0.1, 0.2, 0.7])
    before = row.copy()
    draw(row, output=[2, 2], seed=3, repetition_penalty=1.4, logit_bias={1: 3.0}, top_k=2, temperature=0.7)
    assert (row == before).all()


@pytest.mark.parametrize("top_p", [0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_a_nucleus_in_a_large_vocabulary_is_what_sorting_everything_gives(top_p: float, spread: float) -> None:
    scaled = np.round(np.random.default_rng(4).normal(size=20_000) * spread, 2)  # rounded: many ties
    order = np.lexsort((np.arange(20_000), -scaled))
    weights = np.exp(scaled[order] - scaled.max())
    expected = order[np.cumsum(weights) - weights < top_p * weights.sum()]
    kept = support(scaled, SamplingParams(top_p=top_p))
    assert len(set(kept.tolist()) ^ set(expected.tolist())) <= 1, "the last one may hang on rounding of the sum"
