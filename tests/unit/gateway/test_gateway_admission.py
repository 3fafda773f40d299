import asyncio

from services.gateway.admission import Place, RouteQueue
from services.gateway.config import RouteConfig


def make(max_concurrency: int = 1, max_queue: int = 2) -> RouteQueue:
    return RouteQueue(RouteConfig(max_concurrency=max_concurrency, max_queue=max_queue))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_requests_run_in_the_order_in_which_they_came() -> None:
    queue, order = make(), []

    async def work(name: str) -> None:
        async with queue.slot(lambda place: None):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(name) for name in "abc"))
    assert order == ["a", "b", "c"]
    assert (queue.num_running, queue.num_waiting) == (0, 0)


async def test_a_waiting_request_hears_its_place_at_once_and_when_it_changes() -> None:
    queue, places = make(), []
    leave = asyncio.Event()

    async def hold() -> None:
        async with queue.slot(lambda place: None):
            await leave.wait()

    async def wait(seen: list[Place]) -> None:
        async with queue.slot(seen.append, report_every_s=0.01):
            pass

    first = asyncio.create_task(hold())
    await settle()
    second, third = asyncio.create_task(hold()), asyncio.create_task(wait(places))
    await settle()
    assert [place.position for place in places] == [2]
    second.cancel()
    async with asyncio.timeout(5):
        while len(places) < 2:
            await asyncio.sleep(0.005)
    assert [place.position for place in places] == [2, 1]
    leave.set()
    await asyncio.gather(first, third)


def test_it_says_when_it_is_full() -> None:
    queue = make(max_concurrency=1, max_queue=1)
    queue.enter()
    assert queue.can_enter()
    queue.enter()
    assert not queue.can_enter()
    queue.leave()
    assert queue.can_enter()


async def test_a_cancelled_waiter_passes_its_turn_on() -> None:
    queue, leave = make(), asyncio.Event()

    async def hold() -> None:
        async with queue.slot(lambda place: None):
            await leave.wait()

    tasks = [asyncio.create_task(hold()) for _ in range(3)]
    await settle()
    tasks[0].cancel()  # its slot goes to the second in the same tick in which the second is cancelled
    tasks[1].cancel()
    await settle()
    leave.set()
    async with asyncio.timeout(5):
        await tasks[2]
    assert queue.num_running == 0
