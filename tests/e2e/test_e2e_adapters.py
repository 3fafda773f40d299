"""Adapters through the whole mesh: by model name, permitted by tenant, swapped while answers run on two engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from adapter_support import write_random_adapter
from mesh_support import AUTH, Mesh, ask, complete, wait_until

from services.engine.kernels.native.build import supported_levels
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="adapters need the native kernels")

MODEL = "smollm2-135m-instruct"
QUESTION = "Name three rivers."
NUM_STREAMS = 16


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    """A mesh with two engines; red and a second red lie in its adapter folder."""
    running = Mesh(tmp_path_factory.mktemp("adapters"), engines=2)
    for seed, name in enumerate(("red", "red-2")):
        folder = running.state / "adapters" / name
        write_random_adapter(folder, default_model_files, seed=seed, rank=4, strength=0.1)
    running.up()
    yield running
    running.down()


def adapter(mesh: Mesh, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(mesh.command("adapter", *arguments, "--json").stdout)
    return found


def model_ids(mesh: Mesh, api_key: str = "dev") -> set[str]:
    return {model.id for model in mesh.openai(api_key).models.list()}


async def final(mesh: Mesh, model: str, **sampling: Any) -> gateway_pb2.Final:
    async with mesh.channel() as channel:
        request = ask(QUESTION, model=model, sampling=sampling)
        return await complete(gateway_pb2_grpc.GatewayServiceStub(channel), request)  # type: ignore[no-untyped-call]


async def test_an_adapter_is_loaded_asked_for_and_read_back_everywhere(pair: Mesh) -> None:
    loaded = adapter(pair, "load", "red", "red")
    assert [(entry["engine"], entry["generation"], entry["rank"]) for entry in loaded] == [
        ("engine-1", 1, 4),
        ("engine-2", 1, 4),
    ]
    assert adapter(pair, "load", "red", "red") == adapter(pair, "list"), "the same files again change nothing"
    wait_until(lambda: f"{MODEL}:red" in model_ids(pair), 10, "the model list")
    base, red = await final(pair, MODEL), await final(pair, f"{MODEL}:red")
    assert base.choices[0].text != red.choices[0].text
    assert (red.model.adapter, red.model.adapter_generation) == ("red", 1)
    assert red.model.adapter_revision == loaded[0]["revision"]
    assert not base.model.adapter
    answer = pair.openai().chat.completions.create(
        model=f"{MODEL}:red",
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=24,
        temperature=0,
        extra_body={"repetition_penalty": 1},
    )
    assert answer.model == f"{MODEL}:red"
    assert answer.choices[0].message.content == red.choices[0].text


def test_a_tenant_sees_and_uses_only_adapters_permitted_to_it(pair: Mesh) -> None:
    adapter(pair, "load", "red", "red")
    key = pair.command("tenant", "create", "acme").stdout.strip()
    wait_until(lambda: f"{MODEL}:red" in model_ids(pair), 10, "the model list")

    def asks() -> openai.types.chat.ChatCompletion:
        return pair.openai(key).chat.completions.create(
            model=f"{MODEL}:red", messages=[{"role": "user", "content": QUESTION}], max_tokens=4
        )

    assert model_ids(pair, key) == {MODEL}
    with pytest.raises(openai.NotFoundError) as hidden:
        asks()
    with pytest.raises(openai.NotFoundError) as absent:
        pair.openai(key).chat.completions.create(model=f"{MODEL}:blue", messages=[{"role": "user", "content": "x"}])
    assert str(hidden.value).replace("red", "blue") == str(absent.value), "hidden looks like absent"
    permitted = json.loads(pair.command("tenant", "adapters", "acme", "--allow", "red", "--json").stdout)
    assert permitted == {"tenant_id": "acme", "adapters": ["red"]}
    wait_until(lambda: f"{MODEL}:red" in model_ids(pair, key), 15, "the permission")
    assert asks().choices[0].finish_reason == "length"


async def test_a_hot_swap_under_load_fails_no_request(pair: Mesh) -> None:
    adapter(pair, "load", "red", "red")
    wait_until(lambda: f"{MODEL}:red" in model_ids(pair), 10, "the model list")
    finals: list[gateway_pb2.Final] = []
    swapping = asyncio.Event()
    ended = asyncio.Event()

    async def stream(stub: gateway_pb2_grpc.GatewayServiceStub, number: int) -> None:
        """Ask again and again until everything has been loaded, swapped and unloaded."""
        model = (MODEL, f"{MODEL}:red")[number % 2]
        while not ended.is_set():
            request = ask(f"{QUESTION} {number}", model=model, sampling={"max_tokens": 12})
            events = stub.Generate(gateway_pb2.GenerateRequest(request=request), metadata=AUTH, timeout=90)
            async for response in events:
                if response.event.HasField("final"):
                    finals.append(response.event.final)
                    if len(finals) >= NUM_STREAMS:
                        swapping.set()

    async def swap() -> None:
        await swapping.wait()
        for arguments in (
            ("load", "green", "red-2"),
            ("load", "red", "red-2"),
            ("unload", "green"),
            ("load", "red", "red"),
        ):
            await asyncio.to_thread(adapter, pair, *arguments)
        ended.set()

    async with pair.channel() as channel, asyncio.TaskGroup() as group:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)  # type: ignore[no-untyped-call]
        for number in range(NUM_STREAMS):
            group.create_task(stream(stub, number))
        group.create_task(swap())
    bad = [found for found in finals if found.outcome != common_pb2.OUTCOME_COMPLETE]
    assert not bad, bad[:1]
    generations = {found.model.adapter_generation for found in finals if found.model.adapter}
    assert len(generations) >= 2, generations
    assert len(finals) >= 2 * NUM_STREAMS


def test_an_adapter_outside_of_the_folders_is_refused_by_the_command(pair: Mesh, tmp_path: Path) -> None:
    done = pair.command("adapter", "load", "evil", str(tmp_path), check=False)
    assert done.returncode == 4
    assert "ADAPTER_PATH_FORBIDDEN" in done.stderr
    assert pair.command("adapter", "unload", "evil", check=False).returncode == 4
    assert pair.command("adapter", "list", "--engine", "engine-9", check=False).returncode == 2
