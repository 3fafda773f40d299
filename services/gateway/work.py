"""One run of one request: everything that its stages read and write."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from services.gateway.additions import Placed
from services.gateway.job import Job
from services.gateway.placement import Placement
from services.gateway.running import RunningRequest
from services.gateway.stages import StageLog
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What the engine needs, and what the session needs afterwards."""

    token_ids: list[int]
    model: common_pb2.ModelIdentity
    mode: common_pb2.PrecisionMode.ValueType
    context_length: int
    session_tokens: int
    cut_messages: int
    lease: cache_pb2.Lease
    session_version: int
    session_known: bool
    """The cache service answered; only then may the turn be committed."""
    placement: Placement = field(default_factory=Placement)
    knowledge: str
    """The base that was searched, if one was."""
    placed: Placed
    """The turn's messages as the model sees them."""


@dataclass
class Output:
    """What one choice has so far."""

    index: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    """All text, held-back characters included."""
    num_sent_chars: int = 0
    num_sent_tokens: int = 0
    logprobs: list[gateway_pb2.Logprob] = field(default_factory=list)
    finish: engine_pb2.Finish | None = None
    validation: gateway_pb2.Validation | None = None
    engine_text: bool = True
    """The text is what the tokens say; false after a correction."""
    correction: tuple[corrector_pb2.CorrectRequest, corrector_pb2.CorrectResponse] | None = None
    """What the corrector was asked, and said, where the text failed its verdict."""


@dataclass
class Work:
    """One run of one request: all that its final event is made from."""

    job: Job
    running: RunningRequest
    log_stages: StageLog
    deadline: Deadline
    accepted_s: float
    """When the request came in (monotonic clock)."""
    outputs: list[Output]
    prompt: Prompt | None = None
    first_delta_s: float | None = None
    was_deferred: bool = False
    is_ahead: bool = False
    """It computes the prompt of a request that may come: a hint."""
    begun: asyncio.Event | None = None
    """Set once the ledger has been asked to begin it; None: that was before the work. Nothing may end it earlier."""

    def publish_delta(self, delta: gateway_pb2.Delta) -> None:
        if self.first_delta_s is None:
            self.first_delta_s = time.monotonic()
        self.running.publish(delta=delta)

    async def ledger_asked(self) -> None:
        """Wait until the ledger knows of it, or is known to be away; that call has a budget."""
        if self.begun is not None:
            await self.begun.wait()

    @property
    def has_delivered(self) -> bool:
        return any(output.token_ids for output in self.outputs)


@dataclass(frozen=True)
class Delivered:
    """What the caller of a resumed request has already, per choice."""

    token_ids: dict[int, list[int]] = field(default_factory=dict)
    num_chars: dict[int, int] = field(default_factory=dict)
    next_seq: int = 1


def new_outputs(job: Job, delivered: Delivered) -> list[Output]:
    return [
        Output(
            index=index,
            token_ids=list(delivered.token_ids.get(index, [])),
            num_sent_tokens=len(delivered.token_ids.get(index, [])),
            num_sent_chars=delivered.num_chars.get(index, 0),
        )
        for index in range(job.num_choices)
    ]
