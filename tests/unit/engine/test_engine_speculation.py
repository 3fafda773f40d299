"""Answers with prompt lookup and forced tokens are those without, whatever is asked for and whatever happens."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import EOS, VOCAB, FakeRunner, Results, copying_logits, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.config import SpeculationConfig
from services.engine.core import EngineCore
from services.engine.drafting import NoDrafting
from services.engine.ending import Ending
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.speculation import Speculation, make_drafting
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

ABORT = Ending(common_pb2.FINISH_REASON_ABORT)
PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]


class Steps:
    """A grammar of `length` tokens: what is allowed follows from the tokens before, now and then it is a single one."""

    def __init__(self, seed: int, length: int) -> None:
        self._seed, self._length = seed, length
        self._taken: list[int] = []

    def allowed(self) -> npt.NDArray[np.bool_]:
        allowed = np.zeros(VOCAB, dtype=np.bool_)
        allowed[self._allowed(self._taken)] = True
        return allowed

    def accept(self, token: int) -> None:
        if token not in self._allowed(self._taken):
            raise InvalidRequest("INVALID_CONSTRAINT", "the token does not fit")
        self._taken.append(token)

    def forced(self) -> list[int]:
        forced: list[int] = []
        while len(own := self._allowed([*self._taken, *forced])) == 1 and own != [EOS]:
            forced += own
        return forced

    def num_fitting(self, tokens: Seq[int]) -> int:
        for number, token in enumerate(tokens):
            if token not in self._allowed([*self._taken, *tokens[:number]]):
                return number
        return len(tokens)

    def is_complete(self) -> bool:
        return False

    def was_cut(self) -> bool:
        return False

    def _allowed(self, taken: Seq[int]) -> list[int]:
        if len(taken) >= self._length:
            return [EOS]
        dice = random.Random(f"{self._seed} {list(taken)[-2:]} {len(taken)}")
        return dice.sample(range(1, VOCAB), 1 if dice.random() < 0.4 else 30)


PARAMS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.7, seed=7, logprobs=2),
    SamplingParams(temperature=0.5, seed=9, top_p=0.9, top_k=20, min_p=0.01),
    SamplingParams(temperature=0.0, repetition_penalty=1.1, frequency_penalty=0.1, presence_penalty=0.2),
    SamplingParams(temperature=0.3, seed=3, stop=("1><", "2><", "3><"), min_tokens=12),
    SamplingParams(temperature=0.0, logit_bias={0: 7}, min_tokens=9),
]
requests = st.lists(
    st.tuples(
        st.integers(0, 99),  # prompt
        st.integers(1, 60),  # prompt length
        st.integers(1, 60),  # max tokens
        st.sampled_from([b"", b"x", b"y"]),
        st.sampled_from(PARAMS),
        st.one_of(st.none(), st.none(), st.integers(0, 9)),  # seed of a grammar
        st.integers(0, 12),  # arrives at step
        st.one_of(st.none(), st.integers(0, 20)),  # is cancelled at step
    ),
    min_size=1,
    max_size=6,
)
Request = tuple[int, int, int, bytes, SamplingParams, int | None, int, int | None]


def sequence_of(name: str, request: Request) -> Sequence:
    family, length, max_tokens, salt, params, grammar, _, _ = request
    prompt = [1 + (family * 7 + at * at) % 90 for at in range(min(length, 36))] + list(
        range(1, max(0, length - 36) + 1)
    )
    constraint = None if grammar is None else Steps(grammar, 25)
    return make_sequence(name, prompt, salt=salt, params=params, max_tokens=max_tokens, constraint=constraint)


def core_of(num_pages: int, drafting: Speculation | None, *, max_running: int = 4, chunk: int = 32) -> EngineCore:
    runner = FakeRunner(num_pages, copying_logits)
    return make_core(runner, num_pages, max_running=max_running, chunk=chunk, drafting=drafting)


def same(results: Results, plain: Results, name: str) -> bool:
    """Whether a sequence got what it gets alone without guesses, as far as it came."""
    found = results.tokens[name]
    if results.ending(name) == ABORT:
        return found == plain.tokens[name][: len(found)]
    return (
        found == plain.tokens[name]
        and results.ending(name) == plain.ending(name)
        and results.logprobs[name] == plain.logprobs[name]
    )


@settings(max_examples=35, deadline=None)
@given(requests, st.integers(8, 16), st.integers(1, 4), st.sampled_from([16, 33]), st.integers(1, 20))
def test_the_answer_is_that_of_plain_decoding_for_any_parameters_and_grammar(
    mix: list[Request], num_pages: int, max_running: int, chunk: int, most: int
) -> None:
    core = core_of(num_pages, Speculation(most), max_running=max_running, chunk=chunk)
    results = Results()
    for step in range(3000):
        for number, request in enumerate(mix):
            arrival, cancel = request[6:]
            if step == arrival:
                core.add(sequence_of(str(number), request))
            if cancel is not None and step == arrival + cancel:
                core.end(str(number), ABORT)
        results.take(core.step().updates)
        core.check_integrity()
        if step >= 12 and not core.has_work():
            break
    results.take(core.step().updates)
    assert core.load().used_pages == 0
    for number, request in enumerate(mix):
        plain_core = core_of(num_pages, None)
        plain_core.add(sequence_of(str(number), request))
        assert same(results, run_to_end(plain_core), str(number))


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


@pytest.mark.parametrize(("method", "kind"), [("off", NoDrafting), ("prompt_lookup", Speculation)])
def test_the_configuration_chooses_the_method(method: str, kind: type) -> None:
    assert type(make_drafting(SpeculationConfig.model_validate({"method": method}))) is kind
