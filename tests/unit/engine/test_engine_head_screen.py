"""A screened head gives the token that all logits would give, and computes few of them."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_native_steps import decoder_of, prompt_batch
from engine_support import make_sequence
from engine_tiny_gguf import build_gguf
from test_engine_native_shapes import MODELS, SHAPE

from services.engine.choices import ALL_LOGITS, choices
from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import OUT_OF_REACH, SCREEN_LEAD, Batch, Choice, Decoder, Floats
from services.engine.noise import gumbel
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.weights.head_screen import find_directions, hidden_states, screen_heads
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

TEXT = "The harbour of the old town is known for its fish market, which opens before sunrise."
VOCAB = SHAPE["vocab_size"]


def tiny(name: str, folder: Path, cache_dir: Path, threads: int = 1) -> Decoder:
    family, formats, settings = MODELS[name]
    return decoder_of(build_gguf(folder, cache_dir, family, formats, {**SHAPE, **settings}).files, threads=threads)


def screen(decoder: Decoder) -> None:
    states = np.random.default_rng(1).normal(size=(80, decoder.shape.hidden_size)).astype(np.float32)
    for weights in decoder.weights:
        directions = find_directions(states, decoder.head(weights))
        decoder.screen_head(weights, VOCAB, directions[:-1], directions[-1])


def steps(decoder: Decoder, batch: Batch, wanted: Choice) -> tuple[Floats, Floats]:
    """All logits, and those that are left for `wanted`."""
    everything = decoder.step(replace(batch, choices=[ALL_LOGITS] * len(batch.sample_rows)), None).copy()
    return everything, decoder.step(replace(batch, choices=[wanted] * len(batch.sample_rows)), None).copy()


def winner(row: Floats, choice: Choice) -> int:
    row = row[:VOCAB]
    if choice.lowered is not None:
        row = row.copy()
        row[list(choice.lowered)] = -np.inf
    if not choice.temperature:
        return int(row.argmax())
    noise = gumbel(choice.noise_key, np.arange(len(row)))
    return int((row.astype(np.float64) / choice.temperature + noise).argmax())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["llama-q4_0-gqa3", "llama-q8_0-mha", "qwen2-q8_0-gqa7", "llama-mixed"])
def test_the_token_is_that_of_all_logits_and_what_is_computed_has_their_bits(
    name: str, threads: int, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    decoder = tiny(name, tmp_path, default_model_files.cache_dir, threads)
    screen(decoder)
    for number in range(60):
        prompts = [[number, 3, 5 + number], [number * 2 + 1]][: 1 + number % 2]
        likely = array("i", [17, number, 100])
        for choice in (Choice(), Choice(lowered=likely), Choice(0.7, number * 977), Choice(1.5, number, likely)):
            everything, left = steps(decoder, prompt_batch(prompts), choice)
            for all_logits, logits in zip(everything, left, strict=True):
                np.testing.assert_array_equal(logits, np.where(logits == OUT_OF_REACH, OUT_OF_REACH, all_logits))
                assert winner(logits, choice) == winner(all_logits, choice)


def test_a_lowered_token_that_would_win_still_has_its_logit(tmp_path: Path, default_model_files: ModelFiles) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    screen(decoder)
    everything, _ = steps(decoder, prompt_batch([[7, 8]]), Choice())
    best = int(everything[0, :VOCAB].argmax())
    _, left = steps(decoder, prompt_batch([[7, 8]]), Choice(lowered=array("i", [best])))
    assert left[0, best] == everything[0, best]


def test_rows_with_and_without_a_choice_stand_beside_each_other(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    screen(decoder)
    batch = prompt_batch([[9], [4, 5, 6], [2, 2]])
    everything, _ = steps(decoder, batch, ALL_LOGITS)
    found = decoder.step(replace(batch, choices=[ALL_LOGITS, Choice(), ALL_LOGITS]), None)
    np.testing.assert_array_equal(found[[0, 2]], everything[[0, 2]])
    assert found[1, :VOCAB].argmax() == everything[1, :VOCAB].argmax()


def test_useless_directions_cost_time_and_change_nothing(tmp_path: Path, default_model_files: ModelFiles) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    hidden = decoder.shape.hidden_size
    scale = np.geomspace(1e-4, 1e4, hidden).astype(np.float32)
    decoder.screen_head(decoder.weights[0], VOCAB, np.eye(hidden, dtype=np.float32)[:SCREEN_LEAD], scale)
    for number in range(20):
        everything, left = steps(decoder, prompt_batch([[number, 9]]), Choice())
        assert left[0, :VOCAB].argmax() == everything[0, :VOCAB].argmax()


def test_logits_that_are_no_numbers_are_seen(tmp_path: Path, default_model_files: ModelFiles) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    norm = np.full(decoder.shape.hidden_size, np.nan, dtype=np.float32)
    head = decoder.head(decoder.weights[0])
    decoder.set_ends(decoder.weights[0], head, head, norm)
    screen(decoder)
    _, left = steps(decoder, prompt_batch([[1]]), Choice())
    assert np.isnan(left[0, :VOCAB]).all()


def test_few_logits_of_the_default_model_are_computed(default_model_files: ModelFiles) -> None:
    decoder = decoder_of(default_model_files)
    screen_heads(decoder, default_model_files, load_model_config(default_model_files))
    tokens = load_tokenizer(default_model_files).build().encode(TEXT).ids
    shares = []
    for length in range(1, len(tokens)):
        everything, left = steps(decoder, prompt_batch([tokens[:length]]), Choice())
        assert left[0].argmax() == everything[0].argmax()
        shares.append(float((left[0] > OUT_OF_REACH).mean()))
    assert 0 < np.median(shares) < 0.2


def test_directions_are_kept_on_disk_and_found_anew_when_damaged(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    files = replace(default_model_files, cache_dir=tmp_path)
    decoder, config = decoder_of(default_model_files), load_model_config(default_model_files)
    screen_heads(decoder, files, config)
    (path,) = (tmp_path / "screens").iterdir()
    kept = path.read_bytes()
    path.write_bytes(kept[:-1000])
    screen_heads(decoder, files, config)
    assert path.read_bytes() == kept
    basis, scale = np.load(path)[:-1], np.load(path)[-1]
    np.testing.assert_allclose(basis @ basis.T, np.eye(SCREEN_LEAD), atol=1e-6)
    assert (scale > 0).all()


def test_a_small_pool_looks_at_the_whole_text(tmp_path: Path, default_model_files: ModelFiles) -> None:
    decoder = tiny("llama-q8_0-mha", tmp_path, default_model_files.cache_dir)
    few = (decoder.shape.num_pages - 1) * 16
    tokens = [3 + number % 150 for number in range(5 * few)]
    states = hidden_states(decoder, tokens, VOCAB)
    assert len(states) > 4 * few
    np.testing.assert_array_equal(
        decoder.step(prompt_batch([[7, 8]]), None), fresh_logits(tmp_path, default_model_files)
    )


def fresh_logits(tmp_path: Path, files: ModelFiles) -> Floats:
    return tiny("llama-q8_0-mha", tmp_path / "fresh", files.cache_dir).step(prompt_batch([[7, 8]]), None)


PLAIN = SamplingParams(temperature=0.0)


def wanted(params: SamplingParams, drafts: tuple[int, ...] = ()) -> list[Choice]:
    sequence = make_sequence("a", [4, 9, 9], params=params)
    return list(choices(replace(WorkItem.last(sequence), drafts=drafts)))


def test_logits_are_wanted_whole_where_more_than_the_best_count() -> None:
    assert wanted(PLAIN) == [Choice()]
    for params in (
        replace(PLAIN, logprobs=0),
        replace(PLAIN, logit_bias={3: 1.0}),
        replace(PLAIN, presence_penalty=-0.5),
        replace(PLAIN, frequency_penalty=-0.5),
        replace(PLAIN, repetition_penalty=0.9),
        replace(PLAIN, min_tokens=5),
        SamplingParams(temperature=0.8, top_p=0.9),
        SamplingParams(temperature=0.8, top_k=40),
        SamplingParams(temperature=0.8, min_p=0.1),
    ):
        assert wanted(params, (7,)) == [ALL_LOGITS, ALL_LOGITS]
    reading = make_sequence("a", [4, 9], params=PLAIN)
    reading.reads_logits = True
    assert list(choices(WorkItem.last(reading))) == [ALL_LOGITS]


def test_penalties_lower_what_was_said_and_drafted_and_each_position_has_its_noise() -> None:
    penalized = wanted(replace(PLAIN, repetition_penalty=1.1), (7,))
    assert [sorted(set(choice.lowered or ())) for choice in penalized] == [[4, 7, 9], [4, 7, 9]]
    first, second = wanted(SamplingParams(temperature=0.5, seed=3), (7,))
    assert first.temperature == second.temperature == 0.5
    assert first.noise_key != second.noise_key
