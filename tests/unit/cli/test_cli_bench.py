"""`stagemesh bench`: what it measures and what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.engine.config import EngineConfig
from services.engine.engine import LoadedModel, load_model
from services.engine.measure import Workload, bench_core, prompt_tokens, run_workload
from stagemesh.cli.bench.compare import ComparePlan, compare_both
from stagemesh.cli.bench.engine import EngineBenchOptions, engine_config
from stagemesh.cli.bench.first_token import FirstTokens
from stagemesh.cli.bench.serving import engine_environment
from stagemesh.cli.bench.streams import Stream, output_tok_s, percentiles
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import read_source


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


def test_percentiles_and_rates_are_those_of_the_streams() -> None:
    streams = [Stream(0.0, [1.0, 2.0, 2.0]), Stream(1.0, [1.5, 4.0])]
    assert output_tok_s(streams) == 5 / 4
    assert streams[0].gaps_ms == [1000.0, 0.0]
    assert streams[1].ttft_ms == 500.0
    assert percentiles([float(value) for value in range(101)]) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p90": 7.0, "p99": 7.0}


async def test_served_and_in_process_runs_take_turns_with_the_same_tokens(model: LoadedModel) -> None:
    async def serve(workload: Workload) -> list[Stream]:
        return [Stream(0.0, [0.5, 1.0], num_prompt=24)] * workload.num_sequences

    plan = ComparePlan(serve, {"this": os.getpid()}, repeats=1, quick=True)
    figures = await compare_both(plan, bench_core(model), lambda _: None)
    assert figures["single"]["output_tok_s"] == 2
    assert figures["single"]["ratio"] == pytest.approx(2 / figures["single"]["in_process_output_tok_s"], abs=0.01)
    assert figures["first_token"]["pairs"] == 2
    assert figures["single"]["added_ttft_ms"] == figures["first_token"]["added_ttft_ms"]["p50"]
    assert {"this", "in_process"} == figures["batch16"]["cpu_ms_a_token"].keys()


def test_what_the_way_adds_to_a_first_token_is_the_median_of_pairs() -> None:
    tokens = FirstTokens([30.0, 90.0, 21.0], [20.0, 10.0, 20.0])
    assert tokens.added_ms() == [10.0, 80.0, 1.0]
    assert tokens.figures()["added_ttft_ms"]["p50"] == 10.0


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


def test_both_sides_of_a_comparison_compute_in_the_default_mode_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stagemesh.yaml"
    path.write_text("engine: {modes: [standard, precise, turbo], default_mode: precise}")
    options = EngineBenchOptions(config=path)
    here = engine_config(options)
    for name, value in engine_environment(options, here).items():
        monkeypatch.setenv(name, value)
    there = read_source(path).section("engine", EngineConfig)
    for config in (here, there):
        assert (config.modes, config.default_mode) == (("precise",), "precise")
    assert there.threads == here.threads
