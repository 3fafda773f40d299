"""Scored sequences in the step loop: what their tokens' likelihoods are, and whom they let go first."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import FakeRunner, Results, greedy_answer, logits_of, make_core, make_sequence, run_to_end

from services.engine.core import EngineCore
from services.engine.ending import Ending
from services.engine.logprobs import token_logprobs
from services.engine.page_table import Owner
from services.engine.request import ComputedBy
from services.engine.sampling_params import SamplingParams
from services.engine.score_request import ScoredSequences, scored_sequences
from services.engine.scoring import MAX_STEP_ROWS, MAX_TOGETHER, Scoring
from services.engine.sequence import Sequence
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2

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
        scoring=Scoring(len(prompt) - 1, [[target] for target in targets]),
    )


def expected(prompt: Seq[int], targets: Seq[int]) -> list[float]:
    contexts = [[*prompt, *targets[:at]] for at in range(len(targets))]
    return [logprob(logits_of(context), target) for context, target in zip(contexts, targets, strict=True)]


def logprob(logits: npt.NDArray[np.float32], target: int) -> float:
    """`token_logprobs` with its sums in another order, so that it can be compared bit by bit."""
    best = int(logits.argmax())
    value = float(logits[target]) - (float(logits[best]) - token_logprobs(logits, best, 0).logprob)
    assert math.isclose(value, token_logprobs(logits, target, 0).logprob, abs_tol=1e-12)
    return value


def values(sequence: Sequence) -> list[float]:
    assert sequence.scoring is not None
    return [value for row in sequence.scoring.values for value in row]


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


CONTINUATIONS = [[1, 2, 3], [1], [1, 2, 4, 5], [60] * 40, [7, 7], [1]]


def scored_call(prompt: Seq[int], continuations: Seq[Seq[int]], *, salt: bytes = b"") -> ScoredSequences:
    listed = [engine_pb2.Continuation(token_ids=tokens) for tokens in continuations]
    request = engine_pb2.ScoreRequest(tenant_id="t", token_ids=prompt, continuations=listed, cache_salt=salt)
    return scored_sequences(request, ComputedBy(), "call", float("inf"))


def is_right(call: ScoredSequences, prompt: Seq[int], continuations: Seq[Seq[int]]) -> bool:
    return call.values() == [expected(prompt, tokens) for tokens in continuations]


@pytest.mark.parametrize("num_prompt", [1, 15, 16, 17, 31, 32, 40])
def test_continuations_go_on_from_the_pages_of_their_prompt(num_prompt: int) -> None:
    runner = FakeRunner(64)
    core = make_core(runner, 64, chunk=128)
    call = scored_call(PROMPT[:num_prompt], CONTINUATIONS)
    core.add(call.trunk)
    results = run_to_end(core)
    assert is_right(call, PROMPT[:num_prompt], CONTINUATIONS)
    assert len(results.finished) == 5, "the trunk and those of more than one token"
    assert runner.num_tokens == num_prompt + sum(len(tokens) - 1 for tokens in CONTINUATIONS), "nothing twice"
    assert runner.num_runs == 2
    assert core.load().used_pages == 0


def test_what_continuations_share_is_computed_once() -> None:
    runner = FakeRunner(64)
    core = make_core(runner, 64, chunk=128)
    asked = [3, 1, 4, 1, 5]
    continuations = [[*asked, 9, 2], [*asked, 9, 7, 8], asked, [*asked, 6], [2, 7], [2, 7]]
    call = scored_call(PROMPT, continuations)
    core.add(call.trunk)
    run_to_end(core)
    assert is_right(call, PROMPT, continuations)
    assert runner.num_tokens == len(PROMPT) + len(asked) + (1 + 2) + 2, "two tokens that are alike take no pass more"
    assert call.steps() == [0, 1, 2]
    assert core.load().used_pages == 0


def test_a_branch_without_room_waits_and_is_scored_all_the_same() -> None:
    core = make_core(FakeRunner(8), 8, chunk=64)
    call = scored_call(PROMPT, [[number, *range(1, 40)] for number in range(1, 6)])
    core.add(call.trunk)
    run_to_end(core)
    assert is_right(call, PROMPT, [[number, *range(1, 40)] for number in range(1, 6)])
    assert core.load().used_pages == 0


def test_branches_beyond_the_places_wait_and_are_scored_all_the_same() -> None:
    core = make_core(FakeRunner(512), 512, chunk=64)
    continuations = [[1 + number % 90, 3, 5] for number in range(2 * MAX_TOGETHER)]
    call = scored_call(PROMPT, continuations)
    core.add(call.trunk)
    run_to_end(core)
    assert is_right(call, PROMPT, continuations)


def test_many_calls_amid_live_sequences_that_take_their_pages_are_right() -> None:
    core = make_core(FakeRunner(18), 18, chunk=16, max_running=4)
    calls = []
    for number in range(6):
        prompt = [1 + number] * (10 + 7 * number)
        calls.append((prompt, scored_call(prompt, CONTINUATIONS[:4])))
        core.add(renamed(calls[-1][1], f"call{number}").trunk)
        core.add(make_sequence(f"live{number}", [40 + number] * 20, max_tokens=60))
    results = run_to_end(core)
    for number, (prompt, call) in enumerate(calls):
        assert is_right(call, prompt, CONTINUATIONS[:4])
        assert results.tokens[f"live{number}"] == greedy_answer([40 + number] * 20, 60)
    assert core.num_preemptions > 0


def renamed(call: ScoredSequences, name: str) -> ScoredSequences:
    for sequence in call.all():
        sequence.sequence_id = sequence.sequence_id.replace("call", name)
    return call


def test_where_the_prompt_cannot_be_computed_no_branch_begins() -> None:
    runner = FakeRunner(32)
    runner.fails_on.add("call")
    core = make_core(runner, 32)
    core.add(scored_call(PROMPT, CONTINUATIONS).trunk)
    results = run_to_end(core)
    assert list(results.finished) == ["call"]
    assert results.ending("call").reason == common_pb2.FINISH_REASON_ERROR


def test_pages_of_an_erased_tenant_are_known_no_more_when_branches_have_them() -> None:
    core = make_core(FakeRunner(64), 64, chunk=16)
    call = scored_call(PROMPT, CONTINUATIONS, salt=b"salt")
    core.add(call.trunk)
    core.step()
    core.forget("t")
    run_to_end(core)
    assert is_right(call, PROMPT, CONTINUATIONS)
    again = scored_call(PROMPT, CONTINUATIONS, salt=b"salt")
    core.add(again.trunk)
    assert run_to_end(core).finished["call"].cached_tokens == 0
