"""`Detokenize` over a real socket: many streams on one call."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest
import pytest_asyncio
from quality_support import serving

from services.tokenizer.config import TokenizerConfig
from services.tokenizer.service import TokenizerService
from stagemesh.api.tokenizer.v1 import tokenizer_pb2 as pb
from stagemesh.api.tokenizer.v1 import tokenizer_pb2_grpc
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.mesh_config import MeshConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

Stub = tokenizer_pb2_grpc.TokenizerServiceStub
TIMEOUT_S = 60
FAMILY = "Hi 👨‍👩‍👧‍👦！"


@contextlib.asynccontextmanager
async def tokenizer(**config: Any) -> AsyncIterator[Stub]:
    async with serving(TokenizerService(MeshConfig(), TokenizerConfig(**config))) as channel:
        yield tokenizer_pb2_grpc.TokenizerServiceStub(channel)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub(default_model_files: ModelFiles) -> AsyncIterator[Stub]:
    async with tokenizer() as stub:
        yield stub


@pytest.fixture(scope="module")
def family_ids(default_model_files: ModelFiles) -> list[int]:
    ids: list[int] = load_tokenizer(default_model_files).build().encode(FAMILY).ids
    return ids


def chunk(stream_id: str, ids: Sequence[int], *, end: bool = False, **fields: Any) -> pb.DetokenizeChunk:
    return pb.DetokenizeChunk(stream_id=stream_id, token_ids=ids, end=end, **fields)


async def exchange(stub: Stub, requests: Sequence[Sequence[pb.DetokenizeChunk]]) -> list[pb.DetokenizedText]:
    """Send all requests, then read all answers."""
    call = stub.Detokenize(timeout=TIMEOUT_S)
    for chunks in requests:
        await call.write(pb.DetokenizeRequest(chunks=chunks))
    await call.done_writing()
    return [text async for response in call for text in response.texts]


async def test_a_character_of_several_tokens_is_never_cut(stub: Stub, family_ids: list[int]) -> None:
    assert len(family_ids) > len(FAMILY), "the emoji takes more tokens than characters"
    call = stub.Detokenize(timeout=TIMEOUT_S)
    pieces = []
    for index, token in enumerate(family_ids):
        last = index == len(family_ids) - 1
        await call.write(pb.DetokenizeRequest(chunks=[chunk("s", [token], end=last)]))
        [answer] = (await call.read()).texts
        assert (answer.stream_id, answer.num_tokens, answer.end) == ("s", index + 1, last)
        pieces.append(answer.text)
    assert "".join(pieces) == FAMILY
    assert "" in pieces, "some tokens end within a character"
    assert not any("\ufffd" in piece for piece in pieces)


async def test_streams_of_one_call_do_not_mix(stub: Stub, default_model_files: ModelFiles) -> None:
    tokenizer = load_tokenizer(default_model_files).build()
    texts = {f"s{number}": f"第{number}号 👍🏽 answer {number * 7}" for number in range(200)}
    left = {name: tokenizer.encode(text).ids for name, text in texts.items()}
    random_, requests = random.Random(1), []
    while left:
        chunks = []
        for name in random_.sample(sorted(left), min(len(left), 40)):
            size = random_.randint(0, 3)
            ids, left[name] = left[name][:size], left[name][size:]
            chunks.append(chunk(name, ids, end=not left[name]))
            if not left[name]:
                del left[name]
        requests.append(chunks)
    answers = await exchange(stub, requests)
    joined = {name: "".join(answer.text for answer in answers if answer.stream_id == name) for name in texts}
    assert joined == texts
    assert sum(answer.end for answer in answers) == len(texts)


async def test_what_arrives_together_is_answered_together(stub: Stub) -> None:
    call = stub.Detokenize(timeout=TIMEOUT_S)
    await call.write(pb.DetokenizeRequest(chunks=[chunk(str(number), [40]) for number in range(50)]))
    response = await call.read()
    assert len(response.texts) == 50
    call.cancel()


async def test_an_unfinished_character_is_flushed_at_the_end(stub: Stub, family_ids: list[int]) -> None:
    [answer] = await exchange(stub, [[chunk("s", family_ids[:3], end=True)]])
    assert answer.text == "Hi \ufffd"


async def test_special_tokens_are_dropped_unless_asked_for(stub: Stub) -> None:
    ids = [1, 19556, 2]
    answers = await exchange(stub, [[chunk("a", ids, end=True), chunk("b", ids, end=True, keep_special_tokens=True)]])
    assert [answer.text for answer in answers] == ["Hello", "<|im_start|>Hello<|im_end|>"]


async def test_a_bad_token_or_model_fails_its_stream_alone_and_until_its_end(stub: Stub) -> None:
    call = stub.Detokenize(timeout=TIMEOUT_S)
    first = [chunk("bad", [49_152]), chunk("good", [19556]), chunk("other", [1], model="gpt-9"), chunk("", [1])]
    await call.write(pb.DetokenizeRequest(chunks=first))
    answers = {answer.stream_id: answer for answer in (await call.read()).texts}
    reasons = {name: answer.error.reason for name, answer in answers.items()}
    assert reasons == {
        "bad": "TOKEN_OUT_OF_RANGE",
        "good": "",
        "other": "MODEL_NOT_FOUND",
        "": "INVALID_STREAM_ID",
    }
    await call.write(pb.DetokenizeRequest(chunks=[chunk("bad", [19556]), chunk("good", [19556], end=True)]))
    bad, good = (await call.read()).texts
    assert bad.error.reason == "TOKEN_OUT_OF_RANGE"
    assert (good.text, good.num_tokens, good.end) == ("Hello", 2, True)
    await call.write(pb.DetokenizeRequest(chunks=[chunk("bad", [], end=True), chunk("bad", [19556], end=True)]))
    failed, anew = (await call.read()).texts
    assert (failed.error.reason, anew.error.reason, anew.text) == ("TOKEN_OUT_OF_RANGE", "", "Hello")
    call.cancel()


async def test_a_caller_who_does_not_read_is_slowed_down_and_loses_nothing(default_model_files: ModelFiles) -> None:
    async with tokenizer(max_pending_chars=1_024) as stub:
        call = stub.Detokenize(timeout=TIMEOUT_S)
        num_chunks, ids = 400, [19556] * 200

        async def write() -> None:
            for number in range(num_chunks):
                await call.write(pb.DetokenizeRequest(chunks=[chunk("s", ids, end=number == num_chunks - 1)]))
            await call.done_writing()

        writer = asyncio.ensure_future(write())
        answers = [text async for response in call for text in response.texts]
        await writer
        assert "".join(answer.text for answer in answers) == "Hello" * 200 * num_chunks
        assert answers[-1].num_tokens == 200 * num_chunks


async def test_an_oversized_chunk_fails_its_stream(stub: Stub) -> None:
    [answer] = await exchange(stub, [[chunk("s", [40] * 200_000, end=True)]])
    assert answer.error.reason == "TOO_MANY_TOKENS"


async def test_a_cancelled_call_leaves_the_service_well(stub: Stub) -> None:
    for _ in range(20):
        call = stub.Detokenize(timeout=TIMEOUT_S)
        await call.write(pb.DetokenizeRequest(chunks=[chunk("s", [40])]))
        call.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await call.read()
    [answer] = await exchange(stub, [[chunk("s", [19556], end=True)]])
    assert answer.text == "Hello"
