"""A step that fails heals: the cause is found and done by a fallback, and nothing else changes by a bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from engine_models_support import native_runner
from engine_requests import Guesses
from engine_support import FakeRunner, Results, greedy_answer, make_core, make_sequence, run_to_end
from engine_tiny_gguf import build_gguf
from test_engine_native_shapes import MODELS, SHAPE

from services.engine.adapter import LoadedAdapter
from services.engine.core import CoreLimits, EngineCore
from services.engine.drafting import Drafting
from services.engine.healing.degradation import Degradation
from services.engine.healing.healer import Healer
from services.engine.healing.kv_rows import KvRows
from services.engine.healing.low_rank import SHARE, low_rank_mlp
from services.engine.healing.reference_forms import ReferenceForms
from services.engine.healing.watchdog import Watchdog, WatchdogLimits
from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.lora import LoraPart
from services.engine.kernels.native.page_io import PageIo
from services.engine.kernels.native.stages import Stages
from services.engine.messages import _degraded_report
from services.engine.native_runner import NativeRunner, build_native_batch
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence
from services.engine.stages import Part
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.faults import Fault, Kind, board, parse_faults
from stagemesh.runtime.identity import process_identity

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

VOCAB = SHAPE["vocab_size"]
VOCABULARY = Vocabulary(tuple(b"<%d>" % token for token in range(VOCAB)), frozenset(), frozenset())
PARAMS = [
    SamplingParams(temperature=0.0, logprobs=2),
    SamplingParams(temperature=0.7, seed=3, logprobs=1),
    SamplingParams(temperature=0.7, seed=5, repetition_penalty=1.1, presence_penalty=0.4),
]
PROMPTS = [[5, 9, 77], [12, 13] * 9, [101, *range(30, 75)]]
OTHERS = ("1", "2")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> ModelFiles:
    family, formats, settings = MODELS["llama-mixed"]
    folder = tmp_path_factory.mktemp("healing")
    return build_gguf(folder, default_model_files.cache_dir, family, formats, {**SHAPE, **settings}).files


@pytest.fixture
def open_board() -> Iterator[None]:
    board.open([])
    yield
    board.close()


def runner_of(files: ModelFiles, kv_dtype: str = "bfloat16") -> NativeRunner:
    runner = native_runner(files, load_model_config(files), 60, 1, ("turbo",), kv_dtype)
    assert isinstance(runner, NativeRunner)
    return runner


def core_of(runner: NativeRunner, drafting: Drafting | None = None, limits: WatchdogLimits | None = None) -> EngineCore:
    core_limits = CoreLimits(num_pages=60, max_running=8, prefill_chunk_size=32, stage_sample_interval=4)
    healer = Healer(runner, limits) if limits else Healer(runner)
    return EngineCore(runner, VOCABULARY, core_limits, drafting, healer=healer)


def sequences() -> list[Sequence]:
    return [
        make_sequence(str(number), prompt, params=params, max_tokens=10)
        for number, (prompt, params) in enumerate(zip(PROMPTS, PARAMS, strict=True))
    ]


def answers(core: EngineCore, faults: str = "") -> Results:
    """Of three sequences, the first with `faults`."""
    added = sequences()
    added[0].faults = parse_faults(faults)
    for sequence in added:
        core.add(sequence)
    return run_to_end(core)


def test_without_faults_a_step_costs_no_replay(files: ModelFiles) -> None:
    core = core_of(runner_of(files))
    answers(core)
    assert core.healer.num_replays == 0


@pytest.mark.parametrize("kind", ["nan", "error"])
@pytest.mark.parametrize("stage", ["embed", "attend", "mlp", "norm", "sample"])
def test_the_stage_at_fault_is_found_and_done_by_its_fallback_and_others_keep_their_bits(
    stage: str, kind: str, files: ModelFiles, open_board: None
) -> None:
    runner = runner_of(files)
    plain = answers(core_of(runner))
    found = answers(core_of(runner), f"{stage}={kind};layer=1")
    layer = None if stage in {"embed", "sample"} else 1
    reason = "NON_FINITE" if kind == "nan" else "STAGE_FAILED"
    degraded = found.finished["0"]
    assert degraded.degradations == (Degradation(Part[stage.upper()], layer, reason),)
    assert degraded.ending.error is None
    assert len(found.tokens["0"]) == 10
    for name in OTHERS:
        assert found.tokens[name] == plain.tokens[name]
        assert found.logprobs[name] == plain.logprobs[name]
        assert found.finished[name].degradations == ()


@pytest.mark.parametrize("faults", ["mlp=oom", "attend=hang;ms=1", "norm=delay;ms=1", "sample=oom, mlp=oom, embed=oom"])
def test_what_does_not_fail_again_leaves_the_answer_complete_and_as_it_is(
    faults: str, files: ModelFiles, open_board: None
) -> None:
    runner = runner_of(files)
    plain, found = answers(core_of(runner)), answers(core_of(runner), faults)
    assert found.tokens == plain.tokens
    assert found.logprobs == plain.logprobs
    assert all(not finished.degradations for finished in found.finished.values())


def test_a_step_over_its_time_is_broken_off_and_replayed(files: ModelFiles, open_board: None) -> None:
    runner = runner_of(files)
    plain = answers(core_of(runner))
    core = core_of(runner, limits=WatchdogLimits(step_timeout_s=0.05, exit_after_s=0))
    core.healer.watchdog.start()
    try:
        found = answers(core, "attend=hang;ms=60000")
    finally:
        core.healer.watchdog.stop()
    assert found.tokens == plain.tokens


def test_numbers_that_are_not_finite_at_guesses_heal_as_well(files: ModelFiles, open_board: None) -> None:
    runner = runner_of(files)
    plain = answers(core_of(runner))
    found = answers(core_of(runner, Guesses(plain.tokens)), "attend=nan;layer=0")
    assert found.finished["0"].degradations == (Degradation(Part.ATTEND, 0, "NON_FINITE"),)
    assert {name: found.tokens[name] for name in OTHERS} == {name: plain.tokens[name] for name in OTHERS}


def test_a_fault_on_the_board_strikes_some_steps_and_no_sequence_is_lost(files: ModelFiles, open_board: None) -> None:
    for number, stage in enumerate(("embed", "attend", "mlp", "norm", "sample")):
        board.post(Fault(stage=stage, kind=list(Kind)[(0, 3, 3, 0, 4)[number]], rate=0.1, seed=number))
    core = core_of(runner_of(files))
    found = answers(core)
    assert sum(posted.num_struck for posted in board.posted()) > 0
    assert [len(found.tokens[str(number)]) for number in range(3)] == [10, 10, 10]
    assert all(finished.ending.error is None for finished in found.finished.values())


def spoiling_adapter(runner: NativeRunner, *targets: str) -> LoadedAdapter:
    """`targets`: what it says it adds to. It makes numbers that are not finite in the MLP of the first layer."""
    shape = runner.decoder.shape
    a = np.full((1, shape.hidden_size), np.nan, np.float32)
    b = np.ones((shape.ffn_size, 1), np.float32)
    runner.decoder.set_adapter(0, [LoraPart(layer=0, target="gate", a=a, b=b, scale=1.0)])
    return LoadedAdapter(
        name="bad", generation=1, revision="", path="", rank=1, targets=targets, num_bytes=0, loaded_unix_s=0.0, slot=0
    )


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
def test_keys_and_values_spoiled_unnoticed_are_computed_again_by_stages(files: ModelFiles, kv_dtype: str) -> None:
    """The first chunk of the prompt ends with no token, so nothing shows that its later layers are not finite."""
    runner = runner_of(files, kv_dtype)
    core = core_of(runner)
    sequence = make_sequence("bad", [9, *range(30, 100)], max_tokens=4, salt=b"salt")
    sequence.adapter = spoiling_adapter(runner)
    core.add(sequence)
    core.add(make_sequence("good", PROMPTS[1], params=PARAMS[1], max_tokens=10))
    found = run_to_end(core)
    degraded = found.finished["bad"].degradations  # time decides how the prompt is cut, so later layers may show it too
    assert Degradation(Part.MLP, 0, "NON_FINITE") in degraded
    assert {other.reason for other in degraded} == {"NON_FINITE"}
    assert found.finished["bad"].ending.error is None
    assert len(found.tokens["bad"]) == 4
    assert found.tokens["good"] == answers(core_of(runner_of(files, kv_dtype))).tokens["1"]


def test_a_fallback_that_leaves_an_adapter_s_part_out_says_so(files: ModelFiles) -> None:
    runner = runner_of(files)
    core = core_of(runner)
    for name, targets in (("mlp", ("gate_proj",)), ("attention", ("q_proj", "o_proj"))):
        sequence = make_sequence(name, PROMPTS[0], max_tokens=4)
        sequence.adapter = spoiling_adapter(runner, *targets)
        core.add(sequence)
    found = run_to_end(core)
    in_mlp, in_attention = found.finished["mlp"].degradations, found.finished["attention"].degradations
    assert Degradation(Part.MLP, 0, "NON_FINITE", leaves_adapter_out=True) in in_mlp
    assert Degradation(Part.MLP, 0, "NON_FINITE") in in_attention, "what the adapter does not add to lacks nothing"
    report = _degraded_report(in_mlp[0], process_identity("engine"))
    assert (report.reason, report.detail) == ("ADAPTER_LEFT_OUT", "NON_FINITE")
    assert report.fallback == "low-rank, without the adapter"


def test_pages_that_a_fallback_computed_are_known_to_nobody(files: ModelFiles, open_board: None) -> None:
    core = core_of(runner_of(files))
    prompt = list(range(30, 100))
    first = make_sequence("first", prompt, salt=b"salt")
    first.faults = parse_faults("mlp=nan")
    core.add(first)
    run_to_end(core)
    core.add(make_sequence("second", prompt + first.tokens[len(prompt) :], salt=b"salt"))
    second = run_to_end(core).finished["second"]
    assert second.cached_tokens <= 64  # what was computed before the fault: the chunks of 32 tokens
    assert second.degradations == ()


def test_a_sequence_without_memory_begins_again_and_fails_in_the_end(files: ModelFiles, open_board: None) -> None:
    core = core_of(runner_of(files))
    sequence = make_sequence("0", PROMPTS[0])
    sequence.faults = parse_faults("mlp=oom, mlp=oom, mlp=oom, mlp=oom, mlp=oom")
    core.add(sequence)
    ending = run_to_end(core).ending("0")
    assert ending.reason == common_pb2.FINISH_REASON_ERROR
    assert ending.error is not None
    assert ending.error.reason == "ENGINE_OUT_OF_MEMORY"


def test_a_backend_without_stages_fails_the_cause_alone() -> None:
    runner = FakeRunner(20)
    runner.fails_on = {"bad"}
    core = make_core(runner, 20)
    core.add(make_sequence("bad", [1, 2, 3]))
    core.add(make_sequence("good", [4, 5, 6]))
    found = run_to_end(core)
    error = found.ending("bad").error
    assert error is not None
    assert (error.reason, "no stages to replay" in error.message) == ("STEP_FAILED", True)
    assert found.tokens["good"] == greedy_answer([4, 5, 6], 8)


@pytest.mark.parametrize(
    ("name", "kv_dtype"),
    [
        ("llama-mixed", "bfloat16"),
        ("llama-q8_0-mha", "bfloat16"),
        ("qwen2-window-7", "int8"),
        ("qwen3-q8_0-128", "int8"),
    ],
)
def test_reference_forms_are_near_the_stages_they_stand_for(
    name: str, kv_dtype: str, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    family, formats, settings = MODELS[name]
    files = build_gguf(tmp_path, default_model_files.cache_dir, family, formats, {**SHAPE, **settings}).files
    runner = runner_of(files, kv_dtype)
    decoder = runner.decoder
    (weights,) = decoder.weights
    sequence = make_sequence("0", PROMPTS[2])
    sequence.table.pages.extend([3, 1, 2])
    item = WorkItem.next(sequence, len(sequence.tokens))
    batch, stages = build_native_batch([item]), Stages(decoder)
    reference = ReferenceForms(decoder, weights, KvRows(PageIo(decoder)))
    x = stages.embed(batch)
    np.testing.assert_array_equal(reference.embed(item.token_ids), x)
    layer = decoder.layer(weights, 1)
    normed = stages.norm("attention", 1, x)
    np.testing.assert_allclose(reference.norm(layer.attention_norm, x), normed, rtol=1e-5, atol=1e-6)
    expected = stages.attend(1, batch, normed, x)
    rows = [0, 20, len(x) - 1]
    found = reference.attend(1, sequence.table.pages, rows, normed[rows], x[rows])
    assert found is not None
    scale = float(np.abs(expected - x).max())
    np.testing.assert_allclose(found, expected[rows], atol=0.05 * scale)
    again = stages.attend(1, batch, normed, x)
    np.testing.assert_array_equal(again, expected)  # what was written lies where a step writes it
    np.testing.assert_allclose(
        reference.head(normed)[:, :VOCAB], stages.head(normed)[:, :VOCAB], atol=0.05 * float(np.abs(normed).max()) * 4
    )


def test_a_substitute_takes_a_tenth_of_the_mlp_s_memory_at_most(files: ModelFiles) -> None:
    decoder = runner_of(files).decoder
    layer = decoder.layer(decoder.weights[0], 0)
    substitute = low_rank_mlp(layer)
    assert substitute.num_bytes <= max(SHARE * (layer.gate_up.num_bytes() + layer.down.num_bytes()), 6 * (128 + 160))
    added = substitute.added(np.ones((2, 128), np.float32))
    assert added.shape == (2, 128)
    assert np.isfinite(added).all()


def test_a_step_that_never_comes_back_ends_the_process() -> None:
    ended = Event()
    watchdog = Watchdog(WatchdogLimits(step_timeout_s=0.001, exit_after_s=0.001), end_process=ended.set)
    watchdog.look()
    assert not ended.is_set()
    watchdog.start()
    watchdog.begin(1)
    assert ended.wait(10)
    watchdog.stop()


def test_a_slow_step_is_no_hanging_one() -> None:
    watchdog = Watchdog(WatchdogLimits(step_timeout_s=1e9, exit_after_s=0.001), end_process=pytest.fail)
    watchdog.begin(1)
    watchdog.look()
    assert not watchdog.over_time.is_set()
    watchdog.end(1)
    watchdog.look()


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
def test_a_prompt_s_chunk_that_is_struck_unnoticed_is_computed_again_and_known_to_nobody(
    kv_dtype: str, files: ModelFiles, open_board: None
) -> None:
    prompt = list(range(30, 100))
    plain_core = core_of(runner_of(files, kv_dtype))
    plain_core.add(make_sequence("plain", prompt))
    plain = run_to_end(plain_core)
    board.post(Fault(stage="embed", kind=Kind.NAN, times=1))
    core = core_of(runner_of(files, kv_dtype))
    core.add(make_sequence("struck", prompt, salt=b"salt"))
    core.add(make_sequence("beside", prompt, salt=b"salt"))
    core.step()
    (posted,) = board.posted()
    assert posted.num_struck == 1
    assert all(not sequence.num_output for sequence in core.sequences()), "the first chunk yields no token"
    core.add(make_sequence("sharing", prompt, salt=b"salt"))
    found = run_to_end(core)
    assert all(found.tokens[name] == plain.tokens["plain"] for name in ("struck", "beside", "sharing"))
    core.check_integrity()
    core.add(make_sequence("later", prompt, salt=b"salt"))
    assert run_to_end(core).tokens["later"] == plain.tokens["plain"]
    assert core.healer.num_replays > 0


def test_a_fault_that_has_been_cleared_strikes_no_more(files: ModelFiles, open_board: None) -> None:
    core = core_of(runner_of(files))
    for sequence in sequences():
        core.add(sequence)
    core.step()
    board.post(Fault(stage="sample", kind=Kind.NAN))
    core.step()
    assert (struck := core.healer.num_replays) > 0
    board.clear()
    core.healer._guarded.add("another")  # computed by stages, as those are that began again
    found = run_to_end(core)
    assert core.healer.num_replays == struck
    assert all(finished.ending.error is None for finished in found.finished.values())


def test_when_those_that_brought_faults_or_began_again_have_ended_steps_are_as_before(
    files: ModelFiles, open_board: None
) -> None:
    runner = runner_of(files)
    core = core_of(runner)
    answers(core, "mlp=nan")
    sequence = make_sequence("bad", [9, *range(30, 100)], max_tokens=4)
    sequence.adapter = spoiling_adapter(runner)
    core.add(sequence)
    run_to_end(core)
    assert not core.healer.is_on_guard


def test_what_a_step_with_a_fault_serves_is_counted(files: ModelFiles, open_board: None) -> None:
    core = core_of(runner_of(files))
    first = make_sequence("first", PROMPTS[0], max_tokens=4)
    first.faults = parse_faults("mlp=nan")
    core.add(first)
    core.add(make_sequence("other", PROMPTS[1], max_tokens=4))
    core.step()
    assert core.healer.was_disturbed
    assert core.policy.counters.counter(first.owner.tenant_id) >= len(PROMPTS[0]) + len(PROMPTS[1])
    assert not core.policy.cost.is_known
