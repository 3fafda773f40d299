"""Bodies and headers → orders; what is wrong is named."""

from __future__ import annotations

import uuid

import pytest
from starlette.datastructures import Headers

from services.gateway.http.caller import Caller, read_caller
from services.gateway.http.chat_request import read_chat
from services.gateway.http.completion_request import read_completion
from services.gateway.http.order import Order
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.errors import InvalidRequest

NOBODY = Caller(api_key=None, tenant_header=None, request_id="", session_id="", traceparent="", timeout_s=None)
MESSAGES = [{"role": "user", "content": "hi"}]
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def chat(**members: object) -> Order:
    return read_chat({"messages": MESSAGES, **members}, NOBODY)


def completion(**members: object) -> Order:
    return read_completion({"prompt": "hi", **members}, NOBODY)


def test_everything_that_a_chat_can_say_reaches_the_request() -> None:
    order = chat(
        model="m",
        n=2,
        stop=["a", "b"],
        seed=5,
        logprobs=True,
        top_logprobs=3,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.1,
        max_completion_tokens=7,
        temperature=1,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        min_tokens=2,
        ignore_eos=True,
        stop_token_ids=[1, 2],
        logit_bias={"17": -100, "18": 1.5},
        session_id="s",
        route="chat",
        allow_deferral=True,
        resumable=True,
        overflow="keep_recent",
        anchors={"/a": ["x"], "/b/*": {"keys": ["y"], "ignore_case": True}, "/c": {"set": "skus"}},
        rules=[{"sum": {"total": "/t", "of": ["/i/*"]}}],
        text_rules=[{"dates": True, "tables": {}}],
        regex="[a-z]+",
        user="u",
        stream=True,
        stream_options={"include_usage": True},
    )
    request, sampling = order.requests[0], order.requests[0].sampling
    assert (order.stream, order.include_usage, order.num_choices, order.may_be_corrected) == (True, True, 2, True)
    assert (request.model, request.session_id, request.user_id, request.route) == ("m", "s", "u", "chat")
    assert (request.allow_deferral, request.resumable) == (True, True)
    assert request.overflow == tokenizer_pb2.OVERFLOW_POLICY_KEEP_RECENT
    assert request.constraint.regex == "[a-z]+"
    assert [(it.pointer, list(it.keys), it.ignore_case, it.set) for it in request.anchors] == [
        ("/a", ["x"], False, ""),
        ("/b/*", ["y"], True, ""),
        ("/c", [], False, "skus"),
    ]
    assert (request.rules[0].sum.total, list(request.rules[0].sum.of)) == ("/t", ["/i/*"])
    assert request.text_rules[0].dates
    assert request.text_rules[0].HasField("tables")
    assert (sampling.max_tokens, sampling.min_tokens, sampling.seed, sampling.top_k) == (7, 2, 5, 40)
    assert (list(sampling.stop), list(sampling.stop_token_ids), sampling.logprobs) == (["a", "b"], [1, 2], 3)
    assert dict(sampling.logit_bias) == {17: -100.0, 18: 1.5}
    assert sampling.temperature == 1.0
    assert sampling.ignore_eos


def test_what_is_left_out_or_null_stays_unset() -> None:
    absent = chat().requests[0]
    null = chat(model=None, temperature=None, stop=None, response_format=None, logit_bias=None, n=None).requests[0]
    assert absent == null
    assert not absent.sampling.HasField("temperature")
    assert not absent.HasField("constraint")


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "harmless",
    [
        {"tools": []},
        {"tools": None, "tool_choice": "none"},
        {"tool_choice": "auto", "parallel_tool_calls": True},
        {"store": False, "metadata": {"a": "b"}, "service_tier": "auto"},
        {"modalities": ["text"], "audio": None, "functions": []},
        {"response_format": {"type": "text"}},
        {"something_new": None},
    ],
)
def test_a_parameter_that_asks_for_nothing_is_accepted(harmless: dict[str, object]) -> None:
    assert chat(**harmless).requests == chat().requests


@pytest.mark.parametrize(
    ("members", "param", "reason"),
    [
        ({"top_q": 1}, "top_q", "UNKNOWN_PARAMETER"),
        ({"tools": [{}]}, "tools", "UNSUPPORTED_PARAMETER"),
        ({"tool_choice": "required"}, "tool_choice", "UNSUPPORTED_PARAMETER"),
        ({"store": True}, "store", "UNSUPPORTED_PARAMETER"),
        ({"store": 0}, "store", "UNSUPPORTED_PARAMETER"),
        ({"service_tier": "flex"}, "service_tier", "UNSUPPORTED_PARAMETER"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "UNSUPPORTED_PARAMETER"),
        ({"temperature": "hot"}, "temperature", "INVALID_TYPE"),
        ({"temperature": True}, "temperature", "INVALID_TYPE"),
        ({"max_tokens": 1.5}, "max_tokens", "INVALID_TYPE"),
        ({"max_tokens": 0}, "max_tokens", "INVALID_VALUE"),
        ({"max_tokens": 2**40}, "max_tokens", "INVALID_VALUE"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens", "INVALID_VALUE"),
        ({"seed": -1}, "seed", "INVALID_VALUE"),
        ({"n": 0}, "n", "INVALID_VALUE"),
        ({"stop": 7}, "stop", "INVALID_TYPE"),
        ({"stop": ["a", 7]}, "stop", "INVALID_TYPE"),
        ({"stop_token_ids": [True]}, "stop_token_ids", "INVALID_TYPE"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x", "INVALID_VALUE"),
        ({"logit_bias": {"1": "x"}}, "logit_bias.1", "INVALID_TYPE"),
        ({"logit_bias": {"99999999999": 1}}, "logit_bias.99999999999", "INVALID_VALUE"),
        ({"top_logprobs": 2}, "top_logprobs", "INVALID_VALUE"),
        ({"logprobs": 2}, "logprobs", "INVALID_TYPE"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "INVALID_VALUE"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "UNKNOWN_PARAMETER"),
        ({"model": ""}, "model", "INVALID_VALUE"),
        ({"model": 1}, "model", "INVALID_TYPE"),
        ({"overflow": "drop"}, "overflow", "INVALID_VALUE"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "UNSUPPORTED_VALUE"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "MISSING_PARAMETER"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema.schema",
            "MISSING_PARAMETER",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": "x"}}},
            "response_format.json_schema.schema",
            "INVALID_TYPE",
        ),
        ({"response_format": {"type": "text", "schema": {}}}, "response_format.schema", "UNKNOWN_PARAMETER"),
        ({"response_format": SCHEMA_FORMAT, "regex": "a"}, "regex", "INVALID_VALUE"),
        ({"regex": "", "choice": ["a"]}, "regex", "INVALID_VALUE"),
        ({"response_format": SCHEMA_FORMAT, "guided_regex": "a"}, "guided_regex", "INVALID_VALUE"),
        ({"guided_choice": ["a"], "structured_outputs": {"regex": "a"}}, "structured_outputs.regex", "INVALID_VALUE"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs.regex", "INVALID_VALUE"),
        ({"structured_outputs": {}}, "structured_outputs", "MISSING_PARAMETER"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs.jsn", "UNKNOWN_PARAMETER"),
        (
            {"structured_outputs": {"structural_tag": "{}"}},
            "structured_outputs.structural_tag",
            "UNSUPPORTED_PARAMETER",
        ),
        ({"guided_json": 5}, "guided_json", "INVALID_TYPE"),
        ({"guided_json": ""}, "guided_json", "INVALID_VALUE"),
        ({"guided_json": nested(300)}, "guided_json", "INVALID_VALUE"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": nested(300)}}},
            "response_format.json_schema.schema",
            "INVALID_VALUE",
        ),
        ({"guided_choice": []}, "guided_choice", "INVALID_VALUE"),
        ({"guided_choice": "a"}, "guided_choice", "INVALID_TYPE"),
        ({"guided_json": {}, "guided_whitespace_pattern": " "}, "guided_whitespace_pattern", "UNSUPPORTED_PARAMETER"),
        ({"choice": []}, "choice", "INVALID_VALUE"),
        ({"anchors": {"a": ["x"]}}, "anchors.a", "INVALID_VALUE"),
        ({"anchors": {"/a": [1]}}, "anchors./a", "INVALID_TYPE"),
        ({"anchors": {"/a": {"keys": ["x"], "fuzzy": 1}}}, "anchors./a.fuzzy", "UNKNOWN_PARAMETER"),
        ({"anchors": {"/a": {"set": 1}}}, "anchors./a.set", "INVALID_TYPE"),
        ({"rules": {}}, "rules", "INVALID_TYPE"),
        ({"rules": ["sum"]}, "rules[0]", "INVALID_VALUE"),
        ({"rules": [{"sums": {}}]}, "rules[0].sums", "INVALID_VALUE"),
        ({"rules": [{"sum": 5}]}, "rules[0].sum", "INVALID_VALUE"),
        ({"anchors": {"/a": []}}, "anchors./a", "EMPTY_ANCHOR"),
        ({"anchors": {"/a": {"ignore_case": True}}}, "anchors./a", "EMPTY_ANCHOR"),
        ({"text_rules": [{"dates": True}, {"dates": "yes"}]}, "text_rules[1].dates", "INVALID_VALUE"),
        ({"text_rules": [{"dates": True}] * 65}, "text_rules", "INVALID_VALUE"),
        ({"messages": None}, "messages", "MISSING_PARAMETER"),
        ({"messages": []}, "messages", "INVALID_VALUE"),
        ({"messages": "hi"}, "messages", "INVALID_TYPE"),
        ({"messages": ["hi"]}, "messages[0]", "INVALID_TYPE"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "INVALID_VALUE"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "UNSUPPORTED_VALUE"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "MISSING_PARAMETER"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content", "INVALID_TYPE"),
        ({"messages": [{"role": "user", "content": "x", "mood": "y"}]}, "messages[0].mood", "UNKNOWN_PARAMETER"),
        (
            {"messages": [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [{}]}]},
            "messages[1].tool_calls",
            "UNSUPPORTED_PARAMETER",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
            "UNSUPPORTED_VALUE",
        ),
    ],
)
def test_what_is_wrong_in_a_chat_is_named(members: dict[str, object], param: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**members)
    assert (caught.value.field, caught.value.reason) == (param, reason)
    assert caught.value.message.startswith(param)


@pytest.mark.parametrize(
    ("members", "param", "reason"),
    [
        ({"prompt": None}, "prompt", "MISSING_PARAMETER"),
        ({"prompt": ""}, "prompt", "INVALID_VALUE"),
        ({"prompt": []}, "prompt", "INVALID_VALUE"),
        ({"prompt": [1, 2]}, "prompt", "UNSUPPORTED_VALUE"),
        ({"prompt": [[1], [2]]}, "prompt", "UNSUPPORTED_VALUE"),
        ({"prompt": [None]}, "prompt", "INVALID_TYPE"),
        ({"prompt": ["a"] * 17}, "prompt", "INVALID_VALUE"),
        ({"prompt": ["a", "b"], "resumable": True}, "resumable", "INVALID_VALUE"),
        ({"echo": True}, "echo", "UNSUPPORTED_PARAMETER"),
        ({"suffix": "x"}, "suffix", "UNSUPPORTED_PARAMETER"),
        ({"best_of": 2}, "best_of", "UNSUPPORTED_PARAMETER"),
        ({"logprobs": True}, "logprobs", "INVALID_TYPE"),
        ({"messages": MESSAGES}, "messages", "UNKNOWN_PARAMETER"),
    ],
)
def test_what_is_wrong_in_a_completion_is_named(members: dict[str, object], param: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        completion(**members)
    assert (caught.value.field, caught.value.reason) == (param, reason)


def test_a_repeat_of_an_id_needs_a_single_prompt() -> None:
    caller = read_caller(Headers({"x-request-id": str(uuid.uuid4())}), 60)
    with pytest.raises(InvalidRequest, match="single prompt"):
        read_completion({"prompt": ["a", "b"]}, caller)


def test_text_parts_become_lines_and_developers_speak_for_the_system() -> None:
    order = chat(
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "你好", "name": "Li"},
        ]
    )
    assert list(order.requests[0].chat.messages) == [
        common_pb2.ChatMessage(role="system", content="a\nb"),
        common_pb2.ChatMessage(role="user", content="你好", name="Li"),
    ]


def test_the_session_comes_from_the_header_or_the_body() -> None:
    caller = read_caller(Headers({"x-session-id": "s1"}), 60)
    assert read_chat({"messages": MESSAGES}, caller).requests[0].session_id == "s1"
    with pytest.raises(InvalidRequest, match="x-session-id"):
        read_chat({"messages": MESSAGES, "session_id": "s2"}, caller)


def test_a_session_header_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="in the body"):
        read_caller(Headers({"x-session-id": "s\u00e9"}), 60)


def test_keys_come_as_bearer_or_as_x_api_key() -> None:
    assert read_caller(Headers({"authorization": "bearer  k1"}), 60).api_key == "k1"
    assert read_caller(Headers({"x-api-key": "k2"}), 60).api_key == "k2"
    assert read_caller(Headers({"authorization": "Basic abc"}), 60).api_key is None


def test_request_ids_are_lower_case_uuids() -> None:
    request_id = str(uuid.uuid4())
    assert read_caller(Headers({"x-request-id": request_id.upper()}), 60).request_id == request_id
    for bad in ("", "{" + request_id + "}", request_id.replace("-", ""), f"urn:uuid:{request_id}", "é"):
        with pytest.raises(InvalidRequest):
            read_caller(Headers({"x-request-id": bad}), 60)


def test_the_mode_of_the_header_reaches_the_request() -> None:
    caller = read_caller(Headers({"x-inference-mode": " Precise "}), 60)
    request = read_chat({"messages": MESSAGES}, caller).requests[0]
    assert request.policy.precision_mode == common_pb2.PRECISION_MODE_PRECISE
    assert not chat().requests[0].HasField("policy")
    with pytest.raises(InvalidRequest, match="one of turbo, standard, precise") as caught:
        read_caller(Headers({"x-inference-mode": "exact"}), 60)
    assert (caught.value.reason, caught.value.field) == ("UNKNOWN_MODE", "x-inference-mode")


@pytest.mark.parametrize(
    ("members", "constraint"),
    [
        ({"guided_json": {"type": "object"}}, common_pb2.OutputConstraint(json_schema='{"type":"object"}')),
        ({"guided_json": '{"type": "object"}'}, common_pb2.OutputConstraint(json_schema='{"type": "object"}')),
        ({"guided_json_object": True}, common_pb2.OutputConstraint(json_object=True)),
        ({"guided_regex": "[a-z]+"}, common_pb2.OutputConstraint(regex="[a-z]+")),
        ({"guided_grammar": 'start: "a"'}, common_pb2.OutputConstraint(grammar='start: "a"')),
        (
            {
                "guided_choice": ["yes", "no"],
                "guided_decoding_backend": "xgrammar",
                "response_format": {"type": "text"},
            },
            common_pb2.OutputConstraint(choice=common_pb2.ChoiceList(values=["yes", "no"])),
        ),
        (
            {"structured_outputs": {"json": {"type": "object"}, "disable_fallback": True, "regex": None}},
            common_pb2.OutputConstraint(json_schema='{"type":"object"}'),
        ),
        ({"structured_outputs": {"grammar": 'start: "a"'}}, common_pb2.OutputConstraint(grammar='start: "a"')),
    ],
)
def test_constraints_of_vllm_are_taken(members: dict[str, object], constraint: common_pb2.OutputConstraint) -> None:
    assert chat(**members).requests[0].constraint == constraint
    assert completion(**members).requests[0].constraint == constraint


@pytest.mark.parametrize(
    ("schema", "waits"),
    [
        ({"type": "string", "format": "iri"}, True),
        ({"properties": {"a": {"format": "regex"}}}, True),
        ('{"properties": {"a": {"format" : "regex"}}}', True),
        ({"type": "string", "format": "date"}, False),
        ({"properties": {"regex": {"type": "string"}}, "required": ["regex"]}, False),
    ],
)
def test_a_stream_waits_for_its_text_where_a_format_that_no_grammar_holds_may_be_mended(
    schema: object, waits: bool
) -> None:
    assert chat(guided_json=schema).may_be_corrected == waits
