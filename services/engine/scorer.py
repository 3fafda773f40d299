"""Calls of `Score`, between the servicer and the core. Lives on the event loop."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from services.engine.config import ScoreConfig
from services.engine.core_thread import Add, Command, End
from services.engine.ending import Ending
from services.engine.request import ComputedBy, RequestLimits
from services.engine.score_request import ScoredSequences, check_score, scored_sequences
from services.engine.updates import Finished, StepOutput
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import DeadlineExceeded, Exhausted, Internal

RETRY_AFTER_MS = 100
ABORTED = Ending(common_pb2.FINISH_REASON_ABORT)


class Scorer:
    def __init__(self, send: Callable[[Command], None], limits: RequestLimits, bounds: ScoreConfig) -> None:
        self._send = send
        self._limits = limits
        self._bounds = bounds
        self._waits: dict[str, asyncio.Future[Finished]] = {}
        """Of sequences that run, by their ID."""
        self._num_live = 0
        """Continuations of all calls."""

    @property
    def num_live(self) -> int:
        """Continuations that run or wait."""
        return self._num_live

    async def score(
        self, request: engine_pb2.ScoreRequest, by: ComputedBy, deadline_s: float
    ) -> engine_pb2.ScoreResponse:
        """`deadline_s`: on the monotonic clock.

        Raises InvalidRequest, Exhausted, DeadlineExceeded, or what ended a sequence.
        """
        check_score(request, self._limits, self._bounds)
        num_scores = len(request.continuations)
        if self._num_live + num_scores > self._bounds.max_live:
            full = f"{self._num_live} continuations are being scored; retry later"
            raise Exhausted("QUEUE_FULL", full, retry_after_ms=RETRY_AFTER_MS)
        self._num_live += num_scores
        try:
            sequences = scored_sequences(request, by, f"score/{uuid.uuid4()}", deadline_s)
            finished = await self._run(sequences)
        finally:
            self._num_live -= num_scores
        return _response(sequences, finished)

    def on_output(self, output: StepOutput) -> None:
        """News from the core."""
        if not self._waits:
            return
        for update in output.updates:
            if update.finished is None or (wait := self._waits.pop(update.sequence_id, None)) is None:
                continue
            if not wait.done():  # else its caller has just gone
                wait.set_result(update.finished)

    async def _run(self, sequences: ScoredSequences) -> Finished:
        """Have them computed; where one fails or the caller goes, the others are ended. Gives the trunk's account."""
        loop = asyncio.get_running_loop()
        waits = {sequence.sequence_id: loop.create_future() for sequence in sequences.all()}
        self._waits |= waits
        try:
            self._send(Add(sequences.trunk))
            trunk, *_ = [_checked(await wait) for wait in waits.values()]  # a trunk that fails has no branches
            return trunk
        finally:
            for sequence_id in waits:
                if self._waits.pop(sequence_id, None) is not None:
                    self._send(End(sequence_id, ABORTED))


def _checked(finished: Finished) -> Finished:
    """Raises what ended the sequence too early."""
    ending = finished.ending
    if ending.error is not None:
        raise ending.error
    if ending.reason == common_pb2.FINISH_REASON_DEADLINE:
        raise DeadlineExceeded("DEADLINE_EXCEEDED", "the scores were not computed by the call's deadline")
    if ending.reason != common_pb2.FINISH_REASON_STOP:
        raise Internal("INTERNAL", "a continuation ended before it was scored; the engine's log has more")
    return finished


def _response(sequences: ScoredSequences, trunk: Finished) -> engine_pb2.ScoreResponse:
    response = engine_pb2.ScoreResponse()
    for values in sequences.values():
        response.scores.add(token_logprobs=values, sum=sum(values))
        response.usage.completion_tokens += len(values)
    response.usage.forwards = len(sequences.steps())
    response.usage.prompt_tokens = sequences.trunk.num_prompt
    response.usage.cached_tokens = trunk.cached_tokens
    return response
