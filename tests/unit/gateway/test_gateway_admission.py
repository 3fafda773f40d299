import asyncio

from hypothesis import given
from hypothesis import strategies as st

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
        async with queue.slot("t", lambda place: None):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(name) for name in "abc"))
    assert order == ["a", "b", "c"]
    assert (queue.num_running, queue.num_waiting) == (0, 0)


async def test_a_waiting_request_hears_its_place_at_once_and_when_it_changes() -> None:
    queue, places = make(), []
    leave = asyncio.Event()

    async def hold() -> None:
        async with queue.slot("t", lambda place: None):
            await leave.wait()

    async def wait(seen: list[Place]) -> None:
        async with queue.slot("t", seen.append, report_every_s=0.01):
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
    queue.enter("t")
    assert queue.can_enter("t")
    queue.enter("t")
    assert not queue.can_enter("t")
    queue.leave("t")
    assert queue.can_enter("t")


async def test_a_cancelled_waiter_passes_its_turn_on() -> None:
    queue, leave = make(), asyncio.Event()

    async def hold() -> None:
        async with queue.slot("t", lambda place: None):
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


async def finished_in_order(queue: RouteQueue, tenants: str) -> str:
    """One request for each letter, in that order; gives the tenants in the order of their turns."""
    order: list[str] = []

    async def work(tenant: str) -> None:
        async with queue.slot(tenant, lambda place: None):
            order.append(tenant)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(tenant) for tenant in tenants))
    return "".join(order)


async def test_tenants_take_turns_however_many_requests_one_of_them_has() -> None:
    order = await finished_in_order(make(max_queue=20), "aaaaaabbc")
    assert {"b", "c"} <= set(order[:4]), "a has one that runs: then b, c and a take turns"
    order = await finished_in_order(make(max_concurrency=2, max_queue=20), "aaaaaaaabb")
    assert order.index("b") <= 3, "the other account waits for one of them at most"
    assert sorted(order) == sorted("aaaaaaaabb")


async def test_a_tenant_runs_no_more_at_once_than_its_limit() -> None:
    queue = RouteQueue(RouteConfig(max_concurrency=4, max_concurrency_per_tenant=2, max_queue=20))
    most, leave = 0, asyncio.Event()

    async def hold(tenant: str) -> None:
        nonlocal most
        async with queue.slot(tenant, lambda place: None):
            most = max(most, queue.num_running)
            await leave.wait()

    tasks = [asyncio.create_task(hold(tenant)) for tenant in "aaaaa"]
    await settle()
    assert (queue.num_running, queue.num_waiting) == (2, 3)
    other = asyncio.create_task(hold("b"))
    await settle()
    assert (queue.num_running, queue.num_waiting) == (3, 3), "those that may not run hold up nobody"
    leave.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks, other)
    assert queue.num_running == 0


def test_one_tenant_cannot_take_all_places() -> None:
    queue = make(max_concurrency=4, max_queue=12)
    for _ in range(12):
        assert queue.can_enter("a")
        queue.enter("a")
    assert not queue.can_enter("a")
    assert queue.can_enter("b")


async def test_the_wait_of_a_further_request_is_estimated_by_its_turn() -> None:
    queue = make(max_concurrency=1, max_queue=20)
    assert queue.wait_s("a") == 0, "nothing is known"
    for _ in range(10):
        async with queue.slot("a", lambda place: None):
            pass
    leave = asyncio.Event()

    async def hold() -> None:
        async with queue.slot("a", lambda place: None):
            await leave.wait()

    tasks = [asyncio.create_task(hold()) for _ in range(5)]
    await settle()
    assert queue.wait_s("a") > queue.wait_s("b") > 0
    leave.set()
    await asyncio.gather(*tasks)
    assert queue.wait_s("a") == 0


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30), st.integers(1, 4))
def test_every_request_has_its_turn_once(tenants: list[str], max_concurrency: int) -> None:
    queue = make(max_concurrency=max_concurrency, max_queue=100)
    order = asyncio.run(finished_in_order(queue, "".join(tenants)))
    assert sorted(order) == sorted(tenants)
    assert (queue.num_running, queue.num_waiting) == (0, 0)
