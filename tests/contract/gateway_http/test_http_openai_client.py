"""The `openai` client, unchanged, over a socket."""

from __future__ import annotations

import asyncio
import uuid

import openai
import pytest
from http_support import WORDS, FakeGateway, failing, final_of

from services.gateway.running import RunningRequest
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Exhausted, Internal, InvalidRequest, Unavailable
from stagemesh.runtime.mesh_config import DEFAULT_MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "".join(WORDS)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


async def test_a_chat_is_answered(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    answer = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, temperature=0, seed=3)
    assert answer.choices[0].message.content == TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion"
    assert answer.model == DEFAULT_MODEL
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (11, 5, 16)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    sampling = gateway.submitted[0].sampling
    assert (sampling.temperature, sampling.seed, sampling.n) == (0, 3, 1)
    assert gateway.submitted[0].chat.messages[0].content == "What is the capital of France?"


async def test_the_reply_explains_itself(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    reply = await client.chat.completions.with_raw_response.create(model=DEFAULT_MODEL, messages=QUESTION)
    extras = reply.parse().model_extra["stagemesh"]
    assert reply.headers["x-request-id"] == extras["request_id"] == next(iter(gateway.requests))
    assert reply.headers["x-stagemesh-outcome"] == extras["outcome"] == "complete"
    assert [stage["name"] for stage in extras["stages"]][:3] == ["admit", "analyze", "tokenize"]
    assert (extras["ttft_ms"], extras["total_ms"], extras["validation"]) == (12.0, 34.0, None)


async def test_a_streamed_chat_begins_with_the_role_and_ends_with_the_reason(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, stream=True)
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks[1:-1]] == list(WORDS)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].model_extra["stagemesh"]["outcome"] == "complete"
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_usage_chunk_comes_last_when_asked_for(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=DEFAULT_MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 16
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_the_streaming_helper_accumulates_the_answer(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model=DEFAULT_MODEL, messages=QUESTION) as stream:
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == TEXT


async def test_several_choices_come_whole_and_streamed(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, n=3)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [(i, TEXT) for i in range(3)]
    texts = {0: "", 1: "", 2: ""}
    async for chunk in await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: TEXT, 1: TEXT, 2: TEXT}


async def test_log_probabilities_of_a_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert [position.token for position in content] == list(WORDS)
    assert [top.logprob for top in content[0].top_logprobs] == [-0.5, -1.5]
    assert bytes(content[1].bytes).decode() == " is"
    stream = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, logprobs=True, stream=True)
    tokens = [
        position.token
        async for chunk in stream
        if chunk.choices[0].logprobs
        for position in chunk.choices[0].logprobs.content
    ]
    assert tokens == list(WORDS)


async def test_completions_of_one_and_of_several_prompts(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    one = await client.completions.create(model=DEFAULT_MODEL, prompt="The capital", logprobs=1, max_tokens=9)
    assert one.choices[0].text == TEXT
    assert one.choices[0].logprobs.text_offset == [0, 5, 8, 12, 20]
    assert one.choices[0].logprobs.tokens == list(WORDS)
    assert gateway.submitted[0].sampling.max_tokens == 9
    several = await client.completions.create(model=DEFAULT_MODEL, prompt=["a", "b"], n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.usage.completion_tokens == 20
    assert [request.prompt for request in gateway.submitted[1:]] == ["a", "b"]


async def test_streamed_completions_of_several_prompts(client: openai.AsyncOpenAI) -> None:
    texts = dict.fromkeys(range(3), "")
    reasons = {}
    async for chunk in await client.completions.create(model=DEFAULT_MODEL, prompt=["a", "b", "c"], stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
        reasons[chunk.choices[0].index] = chunk.choices[0].finish_reason
    assert texts == {0: TEXT, 1: TEXT, 2: TEXT}
    assert set(reasons.values()) == {"stop"}


async def test_models_and_aliases(client: openai.AsyncOpenAI) -> None:
    models = [model async for model in client.models.list()]
    assert [model.id for model in models] == [DEFAULT_MODEL, "gpt-4o-mini"]
    assert (await client.models.retrieve("gpt-4o-mini")).model_extra["root"] == DEFAULT_MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        await client.models.retrieve("gpt-9")
    assert caught.value.code == "model_not_found"


async def test_an_alias_is_answered_by_its_model(client: openai.AsyncOpenAI) -> None:
    assert (await client.chat.completions.create(model="gpt-4o-mini", messages=QUESTION)).model == DEFAULT_MODEL


async def test_a_json_schema_reaches_the_gateway(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    await client.chat.completions.create(
        model=DEFAULT_MODEL,
        messages=QUESTION,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}},
    )
    assert gateway.submitted[0].constraint.json_schema == (
        '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
    )


async def test_extensions_go_through_the_extra_body(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    await client.chat.completions.create(
        model=DEFAULT_MODEL,
        messages=QUESTION,
        user="u1",
        extra_body={"top_k": -1, "min_p": 0.1, "session_id": "s1", "route": "chat", "anchors": {"/city": ["Paris"]}},
    )
    request = gateway.submitted[0]
    assert (request.sampling.HasField("top_k"), request.sampling.top_k) == (True, 0)
    assert (request.session_id, request.user_id, request.route) == ("s1", "u1", "chat")
    assert list(request.anchors) == [common_pb2.Anchor(pointer="/city", keys=["Paris"])]


async def test_an_answer_that_may_be_corrected_is_sent_when_it_is_final(
    client: openai.AsyncOpenAI, gateway: FakeGateway
) -> None:
    async def corrected(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        running.publish(delta=gateway_pb2.Delta(text='{"city": "Pariss"}'))
        running.publish(final=final_of(request, running, text='{"city": "Paris"}'))

    gateway.script = corrected
    stream = await client.chat.completions.create(
        model=DEFAULT_MODEL, messages=QUESTION, stream=True, extra_body={"anchors": {"/city": ["Paris"]}}
    )
    chunks = [chunk async for chunk in stream]
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", '{"city": "Paris"}', None]
    assert chunks[-1].model_extra["stagemesh"]["validation"] == {
        "valid": True,
        "certain": False,
        "errors": [],
        "corrections": [],
    }


async def test_a_change_after_streaming_is_said(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    async def changed(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        running.publish(delta=gateway_pb2.Delta(text="Lyon"))
        running.publish(final=final_of(request, running, text="Paris"))

    gateway.script = changed
    with pytest.raises(openai.APIError) as caught:
        async for _ in await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, stream=True):
            pass
    assert caught.value.code == "stream_diverged"


async def test_a_degraded_answer_is_marked(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    async def degraded(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        final = final_of(request, running, outcome=common_pb2.OUTCOME_DEGRADED)
        final.stages[3].status = common_pb2.STAGE_STATUS_DEGRADED
        final.stages[3].reason, final.stages[3].fallback = "CACHE_UNAVAILABLE", "cold"
        running.publish(final=final)

    gateway.script = degraded
    reply = await client.chat.completions.with_raw_response.create(model=DEFAULT_MODEL, messages=QUESTION)
    assert reply.headers["x-stagemesh-outcome"] == "degraded"
    assert reply.headers["x-stagemesh-degraded"] == "cache=CACHE_UNAVAILABLE"
    assert reply.parse().model_extra["stagemesh"]["stages"][3]["fallback"] == "cold"


async def test_a_bad_key_is_an_authentication_error(address: str, gateway: FakeGateway) -> None:
    async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="wrong") as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION)
    assert caught.value.code == "invalid_api_key"


async def test_an_unknown_model_is_not_found(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(model="gpt-9", messages=QUESTION)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_a_bad_parameter_is_named(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, temperature=9)
    assert (caught.value.param, caught.value.type) == ("temperature", "invalid_request_error")


async def test_tools_are_refused_by_name(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(
            model=DEFAULT_MODEL, messages=QUESTION, tools=[{"type": "function", "function": {"name": "f"}}]
        )
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_parameter")


async def test_a_prompt_that_is_too_long_has_openais_code(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    gateway.script = failing(InvalidRequest("PROMPT_TOO_LONG", "the prompt has 9,000 tokens", field="chat"))
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, stream=stream)
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


async def test_a_full_queue_is_a_rate_limit_that_the_client_retries(
    client: openai.AsyncOpenAI, gateway: FakeGateway
) -> None:
    gateway.refuse = Exhausted("QUEUE_FULL", "too many requests wait already", retry_after_ms=20)
    with pytest.raises(openai.RateLimitError) as caught:
        await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION)
    assert caught.value.response.headers["retry-after-ms"] == "20"
    assert caught.value.response.request.headers["x-stainless-retry-count"] == "1"


async def test_a_deferred_request_is_not_repeated_and_is_picked_up(
    client: openai.AsyncOpenAI, gateway: FakeGateway
) -> None:
    free = asyncio.Event()

    async def deferred(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        running.publish(
            queued=gateway_pb2.Queued(request_id=running.request_id, deferred=True, estimated_wait_ms=7_000)
        )
        await free.wait()
        running.publish(final=final_of(request, running))

    gateway.script = deferred
    for stream in (False, True):
        gateway.submitted.clear()
        free.clear()
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(
                model=DEFAULT_MODEL, messages=QUESTION, stream=stream, extra_body={"allow_deferral": True}
            )
        headers, body = caught.value.response.headers, caught.value.body
        assert (caught.value.status_code, caught.value.code) == (503, "deferred")
        assert headers["retry-after"] == "7"
        assert headers["location"] == f"/v1/requests/{body['request_id']}"
        assert len(gateway.submitted) == 1
        pending = await client.get(f"/requests/{body['request_id']}", cast_to=dict)
        assert pending == {
            "id": body["request_id"],
            "object": "stagemesh.request",
            "status": "pending",
            "outcome": None,
        }
        free.set()
        ended = await client.get(f"/requests/{body['request_id']}?wait=5", cast_to=dict)
        assert (ended["status"], ended["outcome"]) == ("ended", "complete")
        assert ended["choices"][0]["message"]["content"] == TEXT


async def test_an_error_in_the_middle_of_a_stream_is_raised(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    gateway.script = failing(Unavailable("ENGINE_LOST", "no engine can continue"), after_words=2)
    stream = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, stream=True)
    words = [(await anext(stream)).choices[0].delta.content for _ in range(3)]
    assert words == ["", *WORDS[:2]]
    with pytest.raises(openai.APIError) as caught:
        await anext(stream)
    assert caught.value.code == "engine_lost"


async def test_outcomes_without_an_answer_have_their_status(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    for outcome, status in (
        (common_pb2.OUTCOME_EXPIRED, 504),
        (common_pb2.OUTCOME_CANCELLED, 499),
        (common_pb2.OUTCOME_DEAD_LETTERED, 500),
    ):

        async def ending(
            request: gateway_pb2.InferenceRequest, running: RunningRequest, outcome: int = outcome
        ) -> None:
            running.publish(final=final_of(request, running, outcome=outcome))

        gateway.script = ending
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION)
        assert caught.value.status_code == status
        assert caught.value.response.json()["stagemesh"]["stages"]


async def test_a_fault_tells_nothing_of_its_inside(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    gateway.refuse = RuntimeError("a secret detail")
    with pytest.raises(openai.InternalServerError) as caught:
        await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION)
    assert "secret" not in caught.value.response.text
    gateway.refuse = None
    gateway.script = failing(Internal("INTERNAL", "a fault"), after_words=1)
    with pytest.raises(openai.APIError):
        async for _ in await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, stream=True):
            pass


async def test_the_same_id_finds_the_same_request(client: openai.AsyncOpenAI, gateway: FakeGateway) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, extra_headers=headers)
    again = await client.chat.completions.create(model=DEFAULT_MODEL, messages=QUESTION, extra_headers=headers)
    assert first.id == again.id == f"chatcmpl-{headers['Idempotency-Key']}"
    assert len(gateway.submitted) == 1
