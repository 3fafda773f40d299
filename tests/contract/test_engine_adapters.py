"""Adapters behind the engine's protocol: many in a batch, loaded, replaced and unloaded while sequences run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import numpy as np
import pytest
import pytest_asyncio
import torch
import transformers
from adapter_support import write_random_adapter
from engine_server_support import (
    PROMPT,
    Answer,
    RunCall,
    Server,
    engine_server,
    generate,
    load,
    make_tiny_model,
    submit,
)
from safetensors.numpy import load_file

from services.engine.adapter_manifest import AdapterManifest
from services.engine.adapter_store import AdapterStore
from services.engine.config import AdaptersConfig, EngineConfig
from services.engine.engine import Engine, LoadedModel
from services.engine.kernels.native.build import supported_levels
from stagemesh.api.common.v1.common_pb2 import ModelIdentity
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import StagemeshError, from_rpc

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

NAMES = ("", "red", "green", "blue")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"), num_heads=2)


@pytest.fixture(scope="module")
def model(files: ModelFiles) -> LoadedModel:
    return load(files, backend="native", modes=("precise", "turbo"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, files: ModelFiles) -> Path:
    """red, green and blue, and a second generation of red."""
    root = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(("red", "green", "blue", "red-2")):
        targets = [("q_proj", "v_proj"), ("up_proj", "down_proj"), ("k_proj", "o_proj", "gate_proj"), ("q_proj",)][seed]
        write_random_adapter(root / name, files, seed=seed, rank=(4, 17, 64, 8)[seed], targets=targets)
    return root


@pytest_asyncio.fixture
async def server(model: LoadedModel, folder: Path) -> AsyncIterator[Server]:
    async with engine_server(model, adapters={"folders": [str(folder)], "keep_replaced_s": 0.0}) as running:
        yield running


async def load_adapter(server: Server, name: str, path: str = "", generation: int = 0) -> engine_pb2.Adapter:
    request = engine_pb2.LoadAdapterRequest(name=name, path=path or name, generation=generation)
    return (await server.stub.LoadAdapter(request, timeout=30)).adapter


async def load_all(server: Server) -> None:
    for name in NAMES[1:]:
        await load_adapter(server, name)


async def unload(server: Server, name: str, timeout_s: float = 30.0) -> int:
    request = engine_pb2.UnloadAdapterRequest(name=name)
    return (await server.stub.UnloadAdapter(request, timeout=timeout_s)).remaining


async def listed(server: Server) -> dict[str, engine_pb2.Adapter]:
    response = await server.stub.ListAdapters(engine_pb2.ListAdaptersRequest(), timeout=30)
    return {f"{adapter.name}@{adapter.generation}": adapter for adapter in response.adapters}


def with_adapter(name: str, sequence_id: str, **fields: object) -> engine_pb2.Submit:
    return submit(sequence_id, model=ModelIdentity(adapter=name), logprobs=1, **fields)  # type: ignore[arg-type]


async def refusal(call: object) -> StagemeshError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return from_rpc(caught.value)


def same(one: Answer, other: Answer) -> bool:
    return one.tokens == other.tokens and one.logprobs == other.logprobs


async def test_a_batch_of_mixed_adapters_equals_single_runs_bit_by_bit(server: Server) -> None:
    await load_all(server)
    alone = {name: await generate(server, with_adapter(name, f"alone-{name}", max_tokens=30)) for name in NAMES}
    assert len({tuple(answer.tokens) for answer in alone.values()}) == len(NAMES), "each changes what the model says"
    call = RunCall(server)
    for number in range(12):
        await call.submit(with_adapter(NAMES[number % 4], f"mixed-{number}", max_tokens=30))
    await call.read_until_finished()
    for number in range(12):
        assert same(call.answers[f"mixed-{number}"], alone[NAMES[number % 4]])


async def test_drafts_with_adapters_change_nothing(model: LoadedModel, folder: Path) -> None:
    prompt = list(b"one two three four one two three four one two")
    answers = []
    for speculation in ({"method": "off", "progressive": False}, {"method": "prompt_lookup", "progressive": True}):
        adapters = {"load": {name: str(folder / name) for name in NAMES[1:]}}
        async with engine_server(model, adapters=adapters, speculation=speculation) as server:
            call = RunCall(server)
            for name in NAMES:
                await call.submit(with_adapter(name, f"s-{name}", token_ids=prompt, max_tokens=60))
            await call.read_until_finished()
            answers.append(call.answers)
            finishes = [answer.finish for answer in call.answers.values()]
            assert (sum(finish.usage.draft_tokens for finish in finishes if finish) > 0) == speculation["progressive"]
    for name in NAMES:
        assert same(answers[0][f"s-{name}"], answers[1][f"s-{name}"])


def merged(files: ModelFiles, folder: Path) -> transformers.PreTrainedModel:
    """The reference: the adapter's product added to the weights."""
    reference = transformers.AutoModelForCausalLM.from_pretrained(files.path, dtype=torch.float32)
    tensors, config = (
        load_file(folder / "adapter_model.safetensors"),
        json.loads((folder / "adapter_config.json").read_text()),
    )
    parameters = dict(reference.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():  # the engine's precise weights are bfloat16
            parameter.copy_(parameter.bfloat16().float() if "norm" not in name else parameter)
        for name in [name for name in tensors if ".lora_A." in name]:
            a, b = (torch.from_numpy(tensors[name.replace("_A.", f"_{letter}.")]).float() for letter in "AB")
            target = name.removeprefix("base_model.model.").replace(".lora_A", "")
            parameters[target] += config["lora_alpha"] / config["r"] * b @ a
    return reference


@pytest.mark.parametrize("name", NAMES[1:])
async def test_scores_with_an_adapter_are_those_of_weights_with_it_merged(
    server: Server, files: ModelFiles, folder: Path, name: str
) -> None:
    await load_adapter(server, name)
    continuation = list(b" a long story")
    request = engine_pb2.ScoreRequest(
        token_ids=PROMPT,
        continuations=[engine_pb2.Continuation(token_ids=continuation)],
        model=ModelIdentity(adapter=name),
    )
    response = await server.stub.Score(request, timeout=30)
    with torch.no_grad():
        logits = merged(files, folder / name)(torch.tensor([[*PROMPT, *continuation]])).logits[0]
    expected = torch.log_softmax(logits, -1)[range(len(PROMPT) - 1, len(PROMPT) + len(continuation) - 1), continuation]
    np.testing.assert_allclose(response.scores[0].token_logprobs, expected, atol=0.1)  # KV in bfloat16
    assert response.model.adapter == name
    assert response.model.adapter_generation == 1
    assert len(response.model.adapter_revision) == 64


async def test_what_is_loaded_can_be_read_back(server: Server, folder: Path) -> None:
    await load_all(server)
    green = (await listed(server))["green@1"]
    assert (green.name, green.generation, green.rank, list(green.targets)) == ("green", 1, 17, ["up_proj", "down_proj"])
    assert green.bytes == 2 * 2 * 32 * (64 + 96) * 4, "2 layers, 2 operations, ranks in steps of 16"
    assert green.path == str(folder / "green")
    assert green.loaded_unix_us > 0
    load = await server.stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=30).read()
    assert [adapter.name for adapter in load.adapters] == ["red", "green", "blue"]
    assert [adapter.revision for adapter in load.adapters if adapter.name == "green"] == [green.revision]


async def test_running_sequences_end_on_the_generation_they_began_with(server: Server) -> None:
    await load_adapter(server, "red")
    old = await generate(server, with_adapter("red", "old", max_tokens=900))
    call = RunCall(server)
    await call.submit(with_adapter("red", "runs", max_tokens=900))
    await call.read_tokens("runs", 3)
    assert (await load_adapter(server, "red", "red-2")).generation == 2
    await call.submit(with_adapter("red", "begins", max_tokens=50))
    adapters = await listed(server)
    assert call.answers["runs"].finish is None
    assert adapters["red@1"].retiring
    assert adapters["red@1"].sequences == 1
    await call.read_until_finished()
    assert same(call.answers["runs"], old)
    assert same(call.answers["begins"], await generate(server, with_adapter("red", "new", max_tokens=50)))
    assert not same(call.answers["begins"], await generate(server, with_adapter("", "base", max_tokens=50)))
    await eventually_listed(server, lambda names: names == {"red@2"})


async def eventually_listed(server: Server, holds: Callable[[set[str]], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds(set(await listed(server))):
            await asyncio.sleep(0.01)


async def test_unloading_waits_for_those_that_run_and_refuses_others_at_once(server: Server) -> None:
    await load_all(server)
    expected = await generate(server, with_adapter("red", "alone", max_tokens=900))
    call = RunCall(server)
    await call.submit(with_adapter("red", "runs", max_tokens=900))
    await call.read_tokens("runs", 3)
    assert await unload(server, "red", timeout_s=0.12) == 1
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, with_adapter("red", "late"))
    assert from_rpc(caught.value).reason == "ADAPTER_NOT_LOADED"
    await call.read_until_finished()
    assert same(call.answers["runs"], expected)
    await eventually_listed(server, lambda names: names == {"green@1", "blue@1"})
    assert await unload(server, "green") == 0
    assert (await refusal(server.stub.UnloadAdapter(engine_pb2.UnloadAdapterRequest(name="green")))).reason == (
        "ADAPTER_NOT_LOADED"
    )


async def test_a_replaced_generation_serves_what_was_prepared_for_it_for_a_while(
    model: LoadedModel, folder: Path
) -> None:
    async with engine_server(model, adapters={"folders": [str(folder)], "keep_replaced_s": 0.5}) as server:
        await load_adapter(server, "red")
        old = await generate(server, with_adapter("red", "old"))
        await load_adapter(server, "red", "red-2", generation=7)
        first, seventh = (
            ModelIdentity(adapter="red", adapter_generation=1),
            ModelIdentity(adapter="red", adapter_generation=7),
        )
        assert same(await generate(server, submit("a", model=first, logprobs=1)), old)
        assert not same(await generate(server, submit("b", model=seventh, logprobs=1)), old)
        await eventually_listed(server, lambda names: names == {"red@7"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await generate(server, submit("c", model=first))
        assert from_rpc(caught.value).reason == "MODEL_MISMATCH"


async def test_the_same_files_again_change_nothing_and_generations_rise(server: Server) -> None:
    assert (await load_adapter(server, "red")).generation == 1
    assert (await load_adapter(server, "red")).generation == 1
    assert (await load_adapter(server, "red", "red-2", generation=5)).generation == 5
    assert (await load_adapter(server, "red", "red")).generation == 6
    error = await refusal(
        server.stub.LoadAdapter(engine_pb2.LoadAdapterRequest(name="red", path="red-2", generation=6))
    )
    assert error.reason == "ADAPTER_GENERATION_USED"


async def test_no_page_is_shared_between_adapters_or_generations(server: Server) -> None:
    await load_all(server)
    prompt = list(range(100))

    async def cached(name: str, sequence_id: str) -> int:
        answer = await generate(server, with_adapter(name, sequence_id, token_ids=prompt, salt=b"salt"))
        assert answer.finish is not None
        return answer.finish.usage.cached_tokens

    for name in NAMES:
        assert await cached(name, f"first-{name}") == 0
        assert await cached(name, f"again-{name}") >= 96
    await load_adapter(server, "red", "red-2")
    assert await cached("red", "new") == 0
    assert await cached("green", "kept") >= 96


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda root, files: "../tiny", "ADAPTER_PATH_FORBIDDEN"),
        (lambda root, files: "/etc", "ADAPTER_PATH_FORBIDDEN"),
        (lambda root, files: (root / "link").symlink_to("/etc") or "link", "ADAPTER_PATH_FORBIDDEN"),
        (lambda root, files: "nothing", "ADAPTER_NOT_FOUND"),
        (lambda root, files: "", "INVALID_ADAPTER_PATH"),
        (lambda root, files: "a\0b", "INVALID_ADAPTER_PATH"),
        (lambda root, files: changed(root, files, weights=None), "ADAPTER_NOT_FOUND"),
        (lambda root, files: changed(root, files, weights=b"PK\x03\x04 a pickle"), "ADAPTER_CORRUPT"),
        (lambda root, files: changed(root, files, weights=b"\xff" * 64), "ADAPTER_CORRUPT"),
        (lambda root, files: changed(root, files, config=b"[" * 100_000), "ADAPTER_CORRUPT"),
        (lambda root, files: changed(root, files, config=b" " * 300_000), "ADAPTER_TOO_LARGE"),
        (lambda root, files: changed(root, files, rank=65, targets=["q_proj"]), "ADAPTER_UNSUPPORTED"),
        (lambda root, files: changed(root, files, use_dora=True), "ADAPTER_UNSUPPORTED"),
        (lambda root, files: changed(root, files, alpha_pattern={"(a+)+$": 1}), "ADAPTER_UNSUPPORTED"),
        (lambda root, files: changed(root, files, stagemesh_base_revision="other"), "ADAPTER_UNSUPPORTED"),
        (lambda root, files: changed(root, files, rank=64, targets=["gate_proj", "up_proj"]), "ADAPTER_TOO_LARGE"),
    ],
)
async def test_what_cannot_be_loaded_is_refused_and_nothing_changes(
    model: LoadedModel, files: ModelFiles, tmp_path: Path, make: Callable[[Path, ModelFiles], str], reason: str
) -> None:
    adapters = {"folders": [str(tmp_path)], "max_file_mb": 0.05}
    async with engine_server(model, adapters=adapters) as server:
        path = make(tmp_path, files)
        error = await refusal(server.stub.LoadAdapter(engine_pb2.LoadAdapterRequest(name="x", path=path), timeout=30))
        assert error.reason == reason
        assert not await listed(server)


def changed(
    root: Path,
    files: ModelFiles,
    *,
    weights: bytes | None = b"",
    config: bytes = b"",
    rank: int = 4,
    **settings: object,
) -> str:
    folder = write_random_adapter(root / "a", files, seed=1, rank=rank, **settings)  # type: ignore[arg-type]
    file = folder / "adapter_model.safetensors"
    if weights is None:
        file.rename(file.with_suffix(".bin"))
    elif weights:
        file.write_bytes(weights)
    if config:
        (folder / "adapter_config.json").write_bytes(config)
    return "a"


async def test_an_adapter_of_a_model_with_other_sizes_is_refused(
    server: Server, folder: Path, default_model_files: ModelFiles
) -> None:
    write_random_adapter(folder / "other", default_model_files, seed=1, rank=1)
    error = await refusal(server.stub.LoadAdapter(engine_pb2.LoadAdapterRequest(name="x", path="other"), timeout=30))
    assert error.reason == "ADAPTER_CORRUPT"
    assert "do not fit" in error.message


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "../a", "-a", "a" * 64, "ü"])
async def test_a_malformed_name_is_refused(server: Server, name: str) -> None:
    error = await refusal(server.stub.LoadAdapter(engine_pb2.LoadAdapterRequest(name=name, path="red"), timeout=30))
    assert error.reason == "INVALID_ADAPTER_NAME"


async def test_adapters_are_bounded_in_number_and_memory(model: LoadedModel, folder: Path) -> None:
    async with engine_server(model, adapters={"folders": [str(folder)], "max_adapters": 1}) as server:
        await load_adapter(server, "green")
        request = engine_pb2.LoadAdapterRequest(name="red", path="red")
        assert (await refusal(server.stub.LoadAdapter(request))).reason == "TOO_MANY_ADAPTERS"
    async with engine_server(model, adapters={"folders": [str(folder)], "max_mb": 0.1}) as server:
        await load_adapter(server, "green")
        assert (await refusal(server.stub.LoadAdapter(request))).reason == "ADAPTER_MEMORY_FULL"
        await unload(server, "green")
        await load_adapter(server, "red")


async def test_where_no_folder_is_configured_nothing_is_loaded(model: LoadedModel, folder: Path) -> None:
    async with engine_server(model) as server:
        request = engine_pb2.LoadAdapterRequest(name="red", path=str(folder / "red"))
        assert (await refusal(server.stub.LoadAdapter(request))).reason == "ADAPTER_PATH_FORBIDDEN"


async def test_torch_computes_without_adapters(files: ModelFiles, folder: Path) -> None:
    async with engine_server(load(files, backend="torch"), adapters={"folders": [str(folder)]}) as server:
        request = engine_pb2.LoadAdapterRequest(name="red", path="red")
        assert (await refusal(server.stub.LoadAdapter(request))).reason == "ADAPTERS_UNSUPPORTED"


class NoSlots:
    """Takes adapters and computes nothing."""

    def set_adapter(self, adapter: int, parts: object) -> None:
        pass


async def test_a_restarted_engine_holds_what_was_loaded_before(
    model: LoadedModel, folder: Path, tmp_path: Path
) -> None:
    config = AdaptersConfig(folders=(str(folder),), load={"green": str(folder / "green")}, keep_replaced_s=0)

    def started() -> AdapterStore:
        manifest = AdapterManifest(tmp_path / "state" / "1.json")
        store = AdapterStore(NoSlots(), model.config, model.identity, config, manifest)
        store.load_first()
        return store

    def held(store: AdapterStore) -> list[tuple[str, int, str]]:
        return sorted((a.name, a.generation, Path(a.path).name) for a in store.can_be_asked_for())

    store = started()
    assert held(store) == [("green", 1, "green")]
    await store.load("red", "red", 0)
    await store.load("red", "red-2", 0)
    await store.load("green", "blue", 0)
    await store.load("blue", "blue", 0)
    store.retire("blue")
    assert held(started()) == [("green", 2, "blue"), ("red", 2, "red-2")]
    (tmp_path / "state" / "1.json").write_text('[{"name": "red", "path": "/etc", "generation": 1, "revision": ""}]')
    assert held(started()) == [("green", 1, "green")], "what cannot be loaded again is left out"
    (tmp_path / "state" / "1.json").write_text("[[")
    assert held(started()) == [("green", 1, "green")]


def test_a_configured_adapter_that_cannot_be_loaded_stops_the_start(model: LoadedModel, folder: Path) -> None:
    config = EngineConfig(threads=1, adapters={"load": {"red": str(folder / "nothing")}})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"engine\.adapters\.load\.red"):
        Engine(model, config)
