"""A streamed reply: the status is decided within a moment, then frames follow as events come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from services.gateway.http import metrics, sse
from services.gateway.http.boundary import failure_from, stopped
from services.gateway.http.chunks import Chunks
from services.gateway.http.disconnect import ClientGoneError
from services.gateway.http.envelope import Envelope
from services.gateway.http.feed import Feed, Item
from services.gateway.http.order import Order
from services.gateway.http.outcome import raise_unless_answered
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded

HOLD_S = 0.05
"""How long the status line waits for news, so that a request which is refused soon gets its right status.

The first byte must be out within 100 ms, also on a busy machine.
"""
KEEP_ALIVE_S = 10.0
"""Silence after which a comment shows that the connection lives."""


async def stream_reply(
    order: Order, envelope: Envelope, feed: Feed, stream: sse.EventStream, *, hold: Deadline, late: Deadline
) -> None:
    """Raises what decides the status before the first byte; after it, an error is the last frame."""
    first = await _first_news(feed, hold)
    if first is not None:
        raise_unless_answered(first[1])
    await stream.open({"x-request-id": envelope.request_id})
    with metrics.STREAMS.track_inprogress():
        try:
            async for frame in _frames(order, envelope, feed, first, late):
                await stream.send(frame)
            await stream.send(sse.DONE)
        except ClientGoneError:
            raise
        except asyncio.CancelledError:  # the server stops (or the client is gone, and then this goes nowhere)
            await stream.send(sse.data(failure_from(stopped(), "stream").body))
            await stream.close()
            raise
        except Exception as error:  # noqa: BLE001  the status is sent: the error can only be a frame
            failure = failure_from(error, "stream")
            await stream.send(sse.data(failure.body))
        await stream.close()


async def _first_news(feed: Feed, hold: Deadline) -> Item | None:
    """The first event that decides the status; None when it does not come in time."""
    while (item := await feed.next(hold.remaining_s())) is not None:
        event = item[1]
        if event.WhichOneof("kind") in ("delta", "final") or event.queued.deferred:
            return item
    return None


async def _frames(
    order: Order, envelope: Envelope, feed: Feed, first: Item | None, late: Deadline
) -> AsyncIterator[bytes]:
    chunks = Chunks(order, envelope)
    num_running = len(order.requests)
    if first is None:
        yield sse.comment("queued")
    item = first or await _next(feed, late)
    while True:
        if item is None:
            yield sse.comment("keep-alive")
        else:
            for frame in _frames_of(chunks, *item):
                yield frame
            num_running -= item[1].HasField("final")
        if not num_running:
            break
        item = await _next(feed, late)
    for usage in chunks.usage():
        yield sse.data(usage)


async def _next(feed: Feed, late: Deadline) -> Item | None:
    item = await feed.next(min(KEEP_ALIVE_S, late.remaining_s()))
    if item is None and late.expired():
        raise DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline has passed")
    return item


def _frames_of(chunks: Chunks, index: int, event: gateway_pb2.Event) -> list[bytes]:
    raise_unless_answered(event)
    match event.WhichOneof("kind"):
        case "queued":
            queued = event.queued
            return [sse.comment(f"queued position={queued.position} estimated_wait_ms={queued.estimated_wait_ms}")]
        case "delta":
            return [sse.data(chunk) for chunk in chunks.delta(index, event.delta)]
        case "final":
            return [sse.data(chunk) for chunk in chunks.final(index, event.final)]
    return []
