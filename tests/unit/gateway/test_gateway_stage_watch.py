"""A stage that keeps its callers waiting is asked once more, and left alone at once when it answers nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from services.gateway.calls import Answer, BreakerOpen, call
from services.gateway.patience import FACTOR, NUM_ANSWERS, Patience
from services.gateway.pulse import TRIES, Pulse
from services.gateway.stage_watch import MAX_HEDGES, Skips, StageSilent, StageWatch
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.breaker import Breaker, BreakerConfig, State
from stagemesh.runtime.channel import dial
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.retry import RetryPolicy

ONCE = RetryPolicy(max_attempts=1)
CANARY = "."


class Validator(validator_pb2_grpc.ValidatorServiceServicer):
    """Does not come back while `hangs` says so of a text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.hangs: Callable[[str], bool] = lambda text: False

    async def Validate(
        self, request: validator_pb2.ValidateRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> validator_pb2.ValidateResponse:
        self.texts.append(request.text)
        if self.hangs(request.text):
            await asyncio.Event().wait()
        return validator_pb2.ValidateResponse()


class Stage:
    def __init__(self, port: int, servicer: Validator) -> None:
        self.servicer = servicer
        self.channel = dial([f"127.0.0.1:{port}"])
        self.stub = validator_pb2_grpc.ValidatorServiceStub(self.channel)
        self.pulse = Pulse(lambda timeout_s: self.stub.Validate(_request(CANARY), timeout=timeout_s), timeout_s=0.2)
        self.watch = StageWatch("validate", Breaker(BreakerConfig(open_s=600)), Patience(0.02), self.pulse)

    async def ask(self, text: str, skips: Skips = Skips.OPEN) -> Answer[validator_pb2.ValidateResponse]:
        deadline = Deadline.after(60)
        return await call(self.stub.Validate, _request(text), ONCE, deadline, 60.0, watch=self.watch, skips=skips)


def _request(text: str) -> validator_pb2.ValidateRequest:
    return validator_pb2.ValidateRequest(text=text)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    servicer, server = Validator(), grpc.aio.server()
    validator_pb2_grpc.add_ValidatorServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stage = Stage(port, servicer)
    yield stage
    await stage.pulse.close()
    await stage.channel.close()
    await server.stop(None)


async def test_a_call_that_hangs_alone_is_answered_when_it_is_sent_once_more(stage: Stage) -> None:
    stage.servicer.hangs = lambda text: text == "x" and stage.servicer.texts.count("x") == 1
    await stage.ask("x")
    assert stage.servicer.texts.count("x") == 2
    assert stage.watch.breaker.state is State.CLOSED


async def test_hanging_calls_do_not_teach_patience(stage: Stage) -> None:
    stage.watch = StageWatch("validate", stage.watch.breaker, Patience(0.2), stage.pulse)
    for number in range(4):
        stage.servicer.hangs = lambda text, each=str(number): (  # type: ignore[misc]  # bound early
            text == each and stage.servicer.texts.count(each) == 1
        )
        await stage.ask(str(number))
    assert stage.watch.patience.seconds < FACTOR * 0.2, "what is learned is how long the answers themselves took"


async def test_a_stage_that_answers_nobody_is_left_alone_at_once_for_all_who_wait(stage: Stage) -> None:
    stage.servicer.hangs = lambda text: True
    waiting = [asyncio.create_task(stage.ask(str(number))) for number in range(8)]
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(end) for end in ends} == {StageSilent}
    assert stage.servicer.texts.count(CANARY) == TRIES, "one look for all of them"
    assert stage.watch.is_silent
    num_calls = len(stage.servicer.texts)
    for skips in (Skips.OPEN, Skips.SILENT):
        with pytest.raises(BreakerOpen):
            await stage.ask("later", skips)
    assert len(stage.servicer.texts) == num_calls


async def test_a_slow_answer_of_a_stage_that_lives_is_waited_for(stage: Stage) -> None:
    stage.servicer.hangs = lambda text: text == "slow"
    slow = asyncio.create_task(stage.ask("slow"))
    async with asyncio.timeout(20):
        while CANARY not in stage.servicer.texts or stage.servicer.texts.count("slow") < 2:
            await asyncio.sleep(0.005)
    assert not slow.done()
    assert stage.watch.breaker.state is State.CLOSED
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


async def test_no_more_than_a_few_calls_are_sent_twice(stage: Stage) -> None:
    num_calls = 40
    stage.servicer.hangs = lambda text: text != CANARY
    slow = [asyncio.create_task(stage.ask(str(number))) for number in range(num_calls)]
    async with asyncio.timeout(20):
        while len({*stage.servicer.texts} - {CANARY}) < num_calls:
            await asyncio.sleep(0.005)
        await stage.pulse.feel()
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    num_sent = sum(text != CANARY for text in stage.servicer.texts)
    assert num_sent <= num_calls + MAX_HEDGES + 1


async def test_a_deferrable_call_is_tried_while_failures_keep_the_breaker_open_but_not_in_silence(stage: Stage) -> None:
    for _ in range(5):
        stage.watch.breaker.failed()
    await stage.ask("x", Skips.SILENT)
    assert stage.watch.breaker.state is State.CLOSED, "its answer says that it is back"
    stage.watch.trip()
    with pytest.raises(BreakerOpen):
        await stage.ask("x", Skips.SILENT)
    await stage.ask("x", Skips.NEVER)
    assert not stage.watch.is_silent


def test_patience_follows_the_slowest_of_the_last_answers_down_to_its_floor() -> None:
    patience = Patience(0.5)
    assert patience.seconds == 0.5
    patience.took(0.3)
    assert patience.seconds == pytest.approx(FACTOR * 0.3)
    for _ in range(2 * NUM_ANSWERS):
        patience.took(0.001)
    assert patience.seconds == 0.5
