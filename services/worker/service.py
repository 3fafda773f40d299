"""The worker as a process part: the consumer of deferred requests and its life."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from services.worker.config import WorkerConfig
from services.worker.gateway_client import GatewayClient
from services.worker.runner import DeferredRunner
from services.worker.waiting import WaitBudget
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.kafka_consumer import ConsumerConfig, EventConsumer
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.redis_client import connect
from stagemesh.runtime.topics import DEFERRED, DEFERRED_DEAD

GROUP = "stagemesh.worker"


class WorkerService:
    service_names: Sequence[str] = ("stagemesh.worker",)

    def __init__(self, mesh: MeshConfig, config: WorkerConfig) -> None:
        """Must be made inside the running event loop. Raises ConfigError."""
        prefix = mesh.kafka_topic_prefix
        self._redis = connect(mesh.ledger_url)
        self._gateway = GatewayClient(mesh.addresses.gateway, config.run_timeout_s)
        self._producer = EventProducer(mesh.kafka_bootstrap, settings=mesh.kafka_settings)
        runner = DeferredRunner(
            self._gateway, self._producer, DEFERRED_DEAD.name(prefix), WaitBudget(config.wait_budget_s)
        )
        self._consumer = EventConsumer(
            bootstrap=mesh.kafka_bootstrap,
            settings=mesh.kafka_settings,
            group=prefix + GROUP,
            topics=[DEFERRED.name(prefix)],
            redis=self._redis,
            handle=runner.handle,
            give_up=runner.give_up,
            config=ConsumerConfig(
                max_in_flight=config.max_in_flight,
                max_attempts=config.max_attempts,
                first_backoff_s=config.first_backoff_s,
                max_backoff_s=config.max_backoff_s,
            ),
        )

    def register(self, server: grpc.aio.Server) -> None:
        """No service of its own: health and reflection only."""

    async def start(self) -> None:
        """Ready at once: a broker or gateway that is away is waited for, and means lag only."""
        self._consumer.start()

    async def drain(self, grace_s: float) -> None:
        """Runs that do not end in time are left to the gateway; their events come again and find the outcome."""
        await self._consumer.stop(grace_s)

    async def close(self) -> None:
        await self._consumer.stop(0.0)
        await self._producer.close(1.0)
        await self._gateway.close()
        await self._redis.aclose()
