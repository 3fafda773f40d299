"""Precise answers that the turbo weights have drafted are those of the precise weights alone."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from engine_requests import Request, requests, run_mix, same, sequence_of
from engine_support import VOCABULARY, FakeRunner, copying_logits, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.core import EngineCore
from services.engine.draft_policy import Chance, even_length
from services.engine.drafting import NoDrafting
from services.engine.modes import Mode
from services.engine.progressive import ProgressiveDrafting
from services.engine.sampler import Draw, ReferenceSampler, Sampled
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.speculation import Speculation
from services.engine.stages import Probe
from stagemesh.runtime.errors import StagemeshError

PROMPT = [5, 6, 7, 8, 9]


def core_of(runner: FakeRunner, num_pages: int, *, lookup: bool = False, max_running: int = 4) -> EngineCore:
    others = Speculation(8) if lookup else NoDrafting()
    drafting = ProgressiveDrafting(others, runner, VOCABULARY, max_draft_tokens=6)
    return make_core(runner, num_pages, max_running=max_running, drafting=drafting)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_precise_answer_takes_fewer_passes_of_the_precise_weights(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.engine.progressive.even_length", lambda *_: 3)
    runner, plain = FakeRunner(16), FakeRunner(16)
    core, plain_core = core_of(runner, 16), make_core(plain, 16)
    params = SamplingParams(temperature=temperature, seed=4)
    for each in (core, plain_core):
        each.add(make_sequence("a", PROMPT, params=params, max_tokens=100, mode="precise"))
    results = run_to_end(core)
    assert results.tokens["a"] == run_to_end(plain_core).tokens["a"]
    assert core.load().steps < plain_core.load().steps
    assert results.finished["a"].accepted_tokens == 100 - core.load().steps
    assert runner.num_runs == core.load().steps + results.finished["a"].draft_tokens


def test_other_modes_are_left_alone() -> None:
    runner = FakeRunner(16)
    core = core_of(runner, 16)
    core.add(make_sequence("a", PROMPT, max_tokens=20, mode="turbo"))
    core.add(make_sequence("b", PROMPT, max_tokens=20))
    run_to_end(core)
    assert runner.num_runs == 20


@settings(max_examples=35, deadline=None)
@given(requests, st.integers(8, 16), st.integers(1, 4), st.booleans(), st.integers(0, 6))
def test_the_answer_is_that_of_the_precise_weights_for_any_parameters_and_grammar(
    mix: list[Request], num_pages: int, max_running: int, lookup: bool, length: int
) -> None:
    """The runner refuses to compute a precise sequence on values of other weights, so pages hold precise ones only."""
    runner = FakeRunner(num_pages, copying_logits)
    with patch.object(ProgressiveDrafting, "_length", lambda *_: length):
        results = run_mix(core_of(runner, num_pages, lookup=lookup, max_running=max_running), mix, "precise")
    for number, request in enumerate(mix):
        plain_core = make_core(FakeRunner(num_pages, copying_logits), num_pages)
        plain_core.add(sequence_of(str(number), request, "precise"))
        assert same(results, run_to_end(plain_core), str(number))


def test_pages_of_one_mode_are_not_reused_by_another() -> None:
    runner = FakeRunner(16)
    core = core_of(runner, 16)
    for mode, expected in (("precise", 0), ("precise", 39), ("turbo", 0), ("turbo", 39), (None, 0)):
        core.add(make_sequence("a", [4] * 40, salt=b"s", max_tokens=1, mode=mode))
        assert run_to_end(core).finished["a"].cached_tokens == expected


def test_when_drafting_fails_the_answer_comes_without() -> None:
    class Fails(FakeRunner):
        def logits_by(self, mode: Mode | None, context: Seq[int]) -> npt.NDArray[np.float32]:
            if mode is not None:
                raise RuntimeError("no luck with drafts")
            return super().logits_by(mode, context)

    core, plain = core_of(Fails(8), 8), make_core(FakeRunner(8), 8)
    for each in (core, plain):
        each.add(make_sequence("a", PROMPT, max_tokens=30, mode="precise"))
    assert run_to_end(core).tokens["a"] == run_to_end(plain).tokens["a"]


def test_the_length_grows_with_agreement_and_shrinks_with_the_cost_of_a_draft() -> None:
    def flat(num_rows: int) -> float:
        return 1 + 0.05 * (num_rows - 1)

    lengths = [even_length([chance], 0.4, flat, 12) for chance in (0.3, 0.8, 0.95)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[-1] >= 3
    assert even_length([0.95], 0.1, flat, 12) >= even_length([0.95], 0.6, flat, 12)
    assert even_length([0.95], 1.1, flat, 12) == 0
    assert even_length([0.9] * 16, 0.4, lambda num_rows: float(num_rows), 12) == 0


def test_a_step_without_drafts_and_a_single_draft_are_measured_before_more_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.engine.progressive.even_length", lambda *_: 4)
    drafted: list[tuple[int, int]] = []
    draft = ProgressiveDrafting._draft

    def recorded(self: ProgressiveDrafting, items: Seq[WorkItem]) -> list[WorkItem]:
        drafted.append((items[0].sequence.num_output, len(items[0].drafts)))
        return draft(self, items)

    monkeypatch.setattr(ProgressiveDrafting, "_draft", recorded)
    core = core_of(FakeRunner(16), 16)
    core.add(make_sequence("a", PROMPT, max_tokens=30, mode="precise"))
    run_to_end(core)
    assert drafted[0] == (2, 1), "after the prompt's own token, and one of a step without drafts"
    assert [length for _, length in drafted[1:3]] == [4, 4]


def test_guesses_of_prompt_lookup_say_nothing_of_how_often_the_weights_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder(Chance):
        def saw(self, right: bool) -> None:
            seen.append(right)

    seen: list[bool] = []
    monkeypatch.setattr(ProgressiveDrafting, "_chance", lambda *_: Recorder(0.9))
    monkeypatch.setattr(ProgressiveDrafting, "_length", lambda *_: 0)
    runner = FakeRunner(16, copying_logits)
    core = core_of(runner, 16, lookup=True)
    core.add(make_sequence("a", [7] * 30 + PROMPT * 3, max_tokens=60, mode="precise"))
    results = run_to_end(core)
    assert results.finished["a"].draft_tokens > 0
    assert not seen


def test_drafts_are_written_to_pages_that_were_cleared_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.engine.progressive.even_length", lambda *_: 5)
    cleared_after_drafts: list[int] = []
    drafted: set[int] = set()

    class Watching(FakeRunner):
        def run(self, items: Seq[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
            if mode is not None:
                drafted.update(page for item in items for page in item.sequence.table.pages)
            return super().run(items, probe, mode)

        def zero(self, pages: Seq[int]) -> None:
            cleared_after_drafts.extend(drafted & set(pages))
            super().zero(pages)

    runner = Watching(4)
    core = core_of(runner, 4)
    runner.gives_nan_on.add("poison")  # its pages are to be cleared before they are used again
    core.add(make_sequence("poison", [3] * 60, max_tokens=4))
    run_to_end(core)
    core.add(make_sequence("a", PROMPT, max_tokens=50, mode="precise"))
    assert len(run_to_end(core).tokens["a"]) == 50
    assert len(drafted) > 1
    assert not cleared_after_drafts


def test_drafts_compute_no_logprobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.engine.progressive.even_length", lambda *_: 3)
    wanted: list[bool] = []

    def watched(draws: Seq[Draw]) -> list[Sampled | StagemeshError]:
        wanted.extend(draw.num_logprobs is not None for draw in draws)
        return ReferenceSampler().sample_all(draws)

    runner = FakeRunner(8)
    monkeypatch.setattr(runner.sampler, "sample_all", watched)
    core = core_of(runner, 8)
    params = SamplingParams(temperature=0.0, logprobs=1)
    core.add(make_sequence("a", PROMPT, max_tokens=40, mode="precise", params=params))
    assert len(run_to_end(core).tokens["a"]) == 40
    assert wanted.count(False) > 10
    assert wanted.count(True) == 40
