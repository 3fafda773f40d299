"""Of a row under a grammar, only logits that can be chosen are computed, and the choice is that of all logits."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engine_native_steps import prompt_batch
from engine_requests import Guesses, Steps
from engine_support import EOS, FakeRunner, copying_logits, make_core, make_sequence, run_to_end
from test_engine_head_screen import VOCAB, screen, steps, tiny, winner

from services.engine.choices import ALL_LOGITS, choices
from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import BLOCK_ROWS, OUT_OF_REACH, Choice, Floats
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.mask_thread import with_masks
from services.engine.modes import Mode
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.stages import Probe
from stagemesh.models.store import ModelFiles

needs_kernels = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

Allowed = npt.NDArray[np.bool_]


def told(allowed: Allowed) -> TokenMask:
    mask = TokenMask()
    mask.tell(np.packbits(allowed, bitorder="little"))
    return mask


def random_masks(rng: np.random.Generator, num_tokens: int) -> list[Allowed]:
    """Of one token, of a few in a block, and of most; one ends in the middle of a block."""
    one, few = np.zeros((2, num_tokens), dtype=np.bool_)
    one[rng.integers(num_tokens)] = True
    few[BLOCK_ROWS * rng.integers(num_tokens // BLOCK_ROWS) + np.array([1, 4, 5, 15])] = True
    most = rng.random(num_tokens) < 0.9
    return [one, few, most, most[: num_tokens - 21]]


def chosen(row: Floats, choice: Choice, allowed: Allowed) -> int:
    forbidden = np.flatnonzero(~allowed).tolist() + list(range(len(allowed), VOCAB))
    return winner(row, replace(choice, lowered=array("i", [*(choice.lowered or ()), *forbidden])))


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["llama-q8_0-mha", "llama-mixed"])
def test_the_token_is_that_of_all_allowed_logits_and_what_is_computed_has_their_bits(
    name: str, threads: int, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    decoder = tiny(name, tmp_path, default_model_files.cache_dir, threads)
    screen(decoder)
    rng = np.random.default_rng(5)
    for number in range(12):
        batch = prompt_batch([[number, 3, 5 + number], [number * 2 + 1]][: 1 + number % 2])
        likely = array("i", [17, number, 100])
        for allowed in random_masks(rng, VOCAB):
            for choice in (Choice(), Choice(lowered=likely), Choice(0.7, number * 977), Choice(1.5, number, likely)):
                everything, left = steps(decoder, batch, replace(choice, mask=told(allowed)))
                for all_logits, logits in zip(everything, left, strict=True):
                    np.testing.assert_array_equal(logits, np.where(logits == OUT_OF_REACH, OUT_OF_REACH, all_logits))
                    assert chosen(logits, choice, allowed) == chosen(all_logits, choice, allowed)


@needs_kernels
def test_few_allowed_tokens_have_their_logits_and_the_rest_is_not_computed(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    allowed = np.zeros(VOCAB, dtype=np.bool_)
    allowed[[BLOCK_ROWS + 1, BLOCK_ROWS + 9]] = True
    for choice in (Choice(wants_all=True), Choice(), Choice(0.5, 7)):
        everything, left = steps(decoder, prompt_batch([[5, 6]]), replace(choice, mask=told(allowed)))
        computed = slice(BLOCK_ROWS, 2 * BLOCK_ROWS)
        np.testing.assert_array_equal(left[0, computed], everything[0, computed])
        assert (np.delete(left[0], computed) == np.float32(OUT_OF_REACH)).all()


@needs_kernels
def test_a_mask_that_comes_too_late_leaves_all_logits(tmp_path: Path, default_model_files: ModelFiles) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    screen(decoder)
    everything, left = steps(decoder, prompt_batch([[5, 6]]), Choice(mask=TokenMask()))
    np.testing.assert_array_equal(left, everything)


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_every_kind_stand_beside_each_other(
    threads: int, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    decoder = tiny("llama-mixed", tmp_path, default_model_files.cache_dir, threads)
    screen(decoder)
    one, few, most, _ = random_masks(np.random.default_rng(3), VOCAB)
    batch = prompt_batch([[9], [4, 5, 6], [2, 2], [8], [7, 1], [6]])
    everything, _ = steps(decoder, batch, ALL_LOGITS)
    kinds = [Choice(mask=told(one)), ALL_LOGITS, Choice(mask=told(most)), Choice(), Choice(mask=TokenMask())]
    left = decoder.step(replace(batch, choices=[*kinds, Choice(0.9, 5, mask=told(few))]), None)
    np.testing.assert_array_equal(left, np.where(left == np.float32(OUT_OF_REACH), left, everything))
    np.testing.assert_array_equal(left[[1, 4]], everything[[1, 4]])
    everywhere = np.ones(VOCAB, dtype=np.bool_)
    for row, allowed in ((0, one), (2, most), (3, everywhere)):
        assert chosen(left[row], Choice(), allowed) == chosen(everything[row], Choice(), allowed)
    assert chosen(left[5], Choice(0.9, 5), few) == chosen(everything[5], Choice(0.9, 5), few)


def wanted(params: SamplingParams, drafts: tuple[int, ...] = ()) -> list[Choice]:
    sequence = make_sequence("a", [4, 9, 9], params=params, constraint=Steps(1, 9))
    (item,) = with_masks([replace(WorkItem.last(sequence), drafts=drafts)])
    assert len(item.masks) == 1 + len(drafts)
    return list(choices(item))


def test_each_row_under_a_grammar_has_its_mask_unless_all_logits_are_reported() -> None:
    plain = SamplingParams(temperature=0.0)
    masks = [choice.mask for choice in wanted(plain, (7,))]
    assert None not in masks
    assert masks[0] is not masks[1]
    assert [choice.wants_all for choice in wanted(plain, (7,))] == [False, False]
    cuts = SamplingParams(temperature=0.8, top_p=0.9)
    assert [(choice.wants_all, choice.mask is None) for choice in wanted(cuts)] == [(True, False)]
    assert wanted(replace(plain, logprobs=0)) == [ALL_LOGITS]


class Fickle(Steps):
    """Says of what comes after guesses that nothing is allowed, and then it is."""

    def _bits(self, taken: Seq[int]) -> npt.NDArray[np.uint8]:
        bits = super()._bits(taken)
        return np.zeros_like(bits) if len(taken) > len(self._taken) else bits


class Patient(FakeRunner):
    """Its steps take until the masks are told."""

    def run(self, items: Seq[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        deadline_s = time.monotonic() + 20
        while any(mask.bits is None for item in items for mask in item.masks):
            assert time.monotonic() < deadline_s, "a mask was not told"
            time.sleep(0.001)
        return super().run(items, probe, mode)


@pytest.mark.parametrize(("grammar", "gains"), [(Steps, True), (Fickle, False)])
def test_a_guess_after_which_more_is_allowed_than_was_told_is_computed_again(grammar: type[Steps], gains: bool) -> None:
    def answer(constraint: Steps, drafting: Guesses | None) -> tuple[list[int], int]:
        core = make_core(Patient(16, copying_logits), 16, drafting=drafting)
        core.add(make_sequence("a", range(1, 11), max_tokens=60, constraint=constraint))
        results = run_to_end(core)
        return results.tokens["a"], results.finished["a"].accepted_tokens

    plain, _ = answer(Steps(4, 20), None)
    assert plain[-1] == EOS
    text, num_accepted = answer(grammar(4, 20), Guesses({"a": plain[:20]}))
    assert text == plain
    assert (num_accepted > 1) is gains
