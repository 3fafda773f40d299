"""The default model on the native kernels: bitwise batch invariance, and how near it is to float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_models_support import Model
from engine_support import make_sequence

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import Decoder
from services.engine.native_runner import NativeRunner
from services.engine.scheduler import WorkItem
from services.engine.stages import Part, Probe, TimingProbe
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

TEXT = """The harbour of the old town is known for its fish market, which opens before sunrise. In 1846 a storm broke
the northern wall; it was built anew within two years, wider than before. def mean(values): return sum(values) / 2
Boats come back around nine, and what is not sold by noon goes to the smokehouses behind the church."""
LENGTHS = (1, 3, 15, 16, 17, 63)


@pytest.fixture(scope="module")
def tokens(default_model_files: ModelFiles) -> list[int]:
    ids: list[int] = load_tokenizer(default_model_files).build().encode(TEXT).ids
    return ids


@pytest.fixture(scope="module")
def model(default_model_files: ModelFiles) -> Model:
    return Model(default_model_files, backend="native")


def test_logits_are_bitwise_the_same_however_prompts_are_cut_and_batched(model: Model, tokens: list[int]) -> None:
    prompts = [tokens[number : number + length] for number, length in enumerate(LENGTHS)]
    alone = [model.logits([prompt])[0] for prompt in prompts]
    for chunk in (1, 5, 16, 4096):  # 1: every token as decoding computes it
        for expected, found in zip(alone, model.logits(prompts, chunk=chunk), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_logits_are_bitwise_the_same_on_any_number_of_threads(
    default_model_files: ModelFiles, model: Model, tokens: list[int]
) -> None:
    prompts = [tokens[:63], tokens[3:4], tokens[5:22]]
    threaded = Model(default_model_files, backend="native", threads=3)
    for expected, found in zip(model.logits(prompts), threaded.logits(prompts), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_logits_stay_near_those_of_float32(default_model_files: ModelFiles, model: Model, tokens: list[int]) -> None:
    """What 8-bit activations and bfloat16 pages cost: a KL divergence near 0.003; other winners in near ties only."""
    prompts = [tokens[:length] for length in range(4, len(tokens), 5)]
    found = torch.from_numpy(np.stack(model.logits(prompts))).log_softmax(-1)
    expected = torch.from_numpy(np.stack(Model(default_model_files).logits(prompts))).log_softmax(-1)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.mean() < 0.006
    assert divergence.max() < 0.03
    best, chosen = expected.argmax(-1), found.argmax(-1)
    assert (best == chosen).float().mean() > 0.9
    lost = expected.gather(1, best[:, None]) - expected.gather(1, chosen[:, None])
    assert lost.max() < 0.3


def test_greedy_text_answers_the_question(default_model_files: ModelFiles, model: Model) -> None:
    tokenizer = load_tokenizer(default_model_files).build()
    prompt = tokenizer.encode("<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n").ids
    assert "scatter" in tokenizer.decode(model.greedy(prompt, 40))


def test_the_step_measures_its_parts(model: Model, tokens: list[int]) -> None:
    sequence = make_sequence("a", tokens[:20])
    model.blocks.allocate(sequence.table, sequence.tokens)
    probe = TimingProbe()
    model.runner.run([WorkItem.next(sequence, 20)], probe)
    model.blocks.release(sequence.table)
    assert all(probe.seconds[part] > 0 for part in Part)


def test_pages_that_change_hands_are_cleared(model: Model, tokens: list[int]) -> None:
    """Without its own keys and values, a token sees zeros where the first 16 were."""
    sequence = make_sequence("a", tokens[:17])
    model.blocks.allocate(sequence.table, sequence.tokens)
    whole = model.runner.run([WorkItem(sequence, 0, 17, samples=True)], Probe())
    again = model.runner.run([WorkItem(sequence, 16, 17, samples=True)], Probe())
    np.testing.assert_array_equal(again, whole)
    model.runner.zero(sequence.table.pages[:1])
    assert not np.array_equal(model.runner.run([WorkItem(sequence, 16, 17, samples=True)], Probe()), whole)
    model.blocks.release(sequence.table)


def test_a_read_pass_reads_what_a_step_of_one_row_reads(model: Model, default_model_files: ModelFiles) -> None:
    """On any number of threads: all matrices once, the embedding being the head."""
    threaded = Model(default_model_files, backend="native", threads=3)
    for decoder in (native_decoder(model), native_decoder(threaded)):
        assert decoder.read_pass() == decoder.weight_bytes()


def native_decoder(model: Model) -> Decoder:
    assert isinstance(model.runner, NativeRunner)
    return model.runner._decoder
