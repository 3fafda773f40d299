"""Events and errors → OpenAI objects."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.http.chunks import Chunks
from services.gateway.http.envelope import Envelope, created_at
from services.gateway.http.extras import extras, reply_headers
from services.gateway.http.failures import STATUS_BY_CODE, failure_of
from services.gateway.http.feed import MAX_BUFFERED, Feed
from services.gateway.http.order import Order
from services.gateway.http.outcome import DeferredError, error_of
from services.gateway.http.shape import MIN_LOGPROB, finite
from services.gateway.http.shape_chat import ChatShape
from services.gateway.http.shape_completion import CompletionShape
from services.gateway.running import RunningRequest
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.errors import BY_CODE, Exhausted, Internal, InvalidRequest, Unavailable

UUID7 = "0190a6b4-5c00-7000-8000-000000000000"


def chunks_of(*, shape: ChatShape | CompletionShape, n: int = 1, usage: bool = False) -> Chunks:
    request = gateway_pb2.InferenceRequest(sampling=common_pb2.SamplingParams(n=n))
    order = Order(requests=(request,), shape=shape, stream=True, include_usage=usage)
    return Chunks(order, Envelope(shape=shape, request_id=UUID7, created=1, model="m"))


@given(parts=st.lists(st.tuples(st.integers(0, 2), st.text())), rests=st.lists(st.text(), min_size=3, max_size=3))
def test_the_chunks_of_each_choice_add_up_to_its_final_text(parts: list[tuple[int, str]], rests: list[str]) -> None:
    chunks = chunks_of(shape=ChatShape(), n=3)
    objects = [it for index, text in parts for it in chunks.delta(0, gateway_pb2.Delta(index=index, text=text))]
    texts = ["".join(text for at, text in parts if at == index) + rests[index] for index in range(3)]
    final = gateway_pb2.Final(choices=[gateway_pb2.Choice(index=i, text=text) for i, text in enumerate(texts)])
    objects += chunks.final(0, final)
    sent = ["", "", ""]
    for choice in (choice for chunk in objects for choice in chunk["choices"]):
        sent[choice["index"]] += choice["delta"].get("content", "")
    assert sent == texts
    assert [chunk["choices"][0]["finish_reason"] for chunk in objects[-3:]] == ["error"] * 3  # none was given
    assert "stagemesh" in objects[-1]


def test_a_text_that_is_not_what_was_sent_is_a_fault() -> None:
    chunks = chunks_of(shape=ChatShape())
    chunks.delta(0, gateway_pb2.Delta(text="abc"))
    with pytest.raises(Internal, match="changed"):
        chunks.final(0, gateway_pb2.Final(choices=[gateway_pb2.Choice(text="abd")]))


def test_offsets_of_streamed_log_probabilities_go_on() -> None:
    chunks = chunks_of(shape=CompletionShape(with_logprobs=True))
    offsets = []
    for token in ("你", "好", " there"):
        delta = gateway_pb2.Delta(text=token, logprobs=[gateway_pb2.Logprob(token=token, logprob=-1)])
        offsets += chunks.delta(0, delta)[0]["choices"][0]["logprobs"]["text_offset"]
    assert offsets == [0, 1, 2]


def test_log_probabilities_are_numbers_that_json_has() -> None:
    assert [finite(x) for x in (-0.5, 0.0, 1e-7, -math.inf, math.nan)] == [-0.5, 0.0, 0.0, MIN_LOGPROB, MIN_LOGPROB]


def test_a_part_of_a_character_has_no_bytes() -> None:
    choice = gateway_pb2.Choice(logprobs=[gateway_pb2.Logprob(token="\ufffd", logprob=-1)])
    content = ChatShape(with_logprobs=True).choice(0, choice)["logprobs"]["content"]
    assert content[0]["bytes"] is None


def test_every_code_has_a_status() -> None:
    assert set(STATUS_BY_CODE) == set(BY_CODE)
    assert all(400 <= status <= 504 for status in STATUS_BY_CODE.values())


def test_errors_say_whether_a_repeat_can_help() -> None:
    busy = failure_of(Exhausted("QUEUE_FULL", "wait", retry_after_ms=1_200))
    assert (busy.status, busy.headers["retry-after"], busy.headers["x-should-retry"]) == (429, "2", "true")
    assert failure_of(Unavailable("ENGINE_UNAVAILABLE", "away")).headers == {"x-should-retry": "true"}
    wrong = failure_of(InvalidRequest("INVALID_SAMPLING", "top_p …", field="sampling.top_p"))
    assert wrong.headers == {"x-should-retry": "false"}
    assert wrong.body["error"] == {
        "message": "top_p …",
        "type": "invalid_request_error",
        "param": "top_p",
        "code": "invalid_sampling",
    }


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ("chat.messages[3].content", "messages[3].content"),
        ("constraint.json_schema", "response_format.json_schema.schema"),
        ("constraint.regex", "regex"),
        ("chat", "messages"),
        ("user_id", "user"),
        ("", None),
    ],
)
def test_fields_have_the_names_that_http_callers_know(field: str, param: str | None) -> None:
    assert failure_of(InvalidRequest("X", "x", field=field)).body["error"]["param"] == param


def test_a_deferral_says_where_the_answer_will_be() -> None:
    failure = DeferredError(gateway_pb2.Queued(request_id=UUID7, deferred=True, estimated_wait_ms=10**9)).failure()
    assert failure.status == 503
    assert failure.headers == {"x-should-retry": "false", "retry-after": "60", "location": f"/v1/requests/{UUID7}"}


def test_an_outcome_without_a_reason_still_has_an_error() -> None:
    codes = {outcome: error_of(gateway_pb2.Final(outcome=outcome)).code for outcome in (4, 5, 6, 7)}
    assert codes == {
        common_pb2.OUTCOME_REJECTED: grpc.StatusCode.INTERNAL,
        common_pb2.OUTCOME_CANCELLED: grpc.StatusCode.CANCELLED,
        common_pb2.OUTCOME_EXPIRED: grpc.StatusCode.DEADLINE_EXCEEDED,
        common_pb2.OUTCOME_DEAD_LETTERED: grpc.StatusCode.INTERNAL,
    }


def test_validation_is_summed_over_the_choices() -> None:
    final = gateway_pb2.Final(outcome=common_pb2.OUTCOME_DEGRADED)
    final.choices.add(index=0).validation.valid = True
    wrong = final.choices.add(index=1).validation
    wrong.issues.append(validator_pb2.Issue(pointer="/a", rule="type", message="must be a string"))
    wrong.changes.append(corrector_pb2.Change(**{"pointer": "/b", "from": "1", "to": "2", "step": "syntax"}))
    validation = extras([final])["validation"]
    assert validation["valid"] is False
    assert (validation["errors"][0]["choice"], validation["errors"][0]["pointer"]) == (1, "/a")
    assert (validation["corrections"][0]["from"], validation["corrections"][0]["to"]) == ("1", "2")
    wrong.unvalidated = True
    assert extras([final])["validation"]["valid"] is None


def test_headers_hold_what_headers_can_hold() -> None:
    report = common_pb2.StageReport(stage=1, status=common_pb2.STAGE_STATUS_DEGRADED, reason="A\r\nx-evil: 1 é" * 100)
    headers = reply_headers([gateway_pb2.Final(request_id=UUID7, outcome=2, stages=[report])])
    assert headers["x-stagemesh-degraded"].isascii()
    assert headers["x-stagemesh-degraded"].isprintable()
    assert len(headers["x-stagemesh-degraded"]) <= 512


def test_a_uuid7_tells_when_its_request_was_made() -> None:
    assert created_at(UUID7) == 0x0190A6B45C00 // 1000


async def test_a_feed_takes_only_so_much_ahead_of_its_reader() -> None:
    taken = 0

    class Flood(RunningRequest):
        async def events(self, after_seq: int = 0) -> AsyncIterator[gateway_pb2.Event]:
            nonlocal taken
            while True:
                taken += 1
                yield gateway_pb2.Event(delta=gateway_pb2.Delta(text="x"))

    async with Feed([Flood("t", UUID7)]) as feed:
        assert await feed.next(1) is not None
        for _ in range(100):
            await asyncio.sleep(0)
    assert taken <= MAX_BUFFERED + 3


async def test_a_feed_reports_silence_and_faults() -> None:
    class Faulty(RunningRequest):
        async def events(self, after_seq: int = 0) -> AsyncIterator[gateway_pb2.Event]:
            yield gateway_pb2.Event(queued=gateway_pb2.Queued())
            raise Internal("X", "x")

    async with Feed([RunningRequest("t", UUID7)]) as feed:
        assert await feed.next(0.01) is None
    async with Feed([Faulty("t", UUID7)]) as feed:
        assert await feed.next(1) is not None
        with pytest.raises(Internal):
            await feed.next(1)
