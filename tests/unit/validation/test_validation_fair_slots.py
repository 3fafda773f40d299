"""Places for work in threads."""

from __future__ import annotations

import asyncio

import pytest

from stagemesh.validation.fair_slots import FairSlots


async def test_work_keeps_its_place_until_it_is_done_though_its_caller_has_gone() -> None:
    slots, loop = FairSlots(1), asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    started: list[str] = []

    def start(name: str, work: asyncio.Future[int]) -> asyncio.Future[int]:
        started.append(name)
        return work

    gone = asyncio.create_task(slots.run(lambda: start("first", first), "a"))
    stays = asyncio.create_task(slots.run(lambda: start("second", second), "b"))
    await turns()
    gone.cancel()
    await turns()
    assert gone.cancelled()
    assert started == ["first"], "a thread is still at work on the first"
    first.set_exception(ValueError("nobody is told"))
    await turns()
    assert started == ["first", "second"]
    second.set_result(2)
    assert await stays == 2


async def test_what_cannot_start_gives_its_place_back() -> None:
    slots = FairSlots(1)
    with pytest.raises(ZeroDivisionError):
        await slots.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]  # it raises before it returns
    async with asyncio.timeout(5), slots.held():
        pass


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
