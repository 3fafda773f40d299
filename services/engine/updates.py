"""What the engine core tells about sequences and load after a step."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from services.engine.ending import Ending
from services.engine.healing.degradation import Degradation
from services.engine.logprobs import TokenLogprobs
from stagemesh.api.common.v1.common_pb2 import KvReport


@dataclass(frozen=True)
class QueueState:
    """Where a sequence stands before its first token."""

    position: int
    """1 for the next to be admitted; 0 while its prompt is computed."""
    estimated_wait_s: float
    prefilled_tokens: int


@dataclass(frozen=True)
class Finished:
    """The end of a sequence, with its account."""

    ending: Ending
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    stage_seconds: Seq[float]
    """By `stages.Part`."""
    draft_tokens: int = 0
    accepted_tokens: int = 0
    forced_tokens: int = 0
    forwards: int = 0
    kv: KvReport | None = None
    degradations: Seq[Degradation] = ()
    num_replays: int = 0


@dataclass
class Update:
    """News of one sequence."""

    sequence_id: str
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """As many as tokens, where they were asked for."""
    queue: QueueState | None = None
    finished: Finished | None = None
    degradations: Seq[Degradation] = ()
    """All so far, where there is a new one."""


@dataclass(frozen=True, kw_only=True)
class Load:
    running: int = 0
    waiting: int = 0
    in_flight_tokens: int = 0
    """Tokens still to compute and output tokens still allowed, of all sequences."""
    used_pages: int = 0
    steps: int = 0
    draft_tokens: int = 0
    """Guesses computed since the start."""
    accepted_tokens: int = 0
    """Of which were right."""
    threads: int = 0
    """That compute, by idle mode; 0 where there is none."""
    is_idle: bool = False
    seconds_per_place: float = 0.0
    """How long the first in the queue waits, estimated from how long sequences have run lately."""


@dataclass(frozen=True)
class StepOutput:
    updates: Seq[Update]
    load: Load
