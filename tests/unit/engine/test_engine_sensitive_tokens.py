"""Digits, currency and listed texts are chosen by the precise weights in standard answers."""

from __future__ import annotations

import os
from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engine_requests import PARAMS
from engine_support import VOCABULARY, FakeRunner, logits_of, make_core, make_sequence, run_to_end
from structlog.testing import capture_logs

from services.engine.checks import SensitiveChecks
from services.engine.modes import Mode
from services.engine.sampling_params import SamplingParams
from services.engine.sensitive_tokens import SensitiveTokens, read_entries, two_best
from services.engine.speculation import Speculation
from services.engine.vocabulary import Vocabulary

WORDS = Vocabulary((b"a", b" 7", b"$", b" EUR", b"ORD-2", b"041", b"the", b" O"), frozenset(), frozenset())
PROMPT = [5, 6, 7, 8, 9]


def sensitive(tokens: SensitiveTokens) -> list[int]:
    """Which of WORDS are sensitive when nothing else is near."""
    found = []
    for token in range(len(WORDS.token_bytes)):
        row = np.full(len(WORDS.token_bytes), -9, dtype=np.float32)
        row[0 if token == 7 else 7] = 1
        row[token] = 5
        found += [token] if tokens.is_sensitive(row) else []
    return found


def test_digits_and_listed_texts_are_sensitive_and_so_are_parts_of_longer_ones() -> None:
    assert sensitive(SensitiveTokens(WORDS, [], None, 0)) == [1, 4, 5]
    assert sensitive(SensitiveTokens(WORDS, ["$", "EUR", "the order"], None, 0)) == [1, 2, 3, 4, 5, 6]


def test_two_tokens_that_are_near_each_other_are_sensitive() -> None:
    row = np.array([1.0, -9, -9, -9, -9, -9, 1.2, -9], dtype=np.float32)
    assert SensitiveTokens(WORDS, [], None, 0.3).is_sensitive(row)
    assert not SensitiveTokens(WORDS, [], None, 0.1).is_sensitive(row)


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.engine.sensitive_tokens.CHECK_INTERVAL_S", 0.0)
    file = tmp_path / "precision_sensitive.txt"
    tokens = SensitiveTokens(WORDS, [], file, 0)
    tokens.refresh()
    assert sensitive(tokens) == [1, 4, 5]
    file.write_text("# currencies\n$\n\n EUR \n")
    tokens.refresh()
    assert sensitive(tokens) == [1, 2, 3, 4, 5]
    file.write_text("the\n")
    os.utime(file, ns=(1, 1))
    tokens.refresh()
    assert sensitive(tokens) == [1, 4, 5, 6]
    file.unlink()
    file.mkdir()  # what cannot be read changes nothing
    tokens.refresh()
    assert sensitive(tokens) == [1, 4, 5, 6]
    file.rmdir()
    tokens.refresh()
    assert sensitive(tokens) == [1, 4, 5]


def test_a_row_of_the_model_that_stands_for_no_token_is_not_sensitive() -> None:
    row = np.full(len(WORDS.token_bytes) + 3, -9, dtype=np.float32)
    row[-1], row[0] = 5, 1
    assert not SensitiveTokens(WORDS, [], None, 0).is_sensitive(row)


def test_lines_that_cannot_be_used_are_named_and_the_file_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"good\n\xff\xfe\n" + b"x" * 70 + b"\nalso good\n")
    with capture_logs() as logs:
        assert read_entries(file) == ["good", "also good"]
    assert [entry["line"] for entry in logs] == [2, 3]
    file.write_bytes(b"entry\n" * 20_000)
    with capture_logs() as logs:
        assert len(read_entries(file)) == 65_536 // 6
    assert logs[0]["event"] == "sensitive tokens cut"


def checks_of(runner: FakeRunner) -> SensitiveChecks:
    """Digits are in every text of the tests' vocabulary; here only the margin decides."""
    tokens = SensitiveTokens(VOCABULARY, [], None, 0.3)
    tokens._marked[:] = False
    return SensitiveChecks(runner, tokens)


def expected_answer(prompt: Seq[int], num_tokens: int) -> list[int]:
    context = list(prompt)
    for _ in range(num_tokens):
        row = logits_of(context)
        best = np.sort(row)[::-1]
        if best[0] - best[1] < 0.3:
            row = FakeRunner(1).logits_by("precise", context)
        context.append(int(row.argmax()))
    return context[len(prompt) :]


def test_sensitive_tokens_of_standard_answers_are_the_precise_ones() -> None:
    runner = FakeRunner(8)
    checks = checks_of(runner)
    core = make_core(runner, 8, checks=checks)
    core.add(make_sequence("a", PROMPT, max_tokens=60, mode="standard"))
    core.add(make_sequence("b", PROMPT, max_tokens=60, mode="turbo"))
    results = run_to_end(core)
    assert results.tokens["a"] == expected_answer(PROMPT, 60) != results.tokens["b"]
    assert 0 < checks.num_checked < 60


@pytest.mark.parametrize("params", PARAMS)
def test_what_is_checked_does_not_depend_on_drafts_or_on_where_an_answer_was_cut(params: SamplingParams) -> None:
    """The runner sees to it that standard steps build on what standard weights have written."""
    answers = []
    for drafting in (None, Speculation(8)):
        runner = FakeRunner(16)
        core = make_core(runner, 16, drafting=drafting, checks=checks_of(runner))
        core.add(make_sequence("a", [7] * 30 + PROMPT * 3, params=params, max_tokens=40, mode="standard"))
        answers.append(run_to_end(core).tokens["a"])
    assert answers[0] == answers[1]


def test_a_check_that_fails_ends_its_sequence_only() -> None:
    class Fails(FakeRunner):
        def logits_by(self, mode: Mode | None, context: Seq[int]) -> npt.NDArray[np.float32]:
            if mode == "precise" and context[0] == 41:
                raise RuntimeError("no luck with checks")
            return super().logits_by(mode, context)

    runner = Fails(16)
    core = make_core(runner, 16, checks=checks_of(runner))
    core.add(make_sequence("a", [41, *PROMPT], max_tokens=60, mode="standard"))
    core.add(make_sequence("b", PROMPT, max_tokens=60))
    core.add(make_sequence("c", PROMPT, max_tokens=60, mode="standard"))
    results = run_to_end(core)
    error = results.ending("a").error
    assert error is not None
    assert error.reason == "STEP_FAILED"
    assert len(results.tokens["b"]) == 60
    assert results.tokens["c"] == expected_answer(PROMPT, 60)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [([3.0, 1.0, 2.0], (0, 2)), ([1.0, 3.0, 2.0], (1, 2)), ([2.0, 1.0, 3.0], (2, 0)), ([5.0, 5.0, 5.0], (0, 1))],
)
def test_the_two_best_are_found_wherever_they_stand(logits: list[float], expected: tuple[int, int]) -> None:
    assert two_best(np.array(logits, np.float32)) == expected
