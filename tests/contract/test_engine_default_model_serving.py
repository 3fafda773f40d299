"""The default model behind the engine's protocol."""

from __future__ import annotations

import json

import jsonschema_rs
import numpy as np
import pytest
from engine_server_support import RunCall, engine_server, eventually, generate, load, submit
from tokenizers import Tokenizer

from services.engine.engine import LoadedModel
from services.engine.kernels.native.build import supported_levels
from stagemesh.api.common.v1.common_pb2 import OutputConstraint
from stagemesh.models.store import ModelFiles

TEMPLATE = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
FIELDS = {
    "name": {"type": "string", "maxLength": 20},
    "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "height": {"type": "number"},
    "member": {"type": "boolean"},
    "level": {"enum": ["low", "middle", "high"]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    "born": {"type": "string", "format": "date"},
    "mail": {"type": "string", "pattern": r"^[a-z]{1,8}@[a-z]{1,8}\.com$"},
    "city": {"type": "string", "minLength": 2, "maxLength": 12},
    "note": {"type": ["string", "null"], "maxLength": 12},
}
TIE = 1e-4


@pytest.fixture(scope="module", params=["torch", "native"])
def model(request: pytest.FixtureRequest, default_model_files: ModelFiles) -> LoadedModel:
    if request.param == "native" and not supported_levels():
        pytest.skip("the native kernels need AVX2")
    return load(default_model_files, backend=request.param)


@pytest.fixture(scope="module")
def tokenizer(model: LoadedModel) -> Tokenizer:
    return model.tokenizer.build()


def encode(tokenizer: Tokenizer, question: str) -> list[int]:
    ids: list[int] = tokenizer.encode(TEMPLATE.format(question)).ids
    return ids


def five_fields(number: int) -> dict[str, object]:
    names = [list(FIELDS)[(number + step) % len(FIELDS)] for step in range(5)]
    return {
        "type": "object",
        "properties": {name: FIELDS[name] for name in names},
        "required": names,
        "additionalProperties": False,
    }


async def test_ten_schemas_of_five_typed_fields_give_valid_json_every_time(
    model: LoadedModel, tokenizer: Tokenizer
) -> None:
    async with engine_server(model, max_running=10) as server:
        call = RunCall(server)
        for number in range(10):
            constraint = OutputConstraint(json_schema=json.dumps(five_fields(number)))
            prompt = encode(tokenizer, "Describe a person as JSON.")
            await call.submit(submit(f"s{number}", prompt, constraint=constraint, max_tokens=200, ignore_eos=False))
        await call.read_until_finished()
    for number in range(10):
        answer = call.answers[f"s{number}"]
        assert answer.reason == "STOP"
        jsonschema_rs.validate(five_fields(number), json.loads(tokenizer.decode(answer.tokens)))


async def test_a_constrained_answer_goes_on_the_same_after_a_cut(model: LoadedModel, tokenizer: Tokenizer) -> None:
    constraint = OutputConstraint(json_schema=json.dumps(five_fields(0)))
    prompt = encode(tokenizer, "Describe a person as JSON.")
    sampling = {"temperature": 0.9, "seed": 3, "max_tokens": 120, "constraint": constraint, "ignore_eos": False}
    async with engine_server(model, reattach_grace_s=0) as server:
        whole = await generate(server, submit("a", prompt, **sampling))
        cut = len(whole.tokens) // 2
        rest = await generate(server, submit("a", prompt, delivered=whole.tokens[:cut], **sampling))
        assert whole.tokens[:cut] + rest.tokens == whole.tokens
        assert rest.reason == whole.reason == "STOP"


async def test_an_unbounded_string_that_runs_on_is_truncation_and_nothing_else(
    model: LoadedModel, tokenizer: Tokenizer
) -> None:
    constraint = OutputConstraint(regex=r"[a-z ]{1000}")
    async with engine_server(model) as server:
        answer = await generate(server, submit("a", encode(tokenizer, "Go on."), constraint=constraint, max_tokens=8))
    assert answer.reason == "LENGTH"


async def test_32_streams_with_half_cancelled_leak_nothing_and_equal_single_runs(
    model: LoadedModel, tokenizer: Tokenizer
) -> None:
    prompts = [encode(tokenizer, f"Tell me {number} things about the number {number}.") for number in range(32)]
    async with engine_server(model, max_running=32) as server:
        call = RunCall(server)
        for number, prompt in enumerate(prompts):
            await call.submit(submit(f"s{number}", prompt, max_tokens=8, salt=b"s", logprobs=2))
        await call.read_tokens("s0", 3)
        for number in range(1, 32, 2):
            await call.cancel(f"s{number}")
        await call.read_until_finished()
        assert server.engine.registry.num_live == 0
        server.engine.core.check_integrity()
        await eventually(lambda: server.engine.core.load().used_pages == 0)  # some are still copied to host memory
        for number in range(32):
            answer = call.answers[f"s{number}"]
            assert answer.reason == ("LENGTH" if number % 2 == 0 else answer.reason)
            assert answer.reason in {"LENGTH", "ABORT"}
        for number in range(0, 32, 4):
            together = call.answers[f"s{number}"]
            alone = await generate(server, submit(f"alone{number}", prompts[number], max_tokens=8, logprobs=2))
            if alone.tokens != together.tokens:
                cut = int(np.argmax(np.asarray(alone.tokens) != np.asarray(together.tokens)))
                best, second = alone.logprobs[cut].top
                assert best.logprob - second.logprob < TIE
