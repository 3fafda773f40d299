"""`Score` over a socket: likelihoods against transformers, on both backends, alone and amid other work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as Seq
from pathlib import Path

import grpc
import numpy as np
import pytest
import torch
import transformers
from engine_server_support import PROMPT, VOCAB, RunCall, Server, engine_server, load, make_tiny_model, submit

from services.engine.engine import LoadedModel
from services.engine.kernels.native.build import supported_levels
from stagemesh.api.common.v1.common_pb2 import ModelIdentity
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.errors import StagemeshError, from_rpc

CONTINUATIONS = [list(b" a story"), list(b"!"), list(b" nothing at all, since it is late"), list(b" a storm")]


def score_request(prompt: Seq[int], continuations: Seq[Seq[int]], **fields: object) -> engine_pb2.ScoreRequest:
    listed = [engine_pb2.Continuation(token_ids=tokens) for tokens in continuations]
    return engine_pb2.ScoreRequest(tenant_id="t", token_ids=prompt, continuations=listed, **fields)  # type: ignore[arg-type]


async def score(server: Server, request: engine_pb2.ScoreRequest, timeout_s: float = 30.0) -> list[list[float]]:
    response = await server.stub.Score(request, timeout=timeout_s)
    for entry in response.scores:
        assert entry.sum == pytest.approx(sum(entry.token_logprobs))
    return [list(entry.token_logprobs) for entry in response.scores]


async def refused(server: Server, request: engine_pb2.ScoreRequest, timeout_s: float = 30.0) -> StagemeshError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await server.stub.Score(request, timeout=timeout_s)
    return from_rpc(caught.value)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(files: ModelFiles) -> LoadedModel:
    return load(files, backend="torch")


@pytest.fixture(scope="module")
def native_model(default_model_files: ModelFiles) -> LoadedModel:
    if not supported_levels():
        pytest.skip("the native kernels need AVX2")
    return load(default_model_files, backend="native")


def by_transformers(folder: Path, prompt: Seq[int], continuation: Seq[int]) -> list[float]:
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logits = reference(torch.tensor([[*prompt, *continuation]])).logits[0]
    logprobs = torch.log_softmax(logits.double(), -1)
    return [float(logprobs[len(prompt) - 1 + at, token]) for at, token in enumerate(continuation)]


async def test_scores_are_what_transformers_computes(model: LoadedModel, files: ModelFiles) -> None:
    async with engine_server(model) as server:
        found = await score(server, score_request(PROMPT, CONTINUATIONS))
    for continuation, values in zip(CONTINUATIONS, found, strict=True):
        np.testing.assert_allclose(values, by_transformers(files.path, PROMPT, continuation), atol=2e-4)


async def test_the_prompt_is_computed_once_for_all_continuations(model: LoadedModel) -> None:
    prompt = list(range(100)) * 2
    async with engine_server(model) as server:
        response = await server.stub.Score(score_request(prompt, CONTINUATIONS), timeout=30)
        assert response.usage.prompt_tokens == 200
        assert response.usage.completion_tokens == sum(map(len, CONTINUATIONS))
        assert response.usage.cached_tokens == 0
        again = await server.stub.Score(score_request(prompt, CONTINUATIONS, cache_salt=b"salt"), timeout=30)
        third = await server.stub.Score(score_request(prompt, CONTINUATIONS, cache_salt=b"salt"), timeout=30)
        assert again.usage.cached_tokens == 0, "pages of another call's own salt"
        assert third.usage.cached_tokens == 192
        for other in (again, third):  # torch gives other last bits where a prompt is cut into other chunks
            for found, before in zip(other.scores, response.scores, strict=True):
                np.testing.assert_allclose(found.token_logprobs, before.token_logprobs, atol=1e-4)
        assert response.model.model == "tiny"


async def test_scores_are_bitwise_the_same_alone_and_amid_other_work(native_model: LoadedModel) -> None:
    prompt = [1 + 31 * at % 40_000 for at in range(70)]
    continuations = [[1 + (number * 7919 + at * 17) % 40_000 for at in range(1 + number * 3)] for number in range(8)]
    async with engine_server(native_model) as server:
        alone = [(await score(server, score_request(prompt, [tokens])))[0] for tokens in continuations]
        together = await score(server, score_request(prompt, continuations))
        call = RunCall(server)
        for number in range(4):
            await call.submit(submit(f"s{number}", prompt[number : 30 + number], max_tokens=40))
        await call.read_tokens("s0", 3)
        amid = await asyncio.gather(*(score(server, score_request(prompt, continuations)) for _ in range(2)))
        await call.read_until_finished()
        assert alone == together == amid[0] == amid[1]


@pytest.mark.parametrize(
    ("prompt", "continuations", "reason", "field"),
    [
        ([], [[1]], "EMPTY_PROMPT", "token_ids"),
        ([1], [], "INVALID_PARAMETER", "continuations"),
        ([1], [[1], []], "INVALID_PARAMETER", "continuations"),
        ([1], [[VOCAB]], "INVALID_PARAMETER", "continuations"),
        ([VOCAB], [[1]], "INVALID_PARAMETER", "token_ids"),
        ([1], [[1]] * 9, "INVALID_PARAMETER", "continuations"),
        ([1], [[1] * 40, [1] * 25], "INVALID_PARAMETER", "continuations"),
        ([1] * 4090, [[1] * 7], "PROMPT_TOO_LONG", "token_ids"),
    ],
)
async def test_what_cannot_be_scored_is_refused_with_the_field_at_fault(
    model: LoadedModel, prompt: list[int], continuations: list[list[int]], reason: str, field: str
) -> None:
    async with engine_server(model, score={"max_continuations": 8, "max_tokens": 64}) as server:
        error = await refused(server, score_request(prompt, continuations))
        assert (error.reason, error.field) == (reason, field)


async def test_scores_of_another_model_are_refused(model: LoadedModel) -> None:
    async with engine_server(model) as server:
        error = await refused(server, score_request(PROMPT, [[1]], model=ModelIdentity(revision="other")))
        assert error.reason == "MODEL_MISMATCH"


async def test_calls_beyond_the_bound_are_refused_with_a_hint_and_a_lost_call_makes_room(model: LoadedModel) -> None:
    async with engine_server(model, score={"max_live": 4}) as server:
        long = score_request([1] * 3000, [[1] * 900] * 4)
        call = server.stub.Score(long, timeout=60)
        async with asyncio.timeout(30):
            while server.engine.scorer.num_live < 4:
                await asyncio.sleep(0.01)
        error = await refused(server, score_request(PROMPT, [[1]]))
        assert error.reason == "QUEUE_FULL"
        assert error.retry_after_ms > 0
        call.cancel()
        async with asyncio.timeout(30):
            while not call.done() or server.engine.scorer.num_live:
                await asyncio.sleep(0.01)
        assert len(await score(server, score_request(PROMPT, [[1]] * 4))) == 4


async def test_a_call_ends_at_its_deadline_and_leaves_nothing_behind(model: LoadedModel) -> None:
    async with engine_server(model) as server:
        error = await refused(server, score_request([1] * 3000, [[1] * 900] * 8), timeout_s=0.1)
        assert error.reason == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(30):
            while server.engine.core.has_work():
                await asyncio.sleep(0.01)
