import math
from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway.config import GatewayConfig
from services.gateway.generation import build_submit
from services.gateway.job import make_job
from services.gateway.prepare import _with_room
from services.gateway.work import Output
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import InvalidRequest, StagemeshError
from stagemesh.runtime.mesh_config import DEFAULT_MODEL, MeshConfig

MESH = MeshConfig(aliases={"small": DEFAULT_MODEL})
CONFIG = GatewayConfig(max_request_bytes=10_000)


def request(**fields: Any) -> gateway_pb2.InferenceRequest:
    if "prompt" not in fields and "chat" not in fields:
        fields["chat"] = common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content="hi")])
    return gateway_pb2.InferenceRequest(**fields)


def refusal(asked: gateway_pb2.InferenceRequest) -> tuple[str, str]:
    with pytest.raises(StagemeshError) as caught:
        make_job("t", asked, MESH, CONFIG)
    return caught.value.reason, caught.value.field


def test_what_is_left_open_is_filled_in() -> None:
    job = make_job("t", request(), MESH, CONFIG)
    assert job.model == DEFAULT_MODEL
    assert job.request.sampling.HasField("seed")
    assert len(job.request_id) == 36
    assert not job.explicit_id


def test_the_models_sampling_defaults_fill_what_the_caller_left_open() -> None:
    job = make_job("t", request(sampling=common_pb2.SamplingParams(temperature=1)), MESH, CONFIG)
    assert job.request.sampling.temperature == 1
    assert job.request.sampling.repetition_penalty == pytest.approx(1.1)


def test_an_alias_reaches_its_model() -> None:
    assert make_job("t", request(model="small"), MESH, CONFIG).model == DEFAULT_MODEL


def test_the_same_payload_has_the_same_hash_and_another_has_another() -> None:
    first, same, other = (make_job("t", request(prompt=text), MESH, CONFIG) for text in ("a", "a", "b"))
    assert first.payload_hash == same.payload_hash != other.payload_hash


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -3.0, 11.0])
def test_a_sampling_value_out_of_range_names_its_field(name: str, value: float) -> None:
    asked = request(sampling=common_pb2.SamplingParams(**{name: value}))
    assert refusal(asked) == ("INVALID_SAMPLING", f"sampling.{name}")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "nowhere"}, ("MODEL_NOT_FOUND", "model")),
        ({"route": "nowhere"}, ("UNKNOWN_ROUTE", "route")),
        ({"request_id": "7"}, ("INVALID_REQUEST_ID", "request_id")),
        ({"session_id": "a\nb"}, ("INVALID_IDENTIFIER", "session_id")),
        ({"user_id": "x" * 257}, ("INVALID_IDENTIFIER", "user_id")),
        ({"prompt": ""}, ("EMPTY_INPUT", "prompt")),
        ({"prompt": "x", "session_id": "s"}, ("SESSION_NEEDS_CHAT", "session_id")),
        ({"chat": common_pb2.ChatMessages()}, ("EMPTY_INPUT", "chat.messages")),
        ({"prompt": "x" * 10_001}, ("REQUEST_TOO_LARGE", "")),
        ({"sampling": common_pb2.SamplingParams(n=99)}, ("INVALID_SAMPLING", "sampling.n")),
        ({"sampling": common_pb2.SamplingParams(stop=[""])}, ("INVALID_SAMPLING", "sampling.stop")),
        ({"sampling": common_pb2.SamplingParams(max_tokens=0)}, ("INVALID_SAMPLING", "sampling.max_tokens")),
        ({"anchors": [common_pb2.Anchor(pointer="/a")]}, ("EMPTY_ANCHOR", "anchors[0].keys")),
        ({"text_rules": [common_pb2.TextRules(dates=True)] * 65}, ("TOO_MANY_RULES", "rules")),
    ],
)
def test_a_bad_request_is_refused_with_its_field(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    assert refusal(request(**fields)) == expected


def test_an_unknown_role_is_refused_with_its_place() -> None:
    messages = [common_pb2.ChatMessage(role="user", content="a"), common_pb2.ChatMessage(role="wizard", content="b")]
    asked = request(chat=common_pb2.ChatMessages(messages=messages))
    assert refusal(asked) == ("INVALID_ROLE", "chat.messages[1].role")


def test_an_id_in_capitals_is_the_same_request() -> None:
    request_id = "0198c2b0-7b1a-7cc0-8d5e-aaaaaaaaaaaa"
    small, large = (make_job("t", request(request_id=name), MESH, CONFIG) for name in (request_id, request_id.upper()))
    assert small.request_id == large.request_id
    assert small.payload_hash == large.payload_hash


def test_a_prompt_that_max_tokens_leaves_no_room_for_is_told_so() -> None:
    told = _with_room(InvalidRequest("PROMPT_TOO_LONG", "33 tokens, but 22 are allowed", field="chat"), 8_170, 8_192)
    assert "max_tokens keeps 8,170 of the context's 8,192 tokens free" in told.message
    plain = InvalidRequest("PROMPT_TOO_LONG", "x")
    assert _with_room(plain, 0, 8_192) is plain


def test_without_a_lookup_an_engine_is_told_the_epoch_of_the_salt_and_neither_loads_nor_stores() -> None:
    job = make_job("t", request(), MESH, CONFIG)
    kv = common_pb2.KvLease(epoch=7, stored_tokens=16, ttl_s=9)
    for lease, expected in (
        (cache_pb2.Lease(salt=b"s", epoch=7, kv=kv), kv),
        (cache_pb2.Lease(salt=b"s", epoch=7), common_pb2.KvLease(epoch=7)),
        (cache_pb2.Lease(), common_pb2.KvLease()),
    ):
        prompt: Any = SimpleNamespace(
            token_ids=[1], model=common_pb2.ModelIdentity(), lease=lease, mode=0, context_length=100
        )
        assert build_submit(job, prompt, Output(index=0), Deadline.after(9)).kv == expected
