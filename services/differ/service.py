"""The differ as a process part: the consumer, what it writes to, and its life."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import grpc

from services.differ.candidate import CandidateEngine
from services.differ.comparer import Comparer
from services.differ.config import DifferConfig, database_url
from services.differ.store import PairStore
from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import InvalidRequest, Precondition, StagemeshError, Unavailable, Unsupported
from stagemesh.runtime.kafka_consumer import ConsumerConfig, EventConsumer, TryLater
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import connect
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import ANSWERS_STABLE

GROUP = "stagemesh.differ"
READY_POLL_S = 0.5
PERMANENT = (InvalidRequest, Precondition, Unsupported)
"""Errors of the candidate that a repetition does not change."""

log = get_logger(__name__)


class DifferService:
    service_names: Sequence[str] = ("stagemesh.differ",)

    def __init__(self, mesh: MeshConfig, config: DifferConfig) -> None:
        """Must be made inside the running event loop. Raises ConfigError."""
        if not mesh.addresses.candidate_engine:
            raise ConfigError("addresses.candidate_engine: the differ needs an engine that runs the candidate")
        self._config = config
        self._store = PairStore(database_url(config, mesh))
        self._engine = CandidateEngine(mesh.addresses.candidate_engine, config.candidate_timeout_s)
        self._comparer = Comparer(mesh, config, self._engine)
        self._redis = connect(mesh.ledger_url)
        prefix = mesh.kafka_topic_prefix
        self._outbox = Outbox(self._redis, ANSWERS_STABLE, ttl_s=1, max_entries=1, prefix=prefix)  # only removes
        self._consumer = EventConsumer(
            bootstrap=mesh.kafka_bootstrap,
            settings=mesh.kafka_settings,
            group=prefix + GROUP,
            topics=[ANSWERS_STABLE.name(prefix)],
            redis=self._redis,
            handle=self._handle,
            give_up=self._give_up,
            config=ConsumerConfig(
                max_in_flight=config.max_in_flight,
                max_attempts=config.max_attempts,
                max_backoff_s=config.max_backoff_s,
            ),
        )
        self._pruning: asyncio.Task[None] | None = None

    def register(self, server: grpc.aio.Server) -> None:
        """No service of its own: health and reflection only."""

    async def start(self) -> None:
        """Ready when the database is there."""
        while True:
            try:
                await self._store.open()
                break
            except Unavailable as error:
                log.warning("database not ready", problem=error.message)
                await asyncio.sleep(READY_POLL_S)
        self._consumer.start()
        self._pruning = asyncio.create_task(self._keep_pruning(), name="pruning")

    async def drain(self, grace_s: float) -> None:
        await self._consumer.stop(grace_s)

    async def close(self) -> None:
        await self._consumer.stop(0.0)
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.gather(self._pruning, return_exceptions=True)
        await self._engine.close()
        await self._store.close()
        await self._redis.aclose()

    async def _handle(self, envelope: events_pb2.Envelope, attempt: int) -> None:
        """One event; its effect is its row. Whatever is away is waited for."""
        try:
            if not await self._store.has(envelope.tenant_id, envelope.request_id):
                await self._compare(envelope, attempt)
        except Unavailable as error:
            raise TryLater(error.reason) from error
        await self._confirm(envelope)

    async def _compare(self, envelope: events_pb2.Envelope, attempt: int) -> None:
        if envelope.WhichOneof("body") != "answer":
            pair = self._comparer.failed(envelope, attempt, "NO_ANSWER_IN_EVENT")
        else:
            try:
                pair = await self._comparer.compare(envelope, attempt)
            except PERMANENT as error:
                log.warning("answer not compared", request_id=envelope.request_id, reason=error.reason)
                pair = self._comparer.failed(envelope, attempt, error.reason)
        await self._store.add(pair)

    async def _give_up(self, envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
        reason = error.reason if isinstance(error, StagemeshError) else type(error).__name__
        log.error("answer given up", request_id=envelope.request_id, attempts=attempts, reason=reason)
        await self._store.add(self._comparer.failed(envelope, attempts, reason))
        await self._outbox.remove(envelope.tenant_id, envelope.request_id)

    async def _confirm(self, envelope: events_pb2.Envelope) -> None:
        try:
            await self._outbox.remove(envelope.tenant_id, envelope.request_id)
        except StagemeshError as error:
            raise TryLater(error.reason) from error

    async def _keep_pruning(self) -> None:
        while True:
            try:
                retention = timedelta(days=self._config.retention_days)
                if gone := await self._store.prune(max_rows=self._config.max_rows, retention=retention):
                    log.info("old pairs deleted", num_rows=gone)
            except Unavailable as error:
                log.warning("old pairs not deleted", problem=error.message)
            await asyncio.sleep(self._config.prune_interval_s)
