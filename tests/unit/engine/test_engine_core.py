from __future__ import annotations

import time

import pytest
from engine_support import EOS, FakeRunner, Results, greedy_answer, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.ending import Ending, take_token
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import Internal

ABORT = Ending(common_pb2.FINISH_REASON_ABORT)
PROMPT = [5, 6, 7, 8, 9]


def test_a_single_sequence_gets_its_greedy_answer() -> None:
    core = make_core(FakeRunner(8), 8)
    core.add(make_sequence("a", PROMPT))
    results = run_to_end(core)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert results.ending("a").reason == common_pb2.FINISH_REASON_LENGTH


def test_an_end_token_stops_and_is_delivered() -> None:
    core = make_core(FakeRunner(8), 8)
    core.add(make_sequence("a", PROMPT, params=SamplingParams(temperature=0, logit_bias={EOS: 100})))
    results = run_to_end(core)
    assert results.tokens["a"] == [EOS]
    assert results.ending("a") == Ending(common_pb2.FINISH_REASON_STOP, stop_token=EOS)


def test_min_tokens_holds_the_end_token_back() -> None:
    core = make_core(FakeRunner(8), 8)
    params = SamplingParams(temperature=0, logit_bias={EOS: 100}, min_tokens=3)
    core.add(make_sequence("a", PROMPT, params=params))
    tokens = run_to_end(core).tokens["a"]
    assert tokens[3:] == [EOS]
    assert EOS not in tokens[:3]


def test_ignored_end_tokens_do_not_stop() -> None:
    core = make_core(FakeRunner(8), 8)
    params = SamplingParams(temperature=0, logit_bias={EOS: 100}, ignore_eos=True)
    core.add(make_sequence("a", PROMPT, params=params))
    assert run_to_end(core).tokens["a"] == [EOS] * 8


def test_a_stop_string_across_tokens_ends_the_sequence() -> None:
    expected = greedy_answer(PROMPT, 8)
    stop = f"{expected[3]}><{expected[4]}"
    core = make_core(FakeRunner(8), 8)
    core.add(make_sequence("a", PROMPT, params=SamplingParams(temperature=0, stop=("nothing", stop))))
    results = run_to_end(core)
    assert results.tokens["a"] == expected[:5]
    assert results.ending("a") == Ending(common_pb2.FINISH_REASON_STOP, stop=stop)


def test_an_expired_sequence_ends_with_deadline_whether_it_waits_or_runs() -> None:
    core = make_core(FakeRunner(8), 8, max_running=1)
    core.add(make_sequence("runs", PROMPT, max_tokens=60, deadline_s=time.monotonic() + 0.05))
    core.add(make_sequence("waits", PROMPT, deadline_s=time.monotonic() - 1))
    results = Results()
    while core.has_work():
        results.take(core.step().updates)
        time.sleep(0.002)  # a step of a real model takes time; the deadline must pass within the 60 steps
    results.take(core.step().updates)
    assert results.ending("waits").reason == common_pb2.FINISH_REASON_DEADLINE
    assert results.ending("runs").reason == common_pb2.FINISH_REASON_DEADLINE
    core.check_integrity()


def test_cancelling_frees_pages_at_the_next_step() -> None:
    core = make_core(FakeRunner(8), 8)
    core.add(make_sequence("a", [1] * 40, max_tokens=50))
    core.step()
    assert core.load().used_pages == 3
    core.end("a", ABORT)
    assert core.load().used_pages == 0
    assert run_to_end(core).ending("a") == ABORT


def test_a_failing_sequence_does_not_take_the_others_with_it() -> None:
    runner = FakeRunner(16)
    runner.fails_on = {"bad"}
    core = make_core(runner, 16)
    for name in ("good-1", "bad", "good-2"):
        core.add(make_sequence(name, [*PROMPT, len(name)]))
    results = run_to_end(core)
    assert results.ending("bad").reason == common_pb2.FINISH_REASON_ERROR
    error = results.ending("bad").error
    assert isinstance(error, Internal)
    assert error.reason == "STEP_FAILED"
    for name in ("good-1", "good-2"):
        assert results.tokens[name] == greedy_answer([*PROMPT, len(name)], 8)


def test_values_that_are_not_finite_end_their_sequence_only() -> None:
    runner = FakeRunner(16)
    runner.gives_nan_on = {"bad"}
    core = make_core(runner, 16)
    core.add(make_sequence("bad", PROMPT))
    core.add(make_sequence("good", PROMPT))
    results = run_to_end(core)
    error = results.ending("bad").error
    assert error is not None
    assert error.reason == "NON_FINITE_LOGITS"
    assert results.tokens["good"] == greedy_answer(PROMPT, 8)


def test_waiting_sequences_hear_their_position_as_it_changes() -> None:
    core = make_core(FakeRunner(8), 8, max_running=1)
    for name in ("a", "b", "c"):
        core.add(make_sequence(name, PROMPT, max_tokens=2))
    results = run_to_end(core)
    assert results.queue["b"] == [1]
    assert results.queue["c"] == [2, 1]


def test_a_long_prompt_tells_its_progress() -> None:
    core = make_core(FakeRunner(16), 16, chunk=32)
    core.add(make_sequence("a", [3] * 100, max_tokens=1))
    prefilled = []
    while core.has_work():
        prefilled += [update.queue.prefilled_tokens for update in core.step().updates if update.queue]
    assert prefilled == [32, 64, 96]


def test_a_short_prompt_overtakes_a_long_one() -> None:
    core = make_core(FakeRunner(40), 40, chunk=32)
    core.add(make_sequence("long", [3] * 400, max_tokens=1))
    core.step()
    core.add(make_sequence("short", PROMPT, max_tokens=1))
    updates = core.step().updates
    assert [update.sequence_id for update in updates if update.finished] == ["short"]


def test_a_cached_prefix_is_not_computed_again_and_is_accounted() -> None:
    runner = FakeRunner(16)
    core = make_core(runner, 16)
    prompt = [4] * 40
    core.add(make_sequence("a", prompt, salt=b"s", max_tokens=1))
    run_to_end(core)
    before = runner.num_tokens
    core.add(make_sequence("b", prompt, salt=b"s", max_tokens=1))
    results = run_to_end(core)
    assert runner.num_tokens - before == 1, "the open page of the first is the second's now"
    assert results.finished["b"].cached_tokens == 39
    assert results.tokens["b"] == greedy_answer(prompt, 1)


def test_stage_times_are_booked_to_every_part() -> None:
    core = make_core(FakeRunner(8), 8)
    core.add(make_sequence("a", PROMPT))
    seconds = run_to_end(core).finished["a"].stage_seconds
    assert len(seconds) == 5
    assert sum(seconds) > 0


def resume(tokens: list[int], params: SamplingParams, max_tokens: int) -> tuple[Sequence, Ending | None]:
    sequence = make_sequence("same-id", PROMPT, params=params, max_tokens=max_tokens)
    ending = None
    for token in tokens:
        ending = take_token(sequence, token, VOCABULARY)
    sequence.num_delivered = sequence.num_told = len(tokens)
    return sequence, ending


VOCABULARY = Vocabulary(
    tuple(b"" if token == EOS else b"<%d>" % token for token in range(97)), frozenset({EOS}), frozenset({EOS})
)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=1.0, seed=7),
        SamplingParams(temperature=0.8, seed=9, top_p=0.9, top_k=20, min_p=0.01),
        SamplingParams(temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.2),
        SamplingParams(temperature=1.0, seed=3, stop=("1><", "2><", "3><"), min_tokens=2),
    ],
    ids=["greedy", "sampled", "filtered", "penalties", "stop"],
)
def test_cut_anywhere_and_resubmitted_the_answer_goes_on_the_same(params: SamplingParams) -> None:
    core = make_core(FakeRunner(16), 16)
    core.add(resume([], params, 12)[0])
    whole = run_to_end(core)
    answer = whole.tokens["same-id"]
    for cut in range(len(answer)):
        sequence, ending = resume(answer[:cut], params, 12)
        assert ending is None
        core = make_core(FakeRunner(16), 16)
        core.add(sequence)
        rest = run_to_end(core)
        assert rest.tokens["same-id"] == answer[cut:]
        assert rest.ending("same-id") == whole.ending("same-id")
        assert rest.finished["same-id"].completion_tokens == len(answer)
    assert resume(answer, params, 12)[1] == whole.ending("same-id")


requests = st.lists(
    st.tuples(
        st.integers(0, 2),  # prompt family: shared prefixes
        st.integers(1, 60),  # prompt length
        st.integers(1, 20),  # max tokens
        st.sampled_from([b"", b"x", b"y"]),
        st.integers(0, 15),  # arrives at step
        st.one_of(st.none(), st.integers(0, 25)),  # is cancelled at step
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=120, deadline=None)
@given(requests, st.integers(5, 14), st.integers(1, 4), st.sampled_from([16, 33]))
def test_every_sequence_ends_once_and_right_under_any_mix_of_arrivals_cancels_and_shortage(
    mix: list[tuple[int, int, int, bytes, int, int | None]], num_pages: int, max_running: int, chunk: int
) -> None:
    core = make_core(FakeRunner(num_pages), num_pages, max_running=max_running, chunk=chunk)
    results = Results()
    prompts: dict[str, tuple[list[int], int]] = {}
    for step in range(3000):
        for number, (family, length, max_tokens, salt, arrival, cancel) in enumerate(mix):
            name = str(number)
            if step == arrival:
                prompt = [family + 1] * min(length, 36) + list(range(1, max(0, length - 36) + 1))
                prompts[name] = (prompt, max_tokens)
                core.add(make_sequence(name, prompt, salt=salt, max_tokens=max_tokens))
            if cancel is not None and step == arrival + cancel:
                core.end(name, ABORT)
        results.take(core.step().updates)
        core.check_integrity()
        if len(prompts) == len(mix) and not core.has_work():
            break
    results.take(core.step().updates)
    assert results.finished.keys() == prompts.keys()
    assert core.load().used_pages == 0
    for name, (prompt, max_tokens) in prompts.items():
        expected = greedy_answer(prompt, max_tokens)
        assert results.tokens[name] == expected[: len(results.tokens[name])]
        if results.ending(name) != ABORT:
            assert results.tokens[name] == expected


def test_out_of_pages_the_youngest_is_computed_again_and_nothing_is_lost() -> None:
    runner = FakeRunner(6)
    core = make_core(runner, 6)
    for name in ("a", "b"):
        core.add(make_sequence(name, [len(name), ord(name)] * 8, max_tokens=60))
    results = run_to_end(core)
    assert runner.num_tokens > 2 * (16 + 60), "something was computed twice"
    for name in ("a", "b"):
        assert results.tokens[name] == greedy_answer([len(name), ord(name)] * 8, 60)
