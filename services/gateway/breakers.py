"""The breakers of the stages that run elsewhere, and the probe that closes them again by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.gateway import metrics
from services.gateway.config import BreakersConfig
from services.gateway.patience import Patience
from services.gateway.pulse import Canary, Pulse
from services.gateway.stage_policies import POLICIES
from services.gateway.stage_watch import StageWatch
from stagemesh.runtime.breaker import Breaker, State
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.telemetry import get_logger

PROBE_EVERY_S = 0.25
PROBE_TIMEOUT_S = 1.0
NONE: Mapping[str, Canary] = {}

log = get_logger(__name__)


class StageBreakers:
    """One breaker for each stage with a service of its own."""

    def __init__(
        self, config: BreakersConfig, channels: Mapping[str, grpc.aio.Channel], canaries: Mapping[str, Canary] = NONE
    ) -> None:
        """`channels`, and what is asked of stages that keep somebody waiting: by the stage's name."""
        self._channels = channels
        self._breakers = {stage: Breaker(config.of(stage)) for stage in channels}
        self._watches = {
            stage: StageWatch(
                stage,
                breaker,
                Patience(POLICIES[stage].patience_s),
                Pulse(canaries[stage]) if stage in canaries else None,
            )
            for stage, breaker in self._breakers.items()
        }
        for stage, breaker in self._breakers.items():
            metrics.watch_breaker(stage, breaker)
        self._task = asyncio.create_task(self._keep_probing(), name="breaker-probe")

    def __getitem__(self, stage: str) -> Breaker:
        return self._breakers[stage]

    def watch(self, stage: str) -> StageWatch:
        return self._watches[stage]

    def configure(self, config: BreakersConfig) -> None:
        """Take other thresholds; what has been counted stays."""
        for stage, breaker in self._breakers.items():
            breaker.configure(config.of(stage))

    def open_stages(self) -> list[str]:
        return [stage for stage, breaker in self._breakers.items() if breaker.state is not State.CLOSED]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for watch in self._watches.values():
            if watch.pulse is not None:
                await watch.pulse.close()

    async def _keep_probing(self) -> None:
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            waiting = [stage for stage, breaker in self._breakers.items() if breaker.state is State.HALF_OPEN]
            await asyncio.gather(*(self._probe(stage) for stage in waiting))

    async def _probe(self, stage: str) -> None:
        """Ask a service that was left alone for its health, and for a little work: no request has to be the first to
        try it."""
        breaker = self._breakers[stage]
        if not breaker.call():
            return
        request = health_pb2.HealthCheckRequest(service=POLICIES[stage].health)
        try:
            stub: Any = health_pb2_grpc.HealthStub(self._channels[stage])  # its published types know no methods
            answer = await stub.Check(request, timeout=PROBE_TIMEOUT_S, metadata=call_metadata())
        except grpc.aio.AioRpcError:
            breaker.failed()
            return
        pulse = self._watches[stage].pulse
        if answer.status == health_pb2.HealthCheckResponse.SERVING and (pulse is None or await pulse.feel()):
            log.info("stage is back", stage=stage)
            breaker.succeeded()
        else:
            breaker.failed()
