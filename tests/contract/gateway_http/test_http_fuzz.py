"""Any JSON body gets a reply or a typed error, never a 500."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from http_support import FakeGateway
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from services.gateway.config import GatewayConfig
from services.gateway.http.app import build_app
from services.gateway.http.gate import Gate

NAMES = (
    *("model", "stream", "stream_options", "n", "stop", "seed", "logprobs", "top_logprobs", "presence_penalty"),
    *("frequency_penalty", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p"),
    *("repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids", "logit_bias", "response_format", "anchors"),
    *("rules", "text_rules"),
    *("session_id", "route", "allow_deferral", "resumable", "regex", "choice", "grammar", "user", "safety_identifier"),
    *("overflow", "tools", "tool_choice", "parallel_tool_calls", "functions", "store", "metadata", "service_tier"),
    *("modalities", "echo", "best_of", "suffix", "prompt", "messages"),
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
PLAUSIBLE = st.sampled_from(
    (
        *(0, 1, 2, -1, 0.5, True, False, None, "x", "chat", "keep_recent", ["x"], [1], [], {}, {"1": 2}),
        *({"type": "json_object"}, {"type": "text"}, {"include_usage": True}),
        *({"/a": ["k"]}, {"/a": {"keys": ["k"], "ignore_case": True}}),
        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    )
)
BODIES = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), PLAUSIBLE | VALUES, max_size=6)
TEXT_PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=2)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]) | VALUES},
        optional={"content": VALUES | TEXT_PARTS, "name": st.text()},
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def app(config: GatewayConfig) -> Starlette:
    return build_app(FakeGateway(config), config, Gate())


async def post(app: Starlette, url: str, body: dict[str, object]) -> httpx.Response:
    headers = {"content-type": "application/json", "authorization": "Bearer dev"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x", headers=headers) as client:
        return await client.post(url, content=json.dumps(body).encode())


def check(reply: httpx.Response) -> None:
    if reply.status_code != 200:
        assert 400 <= reply.status_code < 500, reply.text
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES, messages=MESSAGES | VALUES)
def test_any_chat_body(app: Starlette, body: dict[str, object], messages: object) -> None:
    check(asyncio.run(post(app, "/v1/chat/completions", {**body, "messages": messages})))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES)
def test_any_completion_body(app: Starlette, body: dict[str, object]) -> None:
    check(asyncio.run(post(app, "/v1/completions", {"prompt": "hi", **body})))
