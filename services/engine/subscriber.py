"""One caller's outbox: what its sequences have for it, gathered until it reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from services.engine.tracked import Tracked, TrackedDelta
from stagemesh.runtime.errors import Exhausted, StagemeshError

MIN_GATHERED = 4
"""Sequences of a caller from which on their tokens are gathered."""
MAX_REFUSALS = 1024
"""Refusals that wait for a slow reader; a call that lets more pile up is cut off."""


@dataclass(frozen=True)
class Refusal:
    """A sequence that was not taken, or was taken over by another caller."""

    sequence_id: str
    error: StagemeshError


@dataclass(frozen=True)
class News:
    refusals: list[Refusal]
    deltas: list[TrackedDelta]


class Subscriber:
    """A slow reader costs no memory: sequences keep their own output, and here is only noted which have news.

    A caller of many sequences gets the tokens of a few steps together: each message costs every service on its way
    more than the tokens in it. What somebody waits for (a first token, an end, a refusal) never waits here.
    """

    def __init__(self, *, grace_s: float, gather_s: float = 0.0) -> None:
        """`gather_s`: how long tokens are gathered, from MIN_GATHERED sequences on."""
        self.grace_s = grace_s
        """How long this caller's sequences go on when its call breaks."""
        self._gather_s = gather_s
        self._next_at_s = 0.0
        self._urgent = asyncio.Event()
        self._attached: set[str] = set()
        self._news: dict[str, Tracked] = {}
        self._refusals: list[Refusal] = []
        self._changed = asyncio.Event()
        self._closed = False
        self._ends_when_done = False
        self._overflowed = False

    def attach(self, tracked: Tracked) -> None:
        """This caller waits for the sequence from now on."""
        self._attached.add(tracked.sequence_id)
        self._urgent.set()
        if tracked.has_unsent():
            self.notify(tracked)

    def notify(self, tracked: Tracked) -> None:
        """The sequence has news."""
        self._news[tracked.sequence_id] = tracked
        if tracked.is_awaited():
            self._urgent.set()
        self._changed.set()

    def refuse(self, sequence_id: str, error: StagemeshError) -> None:
        """The sequence is not, or no longer, this caller's."""
        self._attached.discard(sequence_id)
        self._news.pop(sequence_id, None)
        if len(self._refusals) < MAX_REFUSALS:
            self._refusals.append(Refusal(sequence_id, error))
        else:
            self._overflowed = True
        self._urgent.set()
        self._changed.set()

    def end_when_done(self) -> None:
        """No more commands will come: the reader gets the end after its last sequence's."""
        self._ends_when_done = True
        self._changed.set()

    def close(self) -> None:
        """No more news will come: the reader gets what there is and then the end."""
        self._closed = True
        self._urgent.set()
        self._changed.set()

    async def next_news(self) -> News | None:
        """All news since the last call, at least one; None at the end.

        Raises Exhausted when more refusals had to be kept than is allowed.
        """
        while not (self._news or self._refusals):
            if self._closed or (self._ends_when_done and not self._attached):
                return None
            self._changed.clear()
            await self._changed.wait()
        await self._gather()
        if self._overflowed:
            raise Exhausted("SLOW_READER", "read the responses of this call before you send more commands")
        refusals, self._refusals = self._refusals, []
        deltas = [tracked.take_unsent() for tracked in self._news.values()]
        self._news = {}
        self._attached -= {delta.sequence_id for delta in deltas if delta.finished is not None}
        return News(refusals, deltas)

    async def _gather(self) -> None:
        """Let more tokens come until it is time for the next message, or there is news that somebody waits for."""
        loop = asyncio.get_running_loop()
        is_early = loop.time() < self._next_at_s
        if is_early and len(self._attached) >= MIN_GATHERED and not self._urgent.is_set():
            waking = loop.call_at(self._next_at_s, self._urgent.set)
            try:
                await self._urgent.wait()
            finally:
                waking.cancel()
        self._urgent.clear()
        self._next_at_s = loop.time() + self._gather_s
