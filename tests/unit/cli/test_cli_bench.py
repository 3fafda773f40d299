"""`stagemesh bench`: what it measures and what it prints."""

import json
import subprocess
import sys

import pytest

from services.engine.config import EngineConfig
from services.engine.engine import LoadedModel, load_model
from services.engine.measure import Workload, bench_core, prompt_tokens, run_workload
from stagemesh.models.store import ModelFiles


@pytest.fixture(scope="module")
def model(default_model_files: ModelFiles) -> LoadedModel:
    return load_model(default_model_files, EngineConfig(threads=1, backend="auto"))


def test_a_workload_is_computed_to_its_last_token(model: LoadedModel) -> None:
    core = bench_core(model)
    speed = run_workload(core, Workload(num_sequences=3, num_prompt=20, num_output=5))
    assert speed.prefill_tok_s > 0
    assert speed.decode_tok_s > 0
    assert speed.output_tok_s > 0
    assert core.load().used_pages == 0
    core.check_integrity()


def test_a_workload_of_one_output_token_has_no_decoding(model: LoadedModel) -> None:
    assert run_workload(bench_core(model), Workload(num_prompt=20, num_output=1)).decode_tok_s == 0


def test_prompts_are_the_same_every_time_and_differ_from_each_other() -> None:
    prompts = [tuple(prompt_tokens(number, 32, vocab_size=1000)) for number in range(64)]
    assert prompts == [tuple(prompt_tokens(number, 32, vocab_size=1000)) for number in range(64)]
    assert len(set(prompts)) == 64
    assert all(0 <= token < 1000 for prompt in prompts for token in prompt)


def test_bench_engine_ends_with_one_object_of_figures() -> None:
    command = [sys.executable, "-m", "stagemesh.cli.main", "bench", "engine", "--quick", "--json", "--threads", "1"]
    result = subprocess.run([*command, "--backend", "auto"], capture_output=True, text=True, timeout=110, check=False)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert figures["threads"] == 1
    for name in ("decode_tok_s", "prefill_512_tok_s", "prefill_2048_tok_s", "batch16_output_tok_s", "peak_rss_mb"):
        assert figures[name] > 0, name
    assert {"batch64_output_tok_s", "read_rate_fraction"} <= figures.keys()
    assert "a single stream" in result.stderr
