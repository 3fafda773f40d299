"""The native sampler chooses what its definition in numpy chooses."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import make_sequence

from services.engine.kernels.native.build import LEVELS, Level, supported_levels
from services.engine.kernels.native.library import load_kernels
from services.engine.logprobs import token_logprobs
from services.engine.native_sampler import NativeSampler
from services.engine.sampler import Draw, ReferenceSampler, Sampled
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.errors import Internal, InvalidRequest

VOCAB = 5003
"""Neither a multiple of a vector nor of a block."""
NONE: frozenset[int] = frozenset()

PARAMS: tuple[dict[str, float | int], ...] = (
    {"temperature": 0.0},
    {},
    {"temperature": 0.1},
    {"temperature": 5.0},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": VOCAB},
    {"top_p": 0.9},
    {"top_p": 0.999, "temperature": 3.0},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"top_k": 50, "top_p": 0.95, "temperature": 0.7},
    {"min_p": 0.02, "top_p": 0.8},
    {"min_p": 0.3, "top_k": 200, "top_p": 0.5},
    {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.1},
    {"repetition_penalty": 1.1, "top_p": 0.9},
)


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: level.name)
def sampler(request: pytest.FixtureRequest, default_model_files: ModelFiles) -> NativeSampler:
    level: Level = request.param
    if level not in supported_levels():
        pytest.skip(f"this processor has no {level.name}")
    return NativeSampler(load_kernels(default_model_files.cache_dir / "kernels", level))


class Grammar:
    """Allows the given tokens, of a tokenizer that is smaller than the model's vocabulary."""

    def __init__(self, tokens: Seq[int], size: int = 4992) -> None:
        self._allowed = np.zeros(size, np.bool_)
        self._allowed[list(tokens)] = True

    def allowed(self) -> npt.NDArray[np.bool_]:
        return self._allowed

    def allowed_bits(self) -> npt.NDArray[np.uint8]:
        return np.packbits(self._allowed, bitorder="little")

    def accept(self, token: int) -> None:
        pass

    def is_complete(self) -> bool:
        return False

    def was_cut(self) -> bool:
        return False


def sequence_of(constraint: Grammar | None = None, output: Seq[int] = (), **params: object) -> Sequence:
    sequence = make_sequence("id", [7, 9, 4000], params=SamplingParams(**params))  # type: ignore[arg-type]
    sequence.tokens += output
    sequence.constraint = constraint
    return sequence


def rows_of(count: int, spread: float, seed: int = 0) -> npt.NDArray[np.float32]:
    """Logits as a model gives them, [count, VOCAB], rows rounded so that some are equal."""
    values = np.random.default_rng(seed).normal(size=(count, VOCAB)) * spread
    return np.round(values, 3).astype(np.float32)


def tokens_of(results: Seq[object]) -> list[int]:
    assert all(isinstance(result, Sampled) for result in results), results
    return [result.token for result in results if isinstance(result, Sampled)]


@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_a_choice_is_that_of_the_definition(sampler: NativeSampler, params: dict[str, float], spread: float) -> None:
    rows = rows_of(60, spread)
    draws = [
        Draw(row, sequence_of(output=[3] * at, seed=at % 7, **params), NONE)  # type: ignore[arg-type]
        for at, row in enumerate(rows)
    ]
    assert tokens_of(sampler.sample_all(draws)) == tokens_of(ReferenceSampler().sample_all(draws))


def test_a_choice_does_not_depend_on_what_is_chosen_beside_it(sampler: NativeSampler) -> None:
    draws = [
        Draw(row, sequence_of(seed=at, **PARAMS[at % len(PARAMS)]), NONE)  # type: ignore[arg-type]
        for at, row in enumerate(rows_of(32, 2.0))
    ]
    together = tokens_of(sampler.sample_all(draws))
    assert together == [tokens_of(sampler.sample_all([draw]))[0] for draw in draws]
    assert together[::-1] == tokens_of(sampler.sample_all(draws[::-1]))


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"seed": 3}, {"top_p": 0.9, "seed": 5}, {"min_tokens": 9}])
@pytest.mark.parametrize("allowed", [[5], [0, 4991], list(range(0, 4992, 3))], ids=len)
def test_a_grammar_is_kept_to(sampler: NativeSampler, params: dict[str, float], allowed: list[int]) -> None:
    draws = [Draw(row, sequence_of(Grammar(allowed), **params), frozenset({5})) for row in rows_of(8, 3.0)]  # type: ignore[arg-type]
    chosen = tokens_of(sampler.sample_all(draws))
    assert set(chosen) <= set(allowed)
    assert chosen == tokens_of(ReferenceSampler().sample_all(draws))


def test_the_first_of_equals_is_chosen(sampler: NativeSampler) -> None:
    row = np.full(VOCAB, -1.0, np.float32)
    row[[4999, 17, 4100]] = 2.5
    assert tokens_of(sampler.sample_all([Draw(row, sequence_of(temperature=0.0), NONE)])) == [17]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("token", [0, 4095, VOCAB - 1])
def test_only_the_row_that_is_not_finite_fails(sampler: NativeSampler, value: float, token: int) -> None:
    rows = rows_of(3, 1.0)
    rows[1, token] = value
    first, second, third = sampler.sample_all([Draw(row, sequence_of(temperature=0.0), NONE) for row in rows])
    assert isinstance(second, Internal)
    assert second.reason == "NON_FINITE_LOGITS"
    assert tokens_of([first, third]) == [int(rows[0].argmax()), int(rows[2].argmax())]


def test_a_grammar_that_breaks_down_fails_its_own_sequence_alone(sampler: NativeSampler) -> None:
    class Broken(Grammar):
        def allowed_bits(self) -> npt.NDArray[np.uint8]:
            raise InvalidRequest("INVALID_CONSTRAINT", "too complex")

    rows = rows_of(2, 1.0)
    broken, sound = sampler.sample_all(
        [Draw(rows[0], sequence_of(Broken([1])), NONE), Draw(rows[1], sequence_of(temperature=0.0), NONE)]
    )
    assert isinstance(broken, InvalidRequest)
    assert tokens_of([sound]) == [int(rows[1].argmax())]


def test_where_nothing_is_allowed_a_draw_fails(sampler: NativeSampler) -> None:
    (failed,) = sampler.sample_all([Draw(rows_of(1, 1.0)[0], sequence_of(Grammar([]), seed=1), NONE)])
    assert isinstance(failed, Internal)
    assert failed.reason == "SAMPLING_FAILED"


@pytest.mark.parametrize("num_top", [0, 1, 20])
def test_logprobs_are_those_of_the_definition(sampler: NativeSampler, num_top: int) -> None:
    for row in rows_of(5, 3.0):
        token = int(row[:100].argmin())
        found, expected = sampler.logprobs(row, token, num_top), token_logprobs(row, token, num_top)
        assert found.logprob == pytest.approx(expected.logprob, abs=1e-12)
        assert [top for top, _ in found.top] == [top for top, _ in expected.top]
        assert [value for _, value in found.top] == pytest.approx([value for _, value in expected.top], abs=1e-12)


def test_rows_are_left_as_they_were(sampler: NativeSampler) -> None:
    rows = rows_of(len(PARAMS), 2.0)
    before = rows.copy()
    draws = [
        Draw(row, sequence_of(Grammar([1, 2]), seed=1, logprobs=3, **params), NONE)  # type: ignore[arg-type]
        for row, params in zip(rows, PARAMS, strict=True)
    ]
    sampler.sample_all(draws)
    assert (rows == before).all()
