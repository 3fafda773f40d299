"""Training of an adapter, on a model small enough for a test: what it learns, how it goes on, what the engine reads."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random

import gguf
import numpy as np
import pytest
import torch

from benchmarks.correction_losses import Run, measured, table
from services.corrector.content.questions import NOTHING
from services.corrector.ranking.calibration import CALIBRATION_FILE
from services.corrector.training.adapter_files import CHECKPOINT, CONFIG, WEIGHTS, load_into
from services.corrector.training.calibrate import Counted, calibrate, thresholds
from services.corrector.training.decoder import Decoder, Past, Seen, branches_of
from services.corrector.training.evaluate import Ranked, evaluate, sure_margin
from services.corrector.training.examples import composed, deciding, example_of, made_up, told_of
from services.corrector.training.losses import clipped, loss_of, refused, unsteadiness
from services.corrector.training.recipe import Losses, Recipe
from services.corrector.training.train import Progress, train
from services.engine.adapters import parse_adapter
from stagemesh.models.model_config import load_model_config
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles, locate
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.mesh_config import MeshConfig

RECIPE = Recipe(steps=6, batch=1, rank=2, alpha=4, warmup_steps=1, max_tokens=500)


@pytest.fixture(scope="module", autouse=True)
def one_tokenizer() -> Iterator[None]:
    """Read once for all runs: it takes longer than a step."""
    read = cache(load_tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("train", "evaluate"):
            patch.setattr(f"services.corrector.training.{module}.load_tokenizer", read)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    """One narrow layer with the default model's vocabulary and template."""
    mesh = MeshConfig()
    default = locate(mesh, mesh.default_model)
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "tiny.gguf"
    _write(default.path, path)
    return replace(default, path=path, cache_dir=folder, name="tiny")


def _write(default: Path, path: Path) -> None:
    reader, writer = gguf.GGUFReader(default), gguf.GGUFWriter(path, "llama")
    for key, field in reader.fields.items():
        if key.startswith("tokenizer."):
            kind, *inner = field.types
            writer.add_key_value(key, field.contents(), kind, sub_type=inner[0] if inner else None)
    writer.add_context_length(2048)
    writer.add_embedding_length(16)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(49152)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (49152, 16), "output_norm": (16,), "blk.0.attn_norm": (16,), "blk.0.ffn_norm": (16,),
        "blk.0.attn_q": (16, 16), "blk.0.attn_k": (8, 16), "blk.0.attn_v": (8, 16), "blk.0.attn_output": (16, 16),
        "blk.0.ffn_gate": (32, 16), "blk.0.ffn_up": (32, 16), "blk.0.ffn_down": (16, 32),
    }  # fmt: skip
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, dtype=np.float32) * 0.2
        writer.add_tensor(f"{name}.weight", values + 1 if len(shape) == 1 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def decoder_of(files: ModelFiles) -> Decoder:
    return Decoder(files, rank=2, alpha=4, seed=1, dtype=torch.float32)


def test_what_is_trained_lowers_the_loss_and_is_what_the_engine_reads(files: ModelFiles, tmp_path: Path) -> None:
    losses: list[float] = []
    recipe = replace(RECIPE, steps=12, learning_rate=0.05)
    train(files, tmp_path, recipe, on_step=lambda progress: losses.append(progress.terms["tokens"]))
    assert losses[-1] < losses[0] - 0.2
    parts = parse_adapter(
        (tmp_path / CONFIG).read_bytes(), (tmp_path / WEIGHTS).read_bytes(), load_model_config(files), revision(files)
    )
    assert {part.target for part in parts} == {"q", "k", "v", "output", "gate", "up", "down"}
    assert all(part.scale == 2.0 for part in parts)
    decoder = decoder_of(files)
    load_into(decoder, tmp_path)
    q = next(part for part in parts if part.target == "q")
    np.testing.assert_array_equal(q.a, decoder.parameters()["layers.0.self_attn.q_proj.lora_A"].detach().numpy())


class Stop(Exception):
    """Ends a run from within."""


def test_a_run_that_was_interrupted_goes_on_where_it_was(files: ModelFiles, tmp_path: Path) -> None:
    whole: list[Progress] = []
    train(files, tmp_path / "whole", RECIPE, on_step=whole.append)

    def stop(progress: Progress) -> None:
        if progress.step == 4:
            raise Stop

    interrupted = tmp_path / "interrupted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.corrector.training.train.SAVED_EVERY", 3)
        with pytest.raises(Stop):
            train(files, interrupted, RECIPE, on_step=stop)
    saved = torch.load(interrupted / CHECKPOINT, weights_only=True)
    assert saved["step"] == 3
    resumed: list[Progress] = []
    train(files, interrupted, RECIPE, resumes=True, on_step=resumed.append)
    assert [progress.step for progress in resumed] == [4, 5, 6]
    # The first step's loss comes from the saved matrices and the fourth batch; later ones round apart.
    first = resumed[0].terms["tokens"]
    mean_before, mean_after = whole[2].terms["tokens"], whole[3].terms["tokens"]
    assert first == pytest.approx((mean_after - 0.9 * mean_before) / 0.1, rel=1e-3)


def test_the_same_tokens_after_a_past_give_the_same_states(files: ModelFiles) -> None:
    decoder, token_ids, past = decoder_of(files), torch.arange(40), Past()
    with torch.inference_mode():
        whole = decoder.hidden(token_ids)
        decoder.hidden(token_ids[:25], keep=past)
        torch.testing.assert_close(decoder.hidden(token_ids[25:], past=past), whole[25:])


def test_questions_of_one_source_do_not_see_each_other(files: ModelFiles) -> None:
    decoder, trunk, questions = (
        decoder_of(files),
        torch.arange(10),
        [torch.tensor([11, 12]), torch.tensor([21, 22, 23])],
    )
    together = branches_of(torch.tensor([0] * 10 + [1] * 2 + [2] * 3))
    with torch.inference_mode():
        found = decoder.hidden(torch.cat([trunk, *questions]), branches=together)
        for question, states in zip(questions, found[10:].split([2, 3]), strict=True):
            torch.testing.assert_close(decoder.hidden(torch.cat([trunk, question]))[10:], states)


def test_only_layers_from_the_first_on_are_adapted(files: ModelFiles) -> None:
    decoder = Decoder(files, rank=2, alpha=4, seed=1, first_layer=lambda layers: layers, dtype=torch.float32)
    assert decoder.parameters() == {}
    assert (Recipe().first_layer(30), Recipe(adapted=1.0).first_layer(30), Recipe().first_layer(1)) == (8, 0, 0)


def test_composed_matters_say_what_is_asked_of_them() -> None:
    for told in islice(composed(5), 100):
        assert all(word in told.source for word in told.words.values() if word != NOTHING)
    assert any(NOTHING in told.words.values() for told in islice(composed(5), 100))


def test_what_tells_a_value_from_the_others_decides() -> None:
    assert deciding([5, 6, 7, 8], [[5, 6, 9], [1]]) == 3
    assert deciding([5, 6], [[5, 6, 9]]) == 2
    assert deciding([5, 6], []) == 1


def test_every_term_of_the_loss_reaches_the_adapter(files: ModelFiles) -> None:
    tokenizer = load_tokenizer(files).build()
    example = example_of(next(made_up(1, "first")), tokenizer, Random(1), 2_000)
    assert example is not None
    for name in ("latency", "memory_swing", "mask_stability"):
        decoder = decoder_of(files)
        with torch.no_grad():  # with B at zero only B has gradients, and the keys' scale depends on B of k alone
            for parameter in decoder.parameters().values():
                parameter.add_(0.05)
        plain, _ = loss_of(decoder, example, Losses(), Random(1))
        total, terms = loss_of(decoder, example, Losses(**{name: 1.0}), Random(1))
        assert total.item() - plain.item() == pytest.approx(terms[name], abs=1e-4)
        (total - plain).backward()  # type: ignore[no-untyped-call]
        gradient = decoder.parameters()["layers.0.self_attn.k_proj.lora_B"].grad
        assert gradient is not None
        assert gradient.abs().sum() > 0, name


def test_no_token_sends_more_gradient_than_the_limit() -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.03, 0.04]])
    limited = clipped(gradient, limit=2.0)
    torch.testing.assert_close(limited.norm(dim=1), torch.tensor([1.0, 0.05]))


def test_terms_say_what_their_names_say() -> None:
    assert refused(torch.tensor([0.0, float("inf")])).item() == pytest.approx(0.5)
    still, moving = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert (unsteadiness(still).item(), unsteadiness(moving).item()) == (0.0, 1.0)


def test_attention_over_pages_sums_to_one(files: ModelFiles) -> None:
    seen = Seen(layer=0, rows=torch.tensor([5, 39]))
    decoder_of(files).hidden(torch.arange(40), seen)
    assert seen.page_mass is not None
    torch.testing.assert_close(seen.page_mass.sum(1), torch.ones(2))
    assert seen.page_mass[0, 1:].sum() == 0


def test_examples_learn_values_only_and_weigh_digits(files: ModelFiles) -> None:
    tokenizer = load_tokenizer(files).build()
    told = told_of("The fee is 120 euros.", {"fee": 120}, {"properties": {"fee": {"title": "Fee in EUR"}}})
    example = example_of(told, tokenizer, Random(1), 200)
    assert example is not None
    learnt = tokenizer.decode([example.token_ids[at] for at in example.targets])
    assert learnt == " 120\n"
    assert example.sensitive.count(True) == 3
    assert "fee (Fee in EUR):" in tokenizer.decode(example.token_ids)


def test_kinds_of_training_are_not_kinds_of_evaluation() -> None:
    sources = {part: {frozenset(told.value) for told in islice(made_up(1, part), 60)} for part in ("first", "second")}
    assert not sources["first"] & sources["second"]


def test_the_sure_margin_is_one_above_which_nearly_all_are_right() -> None:
    right = [Ranked(True, margin, 0.0) for margin in (3.0, 2.5, 2.0, 0.5)]
    assert sure_margin([*right, Ranked(False, 1.0, 0.0)]) == 2.0
    assert sure_margin([Ranked(False, 9.0, 0.0), *right]) == float("inf")


def test_an_evaluation_counts_fields_with_rivals(files: ModelFiles) -> None:
    found = evaluate(files, None, objects=1, seed=3)
    assert found.fields > 2
    assert json.dumps(found.accuracy)


def test_a_rank_beyond_what_the_engine_takes_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="rank must be 1 to 16"):
        Recipe(rank=17)


def test_the_ablation_measures_a_run_keeps_it_and_does_not_make_it_again(tmp_path: Path, files: ModelFiles) -> None:
    results = tmp_path / "losses.jsonl"
    given = Namespace(steps=1, batch=1, objects=1, seed=1, threads=1, only=["all"], results=results)
    (run,) = measured(given, (), files)
    assert run.variant == "all"
    assert run.nats_per_token > 0
    assert run.fields > 0
    assert all(0 <= share <= 1 for share in (run.right_share, run.acceptance, run.mask_stability))
    assert run.memory_swing > 0
    lines = results.read_text().splitlines()
    assert [Run(**json.loads(line)) for line in lines] == [run]
    assert measured(given, lines, files) == [run]
    assert len(results.read_text().splitlines()) == 1
    assert table([run]).splitlines()[2].startswith("| all | ")


def test_a_calibration_says_from_where_on_nearly_all_are_right_and_nothing_of_too_few() -> None:
    right = [Counted(0.6 + number / 1000, True, is_present=True) for number in range(200)]
    said = thresholds([*right, Counted(0.55, False, is_present=True), Counted(0.9, True, is_present=False)])
    assert (said["confirm"], said["confirm_fields"]) == (0.55, 201), "one of 201 may be wrong"
    assert said["change"] is None
    wrong_above = [Counted(0.95, False, is_present=True), *right]
    assert thresholds(wrong_above)["confirm"] == 0.6
    assert thresholds(wrong_above[:100])["confirm"] is None


def test_a_calibration_is_kept_beside_the_adapter(files: ModelFiles, tmp_path: Path) -> None:
    train(files, tmp_path, replace(RECIPE, steps=1))
    (tmp_path / CALIBRATION_FILE).write_text('{"other": 1}')
    said = calibrate(files, tmp_path, objects=2, seed=1)
    assert said["fields"] > 0
    assert json.loads((tmp_path / CALIBRATION_FILE).read_text()) == {"other": 1, "ranking": said}
