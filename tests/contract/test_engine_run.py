from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio
from engine_server_support import (
    EOS,
    PROMPT,
    RunCall,
    Server,
    engine_server,
    eventually,
    generate,
    load,
    make_tiny_model,
    submit,
)

from services.engine.engine import LoadedModel
from stagemesh.api.common.v1.common_pb2 import (
    PRECISION_MODE_PRECISE,
    PRECISION_MODE_TURBO,
    ModelIdentity,
    OutputConstraint,
    Policy,
)
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import from_rpc

LONG = 3000
"""Tokens that take long enough to be interrupted."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(make_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest_asyncio.fixture
async def server(model: LoadedModel) -> AsyncIterator[Server]:
    async with engine_server(model, reattach_grace_s=0.5) as running:
        yield running


async def test_one_call_carries_many_sequences_and_each_equals_its_single_run(server: Server) -> None:
    call = RunCall(server)
    for number in range(10):
        await call.submit(submit(f"s{number}", [*PROMPT, number], max_tokens=20))
    await call.read_until_finished()
    await call.call.done_writing()
    assert not await call.read(), "the call ends after its last sequence"
    assert call.num_messages < 10 * 20, "a message carries the news of several sequences"
    for number in range(10):
        answer = call.answers[f"s{number}"]
        assert answer.reason == "LENGTH"
        assert answer.tokens == (await generate(server, submit(f"g{number}", [*PROMPT, number], max_tokens=20))).tokens


async def test_a_sequence_reports_usage_and_its_five_stages(server: Server) -> None:
    answer = await generate(server, submit("a"))
    assert answer.finish is not None
    assert answer.finish.usage.prompt_tokens == len(PROMPT)
    assert answer.finish.usage.completion_tokens == 8
    assert [stage.stage for stage in answer.finish.stages] == [5, 6, 7, 8, 9]
    assert all(stage.duration_us > 0 and stage.attempts == 1 for stage in answer.finish.stages)


async def test_cancelling_frees_the_place_for_the_next(model: LoadedModel) -> None:
    async with engine_server(model, max_running=1) as server:
        call = RunCall(server)
        await call.submit(submit("long", max_tokens=LONG))
        await call.submit(submit("next", max_tokens=2))
        await call.read_tokens("long", 3)
        while not call.answers["next"].queue:
            assert await call.read(), "the call ended early"
        assert not call.answers["next"].tokens
        assert call.answers["next"].queue[0].position == 1
        await call.cancel("long")
        await call.read_until_finished("long", "next")
        assert call.answers["long"].reason == "ABORT"
        assert not call.answers["long"].finish.error.reason  # type: ignore[union-attr]
        assert call.answers["next"].reason == "LENGTH"


async def test_cancelling_what_is_unknown_or_over_does_nothing(server: Server) -> None:
    call = RunCall(server)
    await call.cancel("nobody")
    await call.submit(submit("a"))
    await call.read_until_finished("a")
    await call.cancel("a")
    await call.submit(submit("b"))
    await call.read_until_finished("b")
    assert call.answers["a"].reason == "LENGTH"


async def test_a_bad_sequence_fails_alone_and_says_why(server: Server) -> None:
    call = RunCall(server)
    await call.submit(submit("bad", temperature=float("nan")))
    await call.submit(submit("empty", []))
    await call.submit(submit("schema", constraint=OutputConstraint(json_schema="{")))
    await call.submit(submit("good"))
    await call.read_until_finished()
    assert call.answers["good"].reason == "LENGTH"
    for name, reason, field in (
        ("bad", "INVALID_PARAMETER", "sampling.temperature"),
        ("empty", "EMPTY_PROMPT", "token_ids"),
        ("schema", "INVALID_CONSTRAINT", "constraint.json_schema"),
    ):
        finish = call.answers[name].finish
        assert finish is not None
        assert (call.answers[name].reason, finish.error.reason, finish.error.field) == ("ERROR", reason, field)


async def test_a_refused_id_can_be_used_again(server: Server) -> None:
    call = RunCall(server)
    await call.submit(submit("a", constraint=OutputConstraint(regex="(")))
    await call.read_until_finished("a")
    assert (await generate(server, submit("a"))).reason == "LENGTH"


async def test_an_empty_command_is_answered(server: Server) -> None:
    call = RunCall(server)
    await call.call.write(engine_pb2.RunRequest())
    await call.read()
    assert call.answers[""].finish.error.reason == "UNKNOWN_COMMAND"  # type: ignore[union-attr]


async def test_a_broken_call_can_be_taken_up_where_it_was(server: Server) -> None:
    whole = (await generate(server, submit("other-id", max_tokens=400))).tokens
    first = RunCall(server)
    await first.submit(submit("a", max_tokens=400))
    await first.read_tokens("a", 5)
    known = list(first.answers["a"].tokens)
    first.call.cancel()
    second = RunCall(server)
    await second.submit(submit("a", max_tokens=400, delivered=known[:3]))
    await second.read_until_finished("a")
    assert known[:3] + second.answers["a"].tokens == whole
    assert server.engine.core.load().steps < 850, "it went on instead of beginning again"


async def test_a_broken_call_that_nobody_takes_up_is_cancelled_after_its_grace(server: Server) -> None:
    call = RunCall(server)
    await call.submit(submit("a", max_tokens=LONG))
    await call.read_tokens("a", 2)
    call.call.cancel()
    assert server.engine.registry.num_live == 1
    await eventually(lambda: server.engine.registry.num_live == 0)
    assert server.engine.core.load().used_pages == 0


async def test_a_finished_result_waits_for_its_caller_and_is_then_forgotten(server: Server) -> None:
    whole = await generate(server, submit("a"))
    again = RunCall(server)
    steps = server.engine.core.load().steps
    await again.submit(submit("a", delivered=whole.tokens[:2]))
    await again.read_until_finished("a")
    assert again.answers["a"].tokens == whole.tokens[2:]
    assert server.engine.core.load().steps == steps, "nothing was computed"
    await eventually(lambda: not server.engine.registry._tracked)


async def test_an_id_that_stands_for_another_request_is_refused(server: Server) -> None:
    call = RunCall(server)
    await call.submit(submit("a", max_tokens=LONG))
    await call.read_tokens("a", 1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("a", [1, 2, 3]))
    assert from_rpc(caught.value).reason == "SEQUENCE_ID_REUSED"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("a", max_tokens=LONG, delivered=[EOS, EOS]))
    assert from_rpc(caught.value).reason == "DELIVERED_MISMATCH"
    await call.cancel("a")
    await call.read_until_finished("a")


async def test_a_second_call_takes_over_and_the_first_is_told(server: Server) -> None:
    first, second = RunCall(server), RunCall(server)
    await first.submit(submit("a", max_tokens=600))
    await first.read_tokens("a", 1)
    await second.submit(submit("a", max_tokens=600))
    await second.read_until_finished("a")
    await first.read_until_finished("a")
    assert first.answers["a"].finish.error.reason == "ATTACHED_ELSEWHERE"  # type: ignore[union-attr]
    assert second.answers["a"].reason == "LENGTH"
    assert len(second.answers["a"].tokens) == 600


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 11, "top_p": 0.95}], ids=["greedy", "sampled"])
async def test_cut_anywhere_and_resubmitted_elsewhere_the_answer_goes_on_the_same(
    model: LoadedModel, sampling: dict[str, float]
) -> None:
    async with engine_server(model, reattach_grace_s=0) as server:
        whole = (await generate(server, submit("a", max_tokens=20, **sampling))).tokens
        for cut in range(0, 20, 3):
            await eventually(lambda: not server.engine.registry._tracked)
            rest = await generate(server, submit("a", max_tokens=20, delivered=whole[:cut], **sampling))
            assert whole[:cut] + rest.tokens == whole
            assert rest.finish is not None
            assert rest.finish.usage.completion_tokens == 20


async def test_an_answer_that_is_complete_already_ends_at_once(server: Server) -> None:
    answer = await generate(server, submit("a", max_tokens=3, delivered=[1, 2, 3]))
    assert (answer.reason, answer.tokens) == ("LENGTH", [])
    answer = await generate(server, submit("b", delivered=[5, EOS], ignore_eos=False))
    assert (answer.reason, answer.tokens) == ("STOP", [])
    answer = await generate(server, submit("c", delivered=list(b"a STOP"), stop=["STOP"]))
    assert answer.finish is not None
    assert (answer.reason, answer.finish.stop) == ("STOP", "STOP")


async def test_tokens_after_the_end_are_refused(server: Server) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("a", delivered=[EOS, 5], ignore_eos=False))
    assert from_rpc(caught.value).reason == "DELIVERED_PAST_END"


async def test_the_queue_is_bounded_and_says_when_to_come_back(model: LoadedModel) -> None:
    async with engine_server(model, max_running=1, max_waiting=1) as server:
        call = RunCall(server)
        await call.submit(submit("runs", max_tokens=LONG))
        await call.submit(submit("waits", max_tokens=LONG))
        await call.submit(submit("refused"))
        await call.read_until_finished("refused")
        finish = call.answers["refused"].finish
        assert finish is not None
        assert finish.error.reason == "QUEUE_FULL"
        assert finish.error.retry_after_ms >= 100
        await call.cancel("runs")
        await call.cancel("waits")
        await call.read_until_finished()


async def test_deadlines_end_sequences_that_run_or_wait(model: LoadedModel) -> None:
    async with engine_server(model, max_running=1) as server:
        call = RunCall(server)
        soon = int((time.time() + 0.3) * 1e6)
        await call.submit(submit("runs", max_tokens=LONG, deadline_unix_us=soon))
        await call.submit(submit("waits", deadline_unix_us=soon))
        await call.submit(submit("past", deadline_unix_us=1))
        await call.read_until_finished()
        assert {answer.reason for answer in call.answers.values()} == {"DEADLINE"}
        assert call.answers["runs"].tokens


async def test_a_prompt_that_fills_the_context_is_refused(server: Server) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("a", [1] * 4096))
    error = from_rpc(caught.value)
    assert (error.reason, error.field) == ("PROMPT_TOO_LONG", "token_ids")


async def test_an_answer_that_fills_the_context_ends_with_length(server: Server) -> None:
    answer = await generate(server, submit("a", [1] * 4090, max_tokens=100))
    assert (answer.reason, len(answer.tokens)) == ("LENGTH", 6)
    progress = [state.prefilled_tokens for state in answer.queue]
    assert progress == sorted(set(progress)), "each step gets on"
    assert len(progress) >= 7, "a step takes 512 tokens at most"


async def test_another_model_is_refused(server: Server) -> None:
    described = await server.stub.Describe(engine_pb2.DescribeRequest())
    assert (await generate(server, submit("a", model=described.model))).reason == "LENGTH"
    for field in ("model", "revision", "tokenizer_hash", "precision", "kv_layout"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await generate(server, submit("b", model=ModelIdentity(**{field: "other"})))
        error = from_rpc(caught.value)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert (error.reason, error.field) == ("MODEL_MISMATCH", f"model.{field}")


async def test_a_mode_that_the_engine_does_not_hold_is_refused_with_those_that_it_does(server: Server) -> None:
    described = await server.stub.Describe(engine_pb2.DescribeRequest())
    assert [(held.mode, held.precision) for held in described.modes] == [(PRECISION_MODE_PRECISE, "float32")]
    precise = await generate(server, submit("a", policy=Policy(precision_mode=PRECISION_MODE_PRECISE)))
    assert precise.tokens == (await generate(server, submit("b"))).tokens
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("c", policy=Policy(precision_mode=PRECISION_MODE_TURBO)))
    error = from_rpc(caught.value)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert (error.reason, error.field) == ("MODE_UNAVAILABLE", "policy.precision_mode")
    assert "in the mode turbo; there are precise" in error.message


async def test_logprobs_come_with_their_tokens(server: Server) -> None:
    answer = await generate(server, submit("a", logprobs=3))
    assert [entry.token_id for entry in answer.logprobs] == answer.tokens
    assert all(len(entry.top) == 3 and entry.top[0].token_id == entry.token_id for entry in answer.logprobs)
    answer = await generate(server, submit("b", logprobs=0))
    assert all(not entry.top and entry.logprob <= 0 for entry in answer.logprobs)
    assert len(answer.logprobs) == 8


async def test_a_stop_token_is_named_in_the_finish(server: Server) -> None:
    whole = (await generate(server, submit("a"))).tokens
    answer = await generate(server, submit("b", stop_token_ids=[whole[3]]))
    end = whole.index(whole[3])
    assert answer.tokens == whole[: end + 1]
    assert answer.finish is not None
    assert answer.finish.stop_token_id == whole[3]


async def test_the_same_salt_reuses_pages_and_no_salt_does_not(server: Server) -> None:
    prompt = list(range(1, 100))
    outputs = [
        await generate(server, submit(f"s{number}", prompt, salt=salt))
        for number, salt in enumerate((b"one", b"one", b"two", b"", b""))
    ]
    cached = [output.finish.usage.cached_tokens for output in outputs if output.finish]
    assert cached == [0, 98, 0, 0, 0], "all but the last token"
    assert len({tuple(output.tokens) for output in outputs}) == 1


async def test_ending_a_generate_call_ends_its_sequence_at_once(server: Server) -> None:
    call = server.stub.Generate(engine_pb2.GenerateRequest(submit=submit("a", max_tokens=LONG)))
    await call.read()
    call.cancel()
    await eventually(lambda: server.engine.registry.num_live == 0)


async def test_the_load_is_told_now_and_on_change(server: Server) -> None:
    call = server.stub.WatchLoad(engine_pb2.WatchLoadRequest())
    first = await call.read()
    assert (first.running, first.waiting, first.used_pages, first.draining) == (0, 0, 0, False)
    assert first.total_pages == 2048
    run = RunCall(server)
    await run.submit(submit("a", max_tokens=LONG))
    async with asyncio.timeout(5):
        while (load_ := await call.read()).running == 0:
            pass
        assert load_.used_pages > 0
        assert load_.in_flight_tokens > 0
        steps = load_.steps
        assert (await call.read()).steps > steps
        await run.cancel("a")
        while (await call.read()).running:
            pass
    call.cancel()


async def test_draining_refuses_new_work_and_waits_for_the_old(server: Server) -> None:
    run = RunCall(server)
    await run.submit(submit("a", max_tokens=300))
    await run.read_tokens("a", 1)
    drain = asyncio.ensure_future(server.stub.Drain(engine_pb2.DrainRequest(), timeout=20))
    await eventually(lambda: server.engine.registry.draining)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(server, submit("b"))
    assert from_rpc(caught.value).reason == "DRAINING"
    await run.read_until_finished("a")
    assert run.answers["a"].reason == "LENGTH"
    assert (await drain).remaining == 0


async def test_draining_says_what_is_left_at_the_deadline(server: Server) -> None:
    run = RunCall(server)
    await run.submit(submit("a", max_tokens=LONG))
    await run.read_tokens("a", 1)
    assert (await server.stub.Drain(engine_pb2.DrainRequest(), timeout=0.4)).remaining == 1


async def test_stopping_hands_sequences_back_with_a_reason(model: LoadedModel) -> None:
    async with engine_server(model) as server:
        run = RunCall(server)
        await run.submit(submit("a", max_tokens=LONG))
        await run.read_tokens("a", 2)
        from stagemesh.runtime.errors import Unavailable

        await server.engine.stop(Unavailable("ENGINE_STOPPING", "the engine stops"))
        server.servicer.close()
        await run.read_until_finished("a")
        assert run.answers["a"].reason == "ABORT"
        assert run.answers["a"].finish.error.reason == "ENGINE_STOPPING"  # type: ignore[union-attr]
        assert not await run.read(), "the call ends"


async def test_before_it_is_ready_the_engine_says_so(server: Server) -> None:
    engine, server.servicer.engine = server.servicer.engine, None
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await server.stub.Describe(engine_pb2.DescribeRequest())
    assert from_rpc(caught.value).reason == "ENGINE_NOT_READY"
    server.servicer.engine = engine
