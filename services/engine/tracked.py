"""What callers know of one sequence: its output so far, and how much of it has been sent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.engine.healing.degradation import Degradation
from services.engine.logprobs import TokenLogprobs
from services.engine.updates import Finished, QueueState, Update
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import Exhausted, Internal

if TYPE_CHECKING:
    from services.engine.subscriber import Subscriber


@dataclass(eq=False, kw_only=True)
class Tracked:
    """The output is kept until the sequence is forgotten, so that a caller can come back for what it missed.

    tokens: [0, num_delivered) brought by the first caller, [num_delivered, len) produced here, [0, cursor) known to the
    present caller. Logprobs are there for what was produced here.
    """

    sequence_id: str
    tenant_id: str
    fingerprint: bytes
    tokens: list[int]
    num_delivered: int
    cursor: int
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    queue: QueueState | None = None
    """News of the queue that has not been sent."""
    finished: Finished | None = None
    finish_sent: bool = False
    degradations: Sequence[Degradation] = ()
    degradations_sent: bool = True
    subscriber: Subscriber | None = None
    starting: asyncio.Task[None] | None = None
    """Until the core has the sequence."""
    is_forgotten: bool = False
    """Its tenant was erased while it was starting."""
    reaper: asyncio.TimerHandle | None = None

    def apply(self, update: Update) -> None:
        self.tokens += update.tokens
        self.logprobs += update.logprobs
        self.queue = update.queue or self.queue
        self.finished = update.finished or self.finished
        if update.degradations:
            self.degradations, self.degradations_sent = update.degradations, False

    def has_failed(self) -> bool:
        """Whether it ended by a fault of this engine, not of its request."""
        return self.finished is not None and isinstance(self.finished.ending.error, Internal | Exhausted)

    def attach(self, subscriber: Subscriber, num_known: int) -> None:
        """Send from output position `num_known` on, to `subscriber`."""
        self.subscriber = subscriber
        self.cursor = num_known
        self.finish_sent = False
        self.degradations_sent = not self.degradations

    def is_awaited(self) -> bool:
        """Whether the caller waits for the news: it has not had a token yet, or this is the end."""
        return self.finished is not None or self.queue is not None or self.cursor == self.num_delivered

    def has_unsent(self) -> bool:
        """Whether there is anything that the caller does not know yet."""
        ended = self.finished is not None and not self.finish_sent
        return self.cursor < len(self.tokens) or self.queue is not None or ended or not self.degradations_sent

    def take_unsent(self) -> TrackedDelta:
        """What the caller does not know yet; it counts as sent from now on."""
        first = self.cursor
        delta = TrackedDelta(
            sequence_id=self.sequence_id,
            first_index=first,
            tokens=self.tokens[first:],
            logprobs=self.logprobs[max(0, first - self.num_delivered) :] if first >= self.num_delivered else [],
            queue=self.queue,
            finished=None if self.finish_sent else self.finished,
            degradations=() if self.degradations_sent else self.degradations,
        )
        self.degradations_sent = True
        self.cursor = max(first, len(self.tokens))
        self.queue = None
        self.finish_sent = self.finished is not None
        return delta


@dataclass(frozen=True, kw_only=True)
class TrackedDelta:
    sequence_id: str
    first_index: int
    tokens: list[int]
    logprobs: list[TokenLogprobs]
    queue: QueueState | None
    finished: Finished | None
    degradations: Sequence[Degradation] = ()

    def is_empty(self) -> bool:
        return not (self.tokens or self.queue or self.finished or self.degradations)


def fingerprint_of(submit: engine_pb2.Submit) -> bytes:
    """Equal for Submits that ask for the same: what is delivered, the lease and the deadline may differ."""
    copy = engine_pb2.Submit()
    copy.CopyFrom(submit)
    for name in ("delivered_token_ids", "cache_salt", "deadline_unix_us", "model", "kv", "faults", "ttft_target_ms"):
        copy.ClearField(name)
    copy.model.adapter = submit.model.adapter
    return hashlib.blake2b(copy.SerializeToString(deterministic=True)).digest()
