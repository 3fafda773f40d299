"""A sequence on its way from engine to engine: which have failed it, why it moves on, how long its caller waited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from services.gateway import metrics
from services.gateway.engine_link import EngineLink
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import Internal, StagemeshError, from_detail
from stagemesh.runtime.faults import ENGINE_STAGES, request_faults, write_faults

FAULTS_OF_ENGINES = frozenset({"ENGINE_OUT_OF_MEMORY"})
"""Reasons beside INTERNAL ones that speak of the engine, not of the request."""
BUSY = frozenset({"VALIDATION_BUSY"})
"""Reasons that are over in a moment: worth an attempt more, and nothing against the engine."""
BUSY_PAUSE_S = 0.5


class Moves:
    def __init__(self) -> None:
        self.fault: StagemeshError | None = None
        """What the last engine that failed said, if it said anything."""
        self._failed: set[str] = set()
        self._lost_s: float | None = None
        self._pause_s = 0.0

    def candidates(self, links: Sequence[EngineLink]) -> Sequence[EngineLink]:
        """Engines to try next: those that have not failed this sequence and are not left alone, if there are any."""
        fresh = [link for link in links if link.address not in self._failed]
        well = [link for link in fresh or links if link.breaker.can_call()]
        return well or fresh or links

    def lost(self, link: EngineLink) -> None:
        """The engine went away."""
        self.fault = None
        self._left(link, "lost")

    def take_finish(self, delta: engine_pb2.SequenceDelta, link: EngineLink) -> bool:
        """Whether the sequence goes on elsewhere after `delta`, which then is no finish any more."""
        if not delta.HasField("finish"):
            return False
        if delta.finish.reason == common_pb2.FINISH_REASON_ABORT:  # given back, because the engine drains
            self._lost_s = time.monotonic()
            metrics.MOVES.labels("drained").inc()
        elif delta.finish.error.reason in BUSY:
            self.fault, self._pause_s = from_detail(delta.finish.error), BUSY_PAUSE_S
        elif (fault := fault_of_engine(delta.finish)) is not None:
            self.fault = fault
            self._left(link, "failed")
        else:
            link.breaker.succeeded()
            return False
        delta.ClearField("finish")
        return True

    async def pause(self) -> None:
        """Before the next attempt, where the last one met a busy engine."""
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
            self._pause_s = 0.0

    def heard(self, delta: engine_pb2.SequenceDelta) -> None:
        """News from the engine that has it now."""
        if self._lost_s is not None and delta.token_ids:
            metrics.MOVE_PAUSE.observe(time.monotonic() - self._lost_s)
            self._lost_s = None

    def _left(self, link: EngineLink, why: str) -> None:
        link.breaker.failed()
        self._failed.add(link.address)
        self._lost_s = time.monotonic()
        metrics.MOVES.labels(why).inc()


def fault_of_engine(finish: engine_pb2.Finish) -> StagemeshError | None:
    """The error of a finish that another engine may do without."""
    if not finish.HasField("error"):
        return None
    error = from_detail(finish.error)
    return error if isinstance(error, Internal) or error.reason in FAULTS_OF_ENGINES else None


def faults_on_the_way() -> str:
    """Faults on purpose that the present request has for its engine."""
    faults = request_faults.get()
    return "" if faults is None else write_faults(faults.take(*ENGINE_STAGES))
