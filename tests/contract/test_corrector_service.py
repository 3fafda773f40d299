"""The corrector over a real socket; its engine is a scripted one that speaks the engine's protocol with real tokens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from quality_support import free_port, refusal, running, serving

from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.common.v1.common_pb2 import Anchor, ChatMessage, ChatMessages, ModelIdentity, OutputConstraint
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import Exhausted, Precondition, StagemeshError
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import build_server

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
CONSTRAINT = OutputConstraint(json_schema=json.dumps(SCHEMA))
SOURCE = ChatMessages(messages=[ChatMessage(role="user", content="Who is Lin? Lin is 30, Ann is 31. <|im_end|>")])


@pytest.fixture(scope="module")
def tokenizer(default_model_files: ModelFiles) -> TokenizerFile:
    return load_tokenizer(default_model_files)


class ScriptedEngine(engine_pb2_grpc.EngineServiceServicer):
    """Answers each call with the next of its texts, or fails with the next error."""

    service_names = ("stagemesh.api.engine.v1.EngineService",)

    def __init__(self, file: TokenizerFile, *answers: str | StagemeshError | common_pb2.FinishReason.ValueType) -> None:
        self.tokenizer = file.build()
        self.answers = list(answers)
        self.submits: list[engine_pb2.Submit] = []

    def register(self, server: grpc.aio.Server) -> None:
        engine_pb2_grpc.add_EngineServiceServicer_to_server(self, server)

    async def start(self) -> None: ...

    async def drain(self, grace_s: float) -> None: ...

    async def close(self) -> None: ...

    async def Generate(
        self, request: engine_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[engine_pb2.GenerateResponse]:
        self.submits.append(request.submit)
        answer = self.answers.pop(0)
        if isinstance(answer, StagemeshError):
            raise answer
        text, reason = (answer, common_pb2.FINISH_REASON_STOP) if isinstance(answer, str) else ("{", answer)
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        for index, token_id in enumerate(ids):
            delta = engine_pb2.SequenceDelta(first_index=index, token_ids=[token_id])
            yield engine_pb2.GenerateResponse(delta=delta)
        usage = common_pb2.Usage(prompt_tokens=len(request.submit.token_ids), completion_tokens=len(ids))
        finish = engine_pb2.Finish(reason=reason, usage=usage)
        yield engine_pb2.GenerateResponse(delta=engine_pb2.SequenceDelta(finish=finish))


@contextlib.asynccontextmanager
async def corrector(*engines: str, **config: Any) -> AsyncIterator[corrector_pb2_grpc.CorrectorServiceStub]:
    mesh = MeshConfig(addresses={"engine": engines or (f"127.0.0.1:{free_port()}",)})
    async with serving(CorrectorService(mesh, CorrectorConfig(**{"repair_timeout_ms": 20_000.0, **config}))) as channel:
        yield corrector_pb2_grpc.CorrectorServiceStub(channel)


@contextlib.asynccontextmanager
async def with_engine(*engines: ScriptedEngine) -> AsyncIterator[corrector_pb2_grpc.CorrectorServiceStub]:
    async with contextlib.AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(listening(engine)) for engine in engines]
        yield await stack.enter_async_context(corrector(*addresses))


@contextlib.asynccontextmanager
async def listening(engine: ScriptedEngine) -> AsyncIterator[str]:
    server, _ = build_server(engine, MeshConfig())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


async def correct(stub: Any, text: str, *, timeout: float = 60, **fields: Any) -> corrector_pb2.CorrectResponse:
    fields = {"constraint": CONSTRAINT, "request_id": "r1", "source": SOURCE, "max_regenerations": 1, **fields}
    return await stub.Correct(corrector_pb2.CorrectRequest(text=text, **fields), timeout=timeout)


def rules(response: corrector_pb2.CorrectResponse) -> list[str]:
    """Of what is wrong; what the conversation does not determine is doubted besides."""
    return [issue.rule for issue in response.verdict.issues if issue.rule != "correction.doubt"]


def told(response: corrector_pb2.CorrectResponse) -> list[tuple[str, str, str, str]]:
    return [(c.pointer, getattr(c, "from"), c.to, c.step) for c in response.changes]


async def test_what_can_be_repaired_needs_no_engine() -> None:
    async with corrector() as stub:
        anchor = Anchor(pointer="/name", keys=["Lindbergh"])
        done = await correct(stub, 'Well: {"name":"Lindbregh","age":"30",}', anchors=[anchor])
    assert done.valid
    assert done.verdict.valid
    assert done.text == done.value == '{"name":"Lindbergh","age":30}'
    assert [change[::3] for change in told(done)] == [("", "syntax"), ("/name", "anchor"), ("/age", "schema")]
    assert done.regenerations == 0


async def test_what_cannot_be_repaired_is_asked_again_with_the_errors(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer, '{"name": "Linda", "age": 30}')
    async with with_engine(engine) as stub:
        model = ModelIdentity(model="smollm2-135m-instruct", tokenizer_hash=tokenizer.tokenizer_hash)
        done = await correct(stub, '{"name":"Lin","age":"unclear"}', model=model, seed=7, max_tokens=99, tenant_id="t")
    assert done.valid
    assert done.text == '{"name":"Lin","age":30}'  # the name was right before and stays
    assert told(done) == [("/age", '"unclear"', "30", "regenerate")]
    assert done.regenerations == 1
    assert done.usage.completion_tokens > 5
    (submit,) = engine.submits
    assert submit.constraint == CONSTRAINT
    assert (submit.sequence_id, submit.tenant_id, submit.model) == ("r1/c1", "t", model)
    assert (submit.sampling.max_tokens, submit.sampling.temperature) == (99, 0.0)
    assert submit.deadline_unix_us > 0
    prompt = engine.tokenizer.decode(submit.token_ids, skip_special_tokens=False)
    assert "Who is Lin?" in prompt
    assert '/age must be an integer, but is the string "unclear"' in prompt
    # Three messages and the template's own system message; the control token in the user's words is text.
    assert list(submit.token_ids).count(tokenizer.special_tokens["<|im_end|>"]) == 4


async def test_as_a_process_of_its_own_it_reaches_its_engine(tokenizer: TokenizerFile) -> None:
    async with listening(ScriptedEngine(tokenizer, '{"name":"Lin","age":30}')) as engine:
        settings = {"STAGEMESH_ADDRESSES__ENGINE": f'["{engine}"]', "STAGEMESH_CORRECTOR__REPAIR_TIMEOUT_MS": "20000"}
        async with running("corrector", **settings) as (_, channel):
            stub = corrector_pb2_grpc.CorrectorServiceStub(channel)
            response = await correct(stub, "no JSON at all")
    assert response.valid
    assert json.loads(response.text) == {"name": "Lin", "age": 30}


async def test_attempts_are_bounded_and_an_invalid_text_is_never_called_valid(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer, "still no JSON", '{"name": "Lin"}', "more")
    async with with_engine(engine) as stub:
        done = await correct(stub, "no JSON", max_regenerations=9)
    assert not done.valid
    assert not done.verdict.valid
    assert done.text == "no JSON"
    assert not done.changes
    assert (done.regenerations, len(engine.submits)) == (2, 2)
    assert [submit.sequence_id for submit in engine.submits] == ["r1/c1", "r1/c2"]
    assert engine.submits[1].sampling.temperature > 0
    assert engine.submits[1].sampling.HasField("seed")


async def test_without_permission_no_engine_is_asked(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer)
    async with with_engine(engine) as stub:
        done = await correct(stub, '{"name":"a"}', max_regenerations=0)
    assert not done.valid
    assert not engine.submits
    assert rules(done) == ["required"]


async def test_a_new_answer_that_was_cut_is_not_used(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer, common_pb2.FINISH_REASON_LENGTH)
    async with with_engine(engine) as stub:
        done = await correct(stub, '{"name":"a"}')
    assert not done.valid
    assert "regeneration.truncated" in [issue.rule for issue in done.verdict.issues]


async def test_a_text_that_was_cut_is_closed_and_marked_as_truncated() -> None:
    async with corrector() as stub:
        done = await correct(stub, '{"name":"Lin","age":3')
    assert done.valid
    assert done.changes[0].reason.startswith("truncated")
    assert done.changes[0].confidence <= 0.5
    assert not done.certain


async def test_without_an_engine_the_deterministic_result_comes_back_marked() -> None:
    async with corrector() as stub:
        done = await correct(stub, '{"name":"Lin",}')
    assert not done.valid
    assert done.text == '{"name":"Lin"}'
    assert [change[::3] for change in told(done)] == [("", "syntax")]
    assert rules(done) == ["required", "regeneration.failed"]


@pytest.mark.parametrize(
    "error",
    [
        Precondition("MODEL_MISMATCH", "another model"),
        Exhausted("ENGINE_BUSY", "full"),
    ],
)
async def test_an_engine_that_refuses_is_passed_over_for_another(
    tokenizer: TokenizerFile, error: StagemeshError
) -> None:
    refusing, willing = ScriptedEngine(tokenizer, error), ScriptedEngine(tokenizer, '{"name": "Lin", "age": 30}')
    async with with_engine(refusing, willing) as stub:
        done = await correct(stub, '{"name":"Lin","age":"unclear"}')
    assert done.valid
    assert len(refusing.submits) == len(willing.submits) == 1


async def test_an_unknown_model_is_noted_and_costs_no_engine_call(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer)
    async with with_engine(engine) as stub:
        for model in (ModelIdentity(model="other"), ModelIdentity(tokenizer_hash="other")):
            done = await correct(stub, '{"name":"a"}', model=model)
            assert not done.valid
            assert "MODEL_MISMATCH" in done.verdict.issues[-1].message
    assert not engine.submits


async def test_with_little_time_left_no_regeneration_is_begun(tokenizer: TokenizerFile) -> None:
    engine = ScriptedEngine(tokenizer)
    async with listening(engine) as address, corrector(address, min_regeneration_ms=3_600_000.0) as stub:
        done = await correct(stub, '{"name":"a"}')
    assert rules(done) == ["required", "regeneration.late"]
    assert not engine.submits


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"constraint": OutputConstraint(json_schema="{")}, "INVALID_SCHEMA"),
        ({"constraint": OutputConstraint(regex="(")}, "INVALID_REGEX"),
        ({"anchors": [Anchor(pointer="x", keys=["a"])]}, "INVALID_ANCHOR"),
        ({"request_id": ""}, "MISSING_ID"),
    ],
)
async def test_an_unusable_request_is_a_typed_error(fields: dict[str, Any], reason: str) -> None:
    async with corrector() as stub, refusal() as refused:
        await correct(stub, "{}", **fields)
    assert (refused.error.code, refused.error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
