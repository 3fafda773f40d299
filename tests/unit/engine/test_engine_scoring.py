"""Scored sequences in the step loop: what their tokens' likelihoods are, and whom they let go first."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import pytest
from engine_support import FakeRunner, Results, greedy_answer, logits_of, make_core, make_sequence, run_to_end

from services.engine.core import EngineCore
from services.engine.ending import Ending
from services.engine.logprobs import token_logprobs
from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.scoring import MAX_STEP_ROWS, MAX_TOGETHER, scored
from services.engine.sequence import Sequence
from stagemesh.api.common.v1 import common_pb2

PROMPT = [5, 6, 7, 8, 9] * 8


def scored_sequence(name: str, prompt: Seq[int], targets: Seq[int], *, salt: bytes = b"s") -> Sequence:
    return Sequence(
        sequence_id=name,
        owner=Owner("t", salt),
        tokens=[*prompt, *targets[:-1]],
        num_prompt=len(prompt),
        num_delivered=0,
        params=SamplingParams(temperature=0.0),
        max_total_tokens=len(prompt) + len(targets) - 1,
        scoring=scored(targets, len(prompt)),
    )


def expected(prompt: Seq[int], targets: Seq[int]) -> list[float]:
    contexts = [[*prompt, *targets[:at]] for at in range(len(targets))]
    return [
        token_logprobs(logits_of(context), target, 0).logprob for context, target in zip(contexts, targets, strict=True)
    ]


def values(sequence: Sequence) -> list[float]:
    assert sequence.scoring is not None
    return sequence.scoring.values


@pytest.mark.parametrize("num_prompt", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("num_targets", [1, 2, 16, 40])
def test_each_token_of_a_continuation_gets_its_log_probability(num_prompt: int, num_targets: int) -> None:
    core = make_core(FakeRunner(32), 32, chunk=16)
    sequence = scored_sequence("a", PROMPT[:num_prompt], [*range(1, num_targets + 1)])
    core.add(sequence)
    results = run_to_end(core)
    assert results.ending("a").reason == common_pb2.FINISH_REASON_STOP
    assert values(sequence) == expected(PROMPT[:num_prompt], [*range(1, num_targets + 1)])


def test_scoring_the_same_again_reuses_the_prompt_and_computes_every_score() -> None:
    runner = FakeRunner(32)
    core = make_core(runner, 32)
    for name in ("first", "again"):
        sequence = scored_sequence(name, PROMPT, [*range(1, 40)])
        core.add(sequence)
        finished = run_to_end(core).finished[name]
        assert values(sequence) == expected(PROMPT, [*range(1, 40)])
    assert finished.cached_tokens == len(PROMPT) // 16 * 16


def test_scores_are_the_same_amid_other_work_and_change_none_of_it() -> None:
    core = make_core(FakeRunner(64), 64, chunk=16)
    live = [make_sequence(f"live{number}", [number + 1] * 20, max_tokens=30) for number in range(4)]
    scores = [scored_sequence(f"score{number}", PROMPT, [number + 1] * (number + 1)) for number in range(8)]
    for sequence in [*live[:2], *scores, *live[2:]]:
        core.add(sequence)
    results = run_to_end(core)
    for number, sequence in enumerate(live):
        assert results.tokens[sequence.sequence_id] == greedy_answer([number + 1] * 20, 30)
    for number, sequence in enumerate(scores):
        assert values(sequence) == expected(PROMPT, [number + 1] * (number + 1))


def test_live_sequences_take_the_budget_of_a_step_first() -> None:
    core = make_core(FakeRunner(64), 64, chunk=16)
    score = scored_sequence("score", PROMPT, [1, 2, 3])
    core.add(score)
    core.add(make_sequence("live", [3] * 35))
    for _ in range(2):
        core.step()
        assert score.num_computed == 0
    core.step()
    assert score.num_computed == 13, "what three tokens of the live prompt left of the step"
    run_to_end(core)
    assert values(score) == expected(PROMPT, [1, 2, 3])


def test_scored_sequences_take_no_place_of_live_ones_and_have_bounded_ones_themselves() -> None:
    core = make_core(FakeRunner(256), 256, max_running=1, chunk=4)
    for number in range(MAX_TOGETHER + 8):
        core.add(scored_sequence(str(number), [1 + number % 90] * 20, [2], salt=b""))
    core.add(make_sequence("live", [3] * 4, max_tokens=2))
    first = core.step()
    assert len(core._scheduler.running) == 1 + MAX_TOGETHER
    results = run_to_end(core)
    assert [token for update in first.updates for token in update.tokens] + results.tokens["live"] == greedy_answer(
        [3] * 4, 2
    )


def test_a_step_computes_a_bounded_number_of_rows_for_scores() -> None:
    runner = FakeRunner(64)
    core = make_core(runner, 64, chunk=1024)
    sequence = scored_sequence("long", PROMPT, [1 + at % 90 for at in range(400)])
    core.add(sequence)
    run_to_end(core)
    assert runner.num_runs == -(-400 // MAX_STEP_ROWS)
    assert values(sequence) == expected(PROMPT, [1 + at % 90 for at in range(400)])


def test_logits_that_are_not_finite_end_a_scored_sequence_with_an_error() -> None:
    runner = FakeRunner(32)
    runner.gives_nan_on.add("bad")
    core = make_core(runner, 32)
    core.add(scored_sequence("bad", PROMPT, [1, 2]))
    core.add(good := scored_sequence("good", PROMPT, [1, 2]))
    results = run_to_end(core)
    error = results.ending("bad").error
    assert error is not None
    assert error.reason == "NON_FINITE_LOGITS"
    assert values(good) == expected(PROMPT, [1, 2])


def test_a_scored_sequence_whose_step_fails_is_ended_alone() -> None:
    runner = FakeRunner(32)
    runner.fails_on.add("bad")
    core = make_core(runner, 32)
    core.add(scored_sequence("bad", PROMPT, [1, 2]))
    core.add(good := scored_sequence("good", PROMPT, [1, 2]))
    results = run_to_end(core)
    assert results.ending("bad").reason == common_pb2.FINISH_REASON_ERROR
    assert values(good) == expected(PROMPT, [1, 2])


def test_a_cancelled_scored_sequence_frees_its_pages() -> None:
    core: EngineCore = make_core(FakeRunner(32), 32, chunk=16)
    core.add(scored_sequence("a", PROMPT, [1] * 30))
    core.step()
    core.end("a", Ending(common_pb2.FINISH_REASON_ABORT))
    results = Results()
    results.take(core.step().updates)
    assert results.ending("a").reason == common_pb2.FINISH_REASON_ABORT
    assert core.load().used_pages == 0
    core.check_integrity()


@pytest.mark.parametrize("num_times", [2, 3])  # the live one grows into its pages; it finds none to begin with
def test_a_scored_sequence_gives_its_pages_to_a_live_one_and_is_scored_later(num_times: int) -> None:
    core = make_core(FakeRunner(12), 12, chunk=2)
    score = scored_sequence("score", PROMPT * num_times, [1] * 60, salt=b"")
    core.add(score)
    core.step()
    core.add(make_sequence("live", [3] * 4, max_tokens=110))
    results = run_to_end(core)
    assert core.num_preemptions > 0
    assert results.tokens["live"] == greedy_answer([3] * 4, 110)
    assert values(score) == expected(PROMPT * num_times, [1] * 60)
