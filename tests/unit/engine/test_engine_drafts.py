"""Whatever is guessed at a sequence's next tokens, it gets the tokens that it gets without guesses."""

from __future__ import annotations

import numpy as np
from engine_requests import Guesses
from engine_support import FakeRunner, Results, greedy_answer, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.ending import Ending
from services.engine.sampling_params import SamplingParams
from stagemesh.api.common.v1 import common_pb2

ABORT = Ending(common_pb2.FINISH_REASON_ABORT)
PROMPT = [5, 6, 7, 8, 9]


def test_right_guesses_save_steps() -> None:
    runner = FakeRunner(8)
    guesses = Guesses({"a": greedy_answer(PROMPT, 30)})
    core = make_core(runner, 8, drafting=guesses)
    core.add(make_sequence("a", PROMPT, max_tokens=30))
    assert run_to_end(core).tokens["a"] == greedy_answer(PROMPT, 30)
    assert sum(guesses.accepted) == guesses.num_drafted
    assert runner.num_runs == 30 - guesses.num_drafted


def test_a_wrong_guess_costs_nothing_but_its_row() -> None:
    runner = FakeRunner(8)
    core = make_core(runner, 8, drafting=Guesses({"a": [96] * 30}, wrong=0))
    core.add(make_sequence("a", PROMPT, max_tokens=30))
    assert run_to_end(core).tokens["a"] == greedy_answer(PROMPT, 30)
    assert runner.num_runs <= 30


def test_guesses_take_no_page_that_another_sequence_needs() -> None:
    """Two sequences that just fit are not preempted for guesses; pages of wrong ones are given back at once."""
    prompts = {"a": [1] * 16, "b": [2] * 16}
    guesses = Guesses({name: [96] * 40 for name in prompts}, most=40)
    core = make_core(FakeRunner(6), 6, drafting=guesses)
    for name, prompt in prompts.items():
        core.add(make_sequence(name, prompt, max_tokens=32))
    results = Results()
    while core.has_work():
        results.take(core.step().updates)
        core.check_integrity()
        assert all(len(s.table.pages) == -(-s.num_computed // 16) for s in core.sequences() if s.num_computed)
    results.take(core.step().updates)
    assert core.num_preemptions == 0
    assert guesses.num_drafted > 0
    for name, prompt in prompts.items():
        assert results.tokens[name] == greedy_answer(prompt, 32)


def test_values_that_are_not_finite_where_a_guess_stood_are_tried_again_without() -> None:
    runner = FakeRunner(8)
    runner.gives_nan_on_guesses = True
    core = make_core(runner, 8, drafting=Guesses({"a": greedy_answer(PROMPT, 30)}))
    core.add(make_sequence("a", PROMPT, max_tokens=30))
    results = run_to_end(core)
    assert results.tokens["a"] == greedy_answer(PROMPT, 30)


def test_a_step_that_fails_with_guesses_is_run_one_by_one_with_them() -> None:
    runner = FakeRunner(16)
    runner.fails_on = {"bad"}
    answer = greedy_answer(PROMPT, 12)
    core = make_core(runner, 16, drafting=Guesses({"good": answer, "bad": answer}))
    for name in ("good", "bad"):
        core.add(make_sequence(name, PROMPT, max_tokens=12))
    results = run_to_end(core)
    assert results.ending("bad").reason == common_pb2.FINISH_REASON_ERROR
    assert results.tokens["good"] == answer


PARAMS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0, seed=7, logprobs=2),
    SamplingParams(temperature=0.8, seed=9, top_p=0.9, top_k=20, min_p=0.01),
    SamplingParams(temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.2),
    SamplingParams(temperature=1.0, seed=3, stop=("1><", "2><", "3><"), min_tokens=2),
    SamplingParams(temperature=0.0, logit_bias={0: 9}, min_tokens=4),
]

requests = st.lists(
    st.tuples(
        st.integers(0, 2),  # prompt family: shared prefixes
        st.integers(1, 60),  # prompt length
        st.integers(1, 24),  # max tokens
        st.sampled_from([b"", b"x", b"y"]),
        st.sampled_from(PARAMS),
        st.integers(0, 12),  # arrives at step
        st.one_of(st.none(), st.integers(0, 20)),  # is cancelled at step
    ),
    min_size=1,
    max_size=6,
)
Mix = list[tuple[int, int, int, bytes, SamplingParams, int, int | None]]


@settings(max_examples=35, deadline=None)
@given(requests, st.integers(5, 14), st.integers(1, 4), st.sampled_from([16, 33]), st.floats(0, 0.6), st.integers(1, 9))
def test_the_answer_is_that_of_plain_decoding_under_any_mix_of_arrivals_cancels_and_shortage(
    mix: Mix, num_pages: int, max_running: int, chunk: int, wrong: float, most: int
) -> None:
    alone: dict[str, Results] = {}
    for number, (family, length, max_tokens, _, params, _, _) in enumerate(mix):
        core = make_core(FakeRunner(num_pages), num_pages)
        core.add(make_sequence(str(number), prompt_of(family, length), params=params, max_tokens=max_tokens))
        alone[str(number)] = run_to_end(core)
    guesses = Guesses({name: plain.tokens[name] for name, plain in alone.items()}, most=most, wrong=wrong)
    core = make_core(FakeRunner(num_pages), num_pages, max_running=max_running, chunk=chunk, drafting=guesses)
    results = Results()
    for step in range(3000):
        for number, (family, length, max_tokens, salt, params, arrival, cancel) in enumerate(mix):
            if step == arrival:
                prompt = prompt_of(family, length)
                core.add(make_sequence(str(number), prompt, salt=salt, params=params, max_tokens=max_tokens))
            if cancel is not None and step == arrival + cancel:
                core.end(str(number), ABORT)
        results.take(core.step().updates)
        core.check_integrity()
        if step >= 12 and not core.has_work():
            break
    results.take(core.step().updates)
    assert results.finished.keys() == alone.keys()
    assert core.load().used_pages == 0
    for name, plain in alone.items():
        found = results.tokens[name]
        assert found == plain.tokens[name][: len(found)]
        if results.ending(name) != ABORT:
            assert found == plain.tokens[name]
            assert results.ending(name) == plain.ending(name)
            assert results.logprobs[name] == plain.logprobs[name]


def prompt_of(family: int, length: int) -> list[int]:
    return [family + 1] * min(length, 36) + list(range(1, max(0, length - 36) + 1))


def test_pages_of_accepted_guesses_are_known_for_reuse_and_those_of_wrong_ones_are_not() -> None:
    for wrong in (0.0, 0.5):
        answer = greedy_answer([3] * 20, 60)
        core = make_core(FakeRunner(12), 12, drafting=Guesses({"a": answer}, wrong=wrong, most=20))
        core.add(make_sequence("a", [3] * 20, salt=b"s", max_tokens=60))
        assert run_to_end(core).tokens["a"] == answer
        core.add(make_sequence("b", [3] * 20 + answer, salt=b"s", max_tokens=1))  # the runner checks what pages hold
        results = run_to_end(core)
        assert results.finished["b"].cached_tokens == 79
        assert np.array_equal(results.tokens["b"], greedy_answer([3] * 20 + answer, 1))
