"""On the native kernels, guesses leave every token and its log-probability bitwise as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_models_support import Model
from engine_requests import Guesses
from engine_support import Results, make_sequence, run_to_end
from engine_tiny_gguf import build_gguf

from services.engine.checks import SensitiveChecks
from services.engine.core import CoreLimits, EngineCore
from services.engine.drafting import Drafting, NoDrafting
from services.engine.kernels.native.build import supported_levels
from services.engine.modes import Mode
from services.engine.progressive import ProgressiveDrafting
from services.engine.sampling_params import SamplingParams
from services.engine.sensitive_tokens import SensitiveTokens
from services.engine.speculation import Speculation
from services.engine.vocabulary import Vocabulary
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

VOCAB = 171
VOCABULARY = Vocabulary(tuple(b"<%d>" % token for token in range(VOCAB)), frozenset(), frozenset({2}))
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 128,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "tie_word_embeddings": True,
}
PARAMS = [
    SamplingParams(temperature=0.0, logprobs=2, ignore_eos=True),
    SamplingParams(temperature=0.4, seed=3, logprobs=1, ignore_eos=True),
    SamplingParams(temperature=0.3, seed=5, top_p=0.9, repetition_penalty=1.05, stop=("17",)),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> ModelFiles:
    folder: Path = tmp_path_factory.mktemp("speculation")
    return build_gguf(folder, default_model_files.cache_dir, "Llama", "Q8_0", SHAPE).files


def answers(model: Model, drafting: Drafting, mode: Mode | None, checks: SensitiveChecks | None = None) -> Results:
    limits = CoreLimits(num_pages=40, max_running=8, prefill_chunk_size=32, stage_sample_interval=4)
    core = EngineCore(model.runner, VOCABULARY, limits, drafting, checks)
    for number, params in enumerate(PARAMS):
        prompt = [5 + number, *range(10, 40), *range(10, 22)]
        core.add(make_sequence(str(number), prompt, params=params, max_tokens=60, mode=mode))
    return run_to_end(core)


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
def test_right_and_wrong_guesses_leave_the_answers_as_they_are(files: ModelFiles, kv_dtype: str) -> None:
    model = Model(files, num_pages=40, backend="native", kv_dtype=kv_dtype)
    plain = answers(model, NoDrafting(), None)
    found = answers(model, Guesses(plain.tokens, wrong=0.2), None)
    assert found.tokens == plain.tokens
    assert found.logprobs == plain.logprobs
    assert sum(finished.accepted_tokens for finished in found.finished.values()) > 0


def test_turbo_drafts_leave_precise_answers_as_they_are(files: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.engine.progressive.even_length", lambda *_: 3)
    model = Model(files, num_pages=40, backend="native", modes=("precise", "turbo"))
    plain = answers(model, NoDrafting(), "precise")
    drafting = ProgressiveDrafting(Speculation(8), model.runner, VOCABULARY, max_draft_tokens=4)
    found = answers(model, drafting, "precise")
    assert found.tokens == plain.tokens
    assert found.logprobs == plain.logprobs
    assert sum(finished.accepted_tokens for finished in found.finished.values()) > 0


def test_checked_tokens_do_not_depend_on_drafts(files: ModelFiles) -> None:
    model = Model(files, num_pages=40, backend="native", modes=("standard", "precise"))
    found: list[Results] = []
    for drafting in (NoDrafting(), None):
        checks = SensitiveChecks(model.runner, SensitiveTokens(VOCABULARY, [], None, 0.1))
        found.append(answers(model, drafting or Guesses(found[0].tokens, wrong=0.2), "standard", checks))
        assert checks.num_checked > 0
    assert found[0].tokens == found[1].tokens
    assert found[0].logprobs == found[1].logprobs
