"""A request in this gateway: its events, from the first to the final one, for any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

HOLD_S = 0.01
"""How long events that nobody waits for are held for others to go with them."""


class RunningRequest:
    """Collects events and lets readers follow from any of them.

    The number of events is bounded by the request's `max_tokens`: a step gives at most one delta per choice.
    """

    def __init__(self, tenant_id: str, request_id: str, *, first_seq: int = 1) -> None:
        self.tenant_id = tenant_id
        self.request_id = request_id
        self.num_readers = 0
        self.keep = False
        """Somebody may come back for it: it goes on without readers."""
        self.first_seq = first_seq
        """Events before this one are in the event store, if anywhere: an earlier run published them."""
        self._events: list[gateway_pb2.Event] = []
        self._news = asyncio.Event()
        self._final: asyncio.Future[gateway_pb2.Final] = asyncio.get_running_loop().create_future()
        self._listeners: list[Callable[[gateway_pb2.Event], None]] = []
        self._task: asyncio.Task[None] | None = None
        self.cancel_requested = False

    def attach_task(self, task: asyncio.Task[None]) -> None:
        """The task that works on the request; `cancel` cancels it."""
        self._task = task

    def on_event(self, listener: Callable[[gateway_pb2.Event], None]) -> None:
        """Call `listener` with each further event, in order, from the event loop."""
        self._listeners.append(listener)

    @property
    def last_seq(self) -> int:
        """The seq of the newest event."""
        return self._events[-1].seq if self._events else self.first_seq - 1

    @property
    def done(self) -> bool:
        return self._final.done()

    def publish(
        self,
        *,
        queued: gateway_pb2.Queued | None = None,
        delta: gateway_pb2.Delta | None = None,
        stage: common_pb2.StageReport | None = None,
        final: gateway_pb2.Final | None = None,
    ) -> None:
        """Append one event. Nothing follows the final one."""
        if self.done:
            return
        self.relay(gateway_pb2.Event(seq=self.last_seq + 1, queued=queued, delta=delta, stage=stage, final=final))

    def relay(self, event: gateway_pb2.Event) -> None:
        """Append an event that has its seq already. Nothing follows the final one."""
        if self.done:
            return
        self._events.append(event)
        for listener in self._listeners:
            listener(event)
        if event.HasField("final"):
            self._final.set_result(event.final)
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def events(self, after_seq: int = 0) -> AsyncGenerator[gateway_pb2.Event]:
        """Events with a greater seq, as they come, up to and including the final one.

        Reports on stages wait up to HOLD_S for each other: while a request is prepared, writing each of them by itself
        would cost more time than some of the stages.
        """
        position = 0
        self.num_readers += 1
        try:
            while True:
                await self._hold(position)
                news = self._news
                for event in self._events[position:]:
                    position += 1
                    if event.seq > after_seq:
                        yield event
                    if event.HasField("final"):
                        return
                if position >= len(self._events):
                    if self.done:
                        return
                    await news.wait()
        finally:
            self.num_readers -= 1

    async def _hold(self, position: int) -> None:
        """While all there is after `position` can wait: return when something cannot, or HOLD_S have passed."""
        if position < len(self._events):
            with suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    while all(map(_can_wait, self._events[position:])):
                        await self._news.wait()

    async def final(self) -> gateway_pb2.Final:
        """The final event's body, when it is there."""
        return await asyncio.shield(self._final)

    def num_bytes(self) -> int:
        """Size of its events, serialized."""
        return sum(event.ByteSize() for event in self._events)

    def abandon(self) -> None:
        """A reader left before the end: work that nobody reads and nobody may come back for is stopped."""
        if self.num_readers == 0 and not self.keep:
            self.cancel()

    def cancel(self) -> None:
        """Stop working on it; the final event will say CANCELLED unless the request ends before."""
        self.cancel_requested = True
        if self._task is not None and not self.done:
            # After its first step: a task that is cancelled before runs nothing at all, also no `finally`.
            asyncio.get_running_loop().call_soon(self._task.cancel)


def _can_wait(event: gateway_pb2.Event) -> bool:
    """Whether its reader loses nothing by hearing of it a little later: it runs, or a stage is through."""
    return event.HasField("stage") or (event.HasField("queued") and event.queued.position == 0)
