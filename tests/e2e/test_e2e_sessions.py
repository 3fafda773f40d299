"""A conversation that goes on after the whole mesh was stopped and started."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from mesh_support import Mesh, wait_until

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.models.store import ModelFiles

MODEL = "smollm2-135m-instruct"


@pytest.fixture
def own_mesh(tmp_path: Path, default_model_files: ModelFiles) -> Iterator[Mesh]:
    running = Mesh(tmp_path)
    running.up()
    yield running
    running.down()


def say(mesh: Mesh, text: str) -> dict[str, int]:
    answer = mesh.openai().chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        max_tokens=16,
        temperature=0,
        extra_body={"session_id": "s-1"},
        user="u-1",
    )
    assert answer.usage is not None
    extra = answer.model_extra or {}
    assert extra["stagemesh"]["outcome"] == "complete"
    details = answer.usage.prompt_tokens_details
    return {
        "prompt": answer.usage.prompt_tokens,
        "session": extra["stagemesh"]["session_tokens"],
        "cached": (details.cached_tokens if details else 0) or 0,
    }


def tokens_that_reached_the_engine(mesh: Mesh) -> str:
    token = (("x-mesh-token", mesh.secret()),)
    addresses = {name: process["address"] for name, process in mesh.status().items()}
    with grpc.insecure_channel(addresses["engine-1"]) as channel:
        engine = engine_pb2_grpc.EngineServiceStub(channel)
        model = engine.Describe(engine_pb2.DescribeRequest(), metadata=token, timeout=5).model
    with grpc.insecure_channel(addresses["cache"]) as channel:
        asked = cache_pb2.OpenSessionRequest(tenant_id="dev", session_id="s-1", user_id="u-1", model=model)
        cache = cache_pb2_grpc.CacheServiceStub(channel)
        wait_until(lambda: len(cache.OpenSession(asked, metadata=token, timeout=5).session.messages) == 8, 10, "commit")
        session = cache.OpenSession(asked, metadata=token, timeout=5).session
    with grpc.insecure_channel(addresses["tokenizer"]) as channel:
        decode = tokenizer_pb2.DecodeRequest(
            model=MODEL, sequences=[tokenizer_pb2.TokenIds(ids=session.token_ids)], keep_special_tokens=True
        )
        return tokenizer_pb2_grpc.TokenizerServiceStub(channel).Decode(decode, metadata=token, timeout=5).texts[0]


def test_a_session_continues_after_a_restart_of_the_whole_mesh(own_mesh: Mesh) -> None:
    first = say(own_mesh, "My name is Wilhelmina. Please remember it.")
    assert first["session"] == 0
    second = say(own_mesh, "I live in Lisbon.")
    third = say(own_mesh, "I like green tea.")
    assert third["session"] > second["session"] > 0
    assert third["cached"] > 0  # the engine still had the pages
    own_mesh.down()
    own_mesh.up()
    fourth = say(own_mesh, "What is my name?")
    assert fourth["session"] > third["session"]
    assert fourth["prompt"] > third["prompt"]
    prompt = tokens_that_reached_the_engine(own_mesh)
    assert "My name is Wilhelmina." in prompt
    assert prompt.index("Wilhelmina") < prompt.index("Lisbon") < prompt.index("green tea") < prompt.index("What is my")
