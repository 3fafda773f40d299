"""A caller of many sequences gets tokens of several steps together, and what it waits for at once."""

from __future__ import annotations

import asyncio

import pytest

from services.engine.ending import Ending
from services.engine.subscriber import MIN_GATHERED, News, Subscriber
from services.engine.tracked import Tracked
from services.engine.updates import Finished, Update
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import Unavailable

NEVER_S = 3600.0


def follow(subscriber: Subscriber, count: int, first: int = 0) -> list[Tracked]:
    found = [
        Tracked(sequence_id=str(number), tenant_id="t", fingerprint=b"", tokens=[], num_delivered=0, cursor=0)
        for number in range(first, first + count)
    ]
    for tracked in found:
        tracked.subscriber = subscriber
        subscriber.attach(tracked)
    return found


def give(tracked: Tracked, *tokens: int, finished: Finished | None = None) -> None:
    assert tracked.subscriber is not None
    tracked.apply(Update(tracked.sequence_id, tokens=list(tokens), finished=finished))
    tracked.subscriber.notify(tracked)


async def news_of(subscriber: Subscriber) -> News:
    async with asyncio.timeout(5):
        news = await subscriber.next_news()
    assert news is not None
    return news


async def started(gather_s: float, count: int = MIN_GATHERED) -> tuple[Subscriber, list[Tracked]]:
    """Sequences that have had their first tokens."""
    subscriber = Subscriber(grace_s=0.0, gather_s=gather_s)
    followed = follow(subscriber, count)
    for tracked in followed:
        give(tracked, 1)
    assert [delta.tokens for delta in (await news_of(subscriber)).deltas] == [[1]] * count
    return subscriber, followed


async def test_first_tokens_come_at_once() -> None:
    await started(NEVER_S)


async def test_tokens_of_several_steps_come_together_and_in_order() -> None:
    subscriber, followed = await started(0.05)
    give(followed[0], 2)
    reading = asyncio.create_task(news_of(subscriber))
    await asyncio.sleep(0)
    give(followed[0], 3)
    give(followed[1], 4)
    assert [delta.tokens for delta in (await reading).deltas] == [[2, 3], [4]]


async def test_an_end_takes_what_was_gathered_with_it() -> None:
    subscriber, followed = await started(NEVER_S)
    give(followed[0], 2)
    reading = asyncio.create_task(news_of(subscriber))
    await asyncio.sleep(0)
    assert not reading.done()
    ending = Ending(common_pb2.FINISH_REASON_STOP)
    end = Finished(ending=ending, prompt_tokens=1, completion_tokens=2, cached_tokens=0, stage_seconds=())
    give(followed[1], 5, finished=end)
    assert [(delta.tokens, delta.finished) for delta in (await reading).deltas] == [([2], None), ([5], end)]


@pytest.mark.parametrize("event", ["refusal", "attached", "closed"])
async def test_nothing_that_somebody_waits_for_is_held_back(event: str) -> None:
    subscriber, followed = await started(NEVER_S)
    give(followed[0], 2)
    reading = asyncio.create_task(news_of(subscriber))
    await asyncio.sleep(0)
    assert not reading.done()
    if event == "refusal":
        subscriber.refuse("other", Unavailable("DRAINING", "call another"))
    elif event == "attached":
        follow(subscriber, 1, first=100)
    else:
        subscriber.close()
    assert [2] in [delta.tokens for delta in (await reading).deltas]


async def test_a_caller_of_few_sequences_gets_every_token_at_once() -> None:
    subscriber, followed = await started(NEVER_S, MIN_GATHERED - 1)
    give(followed[0], 2)
    assert [delta.tokens for delta in (await news_of(subscriber)).deltas] == [[2]]
