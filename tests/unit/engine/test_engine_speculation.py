"""Answers with prompt lookup and forced tokens are those without, whatever is asked for and whatever happens."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq

import pytest
from engine_requests import ABORT, PARAMS, Request, Steps, requests, run_mix, same, sequence_of
from engine_support import EOS, VOCABULARY, FakeRunner, Results, copying_logits, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.config import SpeculationConfig
from services.engine.core import EngineCore
from services.engine.draft_policy import StepCost
from services.engine.drafting import NoDrafting
from services.engine.make_drafting import make_drafting
from services.engine.modes import Mode
from services.engine.progressive import ProgressiveDrafting
from services.engine.sampling_params import SamplingParams
from services.engine.speculation import Speculation

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]


def core_of(num_pages: int, drafting: Speculation | None, *, max_running: int = 4, chunk: int = 32) -> EngineCore:
    runner = FakeRunner(num_pages, copying_logits)
    return make_core(runner, num_pages, max_running=max_running, chunk=chunk, drafting=drafting)


@settings(max_examples=35, deadline=None)
@given(requests, st.integers(8, 16), st.integers(1, 4), st.sampled_from([16, 33]), st.integers(1, 20))
def test_the_answer_is_that_of_plain_decoding_for_any_parameters_and_grammar(
    mix: list[Request], num_pages: int, max_running: int, chunk: int, most: int
) -> None:
    core = core_of(num_pages, Speculation(most), max_running=max_running, chunk=chunk)
    results = run_mix(core, mix)
    for number, request in enumerate(mix):
        plain_core = core_of(num_pages, None)
        plain_core.add(sequence_of(str(number), request))
        assert same(results, run_to_end(plain_core), str(number))


@pytest.fixture
def prior_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps cost what is assumed before any was measured: the fake model's own time decides nothing."""
    monkeypatch.setattr(StepCost, "measured", lambda *_: None)


@pytest.mark.usefixtures("prior_costs")
def test_an_answer_that_copies_takes_fewer_steps() -> None:
    params = SamplingParams(temperature=0.0)
    core, plain = core_of(16, Speculation(16)), core_of(16, None)
    for each in (core, plain):
        each.add(make_sequence("a", PROMPT, params=params, max_tokens=200))
    results = run_to_end(core)
    assert results.tokens["a"] == run_to_end(plain).tokens["a"]
    assert core.load().steps < 0.8 * plain.load().steps
    finished = results.finished["a"]
    assert finished.accepted_tokens == 200 - core.load().steps
    assert core.load().accepted_tokens == finished.accepted_tokens <= finished.draft_tokens == core.load().draft_tokens


@pytest.mark.usefixtures("prior_costs")
def test_what_a_grammar_forces_comes_in_one_step() -> None:
    class Forced(Steps):
        def _allowed(self, taken: Seq[int]) -> list[int]:
            return [EOS] if len(taken) >= 20 else [20 + len(taken)]

    core = core_of(16, Speculation(32))
    core.add(make_sequence("a", PROMPT, max_tokens=60, constraint=Forced(0, 20)))
    assert run_to_end(core).tokens["a"] == [*range(20, 40), EOS]
    assert core.load().steps <= 5


def test_a_thousand_mixed_requests_with_random_cancels_leave_no_page_behind() -> None:
    dice = random.Random(11)
    core = core_of(60, Speculation(12), max_running=8)
    results, waiting = Results(), 1000
    live: list[str] = []
    while waiting or core.has_work():
        while waiting and len(live) < 24:
            waiting -= 1
            request = (
                dice.randrange(40),
                dice.randint(1, 60),
                dice.randint(1, 16),
                dice.choice([b"", b"x", b"y"]),
                dice.choice(PARAMS),
                dice.choice([None, None, None, 1, 2]),
                0,
                None,
            )
            core.add(sequence_of(str(waiting), request))
            live.append(str(waiting))
        if dice.random() < 0.2:
            core.end(dice.choice(live), ABORT)
        results.take(core.step().updates)
        live = [name for name in live if name not in results.finished]
    results.take(core.step().updates)
    core.check_integrity()
    assert len(results.finished) == 1000
    assert core.load().used_pages == 0


@pytest.mark.parametrize(
    ("config", "modes", "kind"),
    [
        ({"method": "off"}, (), NoDrafting),
        ({}, (), Speculation),
        ({}, ("precise",), Speculation),
        ({}, ("turbo", "precise"), ProgressiveDrafting),
        ({"progressive": False}, ("turbo", "precise"), Speculation),
    ],
)
def test_the_configuration_and_the_weights_choose_the_method(
    config: dict[str, object], modes: tuple[Mode, ...], kind: type
) -> None:
    runner = FakeRunner(4)
    runner.modes = modes
    assert type(make_drafting(SpeculationConfig.model_validate(config), runner, VOCABULARY)) is kind
