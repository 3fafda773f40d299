import asyncio
from contextlib import aclosing

import pytest

from services.gateway.running import RunningRequest
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2


def delta(text: str) -> gateway_pb2.Delta:
    return gateway_pb2.Delta(text=text)


def final() -> gateway_pb2.Final:
    return gateway_pb2.Final(outcome=common_pb2.OUTCOME_COMPLETE)


async def read(running: RunningRequest, after_seq: int = 0) -> list[int]:
    return [event.seq async for event in running.events(after_seq)]


async def test_every_reader_sees_every_event_once_whenever_it_comes() -> None:
    running = RunningRequest("t", "r")
    early = asyncio.create_task(read(running))
    await asyncio.sleep(0)
    running.publish(delta=delta("a"))
    late = asyncio.create_task(read(running))
    await asyncio.sleep(0)
    running.publish(delta=delta("b"))
    running.publish(final=final())
    assert await early == await late == await read(running) == [1, 2, 3]


async def test_a_reader_continues_after_the_event_it_has() -> None:
    running = RunningRequest("t", "r")
    running.publish(delta=delta("a"))
    running.publish(delta=delta("b"))
    running.publish(final=final())
    assert await read(running, after_seq=2) == [3]


async def test_nothing_follows_the_final_event() -> None:
    running = RunningRequest("t", "r")
    running.publish(final=final())
    running.publish(delta=delta("late"))
    assert await read(running) == [1]


async def test_a_resumed_request_counts_on() -> None:
    running = RunningRequest("t", "r", first_seq=5)
    running.publish(final=final())
    assert await read(running, after_seq=4) == [5]


@pytest.mark.parametrize("keep", [False, True])
async def test_work_stops_when_its_last_reader_leaves_unless_somebody_may_come_back(keep: bool) -> None:
    running = RunningRequest("t", "r")
    running.keep = keep
    task = asyncio.create_task(asyncio.Event().wait())
    running.attach_task(task)  # type: ignore[arg-type]
    reader = asyncio.create_task(read(running))
    await asyncio.sleep(0)
    running.abandon()
    assert not running.cancel_requested
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    running.abandon()
    assert running.cancel_requested is not keep
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_reports_on_stages_go_with_what_a_caller_waits_for() -> None:
    running = RunningRequest("t", "r")
    reader = aiter(running.events())
    running.publish(stage=common_pb2.StageReport(stage=common_pb2.STAGE_TOKENIZE))
    first = asyncio.ensure_future(anext(reader))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not first.done()
    running.publish(delta=delta("a"))
    assert (await first).HasField("stage")
    assert (await anext(reader)).HasField("delta")
    running.publish(final=final())
    assert [event.seq async for event in reader] == [3]


async def test_a_report_that_nothing_follows_is_told_all_the_same() -> None:
    running = RunningRequest("t", "r")
    running.publish(stage=common_pb2.StageReport(stage=common_pb2.STAGE_TOKENIZE))
    async with aclosing(running.events()) as reader:
        assert (await anext(reader)).HasField("stage")


async def test_a_request_that_waits_in_a_queue_hears_so_at_once() -> None:
    running = RunningRequest("t", "r")
    running.publish(queued=gateway_pb2.Queued(position=3))
    async with aclosing(running.events()) as reader:
        first = asyncio.ensure_future(anext(reader))
        for _ in range(5):
            await asyncio.sleep(0)
        assert first.done()
