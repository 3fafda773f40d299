"""The corrector with the real engine and the default model: a wrong answer becomes a valid one."""

from __future__ import annotations

import json

import pytest
from quality_support import serving

from services.corrector.config import CorrectorConfig
from services.corrector.engine_client import EngineClient
from services.corrector.service import CorrectorService
from services.engine.config import EngineConfig
from services.engine.service import EngineService
from stagemesh.api.common.v1.common_pb2 import ChatMessage, ChatMessages, OutputConstraint
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import NotFound
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import bind, build_server

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "population": {"type": "integer", "minimum": 0}},
    "required": ["city", "population"],
    "additionalProperties": False,
}


async def test_a_wrong_answer_is_regenerated_under_its_schema(default_model_files: ModelFiles) -> None:
    mesh = MeshConfig()
    engine = EngineService(EngineConfig(threads=1), mesh)
    server, _ = build_server(engine, mesh)
    port = bind(server, "127.0.0.1:0", "nothing")
    await server.start()
    await engine.start()
    try:
        mesh = MeshConfig(addresses={"engine": (f"127.0.0.1:{port}",)})
        async with serving(CorrectorService(mesh, CorrectorConfig(repair_timeout_ms=20_000.0))) as channel:
            stub = corrector_pb2_grpc.CorrectorServiceStub(channel)
            request = corrector_pb2.CorrectRequest(
                request_id="r1",
                tenant_id="t",
                text='{"city":"Paris","population":"many"}',
                constraint=OutputConstraint(json_schema=json.dumps(SCHEMA)),
                source=ChatMessages(
                    messages=[ChatMessage(role="user", content="Give the city Paris and its population as JSON.")]
                ),
                max_regenerations=1,
                max_tokens=48,
            )
            done = await stub.Correct(request, timeout=90)
        assert done.valid
        value = json.loads(done.text)
        assert value["city"] == "Paris"
        assert type(value["population"]) is int
        assert [(change.pointer, change.step) for change in done.changes] == [("/population", "regenerate")]
        assert done.usage.completion_tokens > 0
        client = EngineClient([f"127.0.0.1:{port}"], 1 << 20)
        try:
            listed = [engine_pb2.Continuation(token_ids=tokens) for tokens in ([5, 6, 7], [5, 6], [8])]
            request = engine_pb2.ScoreRequest(tenant_id="t", token_ids=[1, 2, 3], continuations=listed)
            scores = (await client.score(request, Deadline.after(30))).scores
            assert scores[1].token_logprobs == scores[0].token_logprobs[:2]
            assert len(scores[2].token_logprobs) == 1
            request.model.adapter = "absent"
            with pytest.raises(NotFound):
                await client.score(request, Deadline.after(30))
        finally:
            await client.close()
    finally:
        await engine.drain(1.0)
        await server.stop(grace=None)
        await engine.close()
